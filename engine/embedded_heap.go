package engine

// dueHeap holds a stripe's keys by when they are due, the earliest first. A key's end
// moves with every charge; its due moves only when it is reached, so that a
// decision does not touch the heap.
type dueHeap []*record

// add puts e in.
func (h *dueHeap) add(e *record, due int64) {
	if len(*h) == cap(*h) { // by an eighth: a heap per stripe may be large
		grown := make(dueHeap, len(*h), len(*h)+len(*h)/8+8)
		copy(grown, *h)
		*h = grown
	}
	e.due = due
	*h = append(*h, e)
	h.up(len(*h)-1, e)
}

// remove takes e out.
func (h *dueHeap) remove(e *record) {
	i, last := int(e.at), len(*h)-1
	moved := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	if moved != e {
		h.move(i, moved)
	}
	if last < cap(*h)/4 && last > 64 {
		*h = append(make(dueHeap, 0, last+last/8), *h...)
	}
}

// delay gives e a later due.
func (h *dueHeap) delay(e *record, due int64) {
	e.due = due
	h.down(int(e.at), e)
}

// move puts e at i or wherever it belongs from there.
func (h *dueHeap) move(i int, e *record) {
	if i > 0 && e.due < (*h)[(i-1)/2].due {
		h.up(i, e)
	} else {
		h.down(i, e)
	}
}

func (h *dueHeap) set(i int, e *record) {
	(*h)[i] = e
	e.at = int32(i)
}

// up places e at i or, past those that are due later, above it.
func (h *dueHeap) up(i int, e *record) {
	for i > 0 {
		parent := (*h)[(i-1)/2]
		if parent.due <= e.due {
			break
		}
		h.set(i, parent)
		i = (i - 1) / 2
	}
	h.set(i, e)
}

// down places e at i or, past those that are due earlier, below it.
func (h *dueHeap) down(i int, e *record) {
	for {
		child := 2*i + 1
		if child >= len(*h) {
			break
		}
		if child+1 < len(*h) && (*h)[child+1].due < (*h)[child].due {
			child++
		}
		if e.due <= (*h)[child].due {
			break
		}
		h.set(i, (*h)[child])
		i = child
	}
	h.set(i, e)
}
