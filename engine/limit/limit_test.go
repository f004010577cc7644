package limit

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// The numbers are in stored records, which a changed number would make unreadable.
func TestKindsKeepTheirNumbersAndNames(t *testing.T) {
	for n, name := range map[Kind]string{1: "RL.SLIDE", 2: "RL.COUNTER", 3: "RL.FIXED", 4: "CL.THROTTLE", 8: "RL.ACQUIRE"} {
		require.True(t, n.Known())
		require.Equal(t, name, n.String())
		require.Equal(t, n <= Fixed, n.Additive(), name)
	}
	for _, n := range []Kind{0, 5, 6, 7, 9, Kinds, 255} {
		require.False(t, n.Known(), "%d", n)
		require.Equal(t, "unknown", n.String())
	}
}

// The row of an algorithm has all that its answers need. Slots have no State.
func TestRowsAreComplete(t *testing.T) {
	for k := range Kind(Kinds) {
		if !k.Known() {
			continue
		}
		row := reflect.ValueOf(algorithms[k])
		for i, field := range reflect.VisibleFields(row.Type()) {
			if field.Type.Kind() != reflect.Func {
				continue
			}
			needed := k != Concurrency
			if field.Name == "redated" || field.Name == "dated" {
				continue
			}
			require.Equal(t, needed, !row.Field(i).IsNil(), "%v: %s", k, field.Name)
		}
	}
}

func TestSmallestLimit(t *testing.T) {
	s := spec(Slide, 9, 1000)
	s.N, s.Windows[1], s.Windows[2] = 2, Window{4, 2000}, Window{1, 1}
	require.EqualValues(t, 4, s.Smallest())
}
