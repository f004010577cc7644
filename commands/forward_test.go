package commands

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/forward"
	"github.com/rlproxy/rlproxy/engine/redis"
	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/internal/logged"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Replies are in order inside and outside of transactions, in both protocols, and after
// errors.
func TestForwardedCommandsMixWithRlproxysOwn(t *testing.T) {
	h, _ := forwarding(t)
	s := open(h, 1)
	require.Equal(t, "+OK\r\n+PONG\r\n*5\r\n:1\r\n:2\r\n:1\r\n:0\r\n:60001\r\n$1\r\n1\r\n", ask(h, s, lines(`
		SET a 1
		PING
		RL.SLIDE u 2 60
		GET a`)...))
	require.Equal(t, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"+
		"*4\r\n:2\r\n*5\r\n:1\r\n:2\r\n:0\r\n:0\r\n:60001\r\n-WRONGTYPE Operation against a key holding the wrong kind of value\r\n$1\r\n2\r\n",
		strings.Replace(ask(h, s, lines(`
		MULTI
		INCR a
		RL.SLIDE u 2 60
		LPUSH a x
		GET a
		EXEC`)...), ":60000", ":60001", 1))
	require.Equal(t, "+OK\r\n-ERR unknown command 'NOPE', with args beginning with: 'x' \r\n-EXECABORT Transaction discarded because of previous errors.\r\n$1\r\n2\r\n",
		ask(h, s, lines("MULTI\nNOPE x\nEXEC\nGET a")...))
	require.Equal(t, "-ERR unknown command 'RL.SLIDES', with args beginning with: 'x' (the nearest is RL.SLIDE; RL.HELP lists all)\r\n",
		ask(h, s, lines("RL.SLIDES x")...))
	require.Equal(t, "+OK\r\n-ERR wrong number of arguments for 'get' command\r\n+QUEUED\r\n-EXECABORT Transaction discarded because of previous errors.\r\n$1\r\n2\r\n",
		ask(h, s, lines("MULTI\nGET\nSET a 3\nEXEC\nGET a")...))
	require.Equal(t, "+OK\r\n-ERR 'flushall' is not forwarded: it administers the node (see the directive passthrough-admin)\r\n+OK\r\n",
		ask(h, s, lines("MULTI\nFLUSHALL\nDISCARD")...))
	require.Equal(t, "-ERR unknown subcommand 'NOPE'. Try OBJECT HELP.\r\n", ask(h, s, lines("OBJECT NOPE")...))
	require.Equal(t, "-ERR unknown subcommand 'NOPE'. Try RL.POLICY HELP.\r\n", ask(h, s, lines("RL.POLICY NOPE x")...), "no node knows RL.POLICY")
	require.Equal(t, "-ERR 'acl|setuser' is not forwarded: it administers the node (see the directive passthrough-admin)\r\n", ask(h, s, lines("ACL SETUSER x")...))

	s.Out = nil
	ask(h, s, lines("HELLO 3")...)
	require.Equal(t, ":1\r\n%1\r\n$1\r\nf\r\n$1\r\nv\r\n_\r\n", ask(h, s, lines("HSET h f v\nHGETALL h\nGET none")...))
	require.Equal(t, "+RESET\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n$-1\r\n", ask(h, s, lines("RESET\nHGETALL h\nGET none")...))
}

// Replies are in order, and a command that reads the state of a decision before it sees the
// decision.
func TestForwardedCommandsMixWithDecisions(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		var urls []string
		for range nodes {
			urls = append(urls, redistest.Start(t).URL())
		}
		h := forwardingTo(t, 5*time.Second, urls...)
		s := open(h, 1)
		for round := range 20 {
			slide, exists := fmt.Sprintf("RL.SLIDE u%d 2 60\n", round), fmt.Sprintf("EXISTS rl:{u%d}\n", round)
			got := ask(h, s, lines(exists+slide+exists+"SET a 1\n"+slide+"INCR a\n"+slide+"NOPE\nGET a\n")...)
			require.Regexp(t, `^:0\r\n\*5\r\n:1\r\n:2\r\n:1\r\n:0\r\n:\d+\r\n:1\r\n\+OK\r\n\*5\r\n:1\r\n:2\r\n:0\r\n:0\r\n:\d+\r\n`+
				`:2\r\n\*5\r\n:0\r\n:2\r\n:0\r\n:\d+\r\n:\d+\r\n-ERR unknown command 'NOPE', .*\r\n\$1\r\n2\r\n$`, got)
		}
	}
}

// Decisions do not wait for forwarded commands that a node has not answered: their policy
// answers in time, and the commands' answer comes when the node is back.
func TestDecisionsDoNotWaitForCommands(t *testing.T) {
	slow, well := redistest.Start(t), redistest.Start(t)
	h := forwardingTo(t, 100*time.Millisecond, slow.URL(), well.URL())
	s, other := open(h, 1), open(h, 2)
	var keys [2]string // one on each node
	for i := 0; keys[0] == "" || keys[1] == ""; i++ {
		key := fmt.Sprint("k", i)
		require.Equal(t, ":1\r\n", ask(h, s, lines("INCR "+key)...))
		keys[well.Client.Exists(t.Context(), key).Val()] = key
	}

	slow.Pause()
	answer := make(chan string, 1)
	go func() { answer <- ask(h, s, lines("INCR "+keys[0])...) }() // ends with the answer, or the command's timeout
	for range 100 {
		require.Equal(t, "$1\r\n1\r\n", ask(h, other, lines("GET "+keys[1])...))
	}
	began := time.Now()
	require.Equal(t, "*5\r\n:1\r\n:10\r\n:-1\r\n:0\r\n:0\r\n", ask(h, other, lines("RL.SLIDE "+keys[0]+" 10 60 FAIL OPEN")...))
	require.Less(t, time.Since(began), 5*time.Second)
	select {
	case reply := <-answer:
		require.Fail(t, "answered by a node that hangs", reply)
	default:
	}
	slow.Resume()
	require.Equal(t, ":2\r\n", <-answer)
}

func TestOnlyCommandsThatMayReadLimitsWaitForDecisions(t *testing.T) {
	for _, c := range []struct {
		pipeline         string
		forwards, decide []int // sizes of the calls of the forwarder and of the engine
	}{
		{"GET a\nRL.SLIDE u 2 60\nGET b\nRL.SLIDE u 2 60\nPING", []int{2}, []int{2}},
		{"DBSIZE\nGET a\nGET rl:{u}", []int{3}, nil},
		{"RL.SLIDE u 2 60\nGET a\nGET rl:{u}\nGET b", []int{1, 2}, []int{1}},
		{"GET a\nRL.SLIDE u 2 60\nDBSIZE\nRL.SLIDE u 2 60", []int{1, 1}, []int{1, 1}},
		{"DBSIZE\nRL.SLIDE u 2 60\nGET a\nRL.SLIDE u 2 60\nDBSIZE", []int{1, 1, 1}, []int{2}},
		{"MULTI\nRL.SLIDE u 2 60\nDBSIZE\nEXEC", []int{1}, []int{1}},
	} {
		e, f := newFakeEngine(), new(fakeForward)
		cfg := testConfig(e)
		cfg.Forward = f
		h := New(cfg)
		ask(h, open(h, 1), lines(c.pipeline)...)
		require.Equal(t, c.forwards, f.calls, c.pipeline)
		require.Equal(t, c.decide, e.calls, c.pipeline)
	}
}

// The permissions of a user depend on the nodes' description of commands. If no node can be asked
// for it, that holds for one pipeline only.
func TestRestrictedUsersCanForwardCommandsOnceTheNodeIsBack(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // each pipeline gets the same workspace from the pool
	h, node := forwarding(t)
	h.SetACL(users(t, "default on nopass ~* +@all -flushall"))
	s := open(h, 1)
	node.Kill()
	require.Contains(t, ask(h, s, lines("GET a")...), "-UNAVAILABLE")
	node.Run()
	for strings.HasPrefix(ask(h, s, lines("RL.SLIDE u 1000000 60 FAIL ERROR")...), "-UNAVAILABLE") {
		time.Sleep(10 * time.Millisecond) // the proxy has not found the node yet
	}
	time.Sleep(200 * time.Millisecond) // the description is fetched again after 100 ms
	require.Equal(t, "$-1\r\n", ask(h, s, lines("GET a")...))
}

func TestClientListNamesForwardedCommands(t *testing.T) {
	h, _ := forwarding(t)
	s := open(h, 1)
	for line, name := range map[string]string{"GET a": "get", "OBJECT HELP": "object|help", "NOPE": "NULL"} {
		ask(h, s, lines(line)...)
		require.Contains(t, ask(h, open(h, 2), lines("CLIENT LIST ID 1")...), " cmd="+name+" ", line)
	}
}

func TestForwardedCommandsRunWhenClientReplyIsOff(t *testing.T) {
	h, _ := forwarding(t)
	s := open(h, 1)
	require.Equal(t, "+OK\r\n:2\r\n", ask(h, s, lines("CLIENT REPLY OFF\nINCR n\nCLIENT REPLY ON\nINCR n")...))
	require.Equal(t, ":4\r\n", ask(h, s, lines("CLIENT REPLY SKIP\nINCR n\nINCR n")...))
}

// WATCH and SUBSCRIBE would promise what shared connections to nodes cannot keep. Where no
// command is forwarded, nothing can be lost, and clients get the replies that they need to start.
func TestWatchAndSubscribeAreErrorsWhereCommandsAreForwarded(t *testing.T) {
	h, _ := forwarding(t)
	s := open(h, 1)
	require.Equal(t, "-"+reply.ErrNoWatch+"\r\n+OK\r\n-"+reply.ErrNoChannel+"\r\n$-1\r\n-ERR 'psubscribe' is not forwarded: "+
		"pub/sub is not supported, since subscribers need connections of their own and clients share the connections to nodes\r\n", ask(h, s, lines("WATCH a\nUNWATCH\nSUBSCRIBE a\nGET a\nPSUBSCRIBE a")...))
	require.Equal(t, "+OK\r\n-"+reply.ErrNoChannel+"\r\n-"+reply.ErrWatch+"\r\n-"+reply.ErrExecAbort+"\r\n", ask(h, s, lines("MULTI\nSUBSCRIBE a\nWATCH a\nEXEC")...))
	h.cfg.Forward = nil
	require.Equal(t, "+OK\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", ask(h, s, lines("WATCH a\nSUBSCRIBE a")...))
}

// A transaction's keys of forwarded commands are on one node; its rate limits are wherever they are.
func TestTransactionOfSeveralNodesIsRefused(t *testing.T) {
	h := forwardingTo(t, 5*time.Second, redistest.Start(t).URL(), redistest.Start(t).URL())
	s := open(h, 1)
	const aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n"
	var sets, limits strings.Builder
	for i := range 20 {
		fmt.Fprintf(&sets, "SET k%d 1\n", i)
		fmt.Fprintf(&limits, "RL.SLIDE k%d 2 60\nSET {a}%d 1\n", i, i)
	}
	answer := ask(h, s, lines("MULTI\n"+sets.String()+"EXEC")...)
	require.Contains(t, answer, "-CROSSSLOT the keys of a transaction must be on one node")
	require.True(t, strings.HasSuffix(answer, aborted), answer)
	require.Equal(t, ":0\r\n", ask(h, s, lines("DBSIZE")...), "nothing was written")
	require.Contains(t, ask(h, s, lines("MULTI\nDBSIZE\nEXEC")...), "it goes to all nodes, and a transaction to one\r\n"+aborted)
	answer = ask(h, s, lines("MULTI\n"+limits.String()+"EXEC")...)
	require.True(t, strings.HasPrefix(answer, "+OK\r\n"+strings.Repeat("+QUEUED\r\n", 40)+"*40\r\n*5\r\n:1\r\n"), answer)
	require.Equal(t, 20, strings.Count(answer, "*5\r\n:1\r\n:2\r\n:1\r\n:0\r\n"))
	require.NotContains(t, ask(h, s, lines("MULTI\nSET b 1\nEXEC\nMULTI\nSET c 1\nEXEC\nMULTI\nSET d 1\nEXEC\nMULTI\nSET e 1\nEXEC")...), "CROSSSLOT", "each begins anew")
}

// Ten SORTs, each of which asks for its keys, and a decision behind them take the time of one
// command that a node does not answer.
func TestPipelineToAStoppedNodeTakesOneTimeout(t *testing.T) {
	const timeout = time.Second
	node := redistest.Start(t)
	fleet, err := backend.Open(backend.Config{Backends: []string{node.URL()}, Timeout: 50 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fleet.Close()) })
	e := redis.Open(fleet, redis.Config{})
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	f := forward.Open(fleet, forward.Config{Settings: forward.Settings{Timeout: timeout}})
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	cfg := testConfig(e)
	cfg.Forward = f
	h := New(cfg)
	s := open(h, 1)
	require.Equal(t, "*0\r\n", ask(h, s, lines("SORT a")...))
	node.Pause()
	began := time.Now()
	answer := ask(h, s, lines(strings.Repeat("SORT a\n", 10)+"RL.SLIDE u 5 60 FAIL OPEN\nDBSIZE\n"+strings.Repeat("RL.SLIDE u 5 60 FAIL OPEN\nDBSIZE\n", 5))...)
	took := time.Since(began)
	node.Resume()
	require.Equal(t, 16, strings.Count(answer, "-UNAVAILABLE "+node.Addr+": no answer in time\r\n"), answer)
	require.Equal(t, 6, strings.Count(answer, "*5\r\n:1\r\n:5\r\n:-1\r\n:0\r\n:0\r\n"), answer)
	require.Less(t, took, 4*timeout)
}

// EXEC in a pipeline of its own asks a node again that did not answer another session.
func TestExecIsNotBlamedForAnotherSession(t *testing.T) {
	node := redistest.Start(t)
	h := forwardingTo(t, 20*time.Second, node.URL())
	f := h.cfg.Forward.(*forward.Forwarder)
	a, b := open(h, 1), open(h, 2)
	for range 5 { // the sessions share a workspace, but not always
		f.Configure(forward.Settings{Timeout: 20 * time.Second})
		require.Equal(t, "+OK\r\n+QUEUED\r\n", ask(h, a, lines("MULTI\nSORT a")...))
		f.Configure(forward.Settings{Timeout: 50 * time.Millisecond})
		node.Pause()
		require.Equal(t, "-UNAVAILABLE "+node.Addr+": no answer in time\r\n", ask(h, b, lines("SORT b")...))
		node.Resume()
		require.NoError(t, node.Client.Ping(t.Context()).Err())
		f.Configure(forward.Settings{Timeout: 20 * time.Second})
		require.Equal(t, "*1\r\n*0\r\n", ask(h, a, lines("EXEC")...))
	}
}

func TestLargeForwardedRepliesKeepTheirOrder(t *testing.T) {
	h, node := forwarding(t)
	s := open(h, 1)
	large := bytes.Repeat([]byte("0123456789abcdef"), maxCopy/8)
	require.NoError(t, node.Client.Set(t.Context(), "large", large, 0).Err())
	bulk := fmt.Sprintf("$%d\r\n%s\r\n", len(large), large)
	require.Equal(t, bulk+"+PONG\r\n"+bulk+bulk+"+OK\r\n"+bulk, ask(h, s, lines("GET large\nPING\nGET large\nGET large\nSET a 1\nGET large")...))
}

// The database of the nodes is that of the backend's URL. A client that selects another one is told so, and so is the
// log, since some clients ignore the error.
func TestSelectSaysWhereTheDatabaseBelongs(t *testing.T) {
	w := logged.New()
	h := New(Config{Engine: newFakeEngine(), Forward: new(fakeForward), Logger: w.Logger(), Now: w.Now})
	s := open(h, 1)
	require.Equal(t, "-ERR value is not an integer or out of range\r\n", ask(h, s, words("SELECT", "x")))
	w.RequireEpisodes(t, logged.Lines{
		Began: `"a client was refused a database other than 0, and may go on in 0; the backend's URL selects the nodes' database"`,
		Ended: `"clients select database 0 and no other any more"`, Calm: episodes.Every,
		Detail: ` database=15 addr=127.0.0.1:50001 name="" lib=""`, Count: "times",
	}, func() {
		require.Equal(t, "-ERR DB index is out of range: there is only database 0. Another database of the nodes belongs in the backend's URL, "+
			"as in redis://host:6379/1\r\n", ask(h, s, words("SELECT", "15")))
	}, func() { require.Equal(t, "+OK\r\n", ask(h, s, words("SELECT", "0"))) })
}

func TestRedisCommandsAreUnknownWithoutAForwarder(t *testing.T) {
	h, _ := forwarding(t)
	h.cfg.Forward = nil
	require.Equal(t, "-ERR unknown command 'GET', with args beginning with: 'a' (commands of Redis are forwarded only with backend and passthrough yes)\r\n",
		ask(h, open(h, 1), lines("GET a")...))
}

// Forwarding ends and begins with the next command, also of a transaction that was queued before.
// What the nodes have been asked is answered.
func TestForwardingIsSwitchedOffAndOn(t *testing.T) {
	h, _ := forwarding(t)
	f := h.cfg.Forward.(*forward.Forwarder)
	off := func(off, admin bool) {
		f.Configure(forward.Settings{Off: off, Admin: admin, Timeout: 20 * time.Second})
	}
	const unknown = "-ERR unknown command 'INCR', with args beginning with: 'n' (commands of Redis are forwarded only with backend and passthrough yes)\r\n"
	s := open(h, 1)
	require.Equal(t, ":1\r\n+OK\r\n+QUEUED\r\n", ask(h, s, lines("INCR n\nMULTI\nINCR n")...))
	off(true, false)
	require.Equal(t, "*1\r\n"+unknown+unknown+"-ERR unknown subcommand 'WHAT'. Try CLIENT HELP.\r\n+OK\r\n",
		ask(h, s, lines("EXEC\nINCR n\nCLIENT WHAT\nWATCH n")...))
	require.Equal(t, "+OK\r\n"+unknown+"-EXECABORT Transaction discarded because of previous errors.\r\n", ask(h, s, lines("MULTI\nINCR n\nEXEC")...))
	off(false, false)
	require.Equal(t, ":2\r\n-"+reply.ErrNoWatch+"\r\n", ask(h, s, lines("INCR n\nWATCH n")...))

	require.Contains(t, ask(h, s, lines("FLUSHALL")...), "see the directive passthrough-admin")
	off(false, true)
	require.Equal(t, "+OK\r\n:1\r\n", ask(h, s, lines("FLUSHALL\nINCR n")...))
	off(false, false)
	require.Contains(t, ask(h, s, lines("FLUSHALL")...), "see the directive passthrough-admin")
}

// COMMAND tells the keys of forwarded commands as the nodes do, and those of rlproxy's own.
func TestCommandGetKeysKnowsForwardedCommands(t *testing.T) {
	h, _ := forwarding(t)
	s := open(h, 1)
	require.Equal(t, "*2\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n*2\r\n$1\r\na\r\n*2\r\n+OW\r\n+insert\r\n*1\r\n$1\r\nk\r\n",
		ask(h, s, lines("COMMAND GETKEYS MGET a b\nCOMMAND GETKEYSANDFLAGS SETNX a x\nCOMMAND GETKEYS RL.SLIDE k 5 60")...))
	require.Equal(t, "-ERR The command has no key arguments\r\n-ERR Invalid command specified\r\n", ask(h, s, lines("COMMAND GETKEYS TIME x\nCOMMAND GETKEYS NOPE x")...))
}

// COMMAND shows forwarded commands byte for byte as a node does, in both protocols, and none that is not forwarded.
func TestCommandShowsForwardedCommands(t *testing.T) {
	h, node := forwarding(t)
	s := open(h, 1)
	for _, proto := range []string{"2", "3"} {
		ask(h, s, words("HELLO", proto))
		conn, err := net.Dial("tcp", node.Addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		for _, name := range []string{"get", "GetEx", "eval", "sort", "xgroup|create", "object|encoding", "georadius", "bitop", "time", "nope"} {
			_, err := fmt.Fprintf(conn, "HELLO %s\r\nPING\r\nCOMMAND INFO %s\r\nPING\r\n", proto, name)
			require.NoError(t, err)
			var all []byte
			for b := make([]byte, 1<<16); bytes.Count(all, []byte("+PONG\r\n")) < 2; {
				n, err := conn.Read(b)
				require.NoError(t, err)
				all = append(all, b[:n]...)
			}
			require.Equal(t, strings.Split(string(all), "+PONG\r\n")[1], ask(h, s, words("COMMAND", "INFO", name)), name)
		}
	}
	ask(h, s, words("HELLO", "2"))
	list := ask(h, s, lines("COMMAND LIST")...)
	count, _, _ := strings.Cut(list, "\r\n")
	require.Equal(t, ":"+count[1:]+"\r\n", ask(h, s, lines("COMMAND COUNT")...))
	require.True(t, strings.HasPrefix(ask(h, s, lines("COMMAND")...), count+"\r\n*10\r\n"))
	for _, name := range []string{"get", "rl.slide", "ping", "object"} {
		require.Equal(t, 1, strings.Count(list, "\r\n"+name+"\r\n"), name)
	}
	for _, name := range []string{"flushall", "blpop", "psubscribe", "monitor"} {
		require.NotContains(t, list, "\r\n"+name+"\r\n")
	}
	require.Equal(t, "*3\r\n$4\r\nmget\r\n$4\r\nmset\r\n$6\r\nmsetnx\r\n", ask(h, s, lines("COMMAND LIST FILTERBY PATTERN m[gs]et*")...))
	require.Contains(t, ask(h, s, lines("COMMAND LIST FILTERBY ACLCAT hash")...), "$4\r\nhset\r\n")
	h.cfg.Forward.(*forward.Forwarder).Configure(forward.Settings{Admin: true})
	require.Contains(t, ask(h, s, lines("COMMAND LIST")...), "$8\r\nflushall\r\n")
	h.cfg.Forward.(*forward.Forwarder).Configure(forward.Settings{Off: true})
	require.NotContains(t, ask(h, s, lines("COMMAND LIST")...), "$3\r\nget\r\n")
}
