package lua

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Every file is in the library. luacheck, in make lint, checks that each file parses alone.
func TestEveryFileIsInTheLibrary(t *testing.T) {
	t.Parallel()
	found, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	for i, file := range found {
		found[i] = strings.TrimSuffix(file, ".lua")
	}
	require.ElementsMatch(t, found, order())
}

// An error names the file and the line that raised it, whether the text ran as a function or as a script.
func TestErrorsNameFileAndLine(t *testing.T) {
	t.Parallel()
	line := func(file, code string) string {
		text, err := files.ReadFile(file)
		require.NoError(t, err)
		at := strings.Index(string(text), code)
		require.GreaterOrEqual(t, at, 0)
		return "lua/" + file + ":" + itoa(1+strings.Count(string(text[:at]), "\n"))
	}
	s := start(t)
	reply := decide(t, s, "k", base, "short")
	require.Equal(t, byte(1), reply[0])
	require.Contains(t, Locate(reply), line("spec.lua", "unpack(messages.SPEC, text)"))
	_, err := call(s, Recall.Name, "k", base, "")
	require.ErrorContains(t, err, "user_function")
	require.Contains(t, Locate(err.Error()), line("shard.lua", "order.recall"))
	require.NotContains(t, Locate(err.Error()), "user_function")

	_, err = s.Ask("EVAL", Script.Source, 1, "k", "recall", "", "")
	require.ErrorContains(t, err, "user_script")
	require.Contains(t, Locate(err.Error()), line("shard.lua", "order.recall"))
	require.Equal(t, "ERR another error, line 3", Locate("ERR another error, line 3"))
	require.Equal(t, "user_function:1: before all files", Locate("user_function:1: before all files"))
}

// The script, which replaces the library on nodes that refuse FUNCTION, gives the same replies and stores the same.
func TestScriptDoesWhatTheLibraryDoes(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, q := range all {
		for i := range int64(120) {
			one := decide(t, s, name, base+7*i, q)
			two := s.Do("EVAL", Script.Source, 1, name+" by script", "decide", itoa(int(base+7*i)), "", q)
			require.Equal(t, one, two[6:], "%s, %d", name, i)
		}
		require.Equal(t, text(t, s, name), text(t, s, name+" by script"))
		require.NotEmpty(t, text(t, s, name))
	}
}

// Two versions of the library are side by side on a node, and share its records.
func TestTwoVersionsShareANode(t *testing.T) {
	t.Parallel()
	s := start(t)
	hash := Library.Name[len("rlproxy_"):]
	other := strings.ReplaceAll(Library.Source, hash, "0123456789ab")
	require.Equal(t, "rlproxy_0123456789ab", s.Do("FUNCTION", "LOAD", other))
	old := strings.Replace(Decide.Name, hash, "0123456789ab", 1)
	for i := range byte(10) {
		name := []string{Decide.Name, old}[i%2]
		reply, err := call(s, name, "k", base, "", all["fixed"])
		require.NoError(t, err)
		require.Equal(t, i, reply[6+1+4+3+5], "used before")
	}
	_, err := s.Ask("FUNCTION", "LOAD", Library.Source)
	require.EqualError(t, err, "ERR Library '"+Library.Name+"' already exists")
}

// FUNCTION FLUSH or a restart removes only the library. After it is loaded again, the stored counts still apply.
func TestLibraryCanBeLoadedAgain(t *testing.T) {
	t.Parallel()
	s := start(t)
	decide(t, s, "k", base, all["slide"])
	s.Do("FUNCTION", "FLUSH")
	_, err := call(s, Decide.Name, "k", base, "", all["slide"])
	require.EqualError(t, err, "ERR Function not found")
	s.Do("FUNCTION", "LOAD", Library.Source)
	require.Equal(t, byte(1), decide(t, s, "k", base, all["slide"])[1+4+3+5], "used before")
	s.Kill()
	s.Run()
	_, err = call(s, Decide.Name, "k", base, "", all["slide"])
	require.EqualError(t, err, "ERR Function not found")
}

// A replica gets the library from its master. It refuses to run the functions until it becomes a master.
func TestReplicaHasTheLibrary(t *testing.T) {
	t.Parallel()
	master, replica := start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t)
	decide(t, master, "k", base, all["counter"])
	replica.Do("REPLICAOF", "127.0.0.1", master.Port)
	require.Eventually(t, func() bool { return text(t, replica, "k") != "" }, waiting, tick)
	for _, f := range functions {
		if f.reads {
			continue // it is called only after a master has refused another function
		}
		_, err := call(replica, f.Name, "k", base, "", all["counter"])
		require.ErrorContains(t, err, "READONLY", f.Name)
	}
	replica.Do("REPLICAOF", "NO", "ONE")
	require.Equal(t, byte(1), decide(t, replica, "k", base, all["counter"])[1+4+3+5], "used before")
}

// A node that is out of memory refuses all functions that could admit anything, and charges nothing.
func TestNodeWithoutMemoryRefusesFunctionsThatAdmit(t *testing.T) {
	t.Parallel()
	s := start(t)
	decide(t, s, "k", base, all["slide"])
	was := text(t, s, "k")
	s.Do("CONFIG", "SET", "maxmemory", "1")
	for _, f := range functions {
		if f.full || f.reads {
			_, err := call(s, f.Name, "k", base) // without arguments it fails or does nothing
			if err != nil {
				require.NotContains(t, err.Error(), "OOM", f.Name)
			}
			continue
		}
		_, err := call(s, f.Name, "k", base, "", all["slide"])
		require.ErrorContains(t, err, "OOM", f.Name)
	}
	s.Do("CONFIG", "SET", "maxmemory", "0")
	require.Equal(t, was, text(t, s, "k"))
	require.Equal(t, byte(1), decide(t, s, "k", base, all["slide"])[1+4+3+5], "used before")
}
