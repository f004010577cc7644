package tests

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMultiKeyRequestsAreAllOrNothing sends requests for several keys, on one node and on several.
func TestMultiKeyRequestsAreAllOrNothing(t *testing.T) {
	t.Parallel()
	conf := write(t, "rlproxy.conf", "policy user SLIDE 3 60\npolicy tenant FIXED 100 1h\npolicy-override user vip UNLIMITED\npolicy-override user out BLOCKED\npolicy try SLIDE 1 60 SHADOW\n"+
		"user default off\nuser boss on nopass ~* +@all\nuser seven on nopass ~user:7 ~seven:* +@ratelimit +rl.check\n")
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		c.do(t, "AUTH", "boss", "x")
		ask := func(line string) string { // allowed, limit, remaining and whether retry_after is above 0, for each key
			t.Helper()
			text := ""
			reply := c.do(t, words(line)...)
			items, ok := reply.([]any)
			require.True(t, ok, "%s: %v", line, reply)
			for _, item := range items {
				d, err := toDecision(item)
				require.NoError(t, err)
				text += fmt.Sprint(d.allowed, " ", d.limit, " ", d.remaining, " ", d.retryAfter > 0, "; ")
			}
			return text
		}
		for user := range 5 { // on other nodes than everyone, sometimes
			line := fmt.Sprintf("RL.SLIDE user-%d 2 60 AND tenant 5000 60 COST 3 AND everyone-%d 3 60", user, user)
			left := int64(5000 - 6*user)
			require.Equal(t, fmt.Sprintf("1 2 1 false; 1 5000 %d false; 1 3 2 false; ", left-3), ask(line))
			require.Equal(t, fmt.Sprintf("1 2 0 false; 1 5000 %d false; 1 3 1 false; ", left-6), ask(line))
			require.Equal(t, fmt.Sprintf("0 2 0 true; 0 5000 %d false; 0 3 1 false; ", left-6), ask(line))
			require.EqualValues(t, left-6, c.decide(t, "RL.SLIDE tenant 5000 60 COST 0").remaining, "nothing is left held")
			require.EqualValues(t, 1, c.decide(t, fmt.Sprintf("RL.SLIDE everyone-%d 3 60 COST 0", user)).remaining)
		}
		require.Equal(t, "1 3 2 false; 1 100 98 false; ", ask("RL.CHECK user a AND tenant a COST 2"))
		require.Equal(t, "1 0 0 false; 1 100 97 false; ", ask("RL.CHECK user vip AND tenant a"))
		require.Equal(t, "0 0 0 true; 0 100 0 false; ", ask("RL.CHECK user out AND tenant a"))
		require.Equal(t, "1 1 0 false; 1 3 1 false; ", ask("RL.CHECK try a AND user a"))
		require.Equal(t, "1 1 0 true; 1 3 0 false; ", ask("RL.CHECK try a AND user a"))
		require.Equal(t, "0 1 0 true; 0 3 0 true; ", ask("RL.CHECK try a AND user a"))
		require.EqualValues(t, 97, c.decide(t, "RL.CHECK tenant a COST 0").remaining)

		replies := c.pipeline(t, words("MULTI"), words("RL.FIXED m 1 1h AND n 5 1h"), words("RL.FIXED m 1 1h AND n 5 1h"), words("EXEC"), words("RL.FIXED n 5 1h COST 0"))
		both := replies[3].([]any)
		require.EqualValues(t, 1, both[0].([]any)[0].([]any)[0])
		require.EqualValues(t, 0, both[1].([]any)[0].([]any)[0])
		require.EqualValues(t, 4, replies[4].([]any)[2])

		c.do(t, "AUTH", "seven", "x")
		require.Equal(t, "1 5 4 false; 1 5 4 false; ", ask("RL.SLIDE seven:a 5 60 AND seven:b 5 60"))
		for _, line := range []string{
			"RL.SLIDE seven:a 5 60 AND other 5 60", "RL.SLIDE other 5 60 AND seven:a 5 60", "RL.SLIDE seven:a 5 60 ID AND AND other 5 60",
			"RL.CHECK user 7 AND tenant 7", "RL.CHECK user 7 ID AND AND user 8",
		} {
			require.Equal(t, errNoKey, c.do(t, words(line)...), line)
		}
		require.EqualValues(t, 4, c.decide(t, "RL.SLIDE seven:a 5 60 COST 0").remaining)
	}, "--include", conf)
}
