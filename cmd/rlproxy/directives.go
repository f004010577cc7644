package main

import (
	"slices"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/internal/glob"
	"github.com/rlproxy/rlproxy/policy"
)

// directive is one row of the table behind the parser, --help, --check, CONFIG GET
// and configuration errors. rlproxy.conf explains each setting and when to change
// it; a test checks that the file names every row with its preset.
type directive struct {
	name   string
	doc    string                // one line, for --help
	preset string                // the default, as written in a configuration file; "": unset
	hint   string                // shown by --help instead of a preset when there is none
	live   bool                  // SIGHUP applies a new setting; the others need a restart
	bySet  bool                  // CONFIG SET also changes it; only of those that are live
	secret bool                  // may hold a password, so CONFIG GET and errors do not show it
	value  func(c *config) value // the field of c that holds the setting; nil for include
}

// maxSeconds bounds settings in seconds to 68 years, as in Redis.
const maxSeconds = 1<<31 - 1

// maxKeepAlive is the most seconds of silence before a probe that Linux accepts: 9 hours.
const maxKeepAlive = 32767

var directives = []directive{
	{name: "include", hint: "<file>", doc: "read another file here"}, // handled by reader

	{name: "bind", preset: "127.0.0.1 -::1", doc: "addresses to listen on",
		value: func(c *config) value { return addresses{&c.bind} }},
	{name: "port", preset: "6380", doc: "TCP port; 0 picks a free one and logs it, or means none if tls-port is set",
		value: func(c *config) value { return integer{&c.port, 0, 65535} }},
	{name: "tls-port", preset: "0", doc: "TCP port for TLS; 0: none",
		value: func(c *config) value { return integer{&c.tlsPort, 0, 65535} }},
	{name: "tls-cert-file", hint: "<path>", live: true, doc: "PEM file: this server's certificate and its intermediates",
		value: func(c *config) value { return text{&c.tls.certFile, "a path"} }},
	{name: "tls-key-file", hint: "<path>", live: true, doc: "PEM file: the private key of that certificate",
		value: func(c *config) value { return text{&c.tls.keyFile, "a path"} }},
	{name: "tls-key-file-pass", hint: "<password>", live: true, secret: true, doc: "the password of that key, if it is encrypted",
		value: func(c *config) value { return text{&c.tls.keyPass, "one word"} }},
	{name: "tls-ca-cert-file", hint: "<path>", live: true, doc: "PEM file: the authorities that sign clients' certificates",
		value: func(c *config) value { return text{&c.tls.caFile, "a path"} }},
	{name: "tls-auth-clients", preset: "yes", live: true, doc: "whether clients need a certificate: yes, no or optional",
		value: func(c *config) value { return choice{&c.tls.authClients, authNames} }},
	{name: "tls-protocols", hint: `"TLSv1.2 TLSv1.3"`, live: true, doc: "TLS versions; unset: both",
		value: func(c *config) value { return several{&c.tls.protocols, protocolNames, " "} }},
	{name: "tls-ciphers", hint: "<a:b:c>", live: true, doc: "TLS 1.2 suites, by OpenSSL's names; unset: all that are not weak",
		value: func(c *config) value { return several{&c.tls.ciphers, cipherNames, ":"} }},
	{name: "http-port", preset: "0", doc: "TCP port for the page, /metrics, /healthz and /readyz; 0: none",
		value: func(c *config) value { return integer{&c.httpPort, 0, 65535} }},
	{name: "ready-nodes", preset: "any", doc: "the nodes that must be up for /readyz: none, any or all",
		value: func(c *config) value { return choice{&c.readyNodes, readyNames} }},
	{name: "page-admin", preset: "no", live: true, doc: "let users reset keys on the page, if they may use RL.RESET",
		value: func(c *config) value { return yesNo{&c.pageAdmin} }},
	{name: "metrics-keys", preset: "yes", doc: "whether /metrics names the 50 keys that are asked about most",
		value: func(c *config) value { return yesNo{&c.metricsKeys} }},
	{name: "unixsocket", hint: "<path>", doc: "a Unix socket to listen on as well",
		value: func(c *config) value { return text{&c.unixSocket, "a path"} }},
	{name: "unixsocketperm", preset: "0", doc: "the mode of that socket in octal; 0 leaves it to the umask",
		value: func(c *config) value { return permission{&c.unixSocketPerm} }},
	{name: "protected-mode", preset: "yes", live: true, doc: "answer only clients on this machine while no password is set",
		value: func(c *config) value { return yesNo{&c.protectedMode} }},
	{name: "requirepass", hint: "<password>", live: true, secret: true, doc: "the password that clients must AUTH with",
		value: func(c *config) value { return password{&c.requirePass, &c.noPass} }},
	{name: "user", hint: "<name> <rule> ...", live: true, secret: true, doc: "a user and its ACL rules, as in Redis; one line per user",
		value: func(c *config) value { return userLines{&c.users} }},
	{name: "aclfile", hint: "<path>", live: true, doc: "a file of user lines, used instead of the directive user",
		value: func(c *config) value { return text{&c.aclFile, "a path"} }},

	{name: "maxclients", preset: "10000", doc: "the most connections at a time",
		value: func(c *config) value { return integer{&c.maxClients, 1, 1_000_000} }},
	{name: "timeout", preset: "0", doc: "seconds until an idle client is closed; 0: never",
		value: func(c *config) value { return span{&c.timeout, time.Second, 0, maxSeconds} }},
	{name: "tcp-keepalive", preset: "300", doc: "seconds between probes of a silent client; 0: never",
		value: func(c *config) value { return span{&c.tcpKeepalive, time.Second, 0, maxKeepAlive} }},
	{name: "client-query-buffer-limit", preset: "128mb", doc: "the most bytes of one command",
		value: func(c *config) value { return size{&c.queryBuffer, 1 << 20} }},
	{name: "proto-max-bulk-len", preset: "64mb", doc: "the most bytes of one argument",
		value: func(c *config) value { return size{&c.protoMaxBulk, 1 << 20} }},
	{name: "client-output-buffer-limit", preset: "normal 256mb 0 0", doc: "the most bytes of replies that a client may leave unread",
		value: func(c *config) value { return outputLimit{&c.outputBuffer} }},
	{name: "maxmemory-clients", hint: "<size>", doc: "the most bytes of commands and replies, all clients together; unset: a quarter of the container's memory, or a sixteenth of the machine's, at most 1gb",
		value: func(c *config) value { return size{&c.clientMemory, 1 << 20} }},

	{name: "backend", hint: "<url>", secret: true, doc: "a Redis node (one line per node) or a cluster; none: state lives in this process",
		value: func(c *config) value { return backends{&c.backends} }},
	{name: "backend-tls-ca-cert-file", hint: "<path>", live: true, doc: "PEM file: the authorities to trust for rediss backends; unset: the system's",
		value: func(c *config) value { return text{&c.backendTLS.CACertFile, "a path"} }},
	{name: "backend-tls-cert-file", hint: "<path>", live: true, doc: "PEM file: the certificate to show to rediss backends that ask for one",
		value: func(c *config) value { return text{&c.backendTLS.CertFile, "a path"} }},
	{name: "backend-tls-key-file", hint: "<path>", live: true, doc: "PEM file: the private key of that certificate",
		value: func(c *config) value { return text{&c.backendTLS.KeyFile, "a path"} }},
	{name: "backend-tls-key-file-pass", hint: "<password>", live: true, secret: true, doc: "the password of that key, if it is encrypted",
		value: func(c *config) value { return text{&c.backendTLS.KeyPass, "one word"} }},
	{name: "backend-tls-server-name", hint: "<name>", live: true, doc: "the name in the backends' certificates; unset: the host of each",
		value: func(c *config) value { return text{&c.backendTLS.ServerName, "one word"} }},
	{name: "backend-timeout", preset: "100", live: true, bySet: true, doc: "ms that a node has to answer before the fail-policy applies",
		value: func(c *config) value { return span{&c.backendTimeout, time.Millisecond, 1, 60_000} }},
	{name: "fail-policy", preset: "closed", live: true, bySet: true, doc: "[glob] closed, open, local or error: the answer when a node does not answer",
		value: func(c *config) value { return failPolicies{&c.failPolicy, &c.failRules} }},
	{name: policy.PolicyLine, hint: "<name> <algorithm> <limit> <window> ...", live: true, doc: "limits with a name, for RL.CHECK; one line per policy",
		value: func(c *config) value { return policyLines{&c.policies, policy.PolicyLine} }},
	{name: policy.OverrideLine, hint: "<name> <pattern> <limit> <window> ...", live: true, doc: "other limits, UNLIMITED or BLOCKED for some keys of a policy",
		value: func(c *config) value { return policyLines{&c.policies, policy.OverrideLine} }},
	{name: "layout-guard", preset: "warn", live: true, bySet: true, doc: "what to do when proxies have different backends: off, warn or strict",
		value: func(c *config) value { return guardMode{&c.layoutGuard} }},
	{name: "hot-key", hint: "<glob> <n>", live: true, bySet: true, doc: "split the keys that match into n shards, on as many different nodes as there are",
		value: func(c *config) value { return hotKeys{&c.hotKeys} }},
	{name: "hot-key-threshold", preset: "5000", live: true, bySet: true, doc: "split a key once one node gets this many calls per second that charge it; 0: never",
		value: func(c *config) value { return integer{&c.hotThreshold, 0, 1_000_000} }},
	{name: "passthrough", preset: "yes", live: true, bySet: true, doc: "with backends, forward commands that rlproxy does not implement to the nodes of their keys",
		value: func(c *config) value { return yesNo{&c.passthrough} }},
	{name: "passthrough-admin", preset: "no", live: true, bySet: true, doc: "also forward FLUSHALL, DEBUG and other administrative commands",
		value: func(c *config) value { return yesNo{&c.passthroughAdmin} }},
	{name: "passthrough-timeout", preset: "5000", live: true, bySet: true, doc: "ms that a node has to answer a forwarded command",
		value: func(c *config) value { return span{&c.passthroughTimeout, time.Millisecond, 1, 3_600_000} }},
	{name: "policy-file", hint: "<path>", doc: "without backends, a file that keeps what RL.POLICY sets; unset: until the process ends",
		value: func(c *config) value { return text{&c.policyFile, "a path"} }},
	{name: "maxmemory", hint: "<size>", doc: "the most memory for state kept in this process; unset: as for maxmemory-clients",
		value: func(c *config) value { return size{&c.maxMemory, 1 << 20} }},

	{name: "loglevel", preset: "notice", live: true, bySet: true, doc: "debug, verbose, notice or warning",
		value: func(c *config) value { return choice{&c.logLevel, levelNames} }},
	{name: "logfile", hint: "<path>", doc: "a file to log to; unset: standard output",
		value: func(c *config) value { return text{&c.logFile, "a path"} }},
	{name: "decision-log", hint: "<path>", live: true, doc: "a file for lines of JSON that say which requests were denied and why; unset: none",
		value: func(c *config) value { return text{&c.decisionLog, "a path"} }},
	{name: "decision-log-keys", preset: "plain", live: true, doc: "whether those lines show keys: plain, or hash for their SHA-256",
		value: func(c *config) value { return choice{&c.decisionKeys, []string{"plain", "hash"}} }},
	{name: "decision-log-sample", preset: "0", live: true, doc: "also log one of every n other decisions; 0: none",
		value: func(c *config) value { return integer{&c.decisionSample, 0, 1_000_000_000} }},
	{name: "slowlog-log-slower-than", preset: "10000", live: true, bySet: true, doc: "log pipelines that take this many microseconds or longer in SLOWLOG; 0: all, -1: none",
		value: func(c *config) value { return span{&c.slowerThan, time.Microsecond, -1, maxSeconds} }},
	{name: "slowlog-max-len", preset: "128", live: true, bySet: true, doc: "the most entries of SLOWLOG",
		value: func(c *config) value { return integer{&c.slowLogLen, 0, 10_000} }},
	{name: "shutdown-timeout", preset: "10", doc: "seconds that a shutdown waits for commands in progress",
		value: func(c *config) value { return span{&c.shutdownWithin, time.Second, 0, maxSeconds} }},
}

// directiveByName returns the row of a directive, or nil if there is none.
func directiveByName(name string) *directive {
	i := slices.IndexFunc(directives, func(d directive) bool { return d.name == name })
	if i < 0 {
		return nil
	}
	return &directives[i]
}

// change sets a directive as CONFIG SET does: a value has the words of all lines. It returns
// why the value is not allowed, or "".
func (d *directive) change(c *config, value string) (why string) {
	words, err := word.SplitLine(value)
	if err != nil {
		return err.Error()
	}
	v, lines := d.value(c), [][]string{words}
	if l, ok := v.(inOne); ok {
		l.clear()
		lines = l.lines(words)
	}
	for _, words := range lines {
		if !v.set(words) {
			return refusal(v, words)
		}
	}
	return ""
}

// matching lists the name and value of the directives that match a glob pattern, as
// CONFIG GET shows them: sizes in bytes, words quoted where needed, nothing secret.
func (c *config) matching(pattern string) [][2]string {
	var all [][2]string
	for i := range directives {
		d := &directives[i]
		if d.value != nil && !d.secret && glob.MatchFold(pattern, d.name) {
			all = append(all, [2]string{d.name, joinLines(d.value(c).words())})
		}
	}
	return all
}

// joinLines joins the lines of a setting into one, as CONFIG GET does. As in Redis, a setting that
// is only the empty word is shown without quotes.
func joinLines(lines [][]string) string {
	var words []string
	for _, l := range lines {
		for _, w := range l {
			words = append(words, word.InLine(w))
		}
	}
	if len(words) == 1 && words[0] == `""` {
		return ""
	}
	return strings.Join(words, " ")
}
