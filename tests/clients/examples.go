package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// example is one program under examples/. All of them listen on $PORT, ask the
// rlproxy at $RLPROXY, admit 5 requests per 10 s from one address, and do what
// $FAIL says, OPEN or CLOSED, when there is no rlproxy.
type example struct {
	language string
	source   string   // what a reader should open
	program  []string // from the repository's root
}

const (
	exampleLimit  = 5
	exampleWindow = 10 // s
)

var examples = []example{
	{"Python", "examples/python/limited.py", []string{"tests/.cache/redis-py-8/bin/python", "examples/python/limited.py"}},
	{"Node", "examples/node/limited.mjs", []string{"node", "examples/node/limited.mjs"}},
	{"Go", "examples/go/main.go", []string{"tests/.cache/bin/example-go"}},
	{"Java", "examples/java/Limited.java", []string{"java", "-cp", "tests/.cache/jedis/*", "examples/java/Limited.java"}},
	{"PHP", "examples/php/index.php", []string{"sh", "-c", "exec php -S 127.0.0.1:$PORT examples/php/index.php"}},
	{"Ruby", "examples/ruby/limited.rb", []string{"ruby", "examples/ruby/limited.rb"}},
	{"Rust", "examples/rust/src/main.rs", []string{"tests/.cache/cargo/debug/rlproxy-example"}},
	{"C", "examples/c/limited.c", []string{"tests/.cache/bin/example-c"}},
	{"shell", "examples/shell/limited.sh", []string{"examples/shell/limited.sh"}},
}

// demonstration is one example's run.
type demonstration struct {
	example
	err error
}

func (d *demonstration) run() {
	for _, policy := range []string{"OPEN", "CLOSED"} {
		if d.err = d.show(policy); d.err != nil {
			fmt.Printf("FAIL example-%s, FAIL %s: %v\n", d.language, policy, d.err)
			return
		}
	}
	fmt.Printf("ok   example-%s\n", d.language)
}

// show starts the example and does what a visitor would, first with rlproxy,
// then without.
func (d *demonstration) show(policy string) error {
	proxy, err := startProxy()
	if err != nil {
		return err
	}
	running := true
	defer func() {
		if running {
			_ = proxy.stop() // another error is on its way
		}
	}()
	port, err := freePort()
	if err != nil {
		return err
	}
	var log logBuffer
	cmd := exec.Command(d.program[0], d.program[1:]...) //nolint:gosec // the table above names it
	cmd.Env = append(os.Environ(), "PORT="+strconv.Itoa(port), "RLPROXY="+proxy.address(), "FAIL="+policy)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a server may have workers
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
	}()

	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	first := visitor{url, net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	v := visitor{url, net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	err = first.wait()
	if err == nil {
		err = v.limited()
	}
	if err == nil {
		err = v.hanging(proxy, policy)
	}
	if err == nil {
		running = false
		err = proxy.stop()
	}
	if err == nil {
		err = v.unlimited(policy)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, log.String())
	}
	return nil
}

// visitor makes requests, each on a connection of its own.
type visitor struct {
	url  string
	from net.TCPAddr // its own address, which the limit is for
}

// answer is what matters of a response.
type answer struct {
	status int
	header http.Header
}

func (v visitor) get() (answer, error) {
	dialer := net.Dialer{LocalAddr: &v.from}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}
	client := http.Client{Timeout: 5 * time.Second, Transport: transport}
	r, err := client.Get(v.url)
	if err != nil {
		return answer{}, err
	}
	return answer{r.StatusCode, r.Header}, r.Body.Close()
}

// wait returns when the example is up and has heard from rlproxy: until it is warm
// it may take longer to ask than it allows itself.
func (v visitor) wait() error {
	for deadline := time.Now().Add(serverTime); ; time.Sleep(20 * time.Millisecond) {
		a, err := v.get()
		if err == nil && a.header.Get("RateLimit-Limit") != "" {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("not ready in %s: status %d", serverTime, a.status), err)
		}
	}
}

// limited uses the limit up and is refused once.
func (v visitor) limited() error {
	for left := exampleLimit - 1; left >= 0; left-- {
		a, err := v.get()
		if err != nil {
			return err
		}
		if err := a.expect(http.StatusOK, left); err != nil {
			return fmt.Errorf("request %d: %w", exampleLimit-left, err)
		}
	}
	a, err := v.get()
	if err != nil {
		return err
	}
	return a.expect(http.StatusTooManyRequests, 0)
}

// expect compares an answer's status, RateLimit headers and Retry-After.
func (a answer) expect(status, remaining int) error {
	if a.status != status {
		return fmt.Errorf("status %d, not %d", a.status, status)
	}
	for name, want := range map[string]int{"RateLimit-Limit": exampleLimit, "RateLimit-Remaining": remaining} {
		if a.header.Get(name) != strconv.Itoa(want) {
			return fmt.Errorf("%s is %q, not %d", name, a.header.Get(name), want)
		}
	}
	if !a.seconds("RateLimit-Reset") {
		return fmt.Errorf("RateLimit-Reset is %q", a.header.Get("RateLimit-Reset"))
	}
	after := a.header.Get("Retry-After")
	if status == http.StatusOK && after != "" || status != http.StatusOK && !a.seconds("Retry-After") {
		return fmt.Errorf("Retry-After is %q on status %d", after, status)
	}
	return nil
}

// seconds tells whether the header is a number of whole seconds that a window
// can give: the ms of its end, rounded up.
func (a answer) seconds(name string) bool {
	n, err := strconv.Atoi(a.header.Get(name))
	return err == nil && n >= 1 && n <= exampleWindow+1
}

// hanging asks while rlproxy says nothing at all.
func (v visitor) hanging(proxy *server, policy string) error {
	if err := proxy.freeze(); err != nil {
		return err
	}
	err := v.unlimited(policy)
	return errors.Join(err, proxy.cmd.Process.Signal(syscall.SIGCONT))
}

// unlimited asks while rlproxy is away.
func (v visitor) unlimited(policy string) error {
	want := http.StatusOK
	if policy == "CLOSED" {
		want = http.StatusServiceUnavailable
	}
	a, err := v.get()
	if err != nil {
		return err
	}
	if a.status != want {
		return fmt.Errorf("without rlproxy: status %d, not %d", a.status, want)
	}
	return nil
}
