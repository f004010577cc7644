package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// programTime bounds one run of a client's program. The slowest takes 5 s on an idle machine.
const programTime = 5 * time.Minute

// password is the password that rlproxy requires in runs with a login.
const password = "correct-horse-battery"

// login is the way in which a run authenticates.
type login int

const (
	noLogin       login = iota // no login
	passwordLogin              // a password alone
	userLogin                  // user `default` and the password
)

func (l login) String() string {
	return [...]string{"no password", "password", "user and password"}[l]
}

// trial is one run of one client's program against an rlproxy of its own.
type trial struct {
	*client
	protocol int
	login    login
	backend  bool // whether a redis-server holds the state

	version string
	results map[string]string // the reason of failure by check; empty for ok
}

// String names the trial in the output.
func (t *trial) String() string {
	engine := "embedded"
	if t.backend {
		engine = "redis"
	}
	return fmt.Sprintf("%s RESP%d, %s, %s", t.name, t.protocol, t.login, engine)
}

// failures returns the checks that failed, each with the reason.
func (t *trial) failures() []string {
	var all []string
	for check, why := range t.results {
		if why != "" {
			all = append(all, fmt.Sprintf("FAIL %s: %s: %s", t, check, why))
		}
	}
	slices.Sort(all)
	return all
}

// run runs the program and records what it reports. A check that it does not report
// has failed.
func (t *trial) run() {
	t.results = map[string]string{}
	for _, check := range t.checks(t.login != noLogin) {
		t.results[check] = "not reported"
	}
	output, err := t.attempt()
	if err != nil && len(t.failures()) == 0 { // otherwise the program ended because of them
		t.results["run"] = err.Error()
	}
	failures := t.failures()
	if len(failures) == 0 {
		fmt.Printf("ok   %s\n", t)
		return
	}
	fmt.Printf("%s\n%s: %v\n%s", strings.Join(failures, "\n"), t, err, output)
}

// attempt starts the servers and the program, and returns what the servers and
// the program wrote apart from its report, for the reader of a failure.
func (t *trial) attempt() (output string, err error) {
	var args []string
	if t.login != noLogin {
		args = append(args, "--requirepass", password)
	}
	if t.backend {
		redis, startErr := startRedis()
		if startErr != nil {
			return "", startErr
		}
		defer func() { err = errors.Join(err, redis.stop()) }()
		// On a busy machine a redis-server may take longer than the default allows. What
		// rlproxy answers then is the subject of other tests.
		args = append(args, "--backend", "redis://"+redis.address(), "--backend-timeout", "10000")
	}
	proxy, err := startProxy(args...)
	if err != nil {
		return "", err
	}
	output, err = t.converse(proxy)
	return output + proxy.log.String(), errors.Join(err, proxy.stop())
}

// converse runs the program and answers its requests for a restart. It returns
// what the program wrote to its standard error.
func (t *trial) converse(proxy *server) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), programTime)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, t.program[0], t.program[1:]...)
	cmd.Env = append(os.Environ(), t.environment(proxy)...)
	cmd.Stderr = &stderr
	// A program has children of its own, which hold its output open: end all.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	for lines := bufio.NewScanner(stdout); lines.Scan() && err == nil; {
		if lines.Text() != "RESTART" {
			t.note(lines.Text())
			continue
		}
		if err = proxy.restart(); err == nil {
			_, err = io.WriteString(stdin, "OK\n")
		}
	}
	if err != nil {
		cancel()
	}
	err = errors.Join(err, cmd.Wait())
	if ctx.Err() == context.DeadlineExceeded {
		err = fmt.Errorf("not done in %s", programTime)
	}
	return stderr.String(), err
}

// environment tells the program what to do; see the package's comment.
func (t *trial) environment(proxy *server) []string {
	env := append(slices.Clone(t.env),
		"RL_HOST=127.0.0.1", "RL_PORT="+strconv.Itoa(proxy.port), "RL_PROTO="+strconv.Itoa(t.protocol))
	if t.protocol == t.byDefault {
		env = append(env, "RL_DEFAULT=1")
	}
	if t.login != noLogin {
		env = append(env, "RL_PASSWORD="+password)
	}
	if t.login == userLogin {
		env = append(env, "RL_USERNAME=default")
	}
	return env
}

// note records one line of the program's output.
func (t *trial) note(line string) {
	word, rest, _ := strings.Cut(line, " ")
	check, why, _ := strings.Cut(rest, " ")
	switch word {
	case "version":
		t.version = rest
	case "ok":
		t.results[check] = ""
	case "FAIL":
		t.results[check] = "failed " + why
	}
}
