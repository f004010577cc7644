package hold

import (
	"slices"
	"unsafe"

	"github.com/rlproxy/rlproxy/engine/limit"
)

// A Book holds the holds and the remembered ids of one key. The zero Book is empty. It is not safe for concurrent use.
type Book struct {
	windows []*heldWindow // those with cells, at most engine.MaxStates
	ids     ids
}

// heldWindow is a window with holds.
type heldWindow struct {
	kind            limit.Kind
	length, buckets int64
	Cells
}

// States are the charged states of the same key, which its engine keeps.
type States interface {
	// Find returns the state for a spec over a window of that length, or nil.
	Find(s *limit.Spec, length int64) *limit.State

	// Charge adds the cost of s to the state of a window at a ms, and creates the state if it does not exist. It
	// cannot fail: the units were admitted before.
	Charge(at int64, s *limit.Spec, w limit.Window)
}

// Empty reports whether there is neither a hold nor a known id.
func (b *Book) Empty() bool { return len(b.windows) == 0 && len(b.ids.due) == 0 }

// Newest returns the ms of the newest hold that counts. With ids it is the ms of the newest request that changed an
// id, if that is later: a request with an id goes by this time, so that an expired id stays expired when the clock
// steps back.
func (b *Book) Newest(ids bool) int64 {
	var last int64
	if ids {
		last = b.ids.last
	}
	for _, w := range b.windows {
		last = max(last, w.Last())
	}
	return last
}

// Until returns the last ms at which any hold or id can matter, 0 if the Book is empty.
func (b *Book) Until() int64 { return max(b.ids.until(), b.HeldUntil()) }

// HeldUntil returns the last ms at which any hold can matter, 0 if there is none.
func (b *Book) HeldUntil() (until int64) {
	for _, w := range b.windows {
		s := limit.Spec{Kind: w.kind, Param: w.buckets}
		both := Window{Window: limit.Window{Limit: w.limit, Length: w.length}, Cells: &w.Cells}
		until = max(until, both.Until(&s))
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

// Ask decides a request, and fills in a usage per window. granted is 1 if it is admitted, else 0. take charges or
// holds an admitted request, unless its cost is 0.
func (b *Book) Ask(st States, clock, now int64, s *limit.Spec, us *[limit.MaxWindows]limit.Usage,
	take func() error) (granted int64, err error) {
	var rs [limit.MaxWindows]Reading
	granted = 1
	for i, w := range s.Limits() {
		both := b.window(st, s, w)
		rs[i] = both.Read(now, s)
		us[i] = limit.Usage{Used: rs[i].Used}
		us[i].Empty = both.EmptyAt(now, s) - clock
		granted = min(granted, s.Fits(w, rs[i].Used, 1))
	}
	if granted > 0 {
		if s.Cost > 0 {
			if err := take(); err != nil {
				return 0, err
			}
		}
		return granted, nil
	}
	for i, w := range s.Limits() {
		both := b.window(st, s, w)
		if s.Denies(w, &us[i], 0) && (both.State != nil ||
			both.Cells != nil) { // else the cost exceeds the limit: there is never room
			us[i].Room = both.RoomAt(now, w.Limit-s.Wanted(), s, rs[i]) - clock
		}
	}
	return 0, nil
}

// Complete completes the usages for the answer after the request has charged its units, or held some.
func (b *Book) Complete(st States, clock, now int64, s *limit.Spec, us *[limit.MaxWindows]limit.Usage) {
	for i, w := range s.Limits() {
		both := b.window(st, s, w)
		us[i].Empty = both.EmptyAt(now, s) - clock
	}
}

// Lapse removes all holds that have lapsed at now, and charges those without Release. The caller then charges or
// holds at now. It returns the most holds that lapsed in one window: a hold is in each of its windows.
func (b *Book) Lapse(st States, now int64) (holds int64) {
	for _, w := range b.windows {
		s := limit.Spec{Kind: w.kind, N: 1, Param: w.buckets}
		under := limit.Window{Limit: w.limit, Length: w.length}
		holds = max(holds, w.Lapse(now, func(at, units int64) {
			s.Cost = units
			st.Charge(at, &s, under)
		}))
	}
	b.tidy()
	return holds
}

// tidy removes windows without holds.
func (b *Book) tidy() {
	if slices.ContainsFunc(b.windows, func(w *heldWindow) bool { return w.Empty() }) {
		b.windows = slices.DeleteFunc(b.windows, func(w *heldWindow) bool { return w.Empty() })
	}
	if len(b.windows) == 0 {
		b.windows = nil
	}
}

// Forget drops at most `most` ids that have expired at now, and reports whether there may be more.
func (b *Book) Forget(now int64, most int) bool { return b.ids.forget(now, most) }

// Windows calls yield for each window with holds, including those that have lapsed and were not removed.
func (b *Book) Windows(st States, yield func(s *limit.Spec, w Window)) {
	for _, held := range b.windows {
		s := limit.Spec{Kind: held.kind, Param: held.buckets}
		w := limit.Window{Limit: held.limit, Length: held.length}
		yield(&s, Window{Window: w, State: st.Find(&s, w.Length), Cells: &held.Cells})
	}
}

// Live calls yield for each window with holds that can matter at a clock: with a spec of that window alone.
func (b *Book) Live(clock int64, yield func(s limit.Spec)) {
	for _, held := range b.windows {
		w := limit.Window{Limit: held.limit, Length: held.length}
		both := Window{Window: w, Cells: &held.Cells}
		s := limit.Spec{Kind: held.kind, N: 1, Param: held.buckets, Windows: [limit.MaxWindows]limit.Window{w}}
		if both.Until(&s) >= clock {
			yield(s)
		}
	}
}

// window returns the charged state and the holds of a window of s.
func (b *Book) window(st States, s *limit.Spec, w limit.Window) Window {
	both := Window{Window: w, State: st.Find(s, w.Length)}
	if held := b.findWindow(s, w.Length); held != nil {
		both.Cells = &held.Cells
	}
	return both
}

// crowded reports whether any window of s is crowded.
func (b *Book) crowded(s *limit.Spec) bool {
	return slices.ContainsFunc(s.Limits(), func(w limit.Window) bool {
		held := b.findWindow(s, w.Length)
		return held != nil && len(held.list) >= crowd
	})
}

// findWindow returns the window of s of that length if it has holds, else nil.
func (b *Book) findWindow(s *limit.Spec, length int64) *heldWindow {
	for _, w := range b.windows {
		if w.kind == s.Kind && w.length == length && w.buckets == s.Param {
			return w
		}
	}
	return nil
}
