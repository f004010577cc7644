package stats

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func ids(entries []SlowCommand) []int64 {
	all := []int64{}
	for _, e := range entries {
		all = append(all, e.ID)
	}
	return all
}

func TestSlowLogKeepsTheNewestEntries(t *testing.T) {
	var l SlowLog
	l.Configure(0, 3)
	for range 5 {
		l.Add(SlowCommand{})
	}
	require.Equal(t, []int64{4, 3, 2}, ids(l.Newest(-1)))
	require.Equal(t, []int64{4, 3}, ids(l.Newest(2)))
	require.Equal(t, []int64{4, 3, 2}, ids(l.Newest(10)))
	require.Empty(t, l.Newest(0))

	l.Configure(0, 2)
	require.Equal(t, []int64{4, 3}, ids(l.Newest(-1)), "the oldest go when less is kept")
	l.Add(SlowCommand{})
	require.Equal(t, []int64{5, 4}, ids(l.Newest(-1)))
	l.Configure(0, 4)
	for range 3 {
		l.Add(SlowCommand{})
	}
	require.Equal(t, []int64{8, 7, 6, 5}, ids(l.Newest(-1)))
	require.Equal(t, 4, l.Len())

	l.Reset()
	require.Zero(t, l.Len())
	l.Add(SlowCommand{})
	require.Equal(t, []int64{9}, ids(l.Newest(-1)), "IDs go on after a reset")
	l.Configure(0, 0)
	l.Add(SlowCommand{})
	require.Zero(t, l.Len())
}

func TestSlowLogHasWhatTookAtLeastSoLong(t *testing.T) {
	var l SlowLog
	require.False(t, l.Slow(time.Hour), "nothing is logged before it is configured")
	for _, c := range []struct {
		slower time.Duration
		most   int
		took   time.Duration
		want   bool
	}{
		{time.Millisecond, 1, time.Millisecond, true},
		{time.Millisecond, 1, time.Millisecond - 1, false},
		{0, 1, 0, true},
		{-time.Microsecond, 1, time.Hour, false},
		{0, 0, time.Hour, false},
	} {
		l.Configure(c.slower, c.most)
		require.Equal(t, c.want, l.Slow(c.took), c)
	}
}

func words(all ...string) (args [][]byte) {
	for _, a := range all {
		args = append(args, []byte(a))
	}
	return args
}

func TestWordsAreCutAsByRedis(t *testing.T) {
	long := strings.Repeat("x", maxWord)
	require.Equal(t, []string{"get", long, long + "... (2 more bytes)"}, Words("get", words("get", long, long+"yz"), 0))
	var many []string
	for i := range 40 {
		many = append(many, strconv.Itoa(i))
	}
	require.Equal(t, many[:32], Words("mget", words(many[:32]...), 0))
	require.Equal(t, append(many[:31:31], "... (2 more arguments)"), Words("mget", words(many[:33]...), 0))
	require.Equal(t, append(many[:31:31], "... (9 more arguments)", "... (7 more commands in the pipeline)"), Words("mget", words(many...), 7))
}

func TestWordsHaveNoPasswords(t *testing.T) {
	for line, want := range map[string]string{
		"ACL SETUSER bob on >secret":                       "ACL SETUSER (redacted) (redacted) (redacted)",
		"CONFIG SET requirepass secret maxclients 5":       "CONFIG SET requirepass (redacted) (redacted) (redacted)",
		"MIGRATE h 1 k 0 9 AUTH2 bob secret":               "MIGRATE h 1 k 0 9 (redacted) (redacted) (redacted)",
		"MIGRATE h 1 k 0 9":                                "MIGRATE h 1 k 0 9",
		"ACL SETUSER bob " + strings.Repeat("secret ", 40): "ACL SETUSER " + strings.Repeat("(redacted) ", 29) + "... (12 more arguments)",
	} {
		args := strings.Fields(line)
		name := strings.ToLower(args[0])
		if name != "migrate" {
			name += "|" + strings.ToLower(args[1])
		}
		require.Equal(t, want, strings.Join(Words(name, words(args...), 0), " "))
	}
}
