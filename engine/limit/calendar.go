package limit

import (
	_ "embed"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // for machines that have no database of time zones
)

// The calendar windows of RL.FIXED: a day, a week, a month or a year of a time zone. A calendar window is a fixed
// window that is used once: its state is named by its zone, by what it is, and by when it begins and ends. So whoever
// has such a state need not know calendars: it counts until it ends, and the next window is another state.
//
// The Length of a calendar window has all of that in one number: a bit that no length in ms has, 2 bits for day, week,
// month or year, 10 for the zone, 28 for the minute since the epoch at which it begins, and 20 for its minutes. Before
// Date, begin and minutes are 0. A day begins at the first moment at which a clock of the zone shows its date or a
// later one. So a date that the zone leaves out has no window, and one that begins twice has a single one. Windows
// begin at whole minutes, as they do in all zones since 1972.

const (
	calendarBit = 1 << 60
	periodShift = 58
	zoneShift   = 48
	beginShift  = 20
	undated     = -1 << zoneShift // the bits that are left of a window that has no date

	// mostDays is the most days that a calendar window may have on a node: a year, when a zone steps back by a day.
	mostDays = 368

	minute = 60_000
)

// The calendar windows, by their number.
const (
	day = iota
	week
	month
	year
)

var periods = [...]string{day: "day", week: "week", month: "month", year: "year"}

// zonesText has the names of all zones, a line each. The number of a line is part of stored records: names are
// added at the end, and none is removed.
//
//go:embed zones.txt
var zonesText string

// zone is a time zone.
type zone struct {
	name   string
	load   sync.Once
	at     *time.Location             // nil if the database does not have it; written by load
	latest [len(periods)]atomic.Int64 // by number of a period: the Length of the window that was asked for last
}

var (
	zones = sync.OnceValue(func() []zone {
		all := make([]zone, len(ZoneNames()))
		for i, name := range ZoneNames() {
			all[i].name = name
		}
		return all
	})
	zoneNumbers = sync.OnceValue(func() map[string]int64 {
		numbers := map[string]int64{}
		for i, name := range ZoneNames() {
			numbers[name] = int64(i)
		}
		return numbers
	})
)

// location returns the rules of the zone, or nil if they are not known.
func (z *zone) location() *time.Location {
	z.load.Do(func() {
		if at, err := time.LoadLocation(z.name); err == nil {
			z.at = at
		}
	})
	return z.at
}

// ZoneNumber returns the number of a time zone of the IANA database, for Spec.InZone.
func ZoneNumber(name []byte) (number int64, ok bool) {
	number, ok = zoneNumbers()[string(name)]
	return number, ok && zones()[number].location() != nil
}

// ZoneNames returns the names of all time zones. The caller must not modify them.
var ZoneNames = sync.OnceValue(func() []string { return strings.Fields(zonesText) })

// CalendarLength returns the Length of a window that a word names in any case: day, week, month or year, of UTC.
func CalendarLength(word []byte) (length int64, ok bool) {
	for i, p := range periods {
		if strings.EqualFold(string(word), p) {
			return calendarBit | int64(i)<<periodShift, true
		}
	}
	return 0, false
}

// Calendar returns what a calendar window is called, such as day, and its zone; "" for other windows.
func (w Window) Calendar() (period, zone string) {
	if w.Length < calendarBit {
		return "", ""
	}
	number := w.zone()
	if number >= int64(len(zones())) {
		return periods[w.period()], "a zone of a newer version" // of rlproxy, which has stored it
	}
	return periods[w.period()], zones()[number].name
}

func (w Window) period() int64 { return w.Length >> periodShift & 3 }
func (w Window) zone() int64   { return w.Length >> zoneShift & 1023 }

// Ms returns the length of the window in ms. A calendar window without a date has a usual length.
func (w Window) Ms() int64 {
	switch minutes := w.Length & (1<<beginShift - 1); {
	case w.Length < calendarBit:
		return w.Length
	case minutes > 0:
		return minutes * minute
	}
	return [...]int64{day: 1, week: 7, month: 30, year: 365}[w.period()] * 24 * 60 * minute
}

// EndsAt returns the ms at which the fixed window that has a ms ends.
func (w Window) EndsAt(ms int64) int64 {
	_, to := fixedSpan(w.Length, ms)
	return to
}

// InZone sets the zone of the calendar windows of the spec, which have no date, and reports whether it has any.
func (s *Spec) InZone(number int64) bool { return inZone(s.Limits(), number) }

func inZone(ws []Window, number int64) (found bool) {
	for i := range ws {
		if w := &ws[i]; w.Length >= calendarBit {
			w.Length, found = w.Length&^(1023<<zoneShift)|number<<zoneShift, true
		}
	}
	return found
}

// InZoneOf returns the windows with the calendar ones in the zone of those of others, or of UTC without any.
func InZoneOf(ws, others []Window) []Window {
	number := int64(0)
	for _, w := range others {
		if w.Length >= calendarBit {
			number = w.zone()
		}
	}
	ws = slices.Clone(ws)
	inZone(ws, number)
	return ws
}

// CalendarEnd returns the ms at which the first of the spec's calendar windows ends, which have a date; math.MaxInt64
// without any.
func (s *Spec) CalendarEnd() int64 {
	end := int64(math.MaxInt64)
	for _, w := range s.Limits() {
		if w.Length >= calendarBit {
			end = min(end, w.EndsAt(0))
		}
	}
	return end
}

// HasCalendar reports whether the spec has calendar windows.
func (s *Spec) HasCalendar() bool {
	return slices.ContainsFunc(s.Limits(), func(w Window) bool { return w.Length >= calendarBit })
}

// Date gives the calendar windows of the spec the date of a ms.
func (s *Spec) Date(ms int64) {
	for i := range s.N {
		if w := &s.Windows[i]; w.Length >= calendarBit {
			w.date(ms)
		}
	}
}

// date gives w the date of a ms.
func (w *Window) date(ms int64) {
	z := &zones()[w.zone()]
	latest := &z.latest[w.period()]
	if l := (Window{Length: latest.Load()}); l.Length > 0 {
		if from, to := fixedSpan(l.Length, ms); from <= ms && ms < to {
			w.Length = l.Length
			return
		}
	}
	from, to := span(z.location(), w.period(), time.UnixMilli(ms))
	begin, end := max(from/60, 2), max(to/60, 3) // a parameter of 1 is that of other windows
	w.Length = w.Length&undated | begin<<beginShift | (end - begin)
	latest.Store(w.Length)
}

// span returns the s at which the window that has a moment begins and ends.
func span(at *time.Location, period int64, t time.Time) (from, to int64) {
	y, m, d := t.In(at).Date()
	next := [...]struct{ y, m, d int }{day: {d: 1}, week: {d: 7}, month: {m: 1}, year: {y: 1}}[period]
	switch period {
	case week: // from Monday
		d -= (int(t.In(at).Weekday()) + 6) % 7
	case month:
		d = 1
	case year:
		m, d = 1, 1
	}
	for {
		from = to
		if to = begins(at, y, m, d); to > t.Unix() {
			return from, to
		}
		y, m, d = y+next.y, m+time.Month(next.m), d+next.d
	}
}

// begins returns the first s at which a clock shows a date or a later one.
func begins(at *time.Location, y int, m time.Month, d int) int64 {
	const farthest = 24 * 3600 // s, more than any zone is from UTC
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()
	for t := time.Unix(midnight-farthest, 0).In(at); ; {
		_, offset := t.Zone()
		_, end := t.ZoneBounds()
		first := max(midnight-int64(offset), t.Unix()) // the zone may have stepped over midnight
		if !end.IsZero() && !end.After(t) {            // as on the last day of a leap year, in Go 1.26
			end = t.Add(time.Minute)
		}
		if end.IsZero() || first < end.Unix() {
			return first
		}
		t = end
	}
}

// fixedSpan returns the ms at which the fixed window that has t begins and ends. A calendar window is always the same.
func fixedSpan(length, t int64) (from, to int64) {
	w := Window{Length: length}
	if length < calendarBit {
		from = t - t%length
	} else {
		from = length >> beginShift & (1<<28 - 1) * minute
	}
	return from, from + w.Ms()
}

// NodeName returns the parameter and the window by which nodes name the state of a window of a spec with a Param.
func (w Window) NodeName(param int64) (parameter, window int64) {
	if w.Length < calendarBit {
		return param, w.Length
	}
	return w.Length >> beginShift & (1<<40 - 1), w.Ms()
}

// FromNode returns the Param and the Length of a state that a node names, and reports whether there is such a state.
func FromNode(k Kind, parameter, window int64) (param, length int64, ok bool) {
	if k != Fixed || parameter == 1 {
		return parameter, window, window <= MaxWindow
	}
	minutes := window / minute
	ok = parameter > 0 && parameter < 1<<40 && window%minute == 0 && minutes > 0 && minutes <= mostDays*24*60
	return 1, calendarBit | parameter<<beginShift | minutes, ok
}
