package observe

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine/limit"
)

// windowsFor is how long a window is remembered at least.
const windowsFor = 5 * time.Minute

// windows knows the shortest window that was asked for lately.
type windows struct {
	shortest atomic.Int64 // in ms, since the time since

	now    func() time.Time
	mu     sync.Mutex
	since  time.Time // guarded by mu
	before int64     // the shortest of the windowsFor before; guarded by mu
}

func (w *windows) open(now func() time.Time) {
	w.now, w.since, w.before = now, now(), limit.MaxWindow
	w.shortest.Store(limit.MaxWindow)
}

// ShortestWindow returns the shortest window that was asked for within the last five to ten minutes. If there was none,
// it is the longest window that there may be.
func (o *Observer) ShortestWindow() time.Duration {
	w := &o.windows
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.now(); now.Sub(w.since) >= windowsFor {
		w.since, w.before = now, w.shortest.Swap(limit.MaxWindow)
	}
	return time.Duration(min(w.before, w.shortest.Load())) * time.Millisecond
}
