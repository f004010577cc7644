package main

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

// nodeCPU is the CPU time that a redis-server has used, in seconds, as it says itself.
func (s *server) nodeCPU() (float64, error) {
	info, err := traffic.Ask(s.address(), "INFO", "cpu")
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

// scriptCalls is how often the redis-server was sent a script or the call of a function.
func (s *server) scriptCalls() (float64, error) { return s.commandCalls("evalsha", "fcall") }

// commandCalls is how often the redis-server was sent the commands, or a script called them.
func (s *server) commandCalls(commands ...string) (float64, error) {
	info, err := traffic.Ask(s.address(), "INFO", "commandstats")
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

var allowed = regexp.MustCompile(`(?m)^rlproxy_decisions_total\{.*result="allowed".*\} (\S+)$`)

// admitted is how many requests were admitted: as an rlproxy counts them that has an
// http-port, or as the scripts of a redis-server did, each of which writes by one of these commands
// when it admits.
func (s *server) admitted(ctx context.Context) (sum float64, err error) {
	if s.web == 0 {
		return s.commandCalls("zadd", "lpush", "hset", "incr", "set")
	}
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(s.web)+"/metrics", nil)
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
