// Package peers runs other rate limiters, as their users would, so that rlproxy can be
// compared with them: libraries in small adapter programs of their own, and servers as
// processes. It is for tests and benchmarks, and the product does not depend on it.
//
// scripts/install-peers.sh builds each from its own package registry into tests/.cache. The
// files, in reading order: peers.go (what can be asked), kinds.go (the table of peers),
// adapter.go (a library behind its program), wire.go (a server that speaks RESP), load.go
// (many clients at once), process.go (processes) and worst.go (what a
// row of answers admitted).
package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Request is one request for a decision.
type Request struct {
	Key    string
	Limit  int64         // the most that may be admitted in a window
	Window time.Duration // in whole milliseconds
	Cost   int64         // what the request takes of the limit; at least 1
}

// Answer is what a peer said.
type Answer struct {
	Allowed    bool
	RetryAfter time.Duration // how long to wait after a denial; -1 ms: the peer does not say
	Fallback   bool          // whether it was decided without the store, which did not answer
	Err        error         // why there is no decision; the other answers may have one
	Sent       time.Time     // before the request was written
	Received   time.Time     // after the answer was read
}

// Peer is a running rate limiter, with one connection for requests.
type Peer struct {
	Name string

	kind    kind
	ctx     context.Context
	redis   string   // host:port of the Redis that it keeps its state on
	address string   // host:port of its server, of a peer that is one
	server  *process // its server; nil if it is a library
	asker   asker
}

// asker answers requests in order.
type asker interface {
	ask(requests []Request) ([]Answer, error)
	close()
}

// Names returns the names that Start knows.
func Names() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

func find(name string) (kind, error) {
	at := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if at < 0 {
		return kind{}, fmt.Errorf("no peer has the name %q: it is one of %q", name, Names())
	}
	return kinds[at], nil
}

// Start runs a peer that keeps its state on the Redis at redisAddr, a host:port. Peers
// with a state of their own ignore it. The context ends it, and so does Stop.
func Start(ctx context.Context, name, redisAddr string) (*Peer, error) {
	k, err := find(name)
	if err != nil {
		return nil, err
	}
	p := &Peer{Name: name, kind: k, ctx: ctx, redis: redisAddr, address: redisAddr}
	if err := p.start(); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

func (p *Peer) start() (err error) {
	if p.kind.server != nil {
		if p.server, p.address, err = startServer(p.ctx, p.kind.server, p.redis); err != nil {
			return err
		}
	}
	return p.connect()
}

func (p *Peer) connect() (err error) {
	if p.kind.dialect != nil {
		p.asker, err = dialWire(p.address, p.kind.dialect)
	} else {
		p.asker, err = startAdapter(p.ctx, p.kind.adapter, p.environment())
	}
	return err
}

// Connect returns another client of the same limiter, to be stopped before it. A server is
// asked at address: its own Address, or that of a network in front of it. A library is another
// process on the same Redis.
func (p *Peer) Connect(address string) (*Peer, error) {
	c := &Peer{Name: p.Name, kind: p.kind, ctx: p.ctx, redis: p.redis, address: address}
	if err := c.connect(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return c, nil
}

// environment is what an adapter learns of its surroundings.
func (p *Peer) environment() []string {
	return []string{"PEER_REDIS=" + p.redis, "PEER_SERVER=" + p.address}
}

// Ask sends requests and returns their answers, in order. The requests are written
// together: ask them one by one where the time of each matters. An error means that
// the peer has ended or answered nonsense.
func (p *Peer) Ask(requests ...Request) ([]Answer, error) {
	for _, q := range requests {
		if q.Cost < 1 || q.Window%time.Millisecond != 0 {
			return nil, errors.New("a request needs a cost of at least 1 and a window of whole milliseconds")
		}
	}
	answers, err := p.asker.ask(requests)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return answers, nil
}

// Describe returns what the page says of the peer with a name, and its version; none
// for what comes with rlproxy.
func Describe(name string) (about About, version string, err error) {
	k, err := find(name)
	if err != nil || k.about.Package == "" {
		return k.about, "", err
	}
	about = k.about
	root, err := Root()
	if err != nil {
		return about, "", err
	}
	text, err := os.ReadFile(filepath.Join(root, "tests/peers", about.Package)) // #nosec G304 -- our own
	_, rest, found := strings.Cut(string(text), about.Before)
	if version = regexp.MustCompile(`^[0-9][0-9A-Za-z.-]*`).FindString(rest); err == nil && (!found || version == "") {
		err = fmt.Errorf("%s has no version of %s", about.Package, name)
	}
	return about, version, err
}

// HasServer reports whether the limiter is a server of its own, and not a library or a script.
func (p *Peer) HasServer() bool { return p.kind.server != nil }

// Address returns the host:port that is asked: the server's, or that of Redis.
func (p *Peer) Address() string { return p.address }

// HasStore reports whether the peer keeps its state on Redis.
func (p *Peer) HasStore() bool { return !p.kind.alone }

// Stop ends what Start started.
func (p *Peer) Stop() {
	if p.asker != nil {
		p.asker.close()
	}
	if p.server != nil {
		p.server.stop()
	}
}
