package forward

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/stretchr/testify/require"
)

func TestCodeOfRlproxyCannotBeNamed(t *testing.T) {
	f := open(t, func(c *Config) { c.Admin = true }, redistest.Start(t))
	other := "rl_decide_0123456789ab" // of another version of rlproxy
	for _, line := range []string{
		"FCALL " + lua.Decide.Name + " 0", "FCALL " + strings.ToUpper(lua.Decide.Name) + " 1 k", "fcall_ro " + other + " 0",
		"EVALSHA " + lua.Script.SHA + " 0", "evalsha_ro " + strings.ToUpper(lua.Script.SHA) + " 0",
		"FUNCTION DELETE " + lua.Library.Name, "FUNCTION LOAD \"#!lua name=rlproxy_0123456789ab\\n\"", "FUNCTION LOAD REPLACE \"#!lua 'NAME=" + lua.Library.Name + "' \\n\"",
	} {
		require.Contains(t, forwardAll(t, f, 2, line)[0], "is rlproxy's own: clients can't call, load or delete it", line)
		require.ErrorContains(t, f.Join(new(Pipeline), new(Transaction), commandLine(t, line)), "is rlproxy's own", line)
	}
	for line, want := range map[string]string{
		"FCALL rl_decide 0":           "-ERR Function not found\r\n",
		"FUNCTION DELETE rlproxy_own": "-ERR Library not found\r\n",
		"FUNCTION LOAD \"#!lua name=\\\"x\\nredis.register_function('rlproxy', print)\"": "-ERR Invalid library metadata\r\n",
		"FUNCTION LOAD x": "-ERR Missing library metadata\r\n",
	} {
		require.Equal(t, want, forwardAll(t, f, 2, line)[0], line)
	}
}

// FuzzLibraryName has a node load a library. If rlproxy lets it, its name is not rlproxy's.
func FuzzLibraryName(f *testing.F) {
	for _, line := range []string{
		"#!lua name=$", "#!LUA NAME=$ ", `#!lua "name=$"`, `#!lua 'name=$'`, `#!lua name="$"`, `#!lua "\x6eame=$"`, "#!lua\tname=$\r", "#!lua name=$\x00", "#!lua name=a",
	} {
		f.Add(line)
	}
	s := redistest.Start(f)
	f.Fuzz(func(t *testing.T, line string) {
		line = strings.ReplaceAll(line, "$", "rlproxy_0123456789ab")
		text := line + "\nredis.register_function('f', function() end)"
		if loadsOwnLibrary(nil, [][]byte{[]byte("function"), []byte("load"), []byte(text)}) != nil {
			return
		}
		require.NoError(t, s.Client.FunctionFlush(t.Context()).Err())
		if name, err := s.Client.FunctionLoad(t.Context(), text).Result(); err == nil {
			require.NotEqual(t, "rlproxy_0123456789ab", strings.ToLower(name))
		}
	})
}

// The first library of a client finds rlproxy's on every node, and its own replies are those to its command.
func TestRlproxysLibraryIsLoadedBeforeThoseOfClients(t *testing.T) {
	servers := startServers(t, 3)
	f := open(t, nil, servers...)
	mine := `FUNCTION LOAD "#!lua name=mine\nredis.register_function('mine', function() return 7 end)"`
	require.Equal(t, []string{"$4\r\nmine\r\n", "-ERR Library 'mine' already exists\r\n", ":7\r\n"}, forwardAll(t, f, 2, mine, mine, "FCALL mine 1 k"))
	for _, s := range servers {
		require.Contains(t, s.Do("FUNCTION", "LIST"), lua.Library.Name)
	}
}

func TestKeysOfLimitsAreNotListed(t *testing.T) {
	s := redistest.Start(t)
	f := open(t, func(c *Config) { c.Admin = true }, s)
	s.Do("MSET", "a", "1", "rl:{a}", "1", "rl:{b}", "1", "rl:", "1")
	for _, proto := range []int{2, 3} {
		scan := forwardAll(t, f, proto, "SCAN 0 COUNT 100", "KEYS *", "SCAN 0 MATCH rl:{*", "KEYS rl:{*", "SCAN x", "SCAN 0 MATCH none")
		require.Regexp(t, `^\*2\r\n\$1\r\n0\r\n\*2\r\n(\$3\r\nrl:\r\n|\$1\r\na\r\n){2}$`, scan[0])
		require.Regexp(t, `^\*2\r\n(\$3\r\nrl:\r\n|\$1\r\na\r\n){2}$`, scan[1])
		require.Equal(t, []string{"*2\r\n$1\r\n0\r\n*0\r\n", "*0\r\n", "-ERR invalid cursor\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"}, scan[2:])
		for range 20 {
			require.Contains(t, []string{"$3\r\nrl:\r\n", "$1\r\na\r\n", nullOf(proto)}, forwardAll(t, f, proto, "RANDOMKEY")[0])
		}
	}
	require.Equal(t, ":4\r\n", forwardAll(t, f, 2, "DBSIZE")[0])
	require.Equal(t, "ERR keys that begin with rl:{ hold the state of rate limits and can't be written: 'rl:{b}'", forwardAll(t, f, 2, "DEL a rl:{b} rl:{a}")[0])
	s.Do("DEL", "a", "rl:")
	for _, proto := range []int{2, 3} {
		require.Equal(t, nullOf(proto), forwardAll(t, f, proto, "RANDOMKEY")[0], "nothing else is there")
	}
}

func nullOf(proto int) string { return map[int]string{2: "$-1\r\n", 3: "_\r\n"}[proto] }

func TestKeysStayInTheDatabaseOfClients(t *testing.T) {
	s := redistest.Start(t)
	f := open(t, nil, s)
	s.Do("SET", "a", "1")
	for _, line := range []string{"MOVE a 1", "MOVE a 0", "COPY a b DB 1", "copy a b replace db 1", "COPY a b DB 0"} {
		require.Contains(t, forwardAll(t, f, 2, line)[0], "ERR DB index is out of range", line)
		require.ErrorContains(t, f.Join(new(Pipeline), new(Transaction), commandLine(t, line)), "ERR DB index is out of range", line)
	}
	require.Equal(t, []string{":1\r\n", ":1\r\n"}, forwardAll(t, f, 2, "COPY a DB", "COPY DB b REPLACE"))
}

func TestCommandsThatAreNotAllowedInTransactionsAreRefusedAtOnce(t *testing.T) {
	f := open(t, func(c *Config) { c.Admin = true }, redistest.Start(t))
	for _, line := range []string{"SHUTDOWN NOSAVE", "save", "SAVE"} {
		require.EqualError(t, f.Join(new(Pipeline), new(Transaction), commandLine(t, line)), "ERR Command not allowed inside a transaction", line)
	}
	require.NoError(t, f.Join(new(Pipeline), new(Transaction), commandLine(t, "BGSAVE")))
}

// Each node's own listing is filtered before the listings are joined.
func TestListingsOfSeveralNodesHideTheKeysOfLimits(t *testing.T) {
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	f := open(t, func(c *Config) { c.Admin = true }, servers...)
	for i, s := range servers {
		s.Do("MSET", "rl:{limit}", "1", fmt.Sprint("own", i), "1")
	}
	listed := strings.Fields(forwardAll(t, f, 2, "KEYS *")[0])
	require.Equal(t, "*2", listed[0])
	require.ElementsMatch(t, []string{"*2", "$4", "own0", "$4", "own1"}, listed)
}
