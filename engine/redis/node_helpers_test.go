package redis

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// reply is what a fake node sends in reply to a command.
type reply struct {
	text   string // empty: nothing
	hangUp bool   // then it closes the connection
}

// bulk returns a string in RESP.
func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// fakeNode is a server that speaks RESP and stores nothing. The test determines its replies.
type fakeNode struct {
	addr   string
	behave atomic.Pointer[func(args []string) reply]

	done  sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]struct{} // guarded by mu; nil after the end
}

// startFake runs a fake node until the test ends. At first it replies correctly.
func startFake(t testing.TB) *fakeNode {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &fakeNode{addr: listener.Addr().String(), conns: map[net.Conn]struct{}{}}
	n.set(n.well)
	n.done.Add(1)
	go func() { // until the listener is closed
		defer n.done.Done()
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			n.mu.Lock()
			if n.conns == nil {
				n.mu.Unlock()
				_ = conn.Close()
				return
			}
			n.conns[conn] = struct{}{}
			n.mu.Unlock()
			n.done.Add(1)
			go n.serve(conn) // until either side hangs up
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		n.mu.Lock()
		for conn := range n.conns {
			_ = conn.Close()
		}
		n.conns = nil
		n.mu.Unlock()
		n.done.Wait()
	})
	return n
}

// set changes what the node replies from now on.
func (n *fakeNode) set(behave func(args []string) reply) { n.behave.Store(&behave) }

func (n *fakeNode) serve(conn net.Conn) {
	defer n.done.Done()
	defer func() {
		_ = conn.Close()
		n.mu.Lock()
		delete(n.conns, conn)
		n.mu.Unlock()
	}()
	for r := bufio.NewReader(conn); ; {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		answer := (*n.behave.Load())(args)
		if _, err := io.WriteString(conn, answer.text); err != nil || answer.hangUp {
			return
		}
	}
}

// readCommand reads an array of strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	size := func() (int, error) {
		line, err := r.ReadString('\n')
		if err != nil || len(line) < 3 {
			return 0, io.ErrUnexpectedEOF
		}
		return strconv.Atoi(line[1 : len(line)-2])
	}
	n, err := size()
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		length, err := size()
		if err != nil {
			return nil, err
		}
		b := make([]byte, length+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:length])
	}
	return args, nil
}

// well replies like a correct node that admits everything and lends nothing.
func (n *fakeNode) well(args []string) reply {
	switch strings.ToLower(args[0]) {
	case "hello":
		return reply{text: "-ERR unknown command 'hello'\r\n"}
	case "eval":
		return reply{text: ":1\r\n"}
	case "subscribe":
		return reply{text: "*3\r\n$9\r\nsubscribe\r\n" + bulk(args[1]) + ":1\r\n"}
	case "cluster":
		host, port, _ := net.SplitHostPort(n.addr)
		return reply{text: "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n" + bulk(host) + ":" + port + "\r\n" + bulk(strings.Repeat("a", 40))}
	case "fcall":
		return reply{text: bulk(n.run(args))}
	case "evalsha":
		return reply{text: "-NOSCRIPT No matching script. Please use EVAL.\r\n"}
	}
	return reply{text: "+OK\r\n"}
}

// run returns the reply of a function: fcall, its name, keys, clock and arguments.
func (n *fakeNode) run(args []string) string {
	keys, err := strconv.Atoi(args[2])
	if err != nil {
		return ""
	}
	own := args[3+keys+1:]
	clock := time.Now().UnixMilli()
	switch args[1] {
	case lua.Decide.Name, lua.Reset.Name:
		return decideAll(clock, keys, own, func(atShard bool) int {
			if atShard {
				return int(wire.AtShard)
			}
			return int(wire.AtNode)
		})
	case lua.Admit.Name: // a spec, and an id
		return "\x00" + string(bytesOf(6, clock)) + admit(clock, own[0])
	case lua.Settle.Name: // an id and a cost
		return string(bytesOf(1, 1)) + own[0][17:] + string(bytesOf(6, 0, 6, 0, 3, 0))
	case lua.Each.Name, lua.End.Name: // two arguments for each key
		text := ""
		for i := range keysOf(keys, own, 2) {
			one := "\x01" // renewed
			if args := own[2*i : 2*i+2]; args[1] == "" {
				one = n.run([]string{"fcall", lua.Settle.Name, "0", "", args[0]})
			} else if args[1] != "renew" {
				one = n.run([]string{"fcall", lua.Admit.Name, "0", "", args[0], args[1]})
			}
			text += string(bytesOf(2, int64(len(one)))) + one
		}
		return text
	case lua.All.Name: // a spec for each key
		text := string(bytesOf(6, clock, 1, 1))
		for i := range keysOf(keys, own, 1) {
			text += admit(clock, own[i])
		}
		return text
	case lua.Lend.Name:
		var asked wire.Lend
		unpack(own[0], &asked)
		h := wire.HomeReply{Clock: clock}
		h.Granted = asked.Requests
		for range windowsOf(asked.Spec) {
			h.Tallies = append(h.Tallies, wire.Tally{Empty: clock})
		}
		return string(wire.Pack(&wire.Lent{Home: &h}))
	case lua.Recall.Name:
		var order wire.ShardOrder
		unpack(own[0], &order)
		zeros := make([]int64, len(order.Recall.States))
		p := wire.ShardReport{Clock: clock, First: zeros, Empty: zeros, Held: zeros, Limit: zeros, Rate: zeros}
		p.Shard, p.Seq, p.Strict, p.LeaseEnded = order.Recall.Shard, order.Recall.Seq, order.Recall.Strict, true
		for _, s := range order.Recall.States {
			p.Used = append(p.Used, lease.Units{StateName: s})
		}
		return string(wire.Pack(&p))
	case lua.Forget.Name:
		return string(wire.Pack(&wire.Forgotten{Forgotten: true}))
	case lua.Inspect.Name, lua.Look.Name:
		return string(wire.Pack(&wire.KeyStates{}))
	}
	return "\x01"
}

func unpack(text string, message any) {
	if err := wire.Unpack(text, message); err != nil {
		panic(err)
	}
}

// keysOf returns the number of keys of a call that has so many arguments for each. Without declared keys they are the
// last arguments.
func keysOf(declared int, own []string, arguments int) int {
	if declared > 0 {
		return declared
	}
	return len(own) / (arguments + 1)
}

// admit returns the answer to a request with a spec, which is admitted.
func admit(clock int64, spec string) string {
	b := bytesOf(1, 0, 4, 1, 3, 0)
	for range windowsOf(spec) {
		b = append(b, bytesOf(6, 0, 6, 0, 6, clock)...)
	}
	return string(b)
}

// decideAll admits all entries of a call. Without keys they are the last arguments. status is that of
// each entry's answer.
func decideAll(clock int64, keys int, own []string, status func(atShard bool) int) string {
	entries, specs := own[0], own[1:]
	if keys == 0 {
		keys = len(entries) / 6
		if entries == "" {
			keys = len(specs) - 1
		}
	}
	b := bytesOf(6, clock)
	for i := range keys {
		spec, requests := 0, "\x00\x00\x00\x01"
		if entries != "" {
			e := entries[6*i:]
			spec, requests = int(e[0])<<8+int(e[1])-3, e[2:6]
		}
		by := status(specs[spec][6]&2 != 0)
		b = append(b, byte(by))
		switch wire.Status(by) {
		case wire.Failed:
			b = append(b, 0, 3, 'E', 'R', 'R')
			continue
		case wire.AtHome:
			b = append(b, 0, 3, byte(i%2)) // shards 2, undecided 1
		}
		b = append(append(b, requests...), 0, 0, 0)
		for range windowsOf(specs[spec]) {
			b = append(b, bytesOf(6, 0, 6, 0, 6, clock)...)
		}
		if wire.Status(by) == wire.AtShard {
			b = append(b, 0, 0)
		}
	}
	return string(b)
}

// decides reports whether a command is a call of entries.
func decides(args []string) bool {
	return strings.ToLower(args[0]) == "fcall" && (args[1] == lua.Decide.Name || args[1] == lua.Reset.Name)
}

// windowsOf returns the number of windows of a spec: cost 6, flags 1, kind 1, buckets 2,
// then 10 for each window; of GCRA, 16.
func windowsOf(spec string) int {
	switch spec[7] {
	case 4:
		return 1
	case 5: // a reset
		return 0
	}
	return (len(spec) - 10) / 10
}

// bytesOf puts integers into bytes, big-endian: size, value, size, value ...
func bytesOf(pairs ...int64) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		for at := pairs[i] - 1; at >= 0; at-- {
			b = append(b, byte(pairs[i+1]>>(8*at)))
		}
	}
	return b
}

// babble makes replies from bytes: each reply takes some, beginning with the first again when all are
// taken. The replies are nonsense of the given kinds.
type babble struct {
	node  *fakeNode
	kinds []func(b *babble, args []string) reply

	mu    sync.Mutex
	bytes []byte // guarded by mu
	at    int    // guarded by mu
}

func (b *babble) next() int {
	if len(b.bytes) == 0 {
		return 0
	}
	v := b.bytes[b.at%len(b.bytes)]
	b.at++
	return int(v)
}

func (b *babble) text(n int) string {
	s := make([]byte, n)
	for i := range s {
		s[i] = byte(b.next())
	}
	return string(s)
}

// reply returns the reply to a command. Most connections can be made and most probes are answered;
// otherwise nothing else would be sent.
func (b *babble) reply(args []string) reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch strings.ToLower(args[0]) {
	case "hello", "client", "cluster", "eval":
		if b.next()%8 != 0 {
			return b.node.well(args)
		}
	}
	return b.kinds[b.next()%len(b.kinds)](b, args)
}

// nonsense lists all kinds of nonsense.
var nonsense = []struct {
	name string
	make func(b *babble, args []string) reply
}{
	{"none", func(b *babble, args []string) reply { return b.node.well(args) }},
	{"zeros of the right length", func(b *babble, args []string) reply {
		header, payload, _ := strings.Cut(b.node.well(args).text, "\r\n")
		return reply{text: header + "\r\n" + strings.Repeat("\x00", max(len(payload)-2, 0)) + "\r\n"}
	}},
	{"changed bytes", func(b *babble, args []string) reply {
		text := []byte(b.node.well(args).text)
		from := strings.IndexByte(string(text), '\n') + 1
		for range 1 + b.next()%4 {
			if n := len(text) - 2 - from; n > 0 {
				text[from+b.next()%n] = byte(b.next())
			}
		}
		return reply{text: string(text)}
	}},
	{"random lengths", func(b *babble, _ []string) reply { return reply{text: bulk(b.text(b.next()))} }},
	{"answers of another", func(b *babble, args []string) reply { // of a home, a shard or a node that is none
		if !decides(args) {
			return b.node.well(args)
		}
		keys, err := strconv.Atoi(args[2])
		if err != nil {
			return reply{}
		}
		return reply{text: bulk(decideAll(time.Now().UnixMilli(), keys, args[3+keys+1:], func(bool) int { return b.next() % 5 }))}
	}},
	{"a home", func(b *babble, args []string) reply { // that may say anything, of any length
		home := bytesOf(6, time.Now().UnixMilli(), 4, int64(b.next()%3), 3, 0, 2, int64(b.next()))
		if decides(args) {
			home = append(bytesOf(6, time.Now().UnixMilli(), 1, int64(2+b.next()%2)), bytesOf(2, int64(b.next()), 1, 1, 4, 0, 3, 0)...)
		}
		now := time.Now().UnixMilli()
		home = append(home, bytesOf(6, 9, 6, 1, 6, 0, 6, now, 6, 0, 6, 8)...)
		home = append(home, bytesOf(2, 1, 4, int64(1+b.next()%4), 6, 0, 6, 8, 2, 1, 4, int64(1+b.next()%4), 7, 9, 1, 1, 1, 1)...)
		return reply{text: bulk(string(append(home, bytesOf(1, int64(b.next()%9), 5, 1, 5, 60_000)...)))}
	}},
	{"known ids", func(b *babble, args []string) reply { // with limits of their own
		if strings.ToLower(args[0]) != "fcall" || args[1] != lua.Admit.Name {
			return b.node.well(args)
		}
		now, windows := time.Now().UnixMilli(), 1+b.next()%8
		spec := bytesOf(6, 1+int64(b.next()), 1, 0, 1, 1+int64(b.next()%3), 2, 1)
		for range windows {
			spec = append(spec, bytesOf(5, 1+int64(b.next()), 5, 256+int64(b.next()))...)
		}
		text := bytesOf(1, 1, 1, int64(len(spec)))
		text = append(append(append(text, spec...), 0), bytesOf(6, now)...)
		return reply{text: bulk(string(text) + admit(now, string(spec)))}
	}},
	{"integers", func(b *babble, _ []string) reply { return reply{text: fmt.Sprintf(":%d\r\n", b.next()-3)} }},
	{"lines", func(b *babble, _ []string) reply {
		return reply{text: "+" + strings.NewReplacer("\r", "", "\n", "").Replace(b.text(b.next())) + "\r\n"}
	}},
	{"nil", func(b *babble, _ []string) reply {
		return reply{text: []string{"$-1\r\n", "*-1\r\n", "_\r\n"}[b.next()%3]}
	}},
	{"arrays", func(b *babble, _ []string) reply {
		return reply{text: []string{"*0\r\n", "*2\r\n:1\r\n$1\r\na\r\n", "*1\r\n*1\r\n*-1\r\n", "%1\r\n+a\r\n*0\r\n", "~1\r\n:1\r\n", ">1\r\n+x\r\n"}[b.next()%6]}
	}},
	{"deep arrays", func(b *babble, _ []string) reply { return reply{text: strings.Repeat("*1\r\n", 1+b.next()*100)} }},
	{"truncated", func(b *babble, args []string) reply {
		text := b.node.well(args).text
		return reply{text: text[:b.next()%len(text)], hangUp: b.next()%2 == 0}
	}},
	{"huge counts", func(b *babble, _ []string) reply {
		return reply{text: string("$*%>=!|"[b.next()%7]) + []string{
			"100000000000", "2147483647", "9223372036854775807", "99999999999999999999", "65537", "-7", "", "x",
		}[b.next()%8] + "\r\nabc"}
	}},
	{"errors", func(b *babble, _ []string) reply {
		return reply{text: "-" + []string{
			"ERR", "ERR Function not found", "ERR Library 'x' already exists", "ERR unknown command 'FCALL'", "NOPERM no permissions to run the 'fcall' command",
			"NOPERM no permissions to run the 'function|load' command", "NOSCRIPT No matching script", "LOADING", "READONLY You can't", "MASTERDOWN",
			"BUSY", "NOAUTH", "WRONGPASS", "OOM command not allowed", "NOREPLICAS", "MISCONF", "CLUSTERDOWN Hash slot not served",
			"CROSSSLOT", "TRYAGAIN", "EXECABORT", "WRONGTYPE", "UNKILLABLE", "ERR Script attempted to access a non local key", "-", "",
		}[b.next()%25] + "\r\n"}
	}},
	{"redirects", func(b *babble, _ []string) reply {
		to := []string{b.node.addr, "127.0.0.1:1", ":0", "nowhere", "", "?:1"}[b.next()%6]
		return reply{text: []string{"-MOVED ", "-ASK "}[b.next()%2] + []string{"1 ", "99999 ", "x ", ""}[b.next()%4] + to + "\r\n"}
	}},
	{"silence", func(*babble, []string) reply { return reply{} }},
	{"hanging up", func(*babble, []string) reply { return reply{hangUp: true} }},
	{"any bytes", func(b *babble, _ []string) reply { return reply{text: b.text(b.next())} }},
	{"too many replies", func(b *babble, args []string) reply {
		return reply{text: strings.Repeat(b.node.well(args).text, 2+b.next()%3)}
	}},
	{"messages", func(b *babble, _ []string) reply {
		text := ""
		for range 1 + b.next()%3 {
			text += []string{
				"*1\r\n:1\r\n", "*1\r\n$7\r\nmessage\r\n", "*0\r\n", "*2\r\n$9\r\nsubscribe\r\n*0\r\n", "*3\r\n$7\r\nmessage\r\n$8\r\nrl:reset\r\n:1\r\n",
				"*3\r\n$7\r\nmessage\r\n$8\r\nrl:reset\r\n$5\r\nrl:{k\r\n", "*3\r\n$7\r\nmessage\r\n$8\r\nrl:reset\r\n$-1\r\n",
				"*3\r\n$7\r\nmessage\r\n$8\r\nrl:reset\r\n$6\r\nrl:{k}\r\n", "*4\r\n$8\r\npmessage\r\n*0\r\n:1\r\n_\r\n", "*2\r\n$4\r\npong\r\n*-1\r\n",
			}[b.next()%10]
		}
		return reply{text: text}
	}},
}
