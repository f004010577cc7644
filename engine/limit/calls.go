package limit

// Calls counts the calls that charge or hold units, by second.
type Calls struct {
	last   int64 // the ms of the last call, as the clock had it
	calls  int32 // in the second of last
	before int32 // in the second before that
}

// Last returns the ms of the last call.
func (c *Calls) Last() int64 { return c.last }

// Count counts a number of calls at now, or at the last call if that is later.
func (c *Calls) Count(now, calls int64) {
	now = max(now, c.last)
	switch now/1000 - c.last/1000 {
	case 0:
	case 1:
		c.calls, c.before = 0, c.calls
	default:
		c.calls, c.before = 0, 0
	}
	c.calls += int32(calls) // #nosec G115 -- of one pipeline
	c.last = now
}

// Rate estimates the calls in the second up to now: those of now's second and, weighted by their
// overlap, those of the second before.
func (c *Calls) Rate(now int64) int64 {
	switch now/1000 - c.last/1000 {
	case 0:
		return weigh(int64(c.before), 1000, now%1000) + int64(c.calls)
	case 1:
		return weigh(int64(c.calls), 1000, now%1000)
	}
	return 0
}
