package forward

import (
	"fmt"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// ask sends commands in one flush of p and returns the replies, see forwardAll.
func ask(t testing.TB, f *Forwarder, p *Pipeline, lines ...string) []string {
	for _, line := range lines {
		p.Add(commandLine(t, line), false)
	}
	f.Do(p)
	replies := make([]string, len(lines))
	for i := range p.Results {
		if replies[i] = string(p.Results[i].Raw); p.Results[i].Err != nil {
			replies[i] = p.Results[i].Err.Error()
		}
	}
	p.Reset()
	return replies
}

// The first node of the list is stopped before the forwarder knows the commands. Whatever
// needs only the other node is answered by it, and soon.
func TestStoppedFirstNodeDoesNotDelayOthers(t *testing.T) {
	const timeout = 20 * time.Second
	servers := startServers(t, 2)
	fleet := openNodes(t, timeout, servers[0].URL(), servers[1].URL()) // slow to count the node as down
	f := openOn(t, fleet, Config{Settings: Settings{Timeout: timeout}})
	key := keysOn(f)[1]
	servers[0].Pause()
	began := time.Now()
	for range 3 {
		for _, c := range []struct{ line, want string }{
			{"SET %s 1", "+OK\r\n"},
			{"GET %s", "$1\r\n1\r\n"},
			{"SORT %s STORE rl:{x}", errReserved([]byte("rl:{x}")).Error()},
			{"SORT %s", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"},
			{"NOPE %s", ErrUnknownCommand.Error()},
		} {
			line := fmt.Sprintf(c.line, key)
			require.Equal(t, c.want, forwardAll(t, f, 2, line)[0], line)
		}
	}
	require.Less(t, time.Since(began), timeout/2)
	servers[0].Resume()
}

// Whatever a pipeline needs of a node that does not answer, and however often it is flushed,
// it waits for that node once. Other nodes are not blamed.
func TestPipelineWaitsOnceForANode(t *testing.T) {
	const timeout = 2 * time.Second
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("table known: %t", known), func(t *testing.T) {
			t.Parallel()
			servers := startServers(t, 2)
			fleet := openNodes(t, 30*time.Second, servers[0].URL(), servers[1].URL())
			f := openOn(t, fleet, Config{Settings: Settings{Timeout: timeout}})
			keys := keysOn(f)
			if known {
				require.Equal(t, "$-1\r\n", forwardAll(t, f, 2, fmt.Sprintf("GET %s", keys[1]))[0])
			}
			stopped := servers[:1]
			if !known {
				stopped = servers // no node has the table
			}
			for _, s := range stopped {
				s.Pause()
			}
			late := "UNAVAILABLE " + servers[0].Addr + ": no answer in time"
			var p Pipeline
			began := time.Now()
			for range 2 {
				p.Begin()
				require.Equal(t, late, ask(t, f, &p, fmt.Sprintf("SORT %s", keys[0]))[0])
				for range 5 {
					_ = f.ReadsLimits(&p, commandLine(t, "DBSIZE"))
					line := fmt.Sprintf("SORT %s", keys[0])
					for _, got := range ask(t, f, &p, line, line, line) {
						require.Equal(t, late, got)
					}
					if known {
						require.Equal(t, "$-1\r\n", ask(t, f, &p, fmt.Sprintf("GET %s", keys[1]))[0], "the other node is well")
					}
				}
			}
			require.Less(t, time.Since(began), 5*timeout, "two pipelines")
			for _, s := range stopped {
				s.Resume()
			}
			p.Begin()
			require.Eventually(t, func() bool {
				p.Begin()
				return ask(t, f, &p, fmt.Sprintf("SORT %s", keys[0]))[0] == "*0\r\n"
			}, 20*time.Second, time.Millisecond)
		})
	}
}

// A node that is busy, or refuses rlproxy's user, does not tell whether a command writes to
// the state of rate limits. Then the command is not sent.
func TestCommandIsNotSentIfNoNodeTellsItsKeys(t *testing.T) {
	sound := open(t, nil, redistest.Start(t))
	require.Equal(t, "*0\r\n", forwardAll(t, sound, 2, "SORT a")[0])
	for _, reply := range []string{"BUSY a script is running", "NOPERM no", "LOADING soon", "NOAUTH no"} {
		f := openOn(t, openNodes(t, time.Second, babble(t, "-"+reply+"\r\n")), Config{Settings: Settings{Timeout: time.Second}})
		f.table.table.Store(sound.table.table.Load())
		got := forwardAll(t, f, 2, "SORT a STORE rl:{a}")[0]
		require.Regexp(t, `^UNAVAILABLE 127\.0\.0\.1:\d+: .*$`, got, reply)
	}
	wrong := openOn(t, openNodes(t, time.Second, babble(t, "-ERR Invalid arguments specified for command\r\n")), Config{Settings: Settings{Timeout: time.Second}})
	wrong.table.table.Store(sound.table.table.Load())
	require.Equal(t, []string{errReserved([]byte("rl:{a}")).Error(), "-ERR Invalid arguments specified for command\r\n"},
		forwardAll(t, wrong, 2, "SORT a STORE rl:{a}", "SORT a STORE b"))
}
