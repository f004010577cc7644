// Package commands answers the commands of clients: it implements resp.Handler.
//
// Each command is one row of the command table (table.go). A row has a description, and either functions that parse the
// command into engine requests and encode their results, or a function that runs it in the session. COMMAND, the HELP
// texts and docs/commands.md are generated from the rows.
//
// A pipeline is processed in one pass. Commands for the engine are parsed into one engine.Pipeline and decided,
// normally, by one call of Engine.Do or, for an event loop, of Engine.Start. Forwarded commands go into one
// forward.Pipeline, which the nodes answer at the same time. Then the replies to all commands are appended in order.
//
// Code that needs no session is in packages of its own: ratelimit has the commands for the engine, policies those about
// named policies, hotkeys has RL.HOTKEYS, nodes RL.NODES, info what INFO shows, table describes commands, acl holds
// users, clients holds the list of sessions, slots keeps leases that are tied to connections, waiting lets requests
// wait, config has CONFIG, stats counts commands, reply writes replies, and word parses words.
//
// Reading order: commands.go (this file), table.go, client.go (a pipeline), forward.go (forwarded commands), count.go
// (what is counted of a pipeline), permission.go, then a file for each family of session commands: auth.go, block.go
// (commands that wait), connection.go, transaction.go, subscribe.go, clientcmds.go with its rows in clientrows.go,
// server.go, aclcmds.go.
package commands

import (
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/clients"
	"github.com/rlproxy/rlproxy/commands/config"
	"github.com/rlproxy/rlproxy/commands/info"
	"github.com/rlproxy/rlproxy/commands/policies"
	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/slots"
	"github.com/rlproxy/rlproxy/commands/stats"
	"github.com/rlproxy/rlproxy/commands/waiting"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/policy"
	"github.com/rlproxy/rlproxy/resp"
)

//go:generate go test -run TestDocs|TestConversations -update .

// Version is the version of rlproxy: the newest in CHANGELOG.md, and the tag of a release after its v.
const Version = "0.1.0"

// RedisVersion is the version of Redis that the session commands are compatible with.
// Clients read it in HELLO and INFO to learn about the server's features.
const RedisVersion = "7.0.15"

// Config configures a Handler. Only Engine is required.
type Config struct {
	Engine engine.Engine

	// Keys lists the keys of Engine, for RL.SCAN and RL.RESETMATCH.
	Keys engine.KeyLister

	// Observer sees the decisions of Engine; nil: one that nothing else reads.
	Observer *observe.Observer

	// FleetKeys returns the busiest keys of all proxies together and from how many proxies they
	// are, for RL.HOTKEYS FLEET; nil: those of Observer, from this proxy alone. The caller may
	// keep and change the slice. Several sessions may call it at once.
	FleetKeys func() (keys []observe.HotKey, proxies int)

	// ACL holds the users; nil: every client may do everything without a login.
	ACL *acl.Users

	// Policies are the named policies, for RL.CHECK; nil: there are none.
	Policies *policy.Catalog

	// ChangePolicies changes the stored policies, for RL.POLICY; nil: they cannot be changed. Several
	// sessions may call it at once.
	ChangePolicies policies.Change

	// Forward answers the commands that are not in the table; nil: they are unknown commands.
	Forward Forwarder

	// Settings are the directives, for CONFIG; nil: there are none.
	Settings config.Settings

	// Info returns further sections of INFO. Several sessions may call it at once.
	Info func() []info.Section

	Clients Clients // closes other sessions for CLIENT KILL; nil: a session can close only itself

	Waiting *waiting.Room // lets requests wait (BLOCK); nil: they do not

	Slots *slots.Keeper // keeps leases with CONN; nil: CONN is an error

	// MaxQueue is the most commands that one connection may queue between MULTI and EXEC. Zero means 131,072.
	MaxQueue int
	// MaxQueueBytes is the most bytes of these commands, plus 24 bytes per argument and 96
	// per command. Session.Reserve bounds what all clients queue together. Zero means 32 MiB.
	MaxQueueBytes int

	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: nothing is logged
}

// Clients closes sessions.
type Clients interface {
	// Kill closes the connection of the session with that ID at once, and reports whether it
	// exists. The session ends soon after, on its own goroutine.
	Kill(id int64) bool
}

// Handler answers the sessions of one server.
type Handler struct {
	cfg     Config
	acl     atomic.Pointer[acl.Users]
	table   *registry
	starter engine.Starter // cfg.Engine, if it is one
	stats   *stats.Stats
	started time.Time
	run     string // run_id in INFO: 40 random hex digits

	refusedLogins  atomic.Int64 // refused logins
	deniedCommands atomic.Int64 // commands refused because the user may not run them
	deniedKeys     atomic.Int64 // commands refused because the user may not use their keys

	logins    *episodes.Episode // refused logins
	databases *episodes.Episode // refused databases

	clients clients.List // open sessions
}

// New returns a handler.
func New(cfg Config) *Handler {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Observer == nil {
		cfg.Observer = observe.New(observe.Config{Engine: cfg.Engine})
	}
	if cfg.FleetKeys == nil {
		cfg.FleetKeys = func() ([]observe.HotKey, int) { return cfg.Observer.HotKeys(math.MaxInt), 1 }
	}
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = 131_072
	}
	if cfg.MaxQueueBytes == 0 {
		cfg.MaxQueueBytes = 32 << 20
	}
	if cfg.ChangePolicies == nil {
		cfg.ChangePolicies = func(func(*policy.Set) (*policy.Set, string)) (int64, string) {
			return 0, "ERR policies cannot be changed here"
		}
	}
	if cfg.Policies == nil {
		cfg.Policies = new(policy.Catalog)
	}
	h := &Handler{
		cfg:     cfg,
		table:   newRegistry(&cfg),
		started: cfg.Now(),
		run:     randomID(),

		logins:    episodes.New(cfg.Logger, cfg.Now, loginsRefused),
		databases: episodes.New(cfg.Logger, cfg.Now, databaseRefused),
	}
	h.stats = h.table.stats
	h.starter, _ = cfg.Engine.(engine.Starter)
	if _, ok := h.keys(); !ok {
		h.table.dropEmbedded()
	}
	if cfg.ACL == nil {
		cfg.ACL = everybody
	}
	h.acl.Store(cfg.ACL)
	return h
}

// SetACL replaces the users. Sessions use the new rules from their next pipeline on; a session whose user is gone or
// off is then closed. A changed password applies to later logins.
func (h *Handler) SetACL(a *acl.Users) { h.acl.Store(a) }

// Connected returns the number of open sessions.
func (h *Handler) Connected() int { return h.clients.Len() }

// Denied returns how many logins were refused since the start, and how many commands were
// refused because of the command and because of its keys.
func (h *Handler) Denied() (logins, commands, keys int64) {
	return h.refusedLogins.Load(), h.deniedCommands.Load(), h.deniedKeys.Load()
}

// SetSlowLog configures the slow log: it keeps the newest maxLen commands that took at least
// threshold. A negative threshold turns it off.
func (h *Handler) SetSlowLog(threshold time.Duration, maxLen int) {
	h.stats.Slow.Configure(threshold, maxLen)
}

// Open begins a session.
func (h *Handler) Open(s *resp.Session) {
	c := &client{Writer: reply.To(s), h: h, s: s, acl: h.acl.Load(), slots: h.cfg.Slots.Conn()}
	c.user = c.acl.Anonymous()
	c.finish = s.Finish
	c.public = &clients.Client{ID: s.ID, Remote: s.Remote, Local: s.Local, Created: s.Created,
		Memory: s.Holdings}
	c.public.See(s.Created)
	s.Trusted = c.user != nil
	s.Data = c
	c.publish()
	h.clients.Add(c.public)
}

// Close ends a session.
func (h *Handler) Close(s *resp.Session) {
	h.clients.Remove(s.ID)
	c := s.Data.(*client)
	if c.blocked != nil {
		c.leave()
	}
	c.slots.Release()
}

// Serve implements resp.Handler.
func (h *Handler) Serve(s *resp.Session, pipeline []resp.Command) {
	c := s.Data.(*client)
	c.public.See(h.cfg.Now())
	if a := h.acl.Load(); a != c.acl {
		if c.renew(a); s.Closing() {
			return
		}
	}
	c.workspace = workspaces.Get().(*workspace)
	for i, args := range pipeline {
		c.accept(args)
		if s.Closing() {
			break
		}
		if c.blocks() && c.await() {
			s.Suspend(len(pipeline) - i - 1)
			break
		}
	}
	c.flush()
	if s.Closing() {
		c.slots.Release() // the session may wait for its client before it ends
	}
	c.release()
}

// CanStart implements resp.Starter. A pipeline can be started if the engine answers all of its commands, with small
// replies, and the session is in no special state: a transaction, a subscription, or rules that have changed.
func (h *Handler) CanStart(s *resp.Session, pipeline []resp.Command) bool {
	c := s.Data.(*client)
	if h.starter == nil || c.acl != h.acl.Load() || c.user == nil || c.tx.open || len(c.subs) > 0 {
		return false
	}
	for i, args := range pipeline {
		r := h.table.get(args[0])
		// RL.INSPECT has large replies
		if r == nil || r.parse == nil || r.mergeCount != nil || r.tied != nil || r.Has("readonly") {
			return false
		}
		if i < len(pipeline)-1 && ratelimit.MayBlock(args) {
			return false
		}
	}
	return true
}

// Start implements resp.Starter.
func (h *Handler) Start(s *resp.Session, pipeline []resp.Command) {
	c := s.Data.(*client)
	c.sent = time.Now()
	c.public.See(h.cfg.Now())
	c.workspace = workspaces.Get().(*workspace)
	for _, args := range pipeline {
		c.accept(args)
	}
	if c.blocks() {
		c.came = c.sent
		c.queueUp()
	}
	if len(c.pipe.Requests) == 0 { // all were refused, or wait
		s.Finish()
		return
	}
	h.starter.Start(&c.pipe, c.finish)
}

// Finish implements resp.Starter.
func (h *Handler) Finish(s *resp.Session) {
	c := s.Data.(*client)
	took := time.Duration(0)
	if len(c.pipe.Requests) > 0 {
		took = time.Since(c.sent)
		c.waitIfDenied(took)
		c.observe(c.sent, took)
	}
	c.reply(took)
	c.release()
	if c.blocked != nil {
		s.Suspend(0)
	}
}

// Flush implements resp.Starter.
func (h *Handler) Flush() {
	if h.starter != nil {
		h.starter.Flush()
	}
}
