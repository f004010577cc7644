package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const matrixTop = `# Clients

Any Redis client works with rlproxy. It connects and logs in as it does to Redis, and calls RL.SLIDE as it calls
any command that it has no method for. This page is written by ` + "`make test-clients`" + `, which runs every client below
against a fresh rlproxy:

- in the protocol that it speaks by default, and in the other one if it has both;
- without a password, with ` + "`requirepass`" + `, and as user ` + "`default`" + ` with the password (predis 1 does not support users);
- with the state in rlproxy's memory, and with a redis-server as its node (%s).

A ✓ means that the client passed in all of these cases, a ✗ that it failed in at least one, and an empty field that it cannot do this.
The protocol in bold is the client's default.

`

const forwardedNotes = `
## Forwarded commands

Libraries of rate limits that keep their counts in Redis work through rlproxy: [migrating.md](migrating.md) has those that are tried.

- go-redis sends BLOCK 0 with XRead and XReadGroup unless Block is negative, and rlproxy forwards neither with BLOCK: set Block: -1.
- A script that looks for keys (KEYS or SCAN in it, as the reset of Python's limits does) sees those of one node, and no error says so:
  of 20 keys on several nodes it may find 4. Use such libraries with one node.
`

const matrixLegend = `
- **connect**: the client's own handshake, and the protocol it settled on, as CLIENT INFO has it. **auth**: a wrong password is refused as
  Redis refuses it (with a password only).
- **slide**, **counter**: five integers, three admitted of a limit of three, the fourth denied with a retry_after.
- **policy**: RL.POLICY SET, five integers from RL.CHECK, and RL.POLICY GET, which is a map of arrays of maps.
- **holds**: ONCE twice, charged once; RL.RESERVE and RL.SETTLE; RL.ACQUIRE and RL.RELEASE; and AND, whose reply is arrays in an array.
- **pipeline**: 20 commands sent without waiting, and their replies in order. **transaction**: MULTI, three calls, EXEC.
- **parallel**: 50 tasks on one key of limit 30: exactly 30 admitted. (redis-benchmark: every request charged once. PHP
  has no threads: 50 connections at once.)
- **error**: an error reply arrives as the client's own kind of error, with the text of the reply.
- **reconnect**: rlproxy is stopped and started again, and the same client object works again.
- **pipe**: redis-cli --pipe. **hints**: redis-cli at a terminal shows the arguments of RL.SLIDE, RL.CHECK and RL.POLICY as you type.
- **cache**: rueidis turns client-side caching on by default. rlproxy accepts CLIENT TRACKING and caches nothing: a
  cached read gets an uncached reply or an error, and the connection stays usable.

**Databases.** rlproxy has database 0 only, and answers SELECT of another one with an error: put the nodes' database into the backend's
URL. Two clients go on in database 0 all the same: ioredis emits an error event, and select() of phpredis returns false. rlproxy logs the first such SELECT.
`

// writeMatrix writes the page with the results of all trials, demonstrations, gateways and suites.
func writeMatrix(path string, trials []*trial, shown []*demonstration, crossed []*crossing,
	tried []*audition) error {
	var b strings.Builder
	fmt.Fprintf(&b, matrixTop, redisVersion())
	columns := slices.Clone(common)
	for _, c := range clients {
		columns = append(columns, c.adds...)
	}
	fmt.Fprintf(&b, "| client | version | protocol | %s |\n", strings.Join(columns, " | "))
	b.WriteString(strings.Repeat("|---", 3+len(columns)) + "|\n")
	for _, group := range groups(trials) {
		b.WriteString(row(group, columns))
	}
	b.WriteString(matrixLegend)

	b.WriteString("\n## How to call it\n\n| client | RL.SLIDE: 5 per minute on key k |\n|---|---|\n")
	for _, c := range clients {
		fmt.Fprintf(&b, "| %s | `%s` |\n", c.name, c.call)
	}

	b.WriteString(settingsTable())
	b.WriteString(forwardedNotes)
	b.WriteString("\n## Examples\n\n")
	b.WriteString("Each protects an HTTP handler: 200 up to the limit, then 429, with the headers that [examples/](../examples/README.md) lists. It\n")
	b.WriteString("fails open or closed, as `FAIL` says, when rlproxy hangs or is away. The examples of [tokens.md](tokens.md) are tried with clients that\n")
	b.WriteString("disconnect, commands that are repeated and programs that are killed: what is used and held must then be right.\n\n| language | program | |\n|---|---|---|\n")
	for _, d := range shown {
		mark := "✓"
		if d.err != nil {
			mark = "✗"
		}
		fmt.Fprintf(&b, "| %s | [%s](../%s) | %s |\n", d.language, d.source, d.source, mark)
	}
	b.WriteString(gatewaysTable(crossed))
	b.WriteString(suitesTable(tried))
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

const suitesTop = `
## Other projects' tests

Test suites that other projects wrote for Redis, run through rlproxy with ` + "`passthrough-admin yes`" + `, unchanged except for the
address, and first with Redis alone. The table counts the tests that Redis passes. What rlproxy fails is listed with the
reason in [expected.txt](../tests/clients/suites/expected.txt); any other failure fails the run, and so does a listed test that
passes. Left out are tests that depend on timing, or that upset the tests after them; the folders in
[tests/clients/suites](../tests/clients/suites) name them. Redis's own suite changes a server's settings with CONFIG, which
rlproxy answers for itself; there CONFIG goes to the node.

| suite | version | nodes | tests | passed | expected failures |
|---|---|---|---|---|---|
`

// suitesTable returns the section with the results of the suites.
func suitesTable(tried []*audition) string {
	var b strings.Builder
	b.WriteString(suitesTop)
	for _, a := range tried {
		for i, v := range a.verdicts {
			fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d |\n", a.name, a.version, a.nodes[i], v.run, v.passed, v.expected)
		}
	}
	return b.String()
}

// groups returns the trials of one client and protocol together, in the table's order.
func groups(trials []*trial) [][]*trial {
	var all [][]*trial
	for i, t := range trials {
		if i > 0 && trials[i-1].client == t.client && trials[i-1].protocol == t.protocol {
			all[len(all)-1] = append(all[len(all)-1], t)
			continue
		}
		all = append(all, []*trial{t})
	}
	return all
}

// row returns the line of one client and protocol.
func row(group []*trial, columns []string) string {
	t := group[0]
	protocol := fmt.Sprintf("RESP%d", t.protocol)
	if t.protocol == t.byDefault {
		protocol = "**" + protocol + "**"
	}
	cells := []string{t.name, t.version, protocol}
	for _, check := range columns {
		cells = append(cells, mark(group, check))
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// mark returns the cell of a check in the row of a group.
func mark(group []*trial, check string) string {
	seen := ""
	for _, t := range group {
		switch why, made := t.results[check]; {
		case why != "" || t.results["run"] != "":
			return "✗"
		case made:
			seen = "✓"
		}
	}
	return seen
}

// redisVersion returns the version of the redis-server in the trials with a backend.
func redisVersion() string {
	out, _ := exec.Command("redis-server", "--version").Output()
	for _, word := range strings.Fields(string(out)) {
		if version, ok := strings.CutPrefix(word, "v="); ok {
			return "redis-server " + version
		}
	}
	return "redis-server of an unknown version"
}
