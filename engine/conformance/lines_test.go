package conformance

import (
	"cmp"
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/stretchr/testify/require"
)

// The bounds of integers that the documentation of an argument gives are those of the parser and of its errors.
func TestDocumentedBoundsAreThoseOfTheParser(t *testing.T) {
	bounds := regexp.MustCompile(`\b(\d+) to (\d{3,})\b`)
	seen := 0
	var check func(command string, args []table.Arg)
	check = func(command string, args []table.Arg) {
		for _, a := range args {
			check(command, a.Args)
			about := bounds.FindStringSubmatch(a.About)
			if a.Type != "integer" || about == nil {
				continue
			}
			seen++
			least, most := number(t, about[1]), number(t, about[2])
			for value, fits := range map[int64]bool{least: true, most: true, least - 1: false, most + 1: false} {
				l := &Lines{Rand: rand.New(rand.NewPCG(1, 2)), Keys: []string{"k"}, Without: []string{"AND"}, With: []string{a.Token}, From: map[string][]int64{}}
				l.From[cmp.Or(a.Token, a.Name)] = []int64{value}
				said := regexp.MustCompile(`\b` + about[1] + ` (and|to) ` + about[2] + `\b`)
				taken, saying := 0, false
				for range 200 {
					l.Narrow()
					msg := parseLine(new(engine.Pipeline), l.line(command))
					if saying = saying || said.MatchString(msg); msg == "" {
						taken++
					}
				}
				require.Equal(t, fits, taken > 0, "%s: %s is %d", command, a.Name, value)
				require.Equal(t, !fits, saying, "%s: %s is %d", command, a.Name, value)
			}
		}
	}
	for name, c := range commands {
		check(name, c.Args)
	}
	require.GreaterOrEqual(t, seen, 6)
}
