package config

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/internal/glob"
	"github.com/rlproxy/rlproxy/policy"
)

// Directive is one row of the table behind the parser, --help, --check, CONFIG GET
// and configuration errors. rlproxy.conf explains each setting and when to change
// it; a test checks that the file names every row with its preset.
type Directive struct {
	Name   string
	doc    string                // one line, for --help
	preset string                // the default, as written in a configuration file; "": unset
	hint   string                // shown by --help instead of a preset when there is none
	Live   bool                  // SIGHUP applies a new setting; the others need a restart
	BySet  bool                  // CONFIG SET also changes it; only of those that are live
	secret bool                  // may hold a password, so CONFIG GET and errors do not show it
	value  func(c *Config) value // the field of c that holds the setting; nil for include
}

// maxSeconds bounds settings in seconds to 68 years, as in Redis.
const maxSeconds = 1<<31 - 1

// maxKeepAlive is the most seconds of silence before a probe that Linux accepts: 9 hours.
const maxKeepAlive = 32767

var directives = []Directive{
	{Name: "include", hint: "<file>", doc: "read another file here"}, // handled by reader

	{Name: "bind", preset: "127.0.0.1 -::1", doc: "addresses to listen on",
		value: func(c *Config) value { return addresses{&c.Bind} }},
	{Name: "port", preset: "6380", doc: "TCP port; 0 picks a free one and logs it, or means none if tls-port is set",
		value: func(c *Config) value { return integer{&c.Port, 0, 65535} }},
	{Name: "tls-port", preset: "0", doc: "TCP port for TLS; 0: none",
		value: func(c *Config) value { return integer{&c.TLSPort, 0, 65535} }},
	{Name: "tls-cert-file", hint: "<path>", Live: true,
		doc:   "PEM file: this server's certificate and its intermediates",
		value: func(c *Config) value { return text{&c.TLS.CertFile, "a path"} }},
	{Name: "tls-key-file", hint: "<path>", Live: true, doc: "PEM file: the private key of that certificate",
		value: func(c *Config) value { return text{&c.TLS.KeyFile, "a path"} }},
	{Name: "tls-ca-cert-file", hint: "<path>", Live: true,
		doc:   "PEM file: the authorities that sign clients' certificates",
		value: func(c *Config) value { return text{&c.TLS.CAFile, "a path"} }},
	{Name: "tls-auth-clients", preset: "yes", Live: true,
		doc:   "whether clients need a certificate: yes, no or optional",
		value: func(c *Config) value { return oneOf(&c.TLS.AuthClients, "yes", "no", "optional") }},
	{Name: "tls-protocols", hint: `"TLSv1.2 TLSv1.3"`, Live: true, doc: "TLS versions; unset: both",
		value: func(c *Config) value { return several{&c.TLS.Protocols, protocolNames} }},
	{Name: "http-port", preset: "0", doc: "TCP port for the page, /metrics, /healthz and /readyz; 0: none",
		value: func(c *Config) value { return integer{&c.HTTPPort, 0, 65535} }},
	{Name: "ready-nodes", preset: "any", doc: "the nodes that must be up for /readyz: none, any or all",
		value: func(c *Config) value { return oneOf(&c.ReadyNodes, "none", "any", "all") }},
	{Name: "page-admin", preset: "no", Live: true, doc: "let users reset keys on the page, if they may use RL.RESET",
		value: func(c *Config) value { return yesNo(&c.PageAdmin) }},
	{Name: "http-check", preset: "no", Live: true,
		doc:   "answer /check on http-port, by which gateways ask for decisions",
		value: func(c *Config) value { return yesNo(&c.HTTPCheck) }},
	{Name: "metrics-keys", preset: "yes", doc: "whether /metrics names the 50 keys that are asked about most",
		value: func(c *Config) value { return yesNo(&c.MetricsKeys) }},
	{Name: "rls-port", preset: "0", doc: "TCP port for the rate limit service of Envoy, which speaks gRPC; 0: none",
		value: func(c *Config) value { return integer{&c.RLSPort, 0, 65535} }},
	{Name: "rls-headers", preset: "no", Live: true,
		doc:   "the headers that Envoy is told to add: no, yes, or three names for limit, remaining and reset",
		value: func(c *Config) value { return headerNames{&c.RLSHeaders} }},
	{Name: "rls-together", preset: "no", Live: true,
		doc:   "charge the descriptors of a request of Envoy all together or not at all",
		value: func(c *Config) value { return yesNo(&c.RLSTogether) }},
	{Name: "unixsocket", hint: "<path>", doc: "a Unix socket to listen on as well",
		value: func(c *Config) value { return socketPath{text{p: &c.UnixSocket}} }},
	{Name: "unixsocketperm", preset: "0", doc: "the mode of that socket in octal; 0 leaves it to the umask",
		value: func(c *Config) value { return fileMode{&c.UnixSocketPerm} }},
	{Name: "protected-mode", preset: "yes", Live: true,
		doc:   "answer only clients on this machine while no password is set",
		value: func(c *Config) value { return yesNo(&c.ProtectedMode) }},
	{Name: "requirepass", hint: "<password>", Live: true, secret: true, doc: "the password that clients must AUTH with",
		value: func(c *Config) value { return password{&c.RequirePass, &c.NoPass} }},
	{Name: "user", hint: "<name> <rule> ...", Live: true, secret: true,
		doc:   "a user and its ACL rules, as in Redis; one line per user",
		value: func(c *Config) value { return userLines{&c.Users} }},
	{Name: "aclfile", hint: "<path>", Live: true, doc: "a file of user lines, used instead of the directive user",
		value: func(c *Config) value { return text{&c.ACLFile, "a path"} }},

	{Name: "maxclients", preset: "10000", doc: "the most connections at a time",
		value: func(c *Config) value { return integer{&c.MaxClients, 1, 1_000_000} }},
	{Name: "timeout", preset: "0", doc: "seconds until an idle client is closed; 0: never",
		value: func(c *Config) value { return span{&c.Timeout, time.Second, 0, maxSeconds} }},
	{Name: "tcp-keepalive", preset: "300", doc: "seconds between probes of a silent client; 0: never",
		value: func(c *Config) value { return span{&c.TCPKeepAlive, time.Second, 0, maxKeepAlive} }},
	{Name: "client-query-buffer-limit", preset: "128mb", doc: "the most bytes of one command",
		value: func(c *Config) value { return size{&c.QueryBuffer, 1 << 20} }},
	{Name: "proto-max-bulk-len", preset: "64mb", doc: "the most bytes of one argument",
		value: func(c *Config) value { return size{&c.ProtoMaxBulk, 1 << 20} }},
	{Name: "client-output-buffer-limit", preset: "normal 256mb 0 0",
		doc:   "the most bytes of replies that a client may leave unread",
		value: func(c *Config) value { return outputLimit{&c.OutputBuffer} }},
	{Name: "maxmemory-clients", hint: "<size>",
		doc: "the most bytes of commands and replies, all clients together; unset: a quarter of the container's " +
			"memory, or a sixteenth of the machine's, at most 1gb",
		value: func(c *Config) value { return size{&c.ClientMemory, 1 << 20} }},

	{Name: "backend", hint: "<url>", secret: true,
		doc:   "a Redis node (one line per node) or a cluster; none: state lives in this process",
		value: func(c *Config) value { return backends{&c.Backends} }},
	{Name: "backend-user", hint: "<name>", Live: true,
		doc:   "the user of backends whose URLs name none; unset: default",
		value: func(c *Config) value { return text{&c.Logins.Nodes.User, "one word"} }},
	{Name: "backend-password", hint: "<password>", Live: true, secret: true, doc: "that user's password",
		value: func(c *Config) value { return text{&c.Logins.Nodes.Password, "one word"} }},
	{Name: "backend-password-file", hint: "<path>", Live: true,
		doc:   "a file with that user's password, read for each connection",
		value: func(c *Config) value { return text{&c.Logins.Nodes.PasswordFile, "a path"} }},
	{Name: "sentinel-user", hint: "<name>", Live: true,
		doc:   "the user of sentinels, if backends name none for them",
		value: func(c *Config) value { return text{&c.Logins.Sentinels.User, "one word"} }},
	{Name: "sentinel-password", hint: "<password>", Live: true, secret: true, doc: "that user's password",
		value: func(c *Config) value { return text{&c.Logins.Sentinels.Password, "one word"} }},
	{Name: "sentinel-password-file", hint: "<path>", Live: true,
		doc:   "a file with that user's password, read for each connection",
		value: func(c *Config) value { return text{&c.Logins.Sentinels.PasswordFile, "a path"} }},
	{Name: "backend-tls-ca-cert-file", hint: "<path>", Live: true,
		doc:   "PEM file: the authorities to trust for rediss backends; unset: the system's",
		value: func(c *Config) value { return text{&c.BackendTLS.CACertFile, "a path"} }},
	{Name: "backend-tls-cert-file", hint: "<path>", Live: true,
		doc:   "PEM file: the certificate to show to rediss backends that ask for one",
		value: func(c *Config) value { return text{&c.BackendTLS.CertFile, "a path"} }},
	{Name: "backend-tls-key-file", hint: "<path>", Live: true, doc: "PEM file: the private key of that certificate",
		value: func(c *Config) value { return text{&c.BackendTLS.KeyFile, "a path"} }},
	{Name: "backend-tls-server-name", hint: "<name>", Live: true,
		doc:   "the name in the backends' certificates; unset: the host of each",
		value: func(c *Config) value { return text{&c.BackendTLS.ServerName, "one word"} }},
	{Name: "backend-timeout", preset: "100", Live: true, BySet: true,
		doc:   "ms that a node has to answer before the fail-policy applies",
		value: func(c *Config) value { return span{&c.BackendTimeout, time.Millisecond, 1, 60_000} }},
	{Name: "wait-replicas", preset: "0", Live: true, BySet: true,
		doc:   "<n> [ms]: replicas that must have a decision, and the time for it; unset: half of backend-timeout",
		value: func(c *Config) value { return replicaNeed{&c.Replicas} }},
	{Name: "fail-policy", preset: "closed", Live: true, BySet: true,
		doc:   "[glob] closed, open, local or error: the answer when a node does not answer",
		value: func(c *Config) value { return failPolicies{&c.FailPolicy, &c.FailRules} }},
	{Name: policy.PolicyLine, hint: "<name> <algorithm> <limit> <window> ...", Live: true,
		doc:   "limits with a name, for RL.CHECK; one line per policy",
		value: func(c *Config) value { return policyLines{&c.Policies, policy.PolicyLine} }},
	{Name: policy.OverrideLine, hint: "<name> <pattern> <limit> <window> ...", Live: true,
		doc:   "other limits, UNLIMITED or BLOCKED for some keys of a policy",
		value: func(c *Config) value { return policyLines{&c.Policies, policy.OverrideLine} }},
	{Name: "layout-guard", preset: "warn", Live: true, BySet: true,
		doc:   "what to do when proxies have different backends: off, warn or strict",
		value: func(c *Config) value { return guardMode(&c.LayoutGuard) }},
	{Name: "hot-key", hint: "<glob> <n>", Live: true, BySet: true,
		doc:   "split the keys that match into n shards, on as many different nodes as there are",
		value: func(c *Config) value { return hotKeys{&c.HotKeys} }},
	{Name: "hot-key-threshold", preset: "20000", Live: true, BySet: true,
		doc:   "split a key once one node gets this many calls per second that charge it; 0: never",
		value: func(c *Config) value { return integer{&c.HotThreshold, 0, 1_000_000} }},
	{Name: "advance", preset: "yes", Live: true, BySet: true,
		doc:   "decide hot keys in this proxy's memory, from units that their nodes advance to it",
		value: func(c *Config) value { return yesNo(&c.Advances) }},
	{Name: "advance-time", preset: "250", Live: true, BySet: true,
		doc:   "for how many ms units are advanced",
		value: func(c *Config) value { return span{&c.AdvanceTime, time.Millisecond, 100, 2000} }},
	{Name: "passthrough", preset: "yes", Live: true, BySet: true,
		doc:   "with backends, forward commands that rlproxy does not implement to the nodes of their keys",
		value: func(c *Config) value { return yesNo(&c.Passthrough) }},
	{Name: "passthrough-admin", preset: "no", Live: true, BySet: true,
		doc:   "also forward FLUSHALL, DEBUG and other administrative commands",
		value: func(c *Config) value { return yesNo(&c.PassthroughAdmin) }},
	{Name: "passthrough-timeout", preset: "5000", Live: true, BySet: true,
		doc:   "ms that a node has to answer a forwarded command",
		value: func(c *Config) value { return span{&c.PassthroughTimeout, time.Millisecond, 1, 3_600_000} }},
	{Name: "policy-file", hint: "<path>",
		doc:   "without backends, a file that keeps what RL.POLICY sets; unset: until the process ends",
		value: func(c *Config) value { return text{&c.PolicyFile, "a path"} }},
	{Name: "maxmemory", hint: "<size>",
		doc:   "the most memory for state kept in this process; unset: as for maxmemory-clients",
		value: func(c *Config) value { return size{&c.MaxMemory, 1 << 20} }},

	{Name: "loglevel", preset: "notice", Live: true, BySet: true, doc: "debug, verbose, notice or warning",
		value: func(c *Config) value { return oneOf(&c.LogLevel, levelNames...) }},
	{Name: "logfile", hint: "<path>", doc: "a file to log to; unset: standard output",
		value: func(c *Config) value { return text{&c.LogFile, "a path"} }},
	{Name: "decision-log", hint: "<path>", Live: true,
		doc:   "a file for lines of JSON that say which requests were denied and why; unset: none",
		value: func(c *Config) value { return text{&c.DecisionLog, "a path"} }},
	{Name: "decision-log-keys", preset: "plain", Live: true,
		doc:   "whether those lines show keys: plain, or hash for their SHA-256",
		value: func(c *Config) value { return oneOf(&c.DecisionKeys, "plain", "hash") }},
	{Name: "decision-log-sample", preset: "0", Live: true, doc: "also log one of every n other decisions; 0: none",
		value: func(c *Config) value { return integer{&c.DecisionSample, 0, 1_000_000_000} }},
	{Name: "slowlog-log-slower-than", preset: "10000", Live: true, BySet: true,
		doc:   "log pipelines that take this many microseconds or longer in SLOWLOG; 0: all, -1: none",
		value: func(c *Config) value { return span{&c.SlowerThan, time.Microsecond, -1, maxSeconds} }},
	{Name: "slowlog-max-len", preset: "128", Live: true, BySet: true, doc: "the most entries of SLOWLOG",
		value: func(c *Config) value { return integer{&c.SlowLogLen, 0, 10_000} }},
	{Name: "shutdown-timeout", preset: "10", doc: "seconds that a shutdown waits for commands in progress",
		value: func(c *Config) value { return span{&c.ShutdownWithin, time.Second, 1, maxSeconds} }},
}

// Find returns the row of a directive, or nil if there is none that has a setting.
func Find(name string) *Directive {
	i := slices.IndexFunc(directives, func(d Directive) bool { return d.Name == name && d.value != nil })
	if i < 0 {
		return nil
	}
	return &directives[i]
}

// Matching lists the name and value of the directives that match a glob pattern in any case, as
// CONFIG GET shows them: sizes in bytes, words quoted where needed, nothing secret.
func (c *Config) Matching(pattern string) [][2]string {
	var all [][2]string
	pattern = strings.ToLower(pattern)
	for i := range directives {
		d := &directives[i]
		if d.value != nil && !d.secret && glob.Match(pattern, d.Name) {
			all = append(all, [2]string{d.Name, joinLines(d.value(c).words())})
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

// Help returns the table of directives that --help prints, with their defaults.
func Help() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, d := range directives {
		setting := d.preset
		if setting == "" {
			setting = d.hint
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s\t%s\n", d.Name, setting, d.doc) // b never fails
	}
	_ = w.Flush() // b never fails
	return b.String()
}
