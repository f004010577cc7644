package commands

import (
	"math"

	"github.com/rlproxy/rlproxy/engine"
)

// What single words mean. Nothing here allocates.

// fold tells whether b is the word upper, in any case. upper holds only the
// letters A to Z.
func fold(b []byte, upper string) bool {
	if len(b) != len(upper) {
		return false
	}
	for i := range b {
		if b[i]&^0x20 != upper[i] {
			return false
		}
	}
	return true
}

// isInteger tells whether b is written as Redis writes an integer of any size: no
// plus sign, no leading zero, no space, no -0.
func isInteger(b []byte) bool {
	digits := b
	if len(b) > 0 && b[0] == '-' {
		digits = b[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && len(b) > 1 {
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// integer reads b as Redis reads an integer, in the range of int64.
func integer(b []byte) (int64, bool) {
	if !isInteger(b) {
		return 0, false
	}
	negative := b[0] == '-'
	digits := b
	if negative {
		digits = b[1:]
	}
	return decimal(digits, negative)
}

// decimal adds up digits. It counts downward, because that side has one more.
func decimal(digits []byte, negative bool) (int64, bool) {
	var n int64
	for _, c := range digits {
		d := int64(c - '0')
		if n < (math.MinInt64+d)/10 {
			return 0, false
		}
		n = n*10 - d
	}
	if negative {
		return n, true
	}
	return -n, n != math.MinInt64
}

// window reads a window's length, in ms: seconds, or an integer with a unit.
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
	n, ok := integer(b[:digits])
	if !ok || n < 1 || n > engine.MaxWindow/unit {
		return 0, false
	}
	return n * unit, true
}

// policyOf returns the policy that a word names, in any case, or PolicyDefault.
func policyOf(word []byte) engine.Policy {
	switch {
	case fold(word, "OPEN"):
		return engine.PolicyOpen
	case fold(word, "CLOSED"):
		return engine.PolicyClosed
	case fold(word, "LOCAL"):
		return engine.PolicyLocal
	case fold(word, "ERROR"):
		return engine.PolicyError
	}
	return engine.PolicyDefault
}
