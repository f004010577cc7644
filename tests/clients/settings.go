package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// setting is a client's program that asks with the client's own settings and with those that docs/clients.md shows. It asks
// by RL.SLIDE about these keys, one after the other, and prints a line for each: the key, `reply`, `error` or, of another
// request's reply, `wrong`; and the ms that it took.
//
//	lose-default  the reply is lost with the connection, after rlproxy has charged the request; the client's own settings
//	lose-once     the same, with ONCE
//	lose-set      the same, with the settings
//	lose-other    the same, with the settings and ONCE; and then again, at the other proxy of the same node, RL_OTHER
//	hang-set      rlproxy does not answer, with the settings
//	away-set      nothing listens at RL_AWAY, with the settings
//	late-first    rlproxy answers late, with the settings
//	late-kept     the next request on that connection
//	late-closed   one on another connection, if late-kept is wrong
type setting struct {
	name    string
	program []string
	env     []string

	// resends is set if the client with its own settings sends a request again whose reply is lost.
	resends bool
	// confuses is set if a late reply is taken for that of the next request, until the connection is closed.
	confuses bool
}

var settings = []setting{
	{"ioredis", []string{"node", "tests/clients/ioredis/settings.mjs"}, []string{"RL_MODULE=ioredis-6"}, true, false},
	{"node-redis", []string{"node", "tests/clients/node-redis/settings.mjs"}, []string{"RL_MODULE=redis-6"}, false, false},
	{"Lettuce", []string{"java", "-cp", "tests/.cache/lettuce/*", "tests/clients/lettuce/Settings.java"}, nil, true, false},
	{"phpredis", []string{"php", "tests/clients/phpredis/settings.php"}, nil, false, true},
}

// outcome is what a program printed about a key.
type outcome struct {
	said string // reply or error
	ms   int
	used int64 // units charged in the end
}

// tryout is a run of a setting.
type tryout struct {
	setting
	err error
}

// run runs the program, with longer timeouts if the machine is too busy for them: some outcomes are replies in time.
func (t *tryout) run() {
	for _, ms := range []int{500, 2000, 8000, 30_000} {
		if t.err = t.try(ms); t.err == nil {
			fmt.Printf("ok   settings-%s\n", t.name)
			return
		}
	}
	fmt.Printf("FAIL settings-%s: %v\n", t.name, t.err)
}

// try runs the program with timeouts of so many ms, and compares the outcomes with what is to be.
func (s setting) try(ms int) error {
	node, err := startRedis()
	if err != nil {
		return err
	}
	defer func() { _ = node.stop() }()
	var proxies [2]*server
	for i := range proxies {
		if proxies[i], err = startProxy("--backend", "redis://"+node.address(), "--backend-timeout", "10000"); err != nil {
			return err
		}
		defer func() { _ = proxies[i].stop() }()
	}
	proxy := proxies[0]
	bad, err := listenBadly(proxy.address())
	if err != nil {
		return err
	}
	defer bad.close()
	away, err := freePort()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), programTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program[0], s.program[1:]...) // #nosec G204 -- from the table above
	cmd.Env = append(append(os.Environ(), s.env...), "RL_HOST=127.0.0.1", "RL_PORT="+bad.port(), "RL_AWAY="+strconv.Itoa(away),
		"RL_OTHER="+strconv.Itoa(proxies[1].port), "RL_MS="+strconv.Itoa(ms))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var said, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s%s", err, said.String(), log.String())
	}
	if err := s.judge(proxy, said.String()); err != nil {
		return fmt.Errorf("%w\n%s%s", err, said.String(), log.String())
	}
	return nil
}

// judge compares what the program printed, and what was charged, with what is to be.
func (s setting) judge(proxy *server, said string) error {
	got := make(map[string]outcome)
	for lines := bufio.NewScanner(strings.NewReader(said)); lines.Scan(); {
		var key string
		var o outcome
		if _, err := fmt.Sscan(lines.Text(), &key, &o.said, &o.ms); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		all, err := states(proxy, key)
		if err != nil {
			return err
		}
		o.used = all["RL.SLIDE"]["used"]
		got[key] = o
	}
	want := map[string]outcome{
		"lose-default": {"error", 0, 1}, "lose-once": {"error", 0, 1}, "lose-set": {"error", 0, 1},
		"lose-other": {"reply", 0, 1}, "hang-set": {"error", 0, 0}, "away-set": {"error", 0, 0},
		"late-first": {"error", 0, 1}, "late-kept": {"reply", 0, 1},
	}
	if s.resends {
		want["lose-default"], want["lose-once"] = outcome{"reply", 0, 2}, outcome{"reply", 0, 1}
	}
	if s.confuses {
		want["late-kept"], want["late-closed"] = outcome{"wrong", 0, 1}, outcome{"reply", 0, 1}
	}
	for key, w := range want {
		if g := got[key]; g.said != w.said || g.used != w.used {
			return fmt.Errorf("%s: %s, %d charged; not %s, %d", key, g.said, g.used, w.said, w.used)
		}
	}
	return nil
}

// badly is a server between clients and rlproxy. Of a request about a key that begins with `lose` it loses the reply, with the
// connection, the first time that it sees that key. One about a key that begins with `hang` it does not pass on, and the reply to `late-first` comes with the next one.
type badly struct {
	net.Listener
	to string

	mu   sync.Mutex
	lost map[string]bool // guarded by mu
}

func listenBadly(to string) (*badly, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &badly{Listener: l, to: to, lost: make(map[string]bool)}
	go func() { // until the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go b.serve(c) // until one of the two ends closes its connection
		}
	}()
	return b, nil
}

func (b *badly) close()       { _ = b.Close() }
func (b *badly) port() string { return strconv.Itoa(b.Addr().(*net.TCPAddr).Port) }

// serve passes on what a client sends, one read at a time, and the reply to it.
func (b *badly) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	proxy, err := net.Dial("tcp", b.to)
	if err != nil {
		return
	}
	defer func() { _ = proxy.Close() }()
	sent, reply := make([]byte, 1<<16), make([]byte, 1<<16)
	var late []byte
	for {
		n, err := client.Read(sent)
		if err != nil {
			return
		}
		if bytes.Contains(sent[:n], []byte("hang-")) {
			for err == nil {
				_, err = client.Read(sent)
			}
			return
		}
		_, err = proxy.Write(sent[:n])
		m, readErr := proxy.Read(reply)
		if errors.Join(err, readErr) != nil || b.loses(sent[:n]) {
			return
		}
		if late = append(late, reply[:m]...); bytes.Contains(sent[:n], []byte("late-first")) {
			continue
		}
		if _, err = client.Write(late); err != nil {
			return
		}
		late = late[:0]
	}
}

// loses reports whether the reply to a request is to be lost.
func (b *badly) loses(sent []byte) bool {
	i := bytes.Index(sent, []byte("lose-"))
	if i < 0 {
		return false
	}
	key, _, _ := strings.Cut(string(sent[i:]), "\r\n")
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !b.lost[key]
	b.lost[key] = true
	return first
}

// shown returns the settings of a client's program as docs/clients.md shows them.
func (s setting) shown() string {
	source := s.program[len(s.program)-1]
	text, err := os.ReadFile(source) // #nosec G304 -- from the table above
	if err != nil {
		return err.Error()
	}
	_, block, _ := strings.Cut(string(text), " settings\n")
	block, _, _ = strings.Cut(block, "// end\n")
	lines := strings.Split(strings.TrimRight(block, " \n"), "\n")
	indent := len(lines[0]) - len(strings.TrimLeft(lines[0], " "))
	for i, line := range lines {
		lines[i] = strings.TrimRight("    "+line[min(indent, len(line)-len(strings.TrimLeft(line, " "))):], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

const settingsTop = `
## Settings that are easy to get wrong

Clients are made for a database. So they wait long, keep requests while they connect again, and some of them send a request again whose reply they did
not get. That is wrong for a limit: the request waits, and what was already charged is charged twice. Decide after a moment instead, as
[http.md](http.md) shows, and let nothing be sent twice without [ONCE](tokens.md#idempotent-retries-once).

| client | waits for a reply | while rlproxy is away | a request whose reply was lost with the connection |
|---|---|---|---|
| ioredis 6 | forever | keeps requests until it has tried to connect 20 times, for over a minute | **is sent again: charged twice** |
| node-redis 6 | forever | keeps requests for 5 s | is an error: charged once |
| Lettuce 7 | 60 s | keeps requests for 60 s | **is sent again: charged twice** |
| phpredis 5.3 | 60 s (default_socket_timeout) | fails, after 10 attempts to connect | is an error: charged once |

With the settings below each fails in time, and charges once. ` + "`make test-clients`" + ` tries both: a reply that is lost, an rlproxy that hangs or is away, a
late reply, and a second proxy. ms is 250, or what your requests can wait.
`

const settingsNotes = `
- **ONCE makes a second attempt safe.** With ` + "`ONCE id`" + ` all of these charge once, even those that send again; the id must be one of the request, not of the attempt.
- **Several proxies.** None of these clients has a list of equal servers. Have a client for each proxy: ask the first, and if that fails, the next with the same ONCE
  id; proxies of the same nodes know each other's ids. Or put a TCP balancer or a Kubernetes Service before them. It balances connections, not
  requests: a client keeps its connection, so a new proxy gets no load until clients connect again.
- **BLOCK**: a request that [waits](limits.md#waiting) gets its reply late. Give it a connection of its own, with a timeout longer than BLOCK. A client that gives up earlier and
  closes the connection is not charged; one that keeps it open, as ioredis and node-redis do, is charged for what it no longer waits for.
- **node-redis**: ` + "`commandOptions.timeout`" + ` ends when a command is written, so it does not bound the wait for a reply. ` + "`socket.socketTimeout`" + ` does, but also
  closes each connection that has been silent for that time.
- **Lettuce**: do not turn off autoReconnect to avoid the second request, as older advice has it. replayFilter does that, and the connection comes back.
- **phpredis**: after a RedisException call close(), also with pconnect(). Otherwise **a late reply is taken for that of the next request**: the answer about
  another key.
`

// settingsTable returns the section about settings.
func settingsTable() string {
	var b strings.Builder
	b.WriteString(settingsTop)
	for _, s := range settings {
		fmt.Fprintf(&b, "\n%s:\n\n%s", s.name, s.shown())
	}
	return b.String() + settingsNotes
}
