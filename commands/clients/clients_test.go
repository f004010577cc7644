package clients

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListKeepsClientsInOrderOfTheirIDs(t *testing.T) {
	var l List
	require.Zero(t, l.Len())
	require.Empty(t, l.All())
	one, two, three := &Client{ID: 1}, &Client{ID: 2}, &Client{ID: 3}
	for _, c := range []*Client{three, one, two} {
		l.Add(c)
	}
	require.Equal(t, []*Client{one, two, three}, l.All())
	l.Remove(2)
	l.Remove(9)
	require.Equal(t, []*Client{one, three}, l.All())
	require.Equal(t, 2, l.Len())
}

// Run with -race.
func TestPublishIsSafeWhileOthersRead(t *testing.T) {
	var l List
	var wait sync.WaitGroup
	for id := range int64(4) {
		wait.Go(func() {
			c := &Client{ID: id}
			l.Add(c)
			for n := range 100 {
				c.Publish(Facts{Subs: n})
				require.Equal(t, n, c.Facts().Subs)
				for _, other := range l.All() {
					other.Facts()
				}
			}
			l.Remove(id)
		})
	}
	wait.Wait()
	require.Zero(t, l.Len())
}
