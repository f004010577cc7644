package accuracy

// asked is one request of a history: when, and whether it was admitted. With a clock that the test sets, both
// times are the ms at which it was decided. By a real clock it was decided at some moment between them.
type asked struct {
	sent, got int64 // us since the epoch
	ok        bool
	limit     int64 // that was asked for
}

// history has the requests about one key, in the order of the answers.
type history []asked

// worst returns the most that was admitted within less than a window, over the limit of the last one of them: of requests
// the first of which was sent less than a window before the last one was answered. What was admitted exactly one window
// apart is not counted together.
func (h history) worst(window int64) (most float64) {
	var in history
	for _, a := range h {
		if !a.ok {
			continue
		}
		in = append(in, a)
		for len(in) > 0 && a.got-in[0].sent >= window*1000 { // none, if this one took so long
			in = in[1:]
		}
		most = max(most, share(int64(len(in)), a.limit))
	}
	return most
}

// last returns what was admitted of what was sent within the last windows, over the last limit for each of them.
func (h history) last(windows, window int64) float64 {
	end, n := h[len(h)-1], int64(0)
	for _, a := range h {
		if a.ok && a.sent > end.sent-windows*window*1000 {
			n++
		}
	}
	return share(n, windows*end.limit)
}

// falseDenials returns how many denials an exact log of what was admitted before would have admitted. What was
// admitted exactly one window before still counts, and so does what may have been. tick is how much longer
// an admission counts, in us, as clocks show nothing shorter.
func (h history) falseDenials(limit, window, tick int64) (n int) {
	var in history
	for _, a := range h {
		if a.ok {
			in = append(in, a)
			continue
		}
		for len(in) > 0 && in[0].got < a.sent-window*1000-tick {
			in = in[1:]
		}
		if int64(len(in)) < limit {
			n++
		}
	}
	return n
}

// admitted returns how many were admitted.
func (h history) admitted() (n int) {
	for _, a := range h {
		if a.ok {
			n++
		}
	}
	return n
}
