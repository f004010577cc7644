package tests

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// ownLibrary is rlproxy's library as a node has it.
type ownLibrary struct{ name, function, code string }

// libraryOf returns the library that a node has, or nothing.
func libraryOf(t *testing.T, n *redistest.Server) (l ownLibrary) {
	t.Helper()
	reply, err := n.Client.FunctionList(t.Context(), redis.FunctionListQuery{LibraryNamePattern: "rlproxy_*", WithCode: true}).Result()
	require.NoError(t, err)
	for _, library := range reply {
		l.name, l.code = library.Name, library.Code
		for _, f := range library.Functions {
			if strings.HasPrefix(f.Name, "rl_decide_") {
				l.function = f.Name
			}
		}
	}
	return l
}

// forged returns a library like l that never stores a count, so that it admits every request. Its first line is shebang.
func (l *ownLibrary) forged(shebang string) string {
	_, body, _ := strings.Cut(l.code, "\n")
	return shebang + "\n" + strings.ReplaceAll(body, "call('SET'", "type('SET'")
}

// args returns the arguments of a proxy of these backends.
func (k *backendKind) args() (args []string) {
	for _, url := range k.urls {
		args = append(args, "--backend", url)
	}
	return append(args, "--backend-timeout", "10000", "--fail-policy", "error")
}

// holder returns the master that has a stored key.
func (k *backendKind) holder(key string) *redistest.Server {
	return k.nodes[slices.IndexFunc(k.nodes, func(n *redistest.Server) bool {
		there, _ := n.Ask("EXISTS", key) // of a cluster, only the key's node answers
		return there == "1"
	})]
}

// admitted returns how many of six requests about a key with limit 2 are admitted.
func (c *conn) admitted(t *testing.T, key string) (n int64) {
	t.Helper()
	for range 6 {
		n += c.decide(t, "RL.SLIDE "+key+" 2 60").allowed
	}
	return n
}

// attack is a command of a client that would change what rlproxy keeps on its nodes, and its reply. In its words, $lib is
// the name of rlproxy's library, $fun that of one of its functions, and $dump a dump of a forged library.
type attack struct {
	line  string
	reply string // a regular expression
	admin bool   // with passthrough-admin yes the command is forwarded, so that it may succeed
}

const (
	own      = "is rlproxy's own"
	kept     = "can't be written: 'rl:{"
	admins   = "passthrough-admin"
	noScript = "not allowed from script|Unknown Redis command"
	shared   = "clients share the connections"
)

var attacks = []attack{
	{"FUNCTION DELETE $lib", own, false},
	{"function delete $lib", own, false},
	{"FUNCTION FLUSH", admins, true},
	{"FUNCTION FLUSH SYNC", admins, true},
	{"FUNCTION RESTORE $dump REPLACE", admins, true},
	{"FUNCTION RESTORE $dump FLUSH", admins, true},
	{"FUNCTION RESTORE $dump", admins, true},
	{"FCALL $fun 0 x y", own, false},
	{"FCALL $fun 1 k x y", own, false},
	{"FCALL_RO $fun 0", own, false},
	{"EVAL return{redis.call('FUNCTION','DELETE','$lib')} 1 k", noScript, false},
	{"EVAL return{redis.call('FCALL','$fun',0)} 1 k", noScript, false},
	{"EVAL return{redis.call('SCRIPT','FLUSH')} 1 k", noScript, false},
	{"EVAL return{redis.call('CONFIG','SET','maxmemory','1')} 1 k", noScript, false},
	{"EVAL return{redis.call('ACL','SETUSER','default','off')} 1 k", noScript, false},
	{"EVAL return{redis.call('REPLICAOF','127.0.0.1','1')} 1 k", noScript, false},
	{"EVAL return{redis.call('MODULE','LOAD','x')} 1 k", noScript, false},
	{"EVAL return{redis.call('DEBUG','RELOAD')} 1 k", noScript, false},
	{"SCRIPT FLUSH", "^OK$", false}, // harmless: where the library is a script, it is loaded again

	{"SET rl:{k} x", kept, false},
	{"DEL a rl:{k}", kept, false},
	{"UNLINK rl:{%policies}", kept, false},
	{"EXPIRE rl:{%backends} 1", kept, false},
	{"PERSIST rl:{k}", kept, false},
	{"RENAME rl:{k} {k}", kept, false},
	{"RENAME {k} rl:{k}", kept, false},
	{"RENAMENX {k} rl:{k}", kept, false},
	{"COPY {k} rl:{k} REPLACE", kept, false},
	{"COPY rl:{k} {k} DB 1", "DB index is out of range", false},
	{"MOVE rl:{k} 1", "DB index is out of range", false},
	{"SORT {k} STORE rl:{k}", kept, false},
	{"SORT {k} BY nosort STORE x STORE rl:{k}", kept, false},
	{"BITOP NOT rl:{k} {k}", kept, false},
	{"GEOSEARCHSTORE rl:{k} {k} FROMLONLAT 0 0 BYRADIUS 1 m", kept, false},
	{"GEORADIUS {k} 0 0 1 m STORE rl:{k}", kept, false},
	{"ZRANGESTORE rl:{k} {k} 0 1", kept, false},
	{"SDIFFSTORE rl:{k} {k}", kept, false},
	{"LMOVE {k} rl:{k} LEFT LEFT", kept, false},
	{"RPOPLPUSH {k} rl:{k}", kept, false},
	{"MSET rl:{k} x", kept, false},
	{"MSET a x rl:{k} x", kept, false},
	{"SETRANGE rl:{k} 0 x", kept, false},
	{"APPEND rl:{k} x", kept, false},
	{"GETDEL rl:{k}", kept, false},
	{"GETEX rl:{k} PX 1", kept, false},
	{"PFMERGE rl:{k} {k}", kept, false},
	{"XADD rl:{%hotkeys} * a b", kept, false},
	{"HSET rl:{k}%i a b", kept, false},
	{"EVAL return{redis.call('DEL',KEYS[1])} 1 rl:{k}", kept, false},
	{"RESTORE rl:{k} 0 x REPLACE", admins + "|" + kept, false},
	{"MIGRATE 127.0.0.1 1 rl:{k} 0 1", admins + "|" + kept, false},
	{"MIGRATE 127.0.0.1 1 __ 0 1 KEYS rl:{k}", admins + "|" + kept, false},

	{"PUBLISH rl:reset rl:{k}", shared, false},
	{"SUBSCRIBE rl:reset", shared, false},
	{"PSUBSCRIBE *", shared, false},
	{"MONITOR", shared, false},
	{"PSYNC ? -1", shared, false},
	{"SYNC", shared, false},
	{"REPLCONF ack 0", shared, false},
	{"SELECT 1", "DB index is out of range", false},
	{"SCRIPT DEBUG YES", shared, false},
	{"CLIENT PAUSE 100", shared, false},
	{"FLUSHALL", admins, true},
	{"FLUSHDB", admins, true},
	{"SWAPDB 0 1", admins, true},
	{"DEBUG RELOAD", admins, true},
	{"MODULE LOAD x", admins, true},
	{"ACL SETUSER default off", admins, true},
	{"REPLICAOF 127.0.0.1 1", admins, true},
	{"FAILOVER", admins, true},
	{"CLUSTER RESET", "cluster support disabled", false},
	{"CLUSTER FAILOVER", "cluster support disabled", false},
	{"SHUTDOWN NOSAVE", admins, true},
}

// shebangs are first lines by which servers load a library under the name $lib, however they are written.
var shebangs = []string{
	"#!lua name=$lib", "#!LUA NAME=$lib", "#!lua  \tname=$lib\r", `#!lua "name=$lib"`, `#!lua 'name=$lib'`, `#!lua name="$lib"`, `#!lua "\x6eame=$lib"`,
	`"#!lua" name=$lib`, `#!lua name=other name=$lib`,
}

// TestClientsCannotChangeWhatIsRlproxysOwn has a client without a user attack what rlproxy keeps on its nodes, by every
// way that a command is forwarded: alone, in a transaction, with and without passthrough-admin. Limits hold afterwards.
func TestClientsCannotChangeWhatIsRlproxysOwn(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, k backendKind) {
		for _, admin := range []string{"no", "yes"} {
			p := startProxy(t, append(k.args(), "--passthrough-admin", admin)...)
			c := p.ready(t)
			c.do(t, "RL.RESET", "k", "forged", "fresh")
			require.EqualValues(t, 2, c.admitted(t, "k"))
			node := k.holder("rl:{k}")
			library := libraryOf(t, node)
			k.doOnMasters("FUNCTION", "LOAD", "REPLACE", library.forged("#!lua name="+library.name))
			require.EqualValues(t, 6, c.admitted(t, "forged"), "the forged library breaks limits")
			dump := node.Do("FUNCTION", "DUMP")
			k.doOnMasters("FUNCTION", "LOAD", "REPLACE", library.code)

			try := func(reply string, words ...any) {
				t.Helper()
				require.Regexp(t, reply, fmt.Sprint(c.do(t, words...)), "%.100q", words)
				c.pipeline(t, []any{"MULTI"}, words, []any{"EXEC"})
				require.EqualValues(t, 0, c.decide(t, "RL.SLIDE k 2 60").allowed, "%.100q", words)
				require.Equal(t, library, libraryOf(t, node), "%.100q", words)
			}
			for _, a := range attacks {
				if a.admin && admin == "yes" {
					continue
				}
				args := words(a.line)
				for i, w := range args {
					w = strings.ReplaceAll(strings.ReplaceAll(w.(string), "$lib", library.name), "$fun", library.function)
					if args[i] = w; w == "$dump" {
						args[i] = dump
					}
				}
				try(a.reply, args...)
			}
			try(own, "FCALL", strings.ToUpper(library.function), 0)
			for _, line := range shebangs {
				text := library.forged(strings.ReplaceAll(line, "$lib", library.name))
				try(own, "FUNCTION", "LOAD", text)
				try(own, "FUNCTION", "LOAD", "replace", text)
			}
			require.EqualValues(t, 2, c.admitted(t, "fresh"))
			p.stop(t)
		}
	})
}

// TestFunctionsOfClientsDoNotTakeTheNamesOfRlproxys has a client load a library of its own, which registers the names of
// rlproxy's functions, on nodes that do not have rlproxy's yet. Another library of the client's is loaded and works.
func TestFunctionsOfClientsDoNotTakeTheNamesOfRlproxys(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, backends(n)...)
	require.EqualValues(t, 2, p.ready(t).admitted(t, "k"))
	library := libraryOf(t, n.Server)
	p.stop(t)
	eachBackend(t, func(t *testing.T, k backendKind) {
		for _, computed := range []bool{false, true} {
			for _, node := range k.nodes {
				_, _ = node.Ask("FUNCTION", "FLUSH") // a replica refuses it
			}
			text := library.forged("#!lua name=other")
			if computed {
				text = strings.ReplaceAll(text, "function_name = 'rl_", "function_name = 'r' .. 'l_")
			}
			p := startProxy(t, k.args()...)
			c := dial(t, p.addr)
			eventually(t, "a node", func() bool { return c.do(t, "GET", "k") == nil })
			require.Regexp(t, "Function rl_.* already exists", c.do(t, "FUNCTION", "LOAD", text))
			require.EqualValues(t, 2, c.admitted(t, fmt.Sprint("k", computed)))
			require.Equal(t, "mine", c.do(t, "FUNCTION", "LOAD", "REPLACE", "#!lua name=mine\nredis.register_function('rl_mine', function(keys) return 7 end)"))
			require.EqualValues(t, 7, c.do(t, "FCALL", "rl_mine", 1, "k"))
			require.Equal(t, status("OK"), c.do(t, "FUNCTION", "DELETE", "mine"))
			p.stop(t)
		}
	})
}

// TestKeysOfLimitsDoNotGetInTheWayOfDeletingAll deletes all keys of an application with redis-cli, among keys of limits.
func TestKeysOfLimitsDoNotGetInTheWayOfDeletingAll(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, backends(n)...)
	c := p.ready(t)
	const count = 300
	for i := range count {
		require.EqualValues(t, 1, c.decide(t, fmt.Sprintf("RL.SLIDE user:%d 2 60", i)).allowed)
		require.Equal(t, status("OK"), c.do(t, "SET", fmt.Sprint("rl:app:", i), i))
	}
	_, port, _ := strings.Cut(p.addr, ":")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf("redis-cli -p %s --scan | xargs -n 50 redis-cli -p %s del", port, port)).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, strings.Repeat("50\n", count/50), string(out))
	require.Len(t, n.keys(t), count, "only the keys of limits are left")
	require.EqualValues(t, 0, c.decide(t, "RL.SLIDE user:7 2 60").remaining)
	p.stop(t)
}
