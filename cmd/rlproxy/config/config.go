// Package config is what can be configured: the directives, how they are read from files and from the
// command line, and how SIGHUP and CONFIG SET change them. It opens nothing but the files that it reads.
//
// Reading order: config.go; directives.go (the table of directives); value.go, lists.go, users.go,
// policies.go and tls.go (how each kind of setting is parsed); read.go and environment.go (where settings come from);
// conflict.go (settings that contradict each other); changes.go (SIGHUP and CONFIG SET).
package config

import (
	"io/fs"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/layout"
	"github.com/rlproxy/rlproxy/engine/replicas"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/policy"
)

// Config is everything that can be configured. Its fields are documented where
// users look: in the table of directives and in rlproxy.conf.
type Config struct {
	Bind           []string // IP addresses; a leading - makes one optional
	Port           int      // 0 picks a free port, or none when TLSPort is set
	TLSPort        int      // 0: none
	TLS            ListenerTLS
	HTTPPort       int    // 0: none
	ReadyNodes     string // a web.Ready
	PageAdmin      bool
	HTTPCheck      bool
	MetricsKeys    bool
	RLSPort        int      // 0: none
	RLSHeaders     []string // three names, or none
	RLSTogether    bool
	UnixSocket     string
	UnixSocketPerm fs.FileMode
	ProtectedMode  bool
	RequirePass    string
	NoPass         bool       // requirepass "" confirms that there is no password
	Users          [][]string // one slice per user: its name, then its rules
	ACLFile        string     // a file of users, used instead of the field Users

	MaxClients     int
	Timeout        time.Duration
	TCPKeepAlive   time.Duration
	QueryBuffer    int64 // bytes
	ProtoMaxBulk   int64 // bytes
	OutputBuffer   int64 // bytes
	ClientMemory   int64 // bytes
	LogLevel       string
	LogFile        string
	DecisionLog    string
	DecisionKeys   string        // plain or hash
	DecisionSample int           // one of every decisionSample decisions is logged; 0: none
	SlowerThan     time.Duration // negative: nothing is in the slow log
	SlowLogLen     int
	ShutdownWithin time.Duration

	PolicyFile string // empty: none

	MaxMemory      int64
	Backends       []string
	BackendTLS     backend.NodeTLS
	Logins         backend.NodeLogins
	BackendTimeout time.Duration
	Replicas       replicas.Need
	FailPolicy     engine.FailPolicy
	FailRules      []engine.FailRule
	Policies       *policy.Builder // named policies and their overrides
	LayoutGuard    layout.Mode
	HotKeys        []split.Rule
	HotThreshold   int // calls per second; 0 splits no key by load
	Advances       bool
	AdvanceTime    time.Duration

	Passthrough        bool
	PassthroughAdmin   bool
	PassthroughTimeout time.Duration
}

// newConfig returns the defaults. memory is that of maxmemory and of maxmemory-clients, in bytes.
func newConfig(memory int64) *Config {
	c := &Config{Policies: new(policy.Builder), FailPolicy: engine.FailClosed, MaxMemory: memory, ClientMemory: memory}
	for i := range directives {
		d := &directives[i]
		if d.preset == "" {
			continue
		}
		words, err := word.SplitLine(d.preset)
		if err != nil || !d.value(c).set(words) {
			panic("rlproxy: invalid default of " + d.Name)
		}
	}
	return c
}

// Load reads the configuration that the arguments and the environment describe: first the files, then the variables
// (see environment.go), and then --directive value ... Each overrides what was read before.
// memory is the default of maxmemory and of maxmemory-clients, in bytes.
func Load(args, environ []string, memory int64) (*Config, error) {
	r := reader{config: newConfig(memory), given: make(map[string]bool)}
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		if err := r.readFile(args[0]); err != nil {
			return nil, err
		}
		args = args[1:]
	}
	if err := r.readEnvironment(environ); err != nil {
		return nil, err
	}
	if err := r.readArgs(args); err != nil {
		return nil, err
	}
	if err := r.config.Conflict(r.given); err != nil {
		return nil, err
	}
	return r.config, nil
}
