package limit

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// lua/testdata/kinds.txt keeps the numbers of the others.
func TestNumbersThatAreNoAlgorithms(t *testing.T) {
	for _, n := range []Kind{0, 5, 6, 7, Kinds, 255} {
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
			if field.Name == "mostParam" {
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
