package why

import (
	"fmt"
	"time"
)

// span is a time from one instant until another.
type span struct{ from, to time.Time }

// layouts are the forms of a time, with what each leaves open.
var layouts = []struct {
	layout string
	length time.Duration // of the span that it names
	dated  bool
}{
	{"15:04", time.Minute, false},
	{"15:04:05", time.Second, false},
	{"2006-01-02 15:04", time.Minute, true},
	{"2006-01-02 15:04:05", time.Second, true},
	{"2006-01-02T15:04", time.Minute, true},
	{"2006-01-02T15:04:05", time.Second, true},
	{time.RFC3339Nano, time.Second, true}, // it has a zone of its own
}

// moment returns the span that a text names. A time without a date is the latest before now, in whose zone it is.
func moment(text string, now time.Time) (span, error) {
	for _, l := range layouts {
		t, err := time.ParseInLocation(l.layout, text, now.Location())
		if err != nil {
			continue
		}
		if !l.dated {
			onDay := func(day int) time.Time {
				return time.Date(now.Year(), now.Month(), day, t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			}
			if t = onDay(now.Day()); t.After(now) {
				t = onDay(now.Day() - 1)
			}
		}
		return span{t, t.Add(l.length)}, nil
	}
	return span{}, fmt.Errorf("--at %q is no time such as 03:12 or \"2026-11-22 03:12:30\"", text)
}

// always reports whether s is the zero span, which stands for all time.
func (s span) always() bool { return s.from.IsZero() }

// meets reports whether s has an instant that is not before from and not after to.
func (s span) meets(from, to time.Time) bool {
	return s.always() || from.Before(s.to) && !to.Before(s.from)
}
