package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// suiteTime bounds one run of a suite. The slowest takes half a minute on an idle machine.
const suiteTime = 15 * time.Minute

// audition is one suite, run first with Redis alone and then with rlproxy in front of it.
type audition struct {
	*suite
	expected []expectation // those of the suite
	version  string
	verdicts []verdict // by number of nodes, as in suite.nodes
}

// auditions returns the suites to run, each with what is expected of it.
func auditions(wanted func(name string) bool) ([]*audition, error) {
	expected, err := readExpectations()
	if err != nil {
		return nil, err
	}
	var all []*audition
	known := map[string]bool{}
	for _, s := range suites {
		known[s.name] = true
		if !wanted("suite-" + s.name) {
			continue
		}
		a := &audition{suite: &s}
		for _, e := range expected {
			if e.suite == s.name {
				a.expected = append(a.expected, e)
			}
		}
		all = append(all, a)
	}
	for _, e := range expected {
		if !known[e.suite] {
			return nil, fmt.Errorf("%s: no suite is called %q", expectationsFile, e.suite)
		}
	}
	return all, nil
}

// problems returns what makes the suite fail.
func (a *audition) problems() []string {
	var all []string
	for _, v := range a.verdicts {
		all = append(all, v.problems...)
	}
	return all
}

// run runs the suite and reports what it found.
func (a *audition) run() {
	redis, log, err := a.perform(0)
	for _, nodes := range a.nodes {
		var v verdict
		if err == nil {
			var proxy outcomes
			proxy, log, err = a.perform(nodes)
			v = judge(redis, proxy, a.expected)
		}
		if err != nil {
			v = verdict{problems: []string{err.Error()}}
		}
		a.conclude(nodes, v, log)
	}
}

// conclude records and prints a verdict.
func (a *audition) conclude(nodes int, v verdict, log string) {
	a.verdicts = append(a.verdicts, v)
	title := fmt.Sprintf("suite-%s %s, nodes: %d", a.name, a.version, nodes)
	if len(v.problems) == 0 {
		fmt.Printf("ok   %s: %d of %d tests passed, %d failed as expected\n", title, v.passed, v.run, v.expected)
		return
	}
	for _, p := range v.problems {
		fmt.Printf("FAIL %s: %s\n", title, p)
	}
	fmt.Printf("%s:\n%s", title, log)
}

// perform runs the suite once with fresh servers: with rlproxy in front of so many nodes, or
// with Redis alone if nodes is 0. It returns the outcomes, and what the suite and rlproxy wrote.
func (a *audition) perform(nodes int) (o outcomes, log string, err error) {
	// The defaults of the timeouts would make outcomes depend on how busy the machine is.
	args := []string{"--passthrough-admin", "yes", "--backend-timeout", "10000", "--passthrough-timeout", "60000"}
	folder, err := os.MkdirTemp("", "rlproxy-suite")
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	var running []*server
	defer func() {
		for _, s := range running {
			err = errors.Join(err, s.stop())
		}
	}()
	var ports []string
	for range max(nodes, 1) {
		redis, err := startRedis("--enable-debug-command", "yes", "--dir", folder)
		if err != nil {
			return nil, "", err
		}
		running = append(running, redis)
		ports = append(ports, strconv.Itoa(redis.port))
		args = append(args, "--backend", "redis://"+redis.address())
	}
	if nodes > 0 {
		proxy, err := startProxy(args...)
		if err != nil {
			return nil, "", err
		}
		running = append(running, proxy)
	}
	target := running[len(running)-1]
	o, log, err = a.listen(target.port, ports)
	return o, log + target.log.String(), err
}

// listen runs the suite's program and notes what its output says about tests.
func (a *audition) listen(port int, nodes []string) (outcomes, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), suiteTime)
	defer cancel()
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, a.program[0], a.program[1:]...)
	cmd.Env = append(os.Environ(),
		"RL_HOST=127.0.0.1", "RL_PORT="+strconv.Itoa(port), "RL_NODES="+strings.Join(nodes, " "))
	cmd.Stdout, cmd.Stderr = &output, &output
	// A suite has processes of its own, which hold its output open: end all.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	log := output.String()
	if ctx.Err() != nil {
		return nil, log, fmt.Errorf("not done in %s", suiteTime)
	}
	// A suite whose tests fail exits with a status of its own choice.
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return nil, log, err
	}
	o := outcomes{}
	for lines := bufio.NewScanner(&output); lines.Scan(); {
		if version, ok := strings.CutPrefix(lines.Text(), "version "); ok {
			a.version = version
		}
		o.note(a.suite, lines.Text())
	}
	return o, log, nil
}
