package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// states returns the numbers that RL.INSPECT shows of a key, by command.
func states(proxy *server, key string) (map[string]map[string]int64, error) {
	out, err := exec.Command("redis-cli", "-p", strconv.Itoa(proxy.port), "-3", "--json", "RL.INSPECT", key).Output()
	if err != nil {
		return nil, err
	}
	var rows []map[string]any
	if err := json.Unmarshal(out, &rows); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	all := make(map[string]map[string]int64)
	for _, row := range rows {
		numbers := make(map[string]int64)
		for name, value := range row {
			if n, ok := value.(float64); ok {
				numbers[name] = int64(n)
			}
		}
		all[fmt.Sprint(row["command"])] = numbers
	}
	return all, nil
}

// counts returns an error unless of a key so much is used and held by a command at last.
func counts(proxy *server, key, command string, used, held int64) error {
	var got map[string]map[string]int64
	var err error
	late := until("it is so", func() bool {
		got, err = states(proxy, key)
		return err == nil && got[command]["used"] == used && got[command]["held"] == held
	})
	if late != nil {
		return errors.Join(fmt.Errorf("RL.INSPECT %s: %v, not %d used and %d held", key, got, used, held), err, late)
	}
	return nil
}

// reservesTokens tries a gateway: answers, one that is denied, one that a client leaves, a proxy that does not
// answer for a while, and a gateway that is killed. Each time it looks at what is charged and held in the end.
func reservesTokens(e example) error {
	proxy, err := startProxy("--include", e.policies)
	if err != nil {
		return err
	}
	defer func() { _ = proxy.stop() }()
	p, err := e.launch(proxy, "TTL=60")
	if err != nil {
		return err
	}
	defer p.kill()
	const slide = "RL.SLIDE"
	ask := func(words, most int) string {
		return fmt.Sprintf(`{"prompt": %q, "max_tokens": %d}`, strings.TrimSpace(strings.Repeat("word ", words)), most)
	}
	err = p.inOrder(
		func() error {
			return until("the gateway serves", func() bool { return p.replies(http.StatusOK, "word", ask(1, 1), "X-Api-Key: first") == nil })
		},
		func() error {
			return p.replies(http.StatusOK, strings.Repeat("word\n", 5), ask(5, 400), "X-Api-Key: red")
		},
		func() error { return counts(proxy, "tokens:red", slide, 10, 0) },
		func() error {
			return p.replies(http.StatusBadRequest, "too many tokens", ask(5, 1000), "X-Api-Key: red")
		},
		func() error {
			return p.replies(http.StatusTooManyRequests, "no tokens left", ask(5, 990), "X-Api-Key: red")
		},
		func() error { return counts(proxy, "tokens:red", slide, 10, 0) },
		func() error { // a client that leaves
			r, err := p.post(ask(100, 100), "X-Api-Key: green")
			if err != nil {
				return err
			}
			defer func() { _ = r.Body.Close() }()
			if _, err = bufio.NewReader(r.Body).ReadString('\n'); err != nil {
				return err
			}
			return counts(proxy, "tokens:green", slide, 0, 200)
		},
		func() error {
			return until("the rest is given back", func() bool {
				got, err := states(proxy, "tokens:green")
				green := got[slide]
				return err == nil && green["held"] == 0 && green["used"] > 100 && green["used"] < 200
			})
		},
		func() error { // a command that is sent again, and was run before
			if err := proxy.freeze(); err != nil {
				return err
			}
			answered := make(chan error, 1)
			go func() { answered <- p.replies(http.StatusOK, "word\n", ask(2, 50), "X-Api-Key: blue") }() // it has a timeout
			err := until("the gateway retries", func() bool { return strings.Contains(p.log.String(), "retrying: RL.HOLD") })
			return errors.Join(err, proxy.cmd.Process.Signal(syscall.SIGCONT), <-answered)
		},
		func() error { return counts(proxy, "tokens:blue", slide, 4, 0) },
	)
	if err != nil {
		return err
	}

	dying, err := e.launch(proxy, "TTL=3")
	if err != nil {
		return err
	}
	defer dying.kill()
	return dying.inOrder(
		func() error {
			return until("the gateway serves", func() bool { return dying.replies(http.StatusOK, "word", ask(1, 1), "X-Api-Key: first") == nil })
		},
		func() error {
			r, err := dying.post(ask(400, 500), "X-Api-Key: black")
			if err != nil {
				return err
			}
			_, err = bufio.NewReader(r.Body).ReadString('\n')
			dying.kill()
			return errors.Join(err, r.Body.Close())
		},
		func() error { return counts(proxy, "tokens:black", slide, 0, 900) },
		func() error { return counts(proxy, "tokens:black", slide, 900, 0) }, // it lapses
	)
}

// asksAllAtOnce tries a checkout over two nodes: what one key denies is charged to no key.
func asksAllAtOnce(e example) error {
	var args []string
	for range 2 {
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
	p, err := e.launch(proxy)
	if err != nil {
		return err
	}
	defer p.kill()
	buy := func(status int, text, user, shop string) func() error {
		return func() error { return p.replies(status, text, "", "X-User: "+user, "X-Shop: "+shop) }
	}
	used := func(key string, n int64) func() error {
		return func() error { return counts(proxy, key, "RL.SLIDE", n, 0) }
	}
	const thanks, tooMany = "thank you", "too many checkouts of "
	return p.inOrder(
		func() error {
			return until("the checkout serves", func() bool { return buy(http.StatusOK, thanks, "0", "zero")() == nil })
		},
		buy(http.StatusOK, thanks, "1", "red"), buy(http.StatusOK, thanks, "1", "red"), buy(http.StatusOK, thanks, "1", "red"),
		buy(http.StatusTooManyRequests, tooMany+"the user", "1", "red"),
		buy(http.StatusOK, thanks, "2", "red"), buy(http.StatusOK, thanks, "2", "red"),
		buy(http.StatusTooManyRequests, tooMany+"the shop", "2", "red"),
		buy(http.StatusTooManyRequests, tooMany+"the shop", "3", "red"),
		used("user:1", 3), used("user:2", 2), used("user:3", 0), used("shop:red", 5), used("everyone", 6),
		func() error { return proxy.stop() },
		buy(http.StatusServiceUnavailable, "try again later", "3", "blue"),
	)
}
