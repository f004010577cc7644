package table

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/resp"
)

func TestHelpListsTheSubcommands(t *testing.T) {
	sub := &Command{Name: "thing|get", Summary: "Gets one", Args: []Arg{{Name: "name", Type: "string", Multiple: true}}}
	for bare, want := range map[bool]string{
		false: "*3\r\n+THING <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n+GET name [name ...]\r\n+    Gets one.\r\n",
		true:  "*5\r\n+THING <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n+(no subcommand)\r\n+    Counts them.\r\n+GET name [name ...]\r\n+    Gets one.\r\n",
	} {
		s := &resp.Session{Proto: 2}
		Help(reply.To(s), &Command{Name: "thing", Summary: "Counts them", Subs: []*Command{sub}, Bare: bare})
		require.Equal(t, want, string(s.Out))
	}
}

func TestUsageIsFormattedAsInTheDocumentationOfRedis(t *testing.T) {
	require.Equal(t, "key [AND key [option [option ...]] [AND ...]]", Usage([]Arg{
		{Name: "key", Type: "key"},
		{Name: "and", Type: "block", Token: "AND", Optional: true, Multiple: true, MultipleToken: true, Args: []Arg{
			{Name: "key", Type: "key"}, {Name: "option", Type: "string", Optional: true, Multiple: true},
		}},
	}))
	require.Equal(t, "key limit window [limit window ...] [COST n] [STRICT] [ON|OFF]", Usage([]Arg{
		{Name: "key", Type: "key"},
		{Name: "pair", Type: "block", Multiple: true, Args: []Arg{{Name: "limit", Type: "integer"}, {Name: "window", Type: "string"}}},
		{Name: "n", Type: "integer", Token: "COST", Optional: true},
		{Name: "strict", Type: "pure-token", Token: "STRICT", Optional: true},
		{Name: "switch", Type: "oneof", Optional: true, Args: []Arg{{Name: "on", Type: "pure-token", Token: "ON"}, {Name: "off", Type: "pure-token", Token: "OFF"}}},
	}))
}
