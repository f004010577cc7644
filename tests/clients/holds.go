package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
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

// reservesTokens tries a gateway: answers, one that is denied, one that a client leaves, a proxy that does not
// answer for a while, and a gateway that is killed. Each time it looks at what is charged and held in the end.
func reservesTokens(e example) error {
	proxy, err := startProxy()
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
			err := until("it is asked again", func() bool { return strings.Contains(p.log.String(), "asking again: RL.RESERVE") })
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

// moment is a line of a worker: a job that began or ended at a time in ns.
type moment struct {
	what, job string
	at        int64
}

// moments returns what workers have written.
func moments(workers ...*program) (all []moment) {
	for _, w := range workers {
		for line := range strings.Lines(w.log.String()) {
			if words := strings.Fields(line); len(words) == 3 {
				if at, err := strconv.ParseInt(words[2], 10, 64); err == nil {
					all = append(all, moment{words[0], words[1], at})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return all
}

// running returns the jobs that have begun and not ended.
func running(all []moment) map[string]bool {
	jobs := make(map[string]bool)
	for _, m := range all {
		if m.what == "begin" {
			jobs[m.job] = true
		} else {
			delete(jobs, m.job)
		}
	}
	return jobs
}

// sharesSlots tries workers, of which some are killed while they have all the slots: never more jobs run at a
// time than there are slots, the others get those of the killed, and none is left over.
func sharesSlots(e example) error {
	const slots, workers, jobs = 2, 5, 4
	proxy, err := startProxy()
	if err != nil {
		return err
	}
	defer func() { _ = proxy.stop() }()
	var all []*program
	logs := func() (text string) {
		for _, w := range all {
			text += w.log.String()
		}
		return text
	}
	for i := range workers {
		w, err := e.launch(proxy, fmt.Sprint("SLOTS=", slots), "TTL=600")
		if err != nil {
			return err
		}
		defer w.kill()
		all = append(all, w)
		for j := range jobs {
			if _, err := fmt.Fprintf(w.stdin, "%d-%d\n", i, j); err != nil {
				return err
			}
		}
	}
	killed, at, err := killBusy(all, slots)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, logs())
	}
	want := workers * jobs
	for i, w := range all {
		if killed[i] {
			want -= jobs
			for _, m := range moments(w) {
				if m.what == "end" {
					want++
				}
			}
		} else if err := w.stdin.Close(); err != nil {
			return err
		}
	}
	for _, w := range all {
		select {
		case <-w.exited:
		case <-time.After(programTime):
			return fmt.Errorf("a worker has not ended in %s\n%s", programTime, logs())
		}
	}

	history := moments(all...)
	for job := range running(history) { // these ended with their workers
		history = append(history, moment{"killed", job, at})
	}
	slices.SortStableFunc(history, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	done := 0
	for i, m := range history {
		if m.what == "end" {
			done++
		}
		if now := running(history[:i+1]); len(now) > slots {
			return fmt.Errorf("%d jobs at a time: %v\n%s", len(now), now, logs())
		}
	}
	if done != want {
		return fmt.Errorf("%d jobs of %d are done\n%s", done, want, logs())
	}
	return counts(proxy, "jobs:thumbnails", "RL.ACQUIRE", 0, 0)
}

// killBusy kills workers that have all the slots, and returns which ones, and when in ns.
func killBusy(all []*program, slots int) (killed map[int]bool, at int64, err error) {
	err = until("all slots are taken", func() bool {
		before := running(moments(all...))
		if len(before) < slots {
			return false
		}
		killed = make(map[int]bool)
		for job := range before {
			i := int(job[0] - '0')
			killed[i] = true
			_ = syscall.Kill(-all[i].cmd.Process.Pid, syscall.SIGSTOP)
		}
		at = time.Now().UnixNano()
		if maps.Equal(before, running(moments(all...))) {
			return true
		}
		for i := range killed { // one has ended its job meanwhile
			_ = syscall.Kill(-all[i].cmd.Process.Pid, syscall.SIGCONT)
		}
		return false
	})
	for i := range killed {
		all[i].kill()
	}
	return killed, at, err
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
