package topk

import "math"

// filter counts the decisions on keys that are not tracked, without storing the keys. It is a count-min sketch (Cormode
// and Muthukrishnan 2005): each key has a counter in each of two rows, which it shares with other keys, and the lower
// of the two is never less than the key's own count. Counters forget by generations: they hold the decisions of the
// current and the previous generation, so at least the last 6,144 decisions.
//
// If every key is seen only once, a counter holds at most three decisions on average, and fewer than one decision in
// 800,000 finds ten in both of its counters.
type filter struct {
	counters [2][columns]generations
	current  int   // index of the current generation in each counter
	counted  int64 // decisions in the current generation
}

// generations is a counter: the decisions in each of the two generations, at most math.MaxUint8 each.
type generations [2]uint8

const (
	columns    = 4096            // counters in a row
	generation = columns * 3 / 2 // decisions until the next generation
)

// at returns the key's counter in each row.
func (f *filter) at(hash uint64) (a, b *generations) {
	return &f.counters[0][hash>>16%columns], &f.counters[1][hash>>40%columns]
}

// add counts n decisions on a key and returns its count, which may include other keys' decisions.
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

func (f *filter) forget(hash uint64) {
	a, b := f.at(hash)
	*a, *b = generations{}, generations{}
}
