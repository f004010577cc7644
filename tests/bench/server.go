package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rlproxy/rlproxy/internal/freeport"
	"github.com/rlproxy/rlproxy/tests/traffic"
)

//go:embed scripts/*.lua
var scripts embed.FS

// lab is the place where it all runs: servers on free ports, files in a folder
// that goes with it.
type lab struct {
	ctx     context.Context
	folder  string
	binary  string // our own copy of rlproxy: a build meanwhile changes nothing
	servers []*server
	node    *server // the redis-server of the cases that need one
	proxy   *server // rlproxy on that node
	memory  *server // rlproxy with the embedded engine
	shas    map[string]string

	cluster   []*server // the masters of a Redis Cluster
	clustered *server   // rlproxy on them

	shards []*server // the redis-servers that a key is split over
	split  *server   // rlproxy on them

	trio   []*server // the redis-servers of which one stands still
	onTrio *server   // rlproxy on them, as it is configured by default

	fleet []*server // further rlproxies on node, which run when they are first asked
}

// errorsShow has rlproxy answer what its node does not in time with an error, which
// ends the run: a FAIL policy's answer must not be measured as a decision. With
// 5,000 connections on few cores a request waits its turn for longer than the
// default timeout.
var errorsShow = []string{"--fail-policy", "error", "--backend-timeout", "5000", "--loglevel", "warning"}

func openLab(ctx context.Context, binary string) (l *lab, err error) {
	l = &lab{ctx: ctx, shas: map[string]string{}}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.folder, err = os.MkdirTemp("", "bench"); err != nil {
		return l, err
	}
	l.binary = filepath.Join(l.folder, "rlproxy")
	if err := copyFile(l.binary, binary); err != nil {
		return l, fmt.Errorf("make build first: %w", err)
	}
	if l.node, err = l.redis(nil); err != nil {
		return l, err
	}
	web, err := freeport.Take()
	if err != nil {
		return l, err
	}
	if l.proxy, err = l.rlproxy("--backend", "redis://"+l.node.address(), "--http-port", strconv.Itoa(web)); err != nil {
		return l, err
	}
	l.proxy.web = web
	if l.memory, err = l.rlproxy("--maxmemory", "8gb"); err != nil {
		return l, err
	}
	return l, errors.Join(l.openCluster(), l.openSplit(), l.openTrio(), l.openFleet())
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

// close stops every server.
func (l *lab) close() {
	for i := len(l.servers) - 1; i >= 0; i-- {
		l.servers[i].stop()
	}
	_ = os.RemoveAll(l.folder) // the system's own cleaning comes after us
}

// redis starts a redis-server that keeps nothing on disk and knows our scripts. A command
// before it runs it.
func (l *lab) redis(under []string, args ...string) (*server, error) {
	own := []string{"redis-server", "--bind", "127.0.0.1", "--dir", l.folder, "--save", "", "--appendonly", "no"}
	s, err := l.start(slices.Concat(under, own, args)...)
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
		if l.shas[strings.TrimSuffix(file.Name(), ".lua")], err = traffic.Ask(s.address(), "SCRIPT", "LOAD", string(source)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (l *lab) rlproxy(args ...string) (*server, error) {
	return l.start(l.rlproxyArgs(args...)...)
}

func (l *lab) rlproxyArgs(args ...string) []string {
	return slices.Concat([]string{l.binary, "--bind", "127.0.0.1"}, errorsShow, args)
}

// server is a process that listens on a port.
type server struct {
	port  int
	web   int // http-port; 0: none
	argv  []string
	cmd   *exec.Cmd
	out   bytes.Buffer
	ended chan struct{} // closed when the process has ended
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// start runs a server on a free port.
func (l *lab) start(argv ...string) (*server, error) {
	s, err := l.add(argv...)
	if err != nil {
		return nil, err
	}
	return s, s.launch(l.ctx)
}

// add finds a free port for a server that does not run yet.
func (l *lab) add(argv ...string) (*server, error) {
	port, err := freeport.Take()
	if err != nil {
		return nil, err
	}
	s := &server{port: port, argv: append(argv, "--port", strconv.Itoa(port))}
	l.servers = append(l.servers, s)
	return s, nil
}

// launch runs the process and waits until it answers.
func (s *server) launch(ctx context.Context) error {
	s.out.Reset()
	cmd, ended := exec.Command(s.argv[0], s.argv[1:]...), make(chan struct{}) // #nosec G204 -- our own
	cmd.Stdout, cmd.Stderr = &s.out, &s.out
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.ended = cmd, ended
	go func() { // ends with the process, which stop ends
		_ = cmd.Wait() // how it ended shows in its output
		close(ended)
	}()
	for range 2000 {
		if _, err := traffic.Ask(s.address(), "PING"); err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("%s ended: %s", s.argv[0], s.out.String())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not answer", s.argv[0])
}

// signal sends a signal to the process, if it has not ended.
func (s *server) signal(sig os.Signal) {
	_ = s.cmd.Process.Signal(sig) // its answers show what became of it
}

// stop ends the process: politely at first, at once after 5 s.
func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	s.signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(5 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}
