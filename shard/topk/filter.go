package topk

import "math"

// filter counts the decisions on keys that have no place, for so many keys that it does not
// keep them: each key has a counter in each of two rows, which it shares with others, and the
// lower one is never less than what it counts (a count-min sketch, Cormode and
// Muthukrishnan 2005). Old decisions go with their generation: the counters hold those of
// the current and the previous one. So they hold at least the last generation decisions.
//
// With nothing but keys that are asked about once, a counter has three decisions on average at
// most, and less than one decision in 800,000 finds ten in both of its counters.
type filter struct {
	counters [2][columns]generations
	current  int   // index in generations
	counted  int64 // decisions in the current generation
}

// generations are a counter's decisions in each of the two generations, at most
// math.MaxUint8.
type generations [2]uint8

const (
	columns    = 4096
	generation = columns * 3 / 2 // decisions until the next generation
)

// at returns the key's counter in each row.
func (f *filter) at(hash uint64) (a, b *generations) {
	return &f.counters[0][hash>>16%columns], &f.counters[1][hash>>40%columns]
}

// add counts n decisions on a key and returns how many there are.
func (f *filter) add(hash uint64, n int64) int64 {
	if f.counted += n; f.counted > generation {
		f.counted = n
		f.current ^= 1
		for r := range f.counters {
			row := &f.counters[r]
			for i := range row {
				row[i][f.current] = 0
			}
		}
	}
	a, b := f.at(hash)
	return min(a.add(f.current, n), b.add(f.current, n))
}

func (g *generations) add(current int, n int64) int64 {
	g[current] = uint8(min(int64(g[current])+n, math.MaxUint8)) // #nosec G115 -- it is bounded
	return int64(g[0]) + int64(g[1])
}

// forget sets what is counted on a key to 0.
func (f *filter) forget(hash uint64) {
	a, b := f.at(hash)
	*a, *b = generations{}, generations{}
}
