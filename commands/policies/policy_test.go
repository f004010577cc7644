package policies

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/policy"
	"github.com/rlproxy/rlproxy/resp"
)

// Each option of a policy is in its stored text, in the requests of RL.CHECK and in the reply to RL.POLICY GET.
func TestEveryOptionOfAPolicyIsKept(t *testing.T) {
	shown := func(p *policy.Policy) string {
		var s resp.Session
		show(reply.To(&s), p)
		return string(s.Out)
	}
	const plain = "COUNTER 5 60"
	without := shown(catalog(t, "policy api "+plain).Find([]byte("api")))
	options := 0
	for _, a := range ratelimit.PolicyArgs() {
		if a.Token == "" {
			continue
		}
		options++
		option := a.Token
		switch a.Type {
		case "integer":
			option += " 2"
		case "oneof":
			option += " " + a.Args[0].Token
		}
		set, err := policy.Parse("policy api " + plain + " " + option)
		require.NoError(t, err)
		require.Equal(t, "policy api COUNTER 5 1m "+option+"\n", set.Text())

		got, msg := parse(Check(catalog(t, set.Text())), "RL.CHECK api k")
		require.Empty(t, msg)
		want, msg := parse(command(t, "rl.counter"), "RL.COUNTER api:k 5 60 "+option)
		require.Empty(t, msg)
		want.Policy = "api"
		require.Equal(t, want, got, option)

		with := shown(set.Find([]byte("api")))
		require.Contains(t, with, "\r\n"+strings.ToLower(a.Token)+"\r\n")
		require.NotEqual(t, without, with, option)
	}
	require.Positive(t, options)
}
