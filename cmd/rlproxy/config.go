package main

import (
	"io/fs"
	"time"

	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/layout"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/policy"
)

// config is everything that can be configured. Its fields are documented where
// users look: in the table of directives and in rlproxy.conf.
type config struct {
	bind           []string // IP addresses; a leading - makes one optional
	port           int      // 0 picks a free port, or none when tlsPort is set
	tlsPort        int      // 0: none
	tls            tlsSettings
	httpPort       int // 0: none
	readyNodes     string
	pageAdmin      bool
	metricsKeys    bool
	unixSocket     string
	unixSocketPerm fs.FileMode
	protectedMode  bool
	requirePass    string
	noPass         bool       // requirepass "" confirms that there is no password
	users          [][]string // one slice per user: its name, then its rules
	aclFile        string     // a file of users, used instead of the field users

	maxClients     int
	timeout        time.Duration
	tcpKeepalive   time.Duration
	queryBuffer    int64 // bytes
	protoMaxBulk   int64 // bytes
	outputBuffer   int64 // bytes
	clientMemory   int64 // bytes
	logLevel       string
	logFile        string
	decisionLog    string
	decisionKeys   string        // plain or hash
	decisionSample int           // one of every decisionSample decisions is logged; 0: none
	slowerThan     time.Duration // negative: nothing is in the slow log
	slowLogLen     int
	shutdownWithin time.Duration

	policyFile string // empty: none

	maxMemory      int64
	backends       []string
	backendTLS     backend.TLS
	backendTimeout time.Duration
	failPolicy     engine.FailPolicy
	failRules      []engine.FailRule
	policies       *policy.Builder // named policies and their overrides
	layoutGuard    layout.Mode
	hotKeys        []split.Rule
	hotThreshold   int // calls per second; 0 splits no key by load

	passthrough        bool
	passthroughAdmin   bool
	passthroughTimeout time.Duration
}

// newConfig returns the defaults.
func newConfig() *config {
	share := available().share()
	c := &config{policies: new(policy.Builder), failPolicy: engine.FailClosed, maxMemory: share, clientMemory: share}
	for i := range directives {
		d := &directives[i]
		if d.preset == "" {
			continue
		}
		words, err := word.SplitLine(d.preset)
		if err != nil || !d.value(c).set(words) {
			panic("rlproxy: invalid default of " + d.name)
		}
	}
	return c
}
