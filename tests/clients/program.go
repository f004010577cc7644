package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// program is an example under way.
type program struct {
	cmd    *exec.Cmd
	port   int
	stdin  io.WriteCloser
	log    logBuffer     // what it has written
	exited chan struct{} // closed when the process has ended
}

// launch starts an example's program beside a proxy.
func (e example) launch(proxy *server, env ...string) (*program, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &program{cmd: exec.Command(e.program[0], e.program[1:]...), port: port, exited: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), "PORT="+strconv.Itoa(port), "RLPROXY="+proxy.address()), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a server may have workers
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process, which kill ends
		_ = p.cmd.Wait() // how the process ended shows in its log
		close(p.exited)
	}()
	return p, nil
}

// kill ends the process as kill -9 does.
func (p *program) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.exited
}

// until waits until a condition holds, and no longer than programTime.
func until(what string, holds func() bool) error {
	for deadline := time.Now().Add(programTime); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not in %s", what, programTime)
		}
	}
	return nil
}

// post sends a request to the program.
func (p *program) post(body string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/", p.port), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	client := http.Client{Timeout: programTime, Transport: &http.Transport{DisableKeepAlives: true}}
	return client.Do(r)
}

// replies returns an error unless a request gets a status and a text.
func (p *program) replies(status int, text, body string, headers ...string) error {
	r, err := p.post(body, headers...)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return err
	}
	if r.StatusCode != status || !strings.Contains(string(got), text) {
		return fmt.Errorf("%s, %v: status %d, %q; not %d, %q", body, headers, r.StatusCode, got, status, text)
	}
	if after := r.Header.Get("Retry-After"); (status == http.StatusTooManyRequests) != (after != "") {
		return fmt.Errorf("status %d has Retry-After %q", status, after)
	}
	return nil
}

// inOrder runs steps until one fails, and adds the log to its error.
func (p *program) inOrder(steps ...func() error) error {
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w\n%s", i+1, err, p.log.String())
		}
	}
	return nil
}
