package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// migrant is a program that asks with libraries of rate limits which docs/migrating.md names, at RL_HOST and RL_PORT. Each
// asks eight times for a limit of five an hour, and the program prints a line about it: its name, how many requests were
// admitted, and how many units the library has counted, or `-`; or its name, `error`, and the text.
type migrant struct {
	name    string
	program []string

	// counted has what is printed last by each library that asks Redis. Beside an rlproxy without nodes, these are refused.
	counted map[string]string
	// own has the same of those that ask rlproxy.
	own map[string]string
}

var migrants = []migrant{
	{"Python", []string{middlewares, "tests/clients/migrating/libraries.py"}, map[string]string{
		"limits-fixed-window": "8", "limits-moving-window": "-", "limits-sliding-window-counter": "-", "Flask-Limiter": "-", "script": "8",
	}, map[string]string{"limits-rlproxy": "5", "Flask-Limiter-rlproxy": "-", "CL.THROTTLE": "-", "RL.BUCKET": "-"}},
	{"Node", []string{"node", "tests/clients/migrating/libraries.mjs"}, map[string]string{
		"rate-limiter-flexible": "8", "express-rate-limit": "8",
	}, nil},
	{"Go", []string{"tests/.cache/bin/migrating"}, map[string]string{"redis_rate": "-"}, nil},
	{"Java", []string{"java", "-cp", "tests/.cache/migrating/*", "tests/clients/migrating/Bucket4j.java"}, map[string]string{"Bucket4j": "-"}, nil},
}

// migration is a run of a migrant.
type migration struct {
	migrant
	err error
}

// run runs the program beside an rlproxy without nodes, with one, and with three, which have the keys. A machine may be too
// busy for the timeouts of a library: then it runs again.
func (m *migration) run() {
	for _, nodes := range []int{0, 1, 3} {
		for range 4 {
			if m.err = m.try(nodes); m.err == nil {
				break
			}
		}
		if m.err != nil {
			fmt.Printf("FAIL migrating-%s, %d nodes: %v\n", m.name, nodes, m.err)
			return
		}
	}
	fmt.Printf("ok   migrating-%s\n", m.name)
}

// try compares what a run prints with what it should.
func (m *migrant) try(nodes int) error {
	var args []string
	for range nodes {
		node, err := startRedis()
		if err != nil {
			return err
		}
		defer func() { _ = node.stop() }()
		args = append(args, "--backend", "redis://"+node.address())
	}
	proxy, err := startProxy(append(args, "--backend-timeout", "10000")...)
	if err != nil {
		return err
	}
	defer func() { _ = proxy.stop() }()
	ctx, cancel := context.WithTimeout(context.Background(), programTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.program[0], m.program[1:]...) // #nosec G204 -- from the table above
	cmd.Env = append(os.Environ(), "RL_HOST=127.0.0.1", "RL_PORT="+strconv.Itoa(proxy.port))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var said, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &log
	err = cmd.Run()
	if err == nil {
		err = m.judge(said.String(), nodes)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s%s", err, said.String(), log.String())
	}
	return nil
}

// judge compares what a run has printed with what it should.
func (m *migrant) judge(said string, nodes int) error {
	got := make(map[string]string)
	for lines := bufio.NewScanner(strings.NewReader(said)); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		got[name] = rest
	}
	var wrong []error
	want := maps.Clone(m.counted)
	maps.Copy(want, m.own)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		counts, refused := "5 "+want[name], m.own[name] == "" && nodes == 0
		if !refused && got[name] != counts || refused && !strings.Contains(got[name], "forwarded only with backend") {
			wrong = append(wrong, fmt.Errorf("%s: %q, not %q", name, got[name], counts))
		}
	}
	return errors.Join(wrong...)
}
