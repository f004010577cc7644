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
	options := 0
	for _, a := range ratelimit.PolicyArgs() {
		if a.Token == "" {
			continue
		}
		options++
		plain, option := "COUNTER 5 1m", a.Token
		switch a.Type {
		case "integer":
			option += " 2"
		case "oneof":
			option += " " + a.Args[0].Token
		}
		if a.Token == "TZ" {
			plain, option = "FIXED 5 day", "TZ Asia/Tokyo"
		}
		without := shown(catalog(t, "policy api "+plain).Find([]byte("api")))
		set, err := policy.Parse("policy api " + plain + " " + option)
		require.NoError(t, err)
		require.Equal(t, "policy api "+plain+" "+option+"\n", set.Text())

		got, msg := parse(Check(catalog(t, set.Text())), "RL.CHECK api k")
		require.Empty(t, msg)
		kind, limits, _ := strings.Cut(plain, " ")
		want, msg := parse(command(t, "rl."+strings.ToLower(kind)), "RL."+kind+" api:k "+limits+" "+option)
		require.Empty(t, msg)
		want.Policy = "api"
		require.Equal(t, want, got, option)

		with := shown(set.Find([]byte("api")))
		require.Contains(t, with, "\r\n"+strings.ToLower(a.Token)+"\r\n")
		require.NotEqual(t, without, with, option)
	}
	require.Positive(t, options)
}
