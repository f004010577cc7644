// Command bench compares rlproxy with other rate limiters on this machine, in one run, and
// writes docs/peers.md. Package peers runs them.
//
// The files, in reading order: main.go, measure.go (what is measured of a peer) and
// page.go (the page).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/rlproxy/rlproxy/tests/peers"
)

func main() {
	only := flag.String("only", "", "a regular `expression`: measure only the peers whose names match, and write no page")
	long := flag.Duration("for", 3*time.Second, "how long each load runs")
	rounds := flag.Int("rounds", 3, "how many rounds of loads there are")
	docs := flag.String("docs", "", "the `folder` to write peers.md into")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *only, *long, *rounds, *docs)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, long time.Duration, rounds int, docs string) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if only != "" && docs != "" {
		return errors.New("the page needs all peers: use -docs without -only")
	}
	began := time.Now()
	var rows []*row
	for _, name := range peers.Names() {
		if wanted.MatchString(name) {
			rows = append(rows, &row{name: name})
		}
	}
	if err := measure(ctx, rows, long, rounds); err != nil {
		return err
	}
	p, err := newPage(ctx, rows, long, rounds)
	if err != nil {
		return err
	}
	fmt.Print(p.tables())
	fmt.Fprintf(os.Stderr, "measured in %.0f s\n", time.Since(began).Seconds())
	if docs == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(docs, "peers.md"), []byte(p.text()), 0o600)
}
