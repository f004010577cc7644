package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// knock is a request to a middleware, and what is to be answered.
type knock struct {
	body    string
	headers []string // of the form "name: value"

	status int
	text   string // what the answer contains
	rate   string // how its header RateLimit begins
}

// send makes the request from an address. It returns errUnlimited if the middleware did what FAIL says.
func (k knock) send(url string, from net.IP, policy string) error {
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(k.body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	for _, h := range k.headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	client := http.Client{Timeout: serverTime, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	if answer.Header.Get("RateLimit") == "" {
		return fmt.Errorf("status %d, %q: %w", answer.StatusCode, text, errUnlimited)
	}
	got := fmt.Sprint(answer.StatusCode, answer.Header.Get("RateLimit-Policy"), answer.Header.Get("Retry-After") != "")
	if got != fmt.Sprint(k.status, policy, k.status == http.StatusTooManyRequests) || !strings.Contains(string(text), k.text) ||
		!strings.HasPrefix(answer.Header.Get("RateLimit"), k.rate) {
		return fmt.Errorf("%s, %v: status %d, %q, %v; not %d, %q, %s", k.body, k.headers, answer.StatusCode, text, answer.Header,
			k.status, k.text, k.rate)
	}
	return nil
}

// middleware is a trial of one that asks about two keys. Each attempt is about keys of its own.
type middleware struct {
	path   string
	policy string                                // the header RateLimit-Policy
	knocks func(attempt string) []knock          // in order
	used   func(attempt string) map[string]int64 // by key, after them
}

// try tries the middleware beside a proxy with two nodes, with each FAIL policy: while rlproxy answers, while it hangs,
// and when it is away.
func (m middleware) try(e example) error {
	args := []string{"--include", e.policies, "--backend-timeout", "10000"}
	for range 2 {
		node, err := startRedis()
		if err != nil {
			return err
		}
		defer func() { _ = node.stop() }()
		args = append(args, "--backend", "redis://"+node.address())
	}
	proxy, err := startProxy(args...)
	if err != nil {
		return err
	}
	defer func() { _ = proxy.stop() }()
	for _, fail := range []string{"OPEN", "CLOSED"} {
		p, err := e.launch(proxy, "FAIL="+fail)
		if err != nil {
			return err
		}
		defer p.kill()
		url := fmt.Sprintf("http://127.0.0.1:%d/%s", p.port, m.path)
		err = p.inOrder(
			func() error { return m.decided(proxy, url, fail) },
			proxy.freeze,
			func() error { return m.undecided(url, fail) },
			func() error { return proxy.cmd.Process.Signal(syscall.SIGCONT) },
			proxy.stop,
			func() error { return m.undecided(url, fail) },
			proxy.launch,
		)
		if err != nil {
			return fmt.Errorf("FAIL %s: %w", fail, err)
		}
	}
	return nil
}

// decided makes the requests in order. While the middleware starts, and if it gets no answer in time on a busy machine,
// it makes another attempt, until programTime has passed.
func (m middleware) decided(proxy *server, url, fail string) error {
	deadline := time.Now().Add(programTime)
	for i := 0; ; i++ {
		attempt := fmt.Sprint(strings.ToLower(fail), i)
		err := m.attempt(proxy, url, net.IPv4(127, byte(1+len(fail)), byte(i/250), byte(1+i%250)), attempt)
		starting := errors.Is(err, syscall.ECONNREFUSED)
		if !starting && !errors.Is(err, errUnlimited) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond) // until the middleware has started, or its client has connected again
	}
}

func (m middleware) attempt(proxy *server, url string, from net.IP, name string) error {
	for _, k := range m.knocks(name) {
		if err := k.send(url, from, m.policy); err != nil {
			return err
		}
	}
	for key, used := range m.used(name) {
		if err := counts(proxy, key, "RL.SLIDE", used, 0); err != nil {
			return err
		}
	}
	return nil
}

// undecided makes a request that the middleware must answer without rlproxy.
func (m middleware) undecided(url, fail string) error {
	err := m.knocks("last")[0].send(url, net.IPv4(127, 0, 0, 1), m.policy)
	if status := fmt.Sprintf("status %d,", alone(fail)); !errors.Is(err, errUnlimited) || fail == "CLOSED" && !strings.HasPrefix(err.Error(), status) {
		return fmt.Errorf("without rlproxy: %w", err)
	}
	return nil
}

// limitsLogins has a visitor try passwords of several accounts. Those that an account's limit denies are not charged to
// the address.
func limitsLogins(e example) error {
	try := func(account, password string, status int, text, rate string) knock {
		return knock{body: fmt.Sprintf(`{"account": %q, "password": %q}`, account, password), status: status, text: text, rate: rate}
	}
	const wrong, limited, often = http.StatusUnauthorized, http.StatusTooManyRequests, "too many attempts for this "
	return middleware{
		path:   "login",
		policy: `"login-account";q=3;w=60, "login-address:1m";q=5;w=60, "login-address:1h";q=20;w=3600`,
		knocks: func(attempt string) []knock {
			ann, bob := "ann-"+attempt, "bob-"+attempt
			return []knock{
				try(ann, "1234", wrong, "wrong", `"login-account";r=2`), try(strings.ToUpper(ann), "12345", wrong, "wrong", `"login-account";r=1`),
				try(ann, "open sesame", http.StatusOK, "welcome", `"login-account";r=0`),
				try(ann, "123456", limited, often+"account", `"login-account";r=0;t=`), try(ann, "open sesame", limited, often+"account", `"login-account";r=0;t=`),
				try(bob, "1234", wrong, "wrong", `"login-address:1m";r=1`), try(bob, "12345", wrong, "wrong", `"login-address:1m";r=0`),
				try(bob, "open sesame", limited, often+"address", `"login-address:1m";r=0;t=`),
			}
		},
		used: func(attempt string) map[string]int64 {
			return map[string]int64{"login-account:ann-" + attempt: 3, "login-account:bob-" + attempt: 2}
		},
	}.try(e)
}

// limitsUsersAndTenants has two users of a tenant use up its limit.
func limitsUsersAndTenants(e example) error {
	const ok, limited, often = http.StatusOK, http.StatusTooManyRequests, "too many requests of this "
	return middleware{
		policy: `"user";q=3;w=60, "tenant";q=5;w=60`,
		knocks: func(attempt string) []knock {
			by := func(user string, status int, text, rate string) knock {
				return knock{headers: []string{"X-User: " + user + attempt, "X-Tenant: " + attempt}, status: status, text: text, rate: rate}
			}
			return []knock{
				by("a", ok, "hello", `"user";r=2`), by("a", ok, "hello", `"user";r=1`), by("a", ok, "hello", `"user";r=0`),
				by("a", limited, often+"user", `"user";r=0;t=`), by("b", ok, "hello", `"tenant";r=1`), by("b", ok, "hello", `"tenant";r=0`),
				by("b", limited, often+"tenant", `"tenant";r=0;t=`),
			}
		},
		used: func(attempt string) map[string]int64 {
			return map[string]int64{"user:a" + attempt: 3, "user:b" + attempt: 2, "tenant:" + attempt: 5}
		},
	}.try(e)
}
