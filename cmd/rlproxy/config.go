package main

import (
	"io/fs"
	"time"

	"github.com/rlproxy/rlproxy/engine"
)

// config is everything that can be configured. Its fields are documented where
// users look: in the table of directives and in rlproxy.conf.
type config struct {
	bind           []string // addresses; a leading - : no error when it cannot be bound
	port           int
	tlsPort        int // 0: none
	tls            tlsSettings
	unixSocket     string
	unixSocketPerm fs.FileMode
	protectedMode  bool
	requirePass    string
	users          [][]string // a name and its rules each
	aclFile        string     // has them instead

	maxClients     int
	timeout        time.Duration
	tcpKeepalive   time.Duration
	queryBuffer    int64 // bytes, as are the three below
	protoMaxBulk   int64
	outputBuffer   int64
	clientMemory   int64
	logLevel       string
	logFile        string
	shutdownWithin time.Duration

	maxMemory      int64
	backends       []string
	backendTLS     engine.BackendTLS
	backendTimeout time.Duration
	failPolicy     engine.Policy
	failRules      []engine.PolicyRule
	hotKeys        []engine.HotRule
	hotThreshold   int // calls per second

	passthrough        bool
	passthroughAdmin   bool
	passthroughTimeout time.Duration
}

// newConfig is the configuration without a file and without arguments.
func newConfig() *config {
	c := &config{failPolicy: engine.PolicyClosed}
	for i := range directives {
		d := &directives[i]
		if d.preset == "" {
			continue
		}
		words, err := splitWords(d.preset)
		if err != nil || !d.value(c).set(words) {
			panic("rlproxy: the default of " + d.name + " is not allowed")
		}
	}
	return c
}
