package main

import (
	"slices"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/commands"
)

// directive is one row of the table that the parser, --help, --check, CONFIG GET
// and the texts of errors come from. What a setting is for, and when to change it,
// stands in rlproxy.conf; a test holds that it names every row with its preset.
type directive struct {
	name   string
	doc    string                // one line, for --help
	preset string                // the default as a configuration file has it; "": unset
	hint   string                // stands for the setting in --help where there is no preset
	live   bool                  // SIGHUP puts a new setting in force; others wait for a restart
	secret bool                  // may hold a password: neither CONFIG GET nor an error shows it
	value  func(c *config) value // where the setting goes
}

// maxSeconds bounds settings in seconds: 68 years, as Redis's.
const maxSeconds = 1<<31 - 1

var directives = []directive{
	{name: "include", hint: "<file>", doc: "read another file here"}, // done by the reader of files

	{name: "bind", preset: "127.0.0.1 -::1", doc: "addresses to listen on",
		value: func(c *config) value { return addresses{&c.bind} }},
	{name: "port", preset: "6380", doc: "TCP port; 0 picks a free one and logs it, or with tls-port means none",
		value: func(c *config) value { return integer{&c.port, 0, 65535} }},
	{name: "tls-port", preset: "0", doc: "TCP port for TLS; 0: none",
		value: func(c *config) value { return integer{&c.tlsPort, 0, 65535} }},
	{name: "tls-cert-file", hint: "<path>", live: true, doc: "PEM: this server's certificate, and those between it and its authority",
		value: func(c *config) value { return text{&c.tls.certFile, "a path"} }},
	{name: "tls-key-file", hint: "<path>", live: true, doc: "PEM: its private key",
		value: func(c *config) value { return text{&c.tls.keyFile, "a path"} }},
	{name: "tls-key-file-pass", hint: "<password>", live: true, secret: true, doc: "opens that key, if it is encrypted",
		value: func(c *config) value { return text{&c.tls.keyPass, "one word"} }},
	{name: "tls-ca-cert-file", hint: "<path>", live: true, doc: "PEM: the authorities that clients' certificates must come from",
		value: func(c *config) value { return text{&c.tls.caFile, "a path"} }},
	{name: "tls-auth-clients", preset: "yes", live: true, doc: "must clients have a certificate: yes, no or optional",
		value: func(c *config) value { return choice{&c.tls.authClients, authNames} }},
	{name: "tls-protocols", hint: `"TLSv1.2 TLSv1.3"`, live: true, doc: "versions of TLS; unset: both",
		value: func(c *config) value { return several{&c.tls.protocols, protocolNames, " "} }},
	{name: "tls-ciphers", hint: "<a:b:c>", live: true, doc: "suites of TLS 1.2, by OpenSSL's names; unset: all that are not weak",
		value: func(c *config) value { return several{&c.tls.ciphers, cipherNames, ":"} }},
	{name: "unixsocket", hint: "<path>", doc: "a Unix socket to listen on as well",
		value: func(c *config) value { return text{&c.unixSocket, "a path"} }},
	{name: "unixsocketperm", preset: "0", doc: "its mode in octal; 0 leaves it to the umask",
		value: func(c *config) value { return permission{&c.unixSocketPerm} }},
	{name: "protected-mode", preset: "yes", live: true, doc: "without a password, answer only this machine's clients",
		value: func(c *config) value { return yesNo{&c.protectedMode} }},
	{name: "requirepass", hint: "<password>", live: true, secret: true, doc: "clients must AUTH with it",
		value: func(c *config) value { return text{&c.requirePass, "one word"} }},
	{name: "user", hint: "<name> <rule> ...", live: true, secret: true, doc: "who may do what, a line each, by Redis's ACL rules",
		value: func(c *config) value { return userLines{&c.users} }},
	{name: "aclfile", hint: "<path>", live: true, doc: "a file of such lines, instead of them",
		value: func(c *config) value { return text{&c.aclFile, "a path"} }},

	{name: "maxclients", preset: "10000", doc: "most connections at a time",
		value: func(c *config) value { return integer{&c.maxClients, 1, 1_000_000} }},
	{name: "timeout", preset: "0", doc: "seconds until an idle client is closed; 0: never",
		value: func(c *config) value { return span{&c.timeout, time.Second, 0, maxSeconds} }},
	{name: "tcp-keepalive", preset: "300", doc: "seconds between probes of a silent client; 0: none",
		value: func(c *config) value { return span{&c.tcpKeepalive, time.Second, 0, maxSeconds} }},
	{name: "client-query-buffer-limit", preset: "128mb", doc: "most bytes of one command",
		value: func(c *config) value { return size{&c.queryBuffer, 1 << 20} }},
	{name: "proto-max-bulk-len", preset: "64mb", doc: "most bytes of one argument",
		value: func(c *config) value { return size{&c.protoMaxBulk, 1 << 20} }},
	{name: "client-output-buffer-limit", preset: "normal 256mb 0 0", doc: "most bytes of replies that a client leaves unread",
		value: func(c *config) value { return outputLimit{&c.outputBuffer} }},
	{name: "maxmemory-clients", preset: "1gb", doc: "most bytes of commands and replies of all clients together",
		value: func(c *config) value { return size{&c.clientMemory, 1 << 20} }},

	{name: "backend", hint: "<url>", secret: true, doc: "a Redis node, a line each, or a cluster; none: state lives in this process",
		value: func(c *config) value { return backends{&c.backends} }},
	{name: "backend-tls-ca-cert-file", hint: "<path>", live: true, doc: "whom to trust for rediss backends; unset: the machine's authorities",
		value: func(c *config) value { return text{&c.backendTLS.CACertFile, "a path"} }},
	{name: "backend-tls-cert-file", hint: "<path>", live: true, doc: "our certificate for rediss backends that ask for one",
		value: func(c *config) value { return text{&c.backendTLS.CertFile, "a path"} }},
	{name: "backend-tls-key-file", hint: "<path>", live: true, doc: "the key of that certificate",
		value: func(c *config) value { return text{&c.backendTLS.KeyFile, "a path"} }},
	{name: "backend-tls-key-file-pass", hint: "<password>", live: true, secret: true, doc: "opens that key, if it is encrypted",
		value: func(c *config) value { return text{&c.backendTLS.KeyPass, "one word"} }},
	{name: "backend-tls-server-name", hint: "<name>", live: true, doc: "the name in the backends' certificates; unset: each one's host",
		value: func(c *config) value { return text{&c.backendTLS.ServerName, "one word"} }},
	{name: "backend-timeout", preset: "100", doc: "ms until a node that does not answer gets its fail-policy",
		value: func(c *config) value { return span{&c.backendTimeout, time.Millisecond, 1, 60_000} }},
	{name: "fail-policy", preset: "closed", doc: "[glob] closed, open, local or error: the answer when a node cannot",
		value: func(c *config) value { return policies{&c.failPolicy, &c.failRules} }},
	{name: "hot-key", hint: "<glob> <n>", doc: "split the keys that match over n sub-shards on different nodes",
		value: func(c *config) value { return hotKeys{&c.hotKeys} }},
	{name: "hot-key-threshold", preset: "5000", doc: "script calls per second on one key from which it is split; 0: never",
		value: func(c *config) value { return integer{&c.hotThreshold, 0, 1_000_000} }},
	{name: "passthrough", preset: "yes", doc: "with backends, pass ordinary commands on to the nodes of their keys",
		value: func(c *config) value { return yesNo{&c.passthrough} }},
	{name: "passthrough-admin", preset: "no", doc: "pass on FLUSHALL, CONFIG SET and other administration too",
		value: func(c *config) value { return yesNo{&c.passthroughAdmin} }},
	{name: "passthrough-timeout", preset: "5000", doc: "ms until an ordinary command gets an error",
		value: func(c *config) value { return span{&c.passthroughTimeout, time.Millisecond, 1, 3_600_000} }},
	{name: "maxmemory", preset: "256mb", doc: "most memory for state kept in this process",
		value: func(c *config) value { return size{&c.maxMemory, 1 << 20} }},

	{name: "loglevel", preset: "notice", live: true, doc: "debug, verbose, notice or warning",
		value: func(c *config) value { return choice{&c.logLevel, levelNames} }},
	{name: "logfile", hint: "<path>", doc: "where the log goes; unset: standard output",
		value: func(c *config) value { return text{&c.logFile, "a path"} }},
	{name: "shutdown-timeout", preset: "10", doc: "seconds that a stop waits for answers under way",
		value: func(c *config) value { return span{&c.shutdownWithin, time.Second, 0, maxSeconds} }},
}

// directiveByName finds a row; nil: there is none.
func directiveByName(name string) *directive {
	i := slices.IndexFunc(directives, func(d directive) bool { return d.name == name })
	if i < 0 {
		return nil
	}
	return &directives[i]
}

// matching lists name and value of the directives that match a glob, as CONFIG GET
// shows them: sizes in bytes, words that need quotes in quotes, nothing secret.
func (c *config) matching(glob string) [][2]string {
	var all [][2]string
	for i := range directives {
		d := &directives[i]
		if d.value != nil && !d.secret && commands.Match(glob, d.name) {
			all = append(all, [2]string{d.name, joinLines(d.value(c).words())})
		}
	}
	return all
}

// joinLines writes the lines of a setting as one, as CONFIG GET does.
func joinLines(lines [][]string) string {
	var words []string
	for _, l := range lines {
		for _, w := range l {
			if w != "" {
				w = quoteWord(w)
			}
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}
