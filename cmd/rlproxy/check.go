package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
	"github.com/rlproxy/rlproxy/engine/layout"
	"github.com/rlproxy/rlproxy/internal/machine"
	"github.com/rlproxy/rlproxy/policy"
	"github.com/rlproxy/rlproxy/policy/store"
)

// runCheck checks the configuration that load reads. It writes nothing to nodes.
func runCheck(load func() (*config.Config, error), stdout io.Writer) error {
	c, err := load()
	if err != nil {
		return err
	}
	if err := errors.Join(machine.CheckFolder("unixsocket", c.UnixSocket), checkSocket(c.UnixSocket),
		machine.CheckAppend("logfile", c.LogFile)); err != nil {
		return err
	}
	if _, err := prepare(c); err != nil {
		return err
	}
	if err := machine.CheckAppend("decision-log", c.DecisionLog); err != nil {
		return err
	}
	if len(c.Backends) == 0 {
		s, err := store.Open(nil, c.PolicyFile, new(policy.Catalog), slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		s.Close()
	}
	// Opening the engines finds errors across settings, such as a backend that is listed twice.
	c.LayoutGuard = layout.Off
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
