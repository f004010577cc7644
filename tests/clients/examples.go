package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// example is one program under examples/. All of them ask the rlproxy at $RLPROXY, and servers
// listen on $PORT. Those without a trial of their own admit 5 requests per 10 s from one
// address, and do what $FAIL says, OPEN or CLOSED, when there is no rlproxy.
type example struct {
	language string
	source   string              // file that a reader should open
	program  []string            // command line, run from the repository's root
	policies string              // file of policies that rlproxy includes; empty if the program has the limit
	item     string              // name of the item in the headers RateLimit and RateLimit-Policy
	trial    func(example) error // how the example is tried; nil: as a limit for addresses
}

const (
	exampleLimit  = 5
	exampleWindow = 10 // s

	python      = "tests/.cache/redis-py-8/bin/python"
	middlewares = "tests/.cache/python/bin/python"

	plans    = "examples/plans/policies.conf"
	byPolicy = "examples/policies.conf"
)

var examples = []example{
	{"Python", "examples/python/limited.py", []string{python, "examples/python/limited.py"}, "", "default", nil},
	{"Node", "examples/node/limited.mjs", []string{"node", "examples/node/limited.mjs"}, "", "default", nil},
	{"Go", "examples/go/main.go", []string{"tests/.cache/bin/example-go"}, "", "default", nil},
	{"Java", "examples/java/Limited.java", []string{"java", "-cp", "tests/.cache/jedis/*", "examples/java/Limited.java"}, "", "default", nil},
	{"PHP", "examples/php/index.php", []string{"sh", "-c", "exec php -S 127.0.0.1:$PORT examples/php/index.php"}, "", "default", nil},
	{"Ruby", "examples/ruby/limited.rb", []string{"ruby", "examples/ruby/limited.rb"}, "", "default", nil},
	{"Rust", "examples/rust/src/main.rs", []string{"tests/.cache/cargo/debug/rlproxy-example"}, "", "default", nil},
	{"C", "examples/c/limited.c", []string{"tests/.cache/bin/example-c"}, "", "default", nil},
	{"shell", "examples/shell/limited.sh", []string{"examples/shell/limited.sh"}, "", "default", nil},
	{"Python, with plans", "examples/plans/plans.py", []string{python, "examples/plans/plans.py"}, plans, "free", nil},
	{"Flask, by policy", "examples/python/flask_limited.py", []string{middlewares, "examples/python/flask_limited.py"}, byPolicy, "hello", nil},
	{"Go, by policy", "examples/go/policy/main.go", []string{"tests/.cache/bin/example-go-policy"}, byPolicy, "hello", nil},
	{"FastAPI, login", "examples/python/fastapi_login.py", []string{middlewares, "examples/python/fastapi_login.py"}, byPolicy, "", limitsLogins},
	{"Express, user and tenant", "examples/node/express.mjs", []string{"node", "examples/node/express.mjs"}, byPolicy, "", limitsUsersAndTenants},
	{"Python, tokens", "examples/python/gateway.py", []string{python, "examples/python/gateway.py"}, byPolicy, "", reservesTokens},
	{"Node, tokens", "examples/node/gateway.mjs", []string{"node", "examples/node/gateway.mjs"}, byPolicy, "", reservesTokens},
	{"Python, jobs", "examples/python/worker.py", []string{python, "examples/python/worker.py"}, "", "", sharesSlots},
	{"Python, crawler", "examples/python/crawler.py", []string{python, "examples/python/crawler.py"}, "", "", pacesItself(paced{
		line: "%s/%d", env: []string{"RATE=10"}, command: "RL.BUCKET", rate: 10, burst: 3})},
	{"Node, job queue", "examples/node/jobs.mjs", []string{"node", "examples/node/jobs.mjs"}, "", "", pacesItself(paced{
		line: "%d 1", env: []string{"LIMIT=3", "API=%s"}, command: "RL.SLIDE", rate: 3, burst: 3})},
	{"Node, checkout", "examples/node/checkout.mjs", []string{"node", "examples/node/checkout.mjs"}, "", "", asksAllAtOnce},
}

// demonstration is one run of an example.
type demonstration struct {
	example
	err error
}

// run demonstrates the example: with each FAIL policy that it knows, unless it has a trial of its own.
func (d *demonstration) run() {
	if d.trial != nil {
		if d.err = d.trial(d.example); d.err != nil {
			fmt.Printf("FAIL example-%s: %v\n", d.language, d.err)
			return
		}
		fmt.Printf("ok   example-%s\n", d.language)
		return
	}
	for _, fail := range []string{"OPEN", "CLOSED"} {
		if d.err = d.show(fail); d.err != nil {
			fmt.Printf("FAIL example-%s, FAIL %s: %v\n", d.language, fail, d.err)
			return
		}
	}
	fmt.Printf("ok   example-%s\n", d.language)
}

// show starts the example and does what a visitor would: while rlproxy is away, while it
// answers, while it hangs, and when it is away again.
func (d *demonstration) show(fail string) error {
	var args []string
	if d.policies != "" {
		args = []string{"--include", d.policies}
	}
	proxy, err := startProxy(args...)
	if err != nil {
		return err
	}
	defer func() { _ = proxy.stop() }() // a second time if nothing failed
	if err := proxy.stop(); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	var log logBuffer
	cmd := exec.Command(d.program[0], d.program[1:]...)
	cmd.Env = append(os.Environ(), "PORT="+strconv.Itoa(port), "RLPROXY="+proxy.address(), "FAIL="+fail)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a server may have workers
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() { // ends with the process, which is killed below
		_ = cmd.Wait() // how the process ended shows in its log
		close(exited)
	}()
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-exited
	}()

	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	first := visitor{url: url, from: net.IPv4(127, 0, 0, 2)}
	v := visitor{url: url, from: net.IPv4(127, 0, 0, 1)}
	for _, step := range []func() error{
		func() error { return first.wait(exited, func(a answer) bool { return a.status == alone(fail) }) },
		proxy.launch,
		func() error { return first.wait(exited, answer.limited) },
		func() error { return d.someLimited(url) },
		func() error { return d.customers(url, fail, exited) },
		func() error { return v.hanging(proxy, fail) },
		proxy.stop,
		func() error { return v.unlimited(fail) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("%w\n%s", err, log.String())
		}
	}
	if said := "no such policy 'gold'"; d.policies == plans && !strings.Contains(log.String(), said) {
		return fmt.Errorf("the example's log does not say %q:\n%s", said, log.String())
	}
	return nil
}

// alone returns the status of an example that cannot ask rlproxy.
func alone(fail string) int {
	if fail == "CLOSED" {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// visitor makes requests, each on a connection of its own.
type visitor struct {
	url  string
	from net.IP // the visitor's address, which the limit is for
	key  string // X-Api-Key, by which the example with plans knows customers; empty for none
}

// answer is what matters of a response.
type answer struct {
	status int
	header http.Header
}

func (v visitor) get() (answer, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: v.from}}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}
	client := http.Client{Timeout: serverTime, Transport: transport}
	ask, err := http.NewRequest(http.MethodGet, v.url, nil)
	if err != nil {
		return answer{}, err
	}
	if v.key != "" {
		ask.Header.Set("X-Api-Key", v.key)
	}
	r, err := client.Do(ask)
	if err != nil {
		return answer{}, err
	}
	return answer{r.StatusCode, r.Header}, r.Body.Close()
}

// limited reports whether rlproxy decided about the request.
func (a answer) limited() bool {
	return a.header.Get("RateLimit") != "" || a.header.Get("X-Ratelimit-Remaining") != "" // the second is Envoy's
}

// wait makes requests until an answer is as wanted. An example that has just started, or
// whose rlproxy has, may be slower than its own timeout allows.
func (v visitor) wait(exited <-chan struct{}, wanted func(answer) bool) error {
	for deadline := time.Now().Add(programTime); ; {
		a, err := v.get()
		if err == nil && wanted(a) {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("not ready in %s: status %d, %v", programTime, a.status, a.header), err)
		}
		select {
		case <-exited:
			return errors.New("the example ended before it was ready")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// errUnlimited says that the example answered without asking rlproxy, as it does when it has
// waited for rlproxy too long.
var errUnlimited = errors.New("no RateLimit header: the example did what FAIL says, although rlproxy ran")

// someLimited has a visitor use the limit up. On a busy machine the example may time out, or
// the window may pass; then another visitor, who has a limit of its own, tries again, until
// programTime has passed.
func (e example) someLimited(url string) error {
	const visitors = 200
	deadline := time.Now().Add(programTime)
	for i := byte(0); ; i = (i + 1) % visitors {
		began := time.Now()
		v := visitor{url: url, from: net.IPv4(127, 0, 0, 10+i)}
		err := e.limited(v)
		slow := errors.Is(err, errUnlimited) || time.Since(began) >= exampleWindow*time.Second
		if err == nil || !slow || time.Now().After(deadline) {
			return err
		}
	}
}

// limited has the visitor use the limit up and be refused once.
func (e example) limited(v visitor) error {
	for left := exampleLimit - 1; left >= 0; left-- {
		a, err := v.get()
		if err != nil {
			return err
		}
		if err := e.expect(a, http.StatusOK, left); err != nil {
			return fmt.Errorf("request %d: %w", exampleLimit-left, err)
		}
	}
	a, err := v.get()
	if err != nil {
		return err
	}
	return e.expect(a, http.StatusTooManyRequests, 0)
}

// expect compares an answer's status and headers. On a refusal the seconds to wait are those
// of Retry-After in every header; on other answers there are none.
func (e example) expect(a answer, status, remaining int) error {
	if !a.limited() {
		return fmt.Errorf("status %d: %w", a.status, errUnlimited)
	}
	if a.status != status {
		return fmt.Errorf("status %d, not %d", a.status, status)
	}
	after := a.header.Get("Retry-After")
	policy, item := fmt.Sprintf(`%q;q=%d`, e.item, exampleLimit), fmt.Sprintf(`%q;r=%d`, e.item, remaining)
	if e.policies != plans { // this example learns the limit from the reply, which does not say the window
		policy += fmt.Sprintf(";w=%d", exampleWindow)
	}
	if status != http.StatusOK {
		// A denial in the ms of the first admission waits for the window and 1 ms, which is rounded up.
		if n, err := strconv.Atoi(after); err != nil || n < 1 || n > exampleWindow+1 {
			return fmt.Errorf("Retry-After is %q", after)
		}
		item += ";t=" + after
	} else if after != "" {
		return fmt.Errorf("Retry-After is %q on status %d", after, status)
	}
	wants := [][2]string{{"RateLimit-Policy", policy}, {"RateLimit", item}}
	if e.policies != byPolicy { // this example sends what DETAILS says
		wants = append(wants, [2]string{"X-RateLimit-Limit", strconv.Itoa(exampleLimit)},
			[2]string{"X-RateLimit-Remaining", strconv.Itoa(remaining)}, [2]string{"X-RateLimit-Reset", after})
	}
	for _, want := range wants {
		if got := a.header.Get(want[0]); got != want[1] {
			return fmt.Errorf("%s is %q, not %q", want[0], got, want[1])
		}
	}
	return nil
}

// customers has one customer of each kind ask the example with plans: one without limits, two with
// plans, one who is blocked, and one whose plan has no policy, for whom the example does what FAIL
// says. It does nothing for other examples.
func (e example) customers(url, fail string, exited <-chan struct{}) error {
	if e.policies != plans {
		return nil
	}
	for key, want := range map[string]struct {
		status        int
		policy, after string // RateLimit-Policy and Retry-After
	}{
		"green": {http.StatusOK, "", ""},
		"red":   {http.StatusOK, `"pro";q=20`, ""},
		"blue":  {http.StatusOK, `"vip";q=500`, ""},
		"black": {http.StatusTooManyRequests, "", "1"},
		"white": {alone(fail), "", ""},
	} {
		v := visitor{url: url, from: net.IPv4(127, 0, 0, 3), key: key}
		if err := v.wait(exited, func(a answer) bool {
			return a.status == want.status && a.limited() == (want.policy != "") &&
				a.header.Get("RateLimit-Policy") == want.policy && a.header.Get("Retry-After") == want.after
		}); err != nil {
			return fmt.Errorf("the customer %s: %w", key, err)
		}
	}
	return nil
}

// hanging makes a request while rlproxy does not answer.
func (v visitor) hanging(proxy *server, fail string) error {
	if err := proxy.freeze(); err != nil {
		return err
	}
	err := v.unlimited(fail)
	return errors.Join(err, proxy.cmd.Process.Signal(syscall.SIGCONT))
}

// unlimited makes a request that the example must answer without rlproxy.
func (v visitor) unlimited(fail string) error {
	a, err := v.get()
	if err != nil {
		return err
	}
	if want := alone(fail); a.status != want || a.limited() {
		return fmt.Errorf("without rlproxy: status %d, not %d", a.status, want)
	}
	return nil
}
