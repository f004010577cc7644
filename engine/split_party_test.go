package engine

import (
	"testing"

	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// missOf is what a part said at clock.
func missOf(part int, clock int64) *missed {
	return &missed{Miss: shard.Miss{Part: part, Clock: clock, Over: true}, first: []int64{5}}
}

func oneItem() []item {
	r := splitAsk("k", OpSlide, 1, 4, Window{10, 1000})
	return []item{{req: &r, res: &Result{}}}
}

// Misses of one part may arrive out of order: the newest speaks for all that missed there.
func TestPartiesOfOnePart(t *testing.T) {
	parties := combineParties([]*party{
		newParty(oneItem(), missOf(1, 100)), newParty(oneItem(), nil), newParty(oneItem(), missOf(1, 102)),
		newParty(oneItem(), missOf(2, 90)), newParty(oneItem(), missOf(1, 101)), newParty(oneItem(), nil),
	})
	require.Len(t, parties, 3)
	require.Len(t, parties[0].items, 3)
	require.Equal(t, int64(102), parties[0].miss.Clock)
	require.Len(t, parties[1].items, 2)
	require.Nil(t, parties[1].miss)
	require.Equal(t, int64(90), parties[2].miss.Clock)
}

// Parts may be read at different times. What each says of when there is room counts
// from its own.
func TestRetryOfPartsReadApart(t *testing.T) {
	p := newParty(oneItem(), nil)
	state := p.items[0].req.splitState(p.items[0].req.Windows[0])
	read := func(part int, sent, first int64) *reported {
		return &reported{
			Report: shard.Report{Part: part, Used: []shard.Units{{State: state, N: 4}}},
			first:  []int64{first}, held: []int64{4}, sent: sent,
		}
	}
	p.reads = map[int]*reported{1: read(1, 100, 60), 2: read(2, 150, 100)}
	a := &homeAnswer{lent: []lentTo{{part: 1, out: []int64{4}}, {part: 2, out: []int64{4}}}}
	full := &tally{used: 10, own: 2, first: 500}
	require.Equal(t, int64(160-155-1), p.retry(0, full, a, 155))
	full.used = 14 // lowered limit: five units have to go
	require.Equal(t, int64(250-155-1), p.retry(0, full, a, 155))
}
