package tests

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReloadDoesNotRemoveThePasswordByAccident empties the file of a running proxy, and
// then removes the password on purpose.
func TestReloadDoesNotRemoveThePasswordByAccident(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		"requirepass hush\n",
		"user default on >hush ~* &* +@all\n",
		"user default off\nuser shop on >hush ~* +@all\n",
	} {
		file := write(t, "rlproxy.conf", content)
		p := startProxy(t, "--include", file)
		for _, open := range []string{"", "# requirepass hush\n", "user default on nopass ~* &* +@all\n"} {
			require.NoError(t, os.WriteFile(file, []byte(open), 0o600))
			p.hangup(t, notReloaded)
			require.Contains(t, p.Output.String(), `the new configuration would remove authentication; to confirm that, set requirepass \"\"`)
			require.Equal(t, errAuth, dial(t, p.addr).do(t, "PING"), "after a reload with %q", open)
		}
		require.NoError(t, os.WriteFile(file, []byte("requirepass \"\"\n"), 0o600))
		p.hangup(t, reloaded)
		require.Equal(t, status("PONG"), dial(t, p.addr).do(t, "PING"))

		// Without a password there is nothing to lose.
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		p.hangup(t, reloaded)
		require.Equal(t, status("PONG"), dial(t, p.addr).do(t, "PING"))
		p.stop(t)
	}
}

// TestPasswordGuessesAreSlow guesses passwords on one connection as fast as it can.
// Another connection is not slowed down.
func TestPasswordGuessesAreSlow(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--requirepass", "hush")
	guesser, other := dial(t, p.addr), dial(t, p.addr)
	require.Equal(t, status("OK"), other.do(t, "AUTH", "hush"))
	done := make(chan time.Duration, 1)
	go func() { // ends with the last reply
		began := time.Now()
		replies, err := guesser.Exchange(words("AUTH hush1"), words("AUTH default hush2"), words("HELLO 3 AUTH default hush3"), words("AUTH hush4"))
		if err != nil || len(replies) != 4 || replies[3] != any(errLogin) {
			t.Errorf("the replies are %v, the error is %v", replies, err)
		}
		done <- time.Since(began)
	}()
	eventually(t, "the first guess", func() bool {
		return strings.Contains(other.do(t, "INFO", "stats").(string), "acl_access_denied_auth:1\r\n")
	})
	require.EqualValues(t, 1, other.decide(t, "RL.SLIDE k 5 60").allowed)
	require.GreaterOrEqual(t, <-done, 1500*time.Millisecond, "0.1, 0.2, 0.4 and 0.8 s")

	// A client that mistyped its password may still log in.
	require.Equal(t, status("OK"), guesser.do(t, "AUTH", "hush"))
	for range 5 {
		require.Equal(t, errLogin, guesser.do(t, "AUTH", "nobody", "hush"))
	}
	replies, err := guesser.Exchange(words("AUTH hush5"), words("PING"))
	require.Error(t, err, "the connection stays open after ten refused logins")
	require.Equal(t, []any{errLogin}, replies)

	p.stop(t)
	log := p.Output.String()
	require.Regexp(t, `level=warning msg="logins refused: wrong name or password" client=1 addr=127\.0\.0\.1:\d+ refused=1`, log)
	require.NotContains(t, log, "hush")
	// The guesses take more than 6 s, and the log has at most one line every minute.
	require.Equal(t, 1, strings.Count(log, "logins refused"))
}
