// Command clients runs real Redis clients against bin/rlproxy and writes the
// results to docs/clients.md. `make test-clients` installs the clients and runs
// this command from the repository's root.
//
// Every client has a folder with a small program of its own. The environment tells
// the program what to do:
//
//	RL_HOST, RL_PORT          where rlproxy listens
//	RL_PROTO                  the protocol to speak, 2 or 3
//	RL_DEFAULT                set if the client speaks that protocol by default
//	RL_USERNAME, RL_PASSWORD  the login; unset if rlproxy requires none
//
// It prints `version <v>`, then `ok <check>` or `FAIL <check> <why>` for each
// check. To have rlproxy restarted on the same port, it prints `RESTART` and waits
// for `OK` on its standard input. Programs set generous timeouts and windows of an hour,
// so that the result does not depend on the speed of the machine.
//
// It also runs the recipes of docs/gateways.md, and other projects' test suites, which are listed in suites.go.
//
// Reading order: main.go, table.go, run.go, server.go, matrix.go, settings.go, migrants.go, examples.go, middlewares.go,
// program.go, holds.go, workers.go, gateways.go, suites.go, suite.go, verdict.go.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"sync"
)

func main() {
	only := flag.String("only", "", "run only the clients, settings, migrations, examples, gateways and suites whose name matches; write no matrix")
	jobs := flag.Int("j", runtime.NumCPU(), "how many programs run at a time")
	flag.Parse()
	if err := run(*only, *jobs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(only string, jobs int) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	var trials []*trial
	for _, c := range clients {
		if pattern.MatchString(c.name) {
			trials = append(trials, c.trials()...)
		}
	}
	var shown []*demonstration
	for _, e := range examples {
		if pattern.MatchString("example-" + e.language) {
			shown = append(shown, &demonstration{example: e})
		}
	}

	tried, err := auditions(pattern.MatchString)
	if err != nil {
		return err
	}

	var crossed []*crossing
	for _, g := range gateways {
		if pattern.MatchString("gateway-" + g.name) {
			crossed = append(crossed, &crossing{gateway: g})
		}
	}

	var tuned []*tryout
	for _, s := range settings {
		if pattern.MatchString("settings-" + s.name) {
			tuned = append(tuned, &tryout{setting: s})
		}
	}

	var moved []*migration
	for _, m := range migrants {
		if pattern.MatchString("migrating-" + m.name) {
			moved = append(moved, &migration{migrant: m})
		}
	}

	each(jobs, trials, (*trial).run)
	each(jobs, moved, (*migration).run)
	each(jobs, tuned, (*tryout).run)
	each(jobs, shown, (*demonstration).run)
	each(jobs, crossed, (*crossing).run)
	each(jobs, tried, (*audition).run)
	if only == "" {
		if err := writeMatrix("docs/clients.md", trials, shown, crossed, tried); err != nil {
			return err
		}
	}

	checks, failures := 0, 0
	for _, t := range trials {
		checks += len(t.results)
		failures += len(t.failures())
	}
	for _, t := range tuned {
		checks++
		if t.err != nil {
			failures++
		}
	}
	for _, m := range moved {
		checks++
		if m.err != nil {
			failures++
		}
	}
	for _, d := range shown {
		checks++
		if d.err != nil {
			failures++
		}
	}
	for _, c := range crossed {
		checks++
		if c.err != nil {
			failures++
		}
	}
	for _, a := range tried {
		checks++
		if len(a.problems()) > 0 {
			failures++
		}
	}
	fmt.Printf("%d runs of clients, %d settings, %d migrations, %d examples, %d gateways, %d suites, %d checks, %d failed\n",
		len(trials), len(tuned), len(moved), len(shown), len(crossed), len(tried), checks, failures)
	if failures > 0 || checks == 0 {
		return fmt.Errorf("%d of %d checks failed", failures, checks)
	}
	return nil
}

// each calls do on every item, on jobs of them at a time, and returns when all are done.
func each[T any](jobs int, items []T, do func(T)) {
	slots := make(chan struct{}, jobs)
	var running sync.WaitGroup
	for _, item := range items {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			do(item)
		})
	}
	running.Wait()
}
