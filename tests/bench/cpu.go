package main

import (
	"errors"
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
func (s *server) scriptCalls() (float64, error) {
	info, err := traffic.Ask(s.address(), "INFO", "commandstats")
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, command := range []string{"evalsha", "fcall"} {
		_, after, _ := strings.Cut(info, "cmdstat_"+command+":calls=")
		if calls, _, called := strings.Cut(after, ","); called {
			n, wrong := strconv.ParseFloat(calls, 64)
			sum, err = sum+n, errors.Join(err, wrong)
		}
	}
	return sum, err
}
