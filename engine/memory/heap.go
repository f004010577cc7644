package memory

// dueHeap is a min-heap of a stripe's keys by due time. A key's expiry changes with every charge, but its due time is
// updated only when it is reached, so that decisions do not touch the heap. Unlike container/heap it calls no method of
// an interface, and grows by an eighth.
type dueHeap []*record

func (h *dueHeap) add(k *record, due int64) {
	if len(*h) == cap(*h) { // by an eighth: a heap per stripe may be large
		grown := make(dueHeap, len(*h), len(*h)+len(*h)/8+8)
		copy(grown, *h)
		*h = grown
	}
	k.due = due
	*h = append(*h, k)
	h.up(len(*h)-1, k)
}

func (h *dueHeap) remove(k *record) {
	i, last := int(k.at), len(*h)-1
	moved := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	if moved != k {
		h.move(i, moved)
	}
	if last < cap(*h)/4 && last > 64 {
		*h = append(make(dueHeap, 0, last+last/8), *h...)
	}
}

func (h *dueHeap) delay(k *record, due int64) {
	k.due = due
	h.down(int(k.at), k)
}

// hasten moves k to an earlier due time, unless its own is earlier still.
func (h *dueHeap) hasten(k *record, due int64) {
	if due < k.due {
		k.due = due
		h.up(int(k.at), k)
	}
}

// move places k at i, or above or below it, where k belongs.
func (h *dueHeap) move(i int, k *record) {
	if i > 0 && k.due < (*h)[(i-1)/2].due {
		h.up(i, k)
	} else {
		h.down(i, k)
	}
}

func (h *dueHeap) set(i int, k *record) {
	(*h)[i] = k
	k.at = int32(i)
}

// up places k at i, or above it past keys that are due later.
func (h *dueHeap) up(i int, k *record) {
	for i > 0 {
		parent := (*h)[(i-1)/2]
		if parent.due <= k.due {
			break
		}
		h.set(i, parent)
		i = (i - 1) / 2
	}
	h.set(i, k)
}

// down places k at i, or below it past keys that are due earlier.
func (h *dueHeap) down(i int, k *record) {
	for {
		child := 2*i + 1
		if child >= len(*h) {
			break
		}
		if child+1 < len(*h) && (*h)[child+1].due < (*h)[child].due {
			child++
		}
		if k.due <= (*h)[child].due {
			break
		}
		h.set(i, (*h)[child])
		i = child
	}
	h.set(i, k)
}
