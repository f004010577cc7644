// Package due keeps values in the order in which something is to be done about them.
package due

import "container/heap"

// Heap has the value that is due next at its index 0. A value embeds a Place, and is in at most one Heap. If Before
// would say something else of a value than when it was put, Put must be called.
type Heap[T interface {
	placed
	Before(other T) bool // it is due earlier
}] []T

// Place is where a value is in its Heap. The zero value is that of a value that is in none.
type Place struct{ number int } // from 1

// placed is what embeds a Place.
type placed interface{ place() *int }

var _ placed = (*Place)(nil)

func (p *Place) place() *int { return &p.number }

// InHeap reports whether the value is in a Heap.
func (p *Place) InHeap() bool { return p.number > 0 }

// Put adds a value, or moves it to where it belongs now. It reports whether it is the first.
func (h *Heap[T]) Put(v T) (first bool) {
	if at := *v.place(); at > 0 {
		heap.Fix(h, at-1)
	} else {
		heap.Push(h, v)
	}
	return *v.place() == 1
}

// Remove removes a value, if it is in h.
func (h *Heap[T]) Remove(v T) {
	if at := *v.place(); at > 0 {
		heap.Remove(h, at-1)
	}
}

// Len implements heap.Interface.
func (h Heap[T]) Len() int { return len(h) }

// Less implements heap.Interface.
func (h Heap[T]) Less(i, j int) bool { return h[i].Before(h[j]) }

// Swap implements heap.Interface.
func (h Heap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].place(), *h[j].place() = i+1, j+1
}

// Push implements heap.Interface.
func (h *Heap[T]) Push(x any) {
	*h = append(*h, x.(T))
	*x.(T).place() = len(*h)
}

// Pop implements heap.Interface.
func (h *Heap[T]) Pop() any {
	last := len(*h) - 1
	v := (*h)[last]
	clear((*h)[last:])
	*h = (*h)[:last]
	*v.place() = 0
	return v
}
