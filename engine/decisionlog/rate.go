package decisionlog

import (
	"sync/atomic"
	"time"
)

// rate limits how many lines there are in each second.
type rate struct {
	most  uint32
	state atomic.Uint64 // the second, and in the lower half the lines in it
}

// take reports whether there may be another line at now, the time since the Recorder
// started, and counts it then.
func (r *rate) take(now time.Duration) bool {
	second := uint64(now/time.Second) << 32
	for {
		state := r.state.Load()
		next := state + 1
		switch {
		case state>>32 < second>>32:
			next = second + 1
		case uint32(state) >= r.most:
			return false
		}
		if r.state.CompareAndSwap(state, next) {
			return true
		}
	}
}
