package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/rlproxy/rlproxy/tests/traffic"
)

// NodeCPU returns the CPU time in seconds that a redis-server has used, from INFO.
func (s *Server) NodeCPU() (float64, error) {
	info, err := traffic.Ask(s.Address(), "INFO", "cpu")
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, wrong := strconv.ParseFloat(value, 64)
			sum, err = sum+seconds, errors.Join(err, wrong)
		}
	}
	return sum, err
}

// ScriptCalls returns how often a redis-server was sent a script or the call of a function.
func (s *Server) ScriptCalls() (float64, error) { return s.CommandCalls("evalsha", "fcall") }

// CommandCalls returns how often a redis-server has executed the commands, for clients and for scripts.
func (s *Server) CommandCalls(commands ...string) (float64, error) {
	info, err := traffic.Ask(s.Address(), "INFO", "commandstats")
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, command := range commands {
		_, after, _ := strings.Cut(info, "cmdstat_"+command+":calls=")
		if calls, _, called := strings.Cut(after, ","); called {
			n, wrong := strconv.ParseFloat(calls, 64)
			sum, err = sum+n, errors.Join(err, wrong)
		}
	}
	return sum, err
}

// Memory returns a field of INFO that is in bytes.
func (s *Server) Memory(field string) (float64, error) {
	info, err := traffic.Ask(s.Address(), "INFO")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("INFO has no field %s", field)
}

// allowed matches the metric that counts admitted requests.
var allowed = regexp.MustCompile(`(?m)^rlproxy_decisions_total\{.*result="allowed".*\} (\S+)$`)

// Admitted returns how many requests were admitted. An rlproxy with an HTTPPort counts them. A redis-server counts how often
// scripts have written: each script writes with one of these commands when it admits a request.
func (s *Server) Admitted(ctx context.Context) (sum float64, err error) {
	if s.HTTPPort == 0 {
		return s.CommandCalls("zadd", "lpush", "hset", "incr", "set")
	}
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(s.HTTPPort)+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	reply, err := http.DefaultClient.Do(ask)
	if err != nil {
		return 0, err
	}
	defer func() { _ = reply.Body.Close() }() // it has been read
	if reply.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("/metrics: %s", reply.Status)
	}
	text, err := io.ReadAll(reply.Body)
	for _, found := range allowed.FindAllSubmatch(text, -1) {
		n, wrong := strconv.ParseFloat(string(found[1]), 64)
		sum, err = sum+n, errors.Join(err, wrong)
	}
	return sum, err
}
