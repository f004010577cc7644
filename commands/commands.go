// Package commands answers what clients send: it implements resp.Handler.
//
// The command table is the truth. Each command is one row (table.go): its name,
// arity and arguments, and either how to parse it into engine requests and encode
// their results, or how to run it here. COMMAND, the HELP texts and
// docs/commands.md are all drawn from the rows.
//
// A pipeline is walked once. Commands for the engine are parsed into one
// engine.Pipeline and decided by one Engine.Do; the replies are then appended in
// the order of the commands, with those of commands that run here in their places.
//
// Reading order: commands.go (this file), table.go, client.go (the walk), parse.go
// (the grammar of the rate limit commands), slide.go (one of them), then a file for
// each of the others and for each family of session commands.
package commands

import (
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

//go:generate go test -run TestDocs -update .

// RedisVersion is the version of Redis whose answers the session commands give.
// Clients read it in HELLO and INFO to learn what a server can do.
const RedisVersion = "7.0.15"

// Config is what a Handler needs. Engine must be set; all else may be left out.
type Config struct {
	Engine  engine.Engine
	Version string // rlproxy's own, shown in INFO

	// ACL is who may come in; nil: everybody.
	ACL *ACL

	// Passthrough sends commands that are not in the table to the engine, as
	// engine.OpForward. Without it they are unknown commands.
	Passthrough bool

	// Settings answers CONFIG GET: name and value of each directive that matches
	// the glob pattern (see Match). It may be called by several sessions at once.
	Settings func(pattern string) [][2]string

	// Info adds sections to INFO. It may be called by several sessions at once.
	Info func() []Section

	Clients Clients // closes other sessions for CLIENT KILL; nil: only one's own
	Hot     HotKeys // answers RL.HOTKEYS; nil: no keys

	// MaxQueue and MaxQueueBytes bound what one connection may queue between MULTI
	// and EXEC, in commands and in bytes with 24 bytes added for each argument. The
	// memory that all clients can claim is this times maxclients. Zero means
	// 131,072 commands and 32 MiB.
	MaxQueue      int
	MaxQueueBytes int

	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: nothing is logged
}

// Section is one section of INFO.
type Section struct {
	Name   string // as in "# Name"
	Fields [][2]string
}

// Clients closes sessions.
type Clients interface {
	// Kill closes the session with that number, soon, and tells whether there is
	// one. It is called from other sessions' goroutines.
	Kill(id int64) bool
}

// HotKeys knows the busiest keys.
type HotKeys interface {
	// HotKeys returns at most n keys, the busiest first.
	HotKeys(n int) []engine.HotKey
}

// Handler answers the sessions of one server.
type Handler struct {
	cfg     Config
	acl     atomic.Pointer[ACL]
	table   *table
	started time.Time
	run     string // 40 hex digits that no other run has

	// How often somebody was refused: a login, a command, a key.
	noLogin, noCommand, noKey atomic.Int64

	mu      sync.Mutex
	clients map[int64]*client // open sessions; guarded by mu
}

// New returns a handler that answers by cfg.
func New(cfg Config) *Handler {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = 131_072
	}
	if cfg.MaxQueueBytes == 0 {
		cfg.MaxQueueBytes = 32 << 20
	}
	h := &Handler{
		cfg:     cfg,
		table:   newTable(),
		started: cfg.Now(),
		run:     randomID(),
		clients: make(map[int64]*client),
	}
	if cfg.ACL == nil {
		cfg.ACL = everybody
	}
	h.acl.Store(cfg.ACL)
	return h
}

// everybody lets everybody do everything.
var everybody = func() *ACL {
	a, err := NewACL(nil, "")
	if err != nil {
		panic(err)
	}
	return a
}()

// SetACL replaces the rules. Sessions go by the new ones from their next pipeline
// on; one whose user is no longer there, or off, is closed then. A changed password
// counts for logins that follow.
func (h *Handler) SetACL(a *ACL) { h.acl.Store(a) }

// Denied counts what users were refused since the start: logins, commands, keys.
func (h *Handler) Denied() (logins, commands, keys int64) {
	return h.noLogin.Load(), h.noCommand.Load(), h.noKey.Load()
}

// Open begins a session.
func (h *Handler) Open(s *resp.Session) {
	c := &client{h: h, s: s, acl: h.acl.Load()}
	c.user = c.acl.Anonymous()
	c.seen.Store(s.Created.UnixMilli())
	s.Trusted = c.user != nil
	s.Data = c
	c.publish()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients[s.ID] = c
}

// Close ends a session.
func (h *Handler) Close(s *resp.Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clients, s.ID)
}

// Serve answers a pipeline.
func (h *Handler) Serve(s *resp.Session, pipeline []resp.Command) {
	c := s.Data.(*client)
	c.seen.Store(h.cfg.Now().UnixMilli())
	if a := h.acl.Load(); a != c.acl {
		if c.renew(a); s.Closing() {
			return
		}
	}
	for _, args := range pipeline {
		c.accept(args)
		if s.Closing() {
			break
		}
	}
	c.flush()
	c.publish()
}

// pid is this process's number, shown in INFO.
var pid = os.Getpid()
