// Command rlproxy is a rate-limiting daemon that any Redis client can talk to.
//
//	rlproxy [file.conf ...] [--directive value ...]
//	rlproxy ping [file.conf ...] [--directive value ...]
//	rlproxy import file.yaml ...
//	rlproxy why KEY decisions.log ...
//
// This package wires the engine to the commands and the commands to the server, and keeps the one
// order of starting and stopping. Package config, beside it, is what can be configured.
//
// Reading order: run.go; serve.go (start and stop); log.go, memory.go, engines.go, users.go,
// listen.go, tls.go, http.go and rls.go (what serve starts); reload.go (SIGHUP and CONFIG SET); check.go (--check);
// ping.go; info.go (INFO).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rlproxy/rlproxy/engine/decisionlog/why"
	"github.com/rlproxy/rlproxy/policy/envoy"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "import" {
		os.Exit(envoy.Run(os.Args[2:], open, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "why" {
		os.Exit(why.Run(os.Args[2:], time.Now(), open, os.Stdout, os.Stderr))
	}
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() { // ends with the first signal, or with the process
		<-signals
		signal.Stop(signals) // before anything shows that the drain has begun: a second signal ends the process at once
		cancel()
	}()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rlproxy: "+err.Error())
		os.Exit(1)
	}
}

// fetchWithin is how long a server may take for all that a URL names.
const fetchWithin = 30 * time.Second

// open opens a file that is only read. The name - is the standard input, and a URL is fetched by HTTP.
func open(name string) (io.ReadCloser, error) {
	switch {
	case name == "-":
		return os.Stdin, nil
	case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
		return fetch(name, fetchWithin)
	}
	return os.Open(name) // #nosec G304 -- the user names it
}

// fetch requests what a URL names. Reading it fails, too, when the time is over. Errors have no password of the URL.
func fetch(address string, within time.Duration) (io.ReadCloser, error) {
	client := http.Client{Timeout: within}
	answer, err := client.Get(address)
	switch {
	case os.IsTimeout(err):
		return nil, fmt.Errorf("no answer within %v: %w", within, err)
	case err != nil:
		return nil, err
	case answer.StatusCode != http.StatusOK:
		return nil, errors.Join(errors.New(answer.Status), answer.Body.Close())
	}
	return answer.Body, nil
}
