// Package store keeps the policies that were set by commands in the same place as the counts: on a node, for all
// proxies of the same nodes, or in this process and its policy-file.
//
// The policies are stored as one record (record.go). It has a storage: the node to which its stored key belongs
// (nodes.go), or a file (file.go). A change replaces the whole record, and only if it is still the one that was read
// (package registry, change.go).
//
// With nodes, each proxy checks every 500 ms whether the record's first line is still the one that it has loaded. If
// the record is newer, the proxy loads it and puts it into effect. If it is missing or older, because the node lost it,
// the proxy stores the policies in effect again. If the list of nodes has changed since the record was stored, the
// record may belong to another node now. So a proxy also looks at the other nodes, but less often.
//
// A record that is unreadable or malformed is ignored: the policies in effect stay, and the record is not overwritten.
//
// Reading order: record.go, store.go (this file), change.go, then nodes.go, file.go and report.go.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/registry"
	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/internal/machine"
	"github.com/rlproxy/rlproxy/policy"
)

const (
	// syncEvery is the pause between two syncs.
	syncEvery = 500 * time.Millisecond
	// elsewhereEvery is the number of syncs after which a proxy asks all other nodes again.
	elsewhereEvery = 20
	// renewEvery is how often a proxy renews the record's time to live.
	renewEvery = time.Hour
)

// storage is where a record can be stored.
type storage interface {
	// line returns the first line of what is stored; "" if nothing is stored.
	line(ctx context.Context) (string, error)
	// load returns what is stored, at most its first maxRecord+1 bytes.
	load(ctx context.Context) ([]byte, error)
	// replace stores a record if the first line of what is stored is still was, and reports whether it did. If the
	// error is a maybeApplied, the record may have been stored.
	replace(ctx context.Context, was string, whole []byte) (bool, error)
	// name returns the node's address, or the file's path.
	name() string
}

// maybeApplied is an error after which the record may have been stored all the same.
type maybeApplied struct{ error }

func (u maybeApplied) Unwrap() error { return u.error }

// Store keeps the stored policies of a Catalog and the record equal. It is safe for concurrent use.
type Store struct {
	fleet *backend.Fleet // the nodes; nil: the record is in own
	own   storage        // the storage of the record without a fleet
	book  *policy.Catalog
	log   *slog.Logger
	now   func() time.Time

	mu      sync.Mutex        // held during a sync or a change
	known   string            // the first line of the record in effect; guarded by mu
	top     *backend.Topology // the nodes at the latest sync; guarded by mu
	unheard []*backend.Node   // nodes of top that have not answered yet, without the record's; guarded by mu
	syncs   int               // syncs since top was set; guarded by mu
	renewed time.Time         // when the record's time to live was last renewed; guarded by mu

	report  outcome
	trouble *episodes.Episodes
	loop    *registry.Loop
}

// Open returns a store that keeps the policies of book on the nodes of fleet. It must be closed before the fleet. Open
// syncs once, but does not wait for nodes that do not answer.
//
// If fleet is nil, the store keeps the policies in the file at path, or only in memory if path is empty. Open then
// returns an error if the file exists and is not a record.
func Open(fleet *backend.Fleet, path string, book *policy.Catalog, log *slog.Logger) (*Store, error) {
	s := newStore(fleet, path, book, log)
	loop, ctx := registry.NewLoop()
	s.loop = loop
	if fleet != nil {
		s.await(homeOf(fleet.Topology()), "")
		s.round(ctx)
		loop.Go(ctx, func() time.Duration { return syncEvery }, s.round)
		return s, nil
	}
	if err := machine.CheckFolder("policy-file", path); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, _, err := s.sync(ctx); err != nil {
		return nil, fmt.Errorf("policy-file %s: %w", path, err)
	}
	return s, nil
}

func newStore(fleet *backend.Fleet, path string, book *policy.Catalog, log *slog.Logger) *Store {
	s := &Store{fleet: fleet, own: file(path), book: book, log: log, now: time.Now}
	if path == "" {
		s.own = new(inProcess)
	}
	s.trouble = episodes.NewEpisodes(log, func() time.Time { return s.now() })
	return s
}

// Close stops syncing. There is nothing left to store.
func (s *Store) Close() {
	s.loop.Close()
}

// round syncs with the record on its node, and renews its time to live if that is due.
func (s *Store) round(ctx context.Context) {
	backend.Guard(s.log, "reading the stored policies", func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		home, line, err := s.sync(ctx)
		if n, ok := home.(node); ok && line != "" && s.now().Sub(s.renewed) >= renewEvery {
			if err = n.renew(ctx, line); err == nil {
				s.renewed = s.now()
			}
		}
		if ctx.Err() == nil {
			s.record(home, err)
		}
	})
}

// sync puts the record into effect if it is newer than the policies in effect, and replaces it with them if it is older
// or missing. It returns the record's storage and its current first line. The caller holds mu.
func (s *Store) sync(ctx context.Context) (home storage, line string, err error) {
	home = s.own
	if s.fleet != nil {
		top := s.fleet.Topology()
		home = homeOf(top)
		s.readElsewhere(ctx, top)
	}
	line, version, err := s.adopt(ctx, home, true)
	if err != nil {
		return home, "", err
	}
	set, current := s.book.Stored()
	if version >= current {
		return home, line, nil
	}
	own, whole := record{current, set.Text()}.encode()
	if done, err := home.replace(ctx, line, whole); err != nil || !done {
		return home, "", cmp.Or(err, errChanging)
	}
	s.known = own
	s.trouble.Note(restored, where(home), "", "version", current, "found", version)
	return home, own, nil
}

// adopt puts the record at p into effect if it is newer than the policies in effect, or if it has the same version but
// differs and home is true, which means that p is where the record belongs. It returns the first line stored at p and
// its version, or "" and 0 if nothing is stored.
func (s *Store) adopt(ctx context.Context, p storage, home bool) (line string, version int64, err error) {
	_, current := s.book.Stored()
	line, err = p.line(ctx)
	switch {
	case err != nil:
		return "", 0, err
	case line == "":
		if home && s.book.WhyUnknown() != nil {
			s.book.Store(new(policy.Set), 0)
		}
		return "", 0, nil
	case line == s.known:
		return line, current, nil
	}
	if version, _, err = parseLine(line); err != nil || version < current || version == current && !home {
		return line, version, err
	}
	stored, err := p.load(ctx)
	if err != nil {
		return "", 0, err
	}
	r, line, err := decode(stored)
	if err != nil {
		return "", 0, err
	}
	if r.version < current {
		return "", 0, errChanging
	}
	set, err := policy.Parse(r.text)
	if err != nil {
		return "", 0, damaged("after its first line, %w", err)
	}
	s.book.Store(set, r.version)
	s.known = line
	s.log.Info("loaded the stored policies", "from", p.name(), "version", r.version, "policies", len(set.All()),
		"overrides", set.Overrides())
	return line, r.version, nil
}

// errChanging is the error of a sync during which the record was replaced.
var errChanging = errors.New("the stored policies are being changed")

// readElsewhere looks for a record on the other nodes, where it may have been stored with an earlier list of nodes. It
// asks each of them at each sync until the node has answered once, and then at every elsewhereEvery-th sync.
func (s *Store) readElsewhere(ctx context.Context, top *backend.Topology) {
	if top.Clustered() {
		return // the cluster itself places the record
	}
	home := homeOf(top).Node
	others := slices.DeleteFunc(slices.Clone(top.Nodes), func(n *backend.Node) bool { return n == home })
	if top != s.top {
		s.top, s.unheard, s.syncs = top, slices.Clone(others), 0
	}
	asked := s.unheard
	if s.syncs++; s.syncs%elsewhereEvery == 0 {
		asked = others
	}
	lines, errs := make([]string, len(asked)), make([]error, len(asked))
	for i := range errs {
		errs[i] = backend.ErrPanicked
	}
	registry.Each(s.log, "looking for stored policies on", asked, func(i int, n *backend.Node) {
		lines[i], errs[i] = nodePlace(n).line(ctx)
	})
	for i, n := range asked {
		if errs[i] == nil && lines[i] != "" {
			_, _, errs[i] = s.adopt(ctx, nodePlace(n), false)
		}
		if errors.As(errs[i], new(damage)) {
			s.trouble.Note(misplaced, []any{"node", n.Name()}, n.Name(), "why", errs[i])
			errs[i] = nil
		}
	}
	s.unheard = slices.DeleteFunc(s.unheard, func(n *backend.Node) bool {
		i := slices.Index(asked, n)
		return i >= 0 && errs[i] == nil
	})
}
