package table

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCategoriesFollowFromFlagsAndGroup(t *testing.T) {
	for _, c := range []struct {
		command Command
		want    []string
	}{
		{Command{Flags: []string{"write", "fast"}, Group: "ratelimit"}, []string{"@write", "@fast", "@ratelimit"}},
		{Command{Flags: []string{"readonly"}}, []string{"@read", "@slow"}},
		{Command{Flags: []string{"admin"}, ACL: []string{"@connection"}}, []string{"@admin", "@slow", "@dangerous", "@connection"}},
		{Command{Group: "connection"}, []string{"@slow", "@connection"}},
		{Command{Group: "connection", Subs: []*Command{{}}}, []string{"@slow"}},
		{Command{ACL: []string{"@dangerous"}, Group: "pubsub"}, []string{"@pubsub", "@slow", "@dangerous"}},
		{Command{Group: "transactions"}, []string{"@slow", "@transaction"}},
	} {
		require.Equal(t, c.want, c.command.Categories())
	}
}
