package hold

import (
	"slices"
	"unsafe"

	"github.com/rlproxy/rlproxy/engine/limit"
)

// Book is what one key has of holds and ids. The zero Book has nothing. It is not safe for concurrent use.
type Book struct {
	windows []*heldWindow // those with cells, at most engine.MaxStates
	ids     ids
}

// heldWindow is a window of which units are held.
type heldWindow struct {
	kind            limit.Kind
	length, buckets int64
	Cells
}

// States are what the same key has counted, as its engine keeps it.
type States interface {
	// Find returns the state for a spec over a window of that length, or nil.
	Find(s *limit.Spec, length int64) *limit.State

	// Charge adds the cost of s to the state of a window at a ms, and creates it if it is not there. What was
	// admitted once is always charged.
	Charge(at int64, s *limit.Spec, w limit.Window)
}

// Empty reports whether there is neither a hold nor a known id.
func (b *Book) Empty() bool { return len(b.windows) == 0 && len(b.ids.due) == 0 }

// Newest returns the ms of the newest hold that counts. With ids it is that of the newest request that changed what is
// known of one, too: a request with an id goes by this time, so that what it finds ended stays ended when the clock
// steps back.
func (b *Book) Newest(ids bool) int64 {
	var last int64
	if ids {
		last = b.ids.last
	}
	for _, w := range b.windows {
		last = max(last, w.last)
	}
	return last
}

// Until returns the last ms at which any of it can matter, 0 if there is nothing.
func (b *Book) Until() int64 {
	until := b.ids.until()
	for _, w := range b.windows {
		view := Window{Window: limit.Window{Length: w.length}, Cells: &w.Cells}
		until = max(until, view.Until())
	}
	return until
}

// Bytes returns the memory that b takes.
func (b *Book) Bytes() int64 {
	const slot = int64(unsafe.Sizeof(heldWindow{})-unsafe.Sizeof(Cells{})) + 8
	sum := int64(unsafe.Sizeof(*b)) + b.ids.bytes()
	for _, w := range b.windows {
		sum += slot + w.Bytes()
	}
	return sum
}

// Ask answers an entry of n equal requests of a key that holds something, and fills in a usage per window. The
// first granted of them are admitted: take charges or holds them, unless they have no cost.
func (b *Book) Ask(st States, clock, now int64, s *limit.Spec, n int64, us *[limit.MaxWindows]limit.Usage, take func(granted int64) error) (granted int64, err error) {
	var rs [limit.MaxWindows]Reading
	granted = n
	for i, w := range s.Limits() {
		view := b.window(st, s, w)
		rs[i] = view.Read(now, s)
		us[i] = limit.Usage{Used: rs[i].Used}
		view.Tell(&us[i], clock, now, 0, s)
		granted = min(granted, s.Fits(w, rs[i].Used, n))
	}
	taken := granted > 0 && s.Cost > 0
	if taken {
		if err := take(granted); err != nil {
			return 0, err
		}
	}
	for i, w := range s.Limits() {
		denies := granted < n && s.Denies(w, &us[i], granted)
		if !taken && !denies {
			continue
		}
		view := b.window(st, s, w)
		if taken {
			rs[i] = view.Read(now, s)
		}
		if denies {
			us[i].Room = view.RoomAt(now, w.Limit-s.Wanted(), s, rs[i]) - clock
		}
	}
	return granted, nil
}

// Tell fills in what the answer needs of the windows after the entry has charged so many units, or held some.
func (b *Book) Tell(st States, clock, now int64, s *limit.Spec, charged int64, us *[limit.MaxWindows]limit.Usage) {
	for i, w := range s.Limits() {
		view := b.window(st, s, w)
		view.Tell(&us[i], clock, now, charged, s)
	}
}

// Lapse takes all that has lapsed at now, and charges what is to be charged. A charge or a hold at now follows. It returns
// the most holds that lapsed in one window, as a hold is in all of its windows.
func (b *Book) Lapse(st States, now int64) (holds int64) {
	for _, w := range b.windows {
		s := limit.Spec{Kind: w.kind, N: 1, Buckets: w.buckets}
		under := limit.Window{Limit: w.limit, Length: w.length}
		holds = max(holds, w.Lapse(now, func(at, units int64) {
			s.Cost = units
			st.Charge(at, &s, under)
		}))
	}
	b.tidy()
	return holds
}

// tidy forgets windows of which nothing is held.
func (b *Book) tidy() {
	if slices.ContainsFunc(b.windows, func(w *heldWindow) bool { return w.Empty() }) {
		b.windows = slices.DeleteFunc(b.windows, func(w *heldWindow) bool { return w.Empty() })
	}
	if len(b.windows) == 0 {
		b.windows = nil
	}
}

// Forget drops ids that have ended at now, at most so many, and reports whether there may be more.
func (b *Book) Forget(now int64, most int) bool { return b.ids.forget(now, most) }

// Windows calls yield for each window of which something is held, or has lapsed and was not taken. state is what the key
// has counted of it, or nil.
func (b *Book) Windows(st States, yield func(s *limit.Spec, w Window)) {
	for _, held := range b.windows {
		s := limit.Spec{Kind: held.kind, Buckets: held.buckets}
		w := limit.Window{Limit: held.limit, Length: held.length}
		yield(&s, Window{Window: w, State: st.Find(&s, w.Length), Cells: &held.Cells})
	}
}

// window returns what the key has counted and holds of a window of s.
func (b *Book) window(st States, s *limit.Spec, w limit.Window) Window {
	view := Window{Window: w, State: st.Find(s, w.Length)}
	if held := b.held(s, w.Length); held != nil {
		view.Cells = &held.Cells
	}
	return view
}

// held returns the window of s of that length, if units of it are held.
func (b *Book) held(s *limit.Spec, length int64) *heldWindow {
	for _, w := range b.windows {
		if w.kind == s.Kind && w.length == length && w.buckets == s.Buckets {
			return w
		}
	}
	return nil
}
