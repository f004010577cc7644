package policies

import (
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/policy"
	"github.com/stretchr/testify/require"
)

// session sends lines to an engine, which have policies in effect, at a clock that stands.
type session struct {
	*testing.T
	engine engine.Engine
	in     *policy.Catalog
}

func newSession(t *testing.T, text string) *session {
	now := time.UnixMilli(1_800_000_000_000)
	return &session{t, memory.New(memory.Config{Now: func() time.Time { return now }}), catalog(t, text)}
}

// says requires the reply to a line: its integers, or an error.
func (s *session) says(line, want string) {
	s.Helper()
	by := map[string]func(*policy.Catalog) ratelimit.Command{"RL.HOLD": Hold, "RL.SETTLE": Settle, "RL.CHECK": Check}
	name, _, _ := strings.Cut(line, " ")
	var c ratelimit.Command
	if of := by[name]; of != nil {
		c = of(s.in)
	} else {
		c = command(s.T, strings.ToLower(name))
	}
	got := answer(s.engine, c, line)
	if array, ok := strings.CutPrefix(got, "*"); ok {
		got = strings.Join(strings.Split(strings.TrimSpace(array), "\r\n:")[1:], " ")
	}
	require.Equal(s, want, strings.TrimSpace(got), line)
}

// configure puts other policies into effect.
func (s *session) configure(text string) {
	next, err := policy.Parse(text)
	require.NoError(s, err)
	s.in.Configure(next)
}

func TestAHoldCountsByThePolicyOfItsKey(t *testing.T) {
	s := newSession(t, "policy p FIXED 10 60 20 1h\npolicy-override p gold 100 60\npolicy-override p free UNLIMITED\npolicy-override p bad BLOCKED")
	s.says("RL.HOLD p k COST 8 ID a TTL 30", "1 10 2 0 60000")
	s.says("RL.HOLD p k COST 8 ID a", "1 10 2 0 60000")
	s.says("RL.CHECK p k COST 3", "0 10 2 60000 60000")
	s.says("RL.SETTLE p:k a 5", "1 5 3")
	s.says("RL.CHECK p k COST 5", "1 10 0 0 60000")
	s.says("RL.HOLD p gold COST 11 ID a TTL 61", "ERR ttl must be between 1ms and the longest window; it was '61'")
	s.says("RL.HOLD p gold COST 11 ID a", "1 100 89 0 120000")
	s.says("RL.HOLD p free COST 11 ID a TTL 2h", "1 0 0 0 0")
	s.says("RL.SETTLE p:free a 5", "0 0 0")
	s.says("RL.HOLD p bad COST 11 ID a TTL 2h", "0 0 0 1000 1000")
}

// What is open is settled in the windows that it was held in, whatever the policy is by then.
func TestAHoldIsSettledAfterItsPolicyHasChanged(t *testing.T) {
	s := newSession(t, "policy p COUNTER 10 60 BUCKETS 4\npolicy q FIXED 10 60")
	s.says("RL.HOLD p k COST 8 ID a", "1 10 2 0 133126")
	s.says("RL.HOLD q k COST 8 ID a", "1 10 2 0 120000")
	s.configure("policy p SLIDE 7 3")
	s.says("RL.SETTLE p:k a 5", "1 5 3")
	s.says("RL.SETTLE q:k a 5", "1 5 3")
	s.says("RL.SETTLE q:k a 5", "1 5 3")
	s.configure("policy p COUNTER 10 60 BUCKETS 4\npolicy q FIXED 10 60")
	s.says("RL.CHECK p k COST 0", "1 10 5 0 72001")
	s.says("RL.CHECK q k COST 0", "1 10 5 0 60000")
}

// Units of the shadow are held by a policy with SHADOW. RL.SETTLE seeks a hold of the key and of its shadow.
func TestAHoldOfAShadowIsSettledThere(t *testing.T) {
	s := newSession(t, "policy p FIXED 10 60 SHADOW\npolicy q FIXED 10 60")
	s.says("RL.RESERVE p:k 10 60 COST 9 ID b", "1 10 1 0 120417")
	s.says("RL.HOLD p k COST 8 ID a", "1 10 2 0 120000")
	s.says("RL.HOLD p k COST 3 ID c", "1 10 2 120000 120000")
	s.says("RL.SETTLE p:k a 5", "1 5 3")
	s.says("RL.CHECK p k COST 0", "1 10 5 0 60000")
	s.says("RL.SETTLE p:k b 9", "1 9 0")
	s.says("RL.SETTLE p:k c 3", "0 0 0")
	s.says("RL.HOLD q k COST 8 ID a", "1 10 2 0 120000")
	s.configure("policy q FIXED 10 60 SHADOW")
	s.says("RL.SETTLE q:k a 5", "1 5 3")
}

func TestErrorsOfAHoldQuoteTheWord(t *testing.T) {
	s := newSession(t, "policy p FIXED 10 60 20 1h\npolicy b BUCKET 10 1 60")
	for line, want := range map[string]string{
		"RL.HOLD what k COST 1 ID a":           "ERR no such policy 'what'",
		"RL.HOLD b k COST 1 ID a":              "ERR RL.HOLD takes policies of SLIDE, COUNTER and FIXED; it was 'BUCKET'",
		"RL.HOLD p k COST 1":                   "ERR syntax error: RL.HOLD needs COST and ID",
		"RL.HOLD p k ID a":                     "ERR syntax error: RL.HOLD needs COST and ID",
		"RL.HOLD p k COST 11 ID a":             "ERR cost exceeds limit: the request can never be admitted; cost was 11, limit 10",
		"RL.HOLD p k COST -1 ID a":             "ERR cost must be an integer between 0 and 1000000000000; it was '-1'",
		"RL.HOLD p k COST 1 ID a TTL 2h":       "ERR ttl must be between 1ms and the longest window; it was '2h'",
		"RL.HOLD p k COST 1 ID a LAPSE LATER":  "ERR syntax error: LAPSE must be CHARGE or RELEASE; it was 'LATER'",
		"RL.HOLD p k COST 1 ID a FAIL SOMEHOW": "ERR syntax error: FAIL must be OPEN, CLOSED, LOCAL or ERROR; it was 'SOMEHOW'",
		"RL.HOLD p k COST 1 ID a SHARDS 2":     "ERR syntax error: unknown option 'SHARDS'; expected TTL, LAPSE or FAIL",
	} {
		s.says(line, want)
	}
	s.says("RL.CHECK p k COST 0", "1 10 10 0 0")
}
