package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/rlproxy/rlproxy/engine/decisionlog"
	"github.com/rlproxy/rlproxy/engine/layout"
	"github.com/rlproxy/rlproxy/internal/machine"
	"github.com/rlproxy/rlproxy/policy"
	"github.com/rlproxy/rlproxy/policy/store"
)

// runCheck checks the configuration that the arguments describe. It writes nothing to nodes.
func runCheck(args []string, stdout io.Writer) error {
	c, err := load(args)
	if err != nil {
		return err
	}
	if err := errors.Join(machine.CheckFolder("unixsocket", c.unixSocket), machine.CheckFolder("logfile", c.logFile)); err != nil {
		return err
	}
	if _, err := prepare(c); err != nil {
		return err
	}
	if err := decisionlog.CheckFile(c.decisionLog); err != nil {
		return err
	}
	if len(c.backends) == 0 {
		s, err := store.Open(nil, c.policyFile, new(policy.Book), slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		s.Close()
	}
	// Opening the engines finds errors across settings, such as a backend that is listed twice.
	c.layoutGuard = layout.Off
	eng, err := openEngines(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := eng.close(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "configuration is valid")
	return err
}

// conflict returns an error if settings that are each allowed contradict each other. given
// has the names of the directives that the configuration sets, in lower case.
func (c *config) conflict(given map[string]bool) error {
	switch {
	case len(c.bind) == 0 && c.unixSocket == "":
		return errNoAddress
	case c.tlsPort != 0 && c.tlsPort == c.port:
		return fmt.Errorf("port and tls-port must differ; both are %d", c.port)
	case c.httpPort != 0 && c.httpPort == c.port:
		return fmt.Errorf("http-port and port must differ; both are %d", c.httpPort)
	case c.httpPort != 0 && c.httpPort == c.tlsPort:
		return fmt.Errorf("http-port and tls-port must differ; both are %d", c.httpPort)
	case c.httpPort != 0 && len(c.bind) == 0:
		return errors.New("http-port needs an address to listen on: bind must name one")
	case c.decisionLog != "" && c.decisionLog == c.logFile:
		return fmt.Errorf("logfile and decision-log must differ; both are %s", c.logFile)
	case c.policyFile != "" && len(c.backends) > 0:
		return errors.New("policy-file cannot be combined with backend: with backends, policies are stored on a node")
	case c.protoMaxBulk > c.queryBuffer:
		return below("client-query-buffer-limit", c.queryBuffer, "proto-max-bulk-len", c.protoMaxBulk)
	case !given["maxmemory-clients"]:
		// It is derived from the machine's memory. A client that needs more than it allows is
		// refused then.
	case given["client-query-buffer-limit"] && c.queryBuffer > c.clientMemory:
		return below("maxmemory-clients", c.clientMemory, "client-query-buffer-limit", c.queryBuffer)
	case given["client-output-buffer-limit"] && c.outputBuffer > c.clientMemory:
		return below("maxmemory-clients", c.clientMemory, "client-output-buffer-limit", c.outputBuffer)
	}
	return nil
}

// below returns the error about a limit that is lower than another one that it must hold.
func below(name string, limit int64, inner string, least int64) error {
	return fmt.Errorf("%s %d must be at least %s, which is %d", name, limit, inner, least)
}
