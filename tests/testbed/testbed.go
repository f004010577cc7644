// Package testbed starts the servers of benchmarks: redis-servers that have the scripts with which rlproxy is compared,
// and rlproxies. They listen on free ports, and keep their files in a temporary folder.
package testbed

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlproxy/rlproxy/internal/freeport"
	"github.com/rlproxy/rlproxy/tests/traffic"
)

//go:embed scripts/*.lua
var scripts embed.FS

// Testbed is a set of servers.
type Testbed struct {
	Binary string // a copy of rlproxy, so that a build during the run changes nothing

	ctx     context.Context
	folder  string
	servers []*Server
	digests map[string]string // of the scripts, by name without .lua
}

// withErrors is the options that make rlproxy answer with an error if a node does not answer in time, which ends the run: the answer of a
// FAIL policy must not be measured as a decision. With 5,000 connections on few cores a request
// waits for longer than the default timeout.
var withErrors = []string{"--fail-policy", "error", "--backend-timeout", "5000", "--loglevel", "warning"}

// Open returns a testbed without servers. binary is the rlproxy to run; it may be empty if none is run. The servers
// are only started while ctx lasts.
func Open(ctx context.Context, binary string) (*Testbed, error) {
	folder, err := os.MkdirTemp("", "testbed")
	if err != nil {
		return nil, err
	}
	t := &Testbed{ctx: ctx, folder: folder, digests: map[string]string{}}
	if binary != "" {
		t.Binary = filepath.Join(folder, "rlproxy")
		if err := copyFile(t.Binary, binary); err != nil {
			t.Close()
			return nil, fmt.Errorf("make build first: %w", err)
		}
	}
	return t, nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from) // #nosec G304 -- the binary that was named
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()                                     // it was only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700) // #nosec G302 G304 -- a program in our own folder
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Close stops all servers and removes their files.
func (t *Testbed) Close() {
	for _, s := range slices.Backward(t.servers) {
		s.Stop()
	}
	_ = os.RemoveAll(t.folder) // the system cleans up temporary folders, too
}

// Redis starts a redis-server that stores nothing on disk and has the scripts. under is a command that runs it, such as
// valgrind; it may be empty.
func (t *Testbed) Redis(under []string, args ...string) (*Server, error) {
	own := []string{"redis-server", "--bind", "127.0.0.1", "--dir", t.folder, "--save", "", "--appendonly", "no"}
	s, err := t.Start(slices.Concat(under, own, args)...)
	if err != nil {
		return nil, err
	}
	files, err := scripts.ReadDir("scripts")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		source, err := scripts.ReadFile("scripts/" + file.Name())
		if err != nil {
			return nil, err
		}
		if t.digests[strings.TrimSuffix(file.Name(), ".lua")], err = traffic.Ask(s.Address(), "SCRIPT", "LOAD", string(source)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Eval returns the command that runs a script on a key. The script is named without .lua.
func (t *Testbed) Eval(script, key string, args ...string) []string {
	return append([]string{"EVALSHA", t.digests[script], "1", key}, args...)
}

// RLProxy starts an rlproxy that answers with errors while a node does not answer.
func (t *Testbed) RLProxy(args ...string) (*Server, error) {
	s, err := t.AddRLProxy(args...)
	if err != nil {
		return nil, err
	}
	return s, s.Launch(t.ctx)
}

// AddRLProxy returns an rlproxy as RLProxy does, but does not launch it.
func (t *Testbed) AddRLProxy(args ...string) (*Server, error) {
	return t.add(slices.Concat([]string{t.Binary, "--bind", "127.0.0.1"}, withErrors, args)...)
}

// Start starts a server, which gets the option --port, and waits until it answers.
func (t *Testbed) Start(argv ...string) (*Server, error) {
	s, err := t.add(argv...)
	if err != nil {
		return nil, err
	}
	return s, s.Launch(t.ctx)
}

// add returns a server that does not run yet, on a free port.
func (t *Testbed) add(argv ...string) (*Server, error) {
	port, err := freeport.Take()
	if err != nil {
		return nil, err
	}
	s := &Server{Port: port, argv: append(argv, "--port", strconv.Itoa(port))}
	t.servers = append(t.servers, s)
	return s, nil
}
