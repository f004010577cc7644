package waiting

import "container/heap"

// due is a heap of lines, the first of which is due next.
type due []*line

// put adds a line, or moves it to where its time belongs.
func (d *due) put(l *line) {
	if l.index >= 0 {
		heap.Fix(d, l.index)
		return
	}
	heap.Push(d, l)
}

// remove removes a line, if it is in d.
func (d *due) remove(l *line) {
	if l.index >= 0 {
		heap.Remove(d, l.index)
	}
}

// Len implements heap.Interface.
func (d due) Len() int { return len(d) }

// Less implements heap.Interface.
func (d due) Less(i, j int) bool { return d[i].at.Before(d[j].at) }

// Swap implements heap.Interface.
func (d due) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push implements heap.Interface.
func (d *due) Push(x any) {
	l := x.(*line)
	l.index = len(*d)
	*d = append(*d, l)
}

// Pop implements heap.Interface.
func (d *due) Pop() any {
	last := len(*d) - 1
	l := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	l.index = -1
	return l
}
