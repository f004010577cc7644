package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// paced is how an example is tried that waits for its turns.
type paced struct {
	line    string   // of a job, with %s for the address of an API and %d for its number
	env     []string // with %s as above
	command string   // that waits
	rate    int      // jobs a second
	burst   int      // jobs at once
}

// pacesItself returns a trial: two of the example's programs share jobs, each of which calls an API. Every job is done
// once, no faster than the limit, and asked for once: with BLOCK, nothing asks in a loop.
func pacesItself(by paced) func(e example) error {
	return func(e example) (err error) {
		const programs, jobs = 2, 12
		var mu sync.Mutex
		calls := make(map[string]int) // by path; guarded by mu
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			calls[r.URL.Path]++
		}))
		defer api.Close()
		proxy, err := startProxy()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, proxy.stop()) }()
		var all []*program
		began := time.Now()
		for i := range programs {
			var env []string
			for _, e := range by.env {
				env = append(env, strings.ReplaceAll(e, "%s", api.URL))
			}
			p, err := e.launch(proxy, env...)
			if err != nil {
				return err
			}
			defer p.kill()
			all = append(all, p)
			for j := i; j < jobs; j += programs {
				line := strings.ReplaceAll(by.line, "%s", api.URL)
				if _, err := fmt.Fprintf(p.stdin, line+"\n", j); err != nil {
					return err
				}
			}
			if err := p.stdin.Close(); err != nil {
				return err
			}
		}
		logs := ""
		for _, p := range all {
			select {
			case <-p.exited:
			case <-time.After(programTime):
				return fmt.Errorf("a program has not ended in %s\n%s", programTime, p.log.String())
			}
			logs += p.log.String()
		}
		took := time.Since(began)
		mu.Lock()
		defer mu.Unlock()
		for j := range jobs {
			if n := calls[fmt.Sprint("/", j)]; n != 1 {
				return fmt.Errorf("job %d called the API %d times\n%s", j, n, logs)
			}
		}
		if least := time.Duration(jobs-by.burst) * time.Second / time.Duration(by.rate); took < least {
			return fmt.Errorf("%d jobs took %s, less than %s", jobs, took, least)
		}
		stats, err := exec.Command("redis-cli", "-p", strconv.Itoa(proxy.port), "INFO", "commandstats").Output()
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("cmdstat_%s:calls=%d,", strings.ToLower(by.command), jobs); !strings.Contains(string(stats), want) {
			return fmt.Errorf("not %s in\n%s", want, stats)
		}
		return nil
	}
}
