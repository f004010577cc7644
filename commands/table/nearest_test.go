package table

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listed is a Table with commands of these names.
type listed []*Command

func (l listed) Commands() []*Command  { return l }
func (l listed) Find([]byte) *Command  { return nil }
func (l listed) Forwarded() []*Command { return nil }

func TestNearestTakesTheFewestChanges(t *testing.T) {
	all := listed{{Name: "get"}, {Name: "rl.check"}, {Name: "rl.reserve"}, {Name: "rl.reset"}, {Name: "rl.slide"}}
	for name, want := range map[string]string{
		"RL.CHEK": "rl.check", "rlslide": "rl.slide", "RL.RESETT": "rl.reset", "RL.RESERV": "rl.reserve", "RL.": "rl.check",
		"RL.GET": "rl.reset", "rl.slide": "rl.slide", "RL." + strings.Repeat("x", 1000): "rl.check", "": "rl.check",
	} {
		require.Equal(t, want, Nearest(all, name).Name, name)
	}
	require.Equal(t, []int{0, 1, 1, 1, 3, 2}, []int{distance("ab", "ab"), distance("ab", "b"), distance("ab", "abc"),
		distance("ab", "xb"), distance("", "abc"), distance("ab", "ba")})
}
