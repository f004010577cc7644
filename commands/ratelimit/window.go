package ratelimit

import (
	"strconv"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// window parses the length of a window and returns it in ms. b is a number of seconds, or an integer with a unit.
func window(b []byte) (int64, bool) {
	digits := 0
	for digits < len(b) && '0' <= b[digits] && b[digits] <= '9' {
		digits++
	}
	var unit int64
	switch string(b[digits:]) {
	case "ms":
		unit = 1
	case "", "s":
		unit = 1000
	case "m":
		unit = 60 * 1000
	case "h":
		unit = 3600 * 1000
	case "d":
		unit = 24 * 3600 * 1000
	default:
		return 0, false
	}
	n, ok := word.Integer(b[:digits])
	if !ok || n < 1 || n > limit.MaxWindow/unit {
		return 0, false
	}
	return n * unit, true
}

// windowOf parses a window of a kind, whose Length it returns, or an error reply.
func windowOf(k limit.Kind, b []byte) (length int64, msg string) {
	length, ok := window(b)
	if ok {
		return length, ""
	}
	length, ok = limit.CalendarLength(b)
	switch {
	case ok && k == limit.Fixed:
		return length, ""
	case ok:
		return 0, wrong(reply.ErrWindow, b) + ", which only " + limit.Fixed.String() + " has"
	case k == limit.Fixed:
		return 0, wrong(reply.ErrWindow+", or day, week, month or year", b)
	}
	return 0, wrong(reply.ErrWindow, b)
}

// WindowWord formats the Length of a window: in the largest unit of which it is a multiple, or as a word such as month.
func WindowWord(ms int64) string {
	if period, _ := (limit.Window{Length: ms}).Calendar(); period != "" {
		return period
	}
	for _, u := range []struct {
		ms   int64
		name string
	}{{24 * 3600 * 1000, "d"}, {3600 * 1000, "h"}, {60 * 1000, "m"}, {1000, "s"}} {
		if ms%u.ms == 0 {
			return strconv.FormatInt(ms/u.ms, 10) + u.name
		}
	}
	return strconv.FormatInt(ms, 10) + "ms"
}
