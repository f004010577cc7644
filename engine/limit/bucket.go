package limit

import "math/bits"

// The token bucket of RL.BUCKET: the limit is its capacity, and as many tokens as its Param come per window,
// continuously. A state is one time: when the bucket is full again, in us and a fraction of one, whose denominator is
// Param. With that, a token takes window/Param exactly, and nothing is ever rounded. What counts is the tokens that
// are missing, a part of one as a whole.

// Bucket is the kind of RL.BUCKET. Its Param is the number of tokens that come per window.
const Bucket Kind = 9

func init() {
	register(Bucket, algorithm{
		name: "RL.BUCKET", windows: true, peek: 1, param: "refill",
		mostParam: func(Window) int64 { return MaxLimit },
		fresh:     func(*State) {}, usage: bucketUsage, charge: bucketCharge, room: bucketRoom, until: bucketUntil,
		empty: bucketEmpty,
	})
}

// bucketLeft returns the us from now until the bucket is full, and the fraction; newest and past are when that is.
func bucketLeft(s *State, now int64, spec *Spec) (us, part int64) {
	us = s.newest - now*1000 - spec.beyond(now)
	if us < 0 {
		return 0, 0
	}
	return us, s.past
}

// MaxFill is the longest time, in us, in which a bucket may fill: 146 years.
const MaxFill = MaxDrain / 1000

// FillTime returns in how many us n tokens come, and the fraction, of which by is the denominator. It is at most
// MaxFill.
func FillTime(n, window, by int64) (us, part int64) {
	high, low := bits.Mul64(uint64(n), uint64(window*1000))
	if high >= uint64(by) {
		return MaxFill, 0
	}
	q, r := bits.Div64(high, low, uint64(by))
	return int64(min(q, MaxFill)), int64(r)
}

func bucketUsage(s *State, now int64, spec *Spec) (used int64, edge int) {
	us, part := bucketLeft(s, now, spec)
	high, low := bits.Mul64(uint64(us), uint64(s.Param()))
	low, carry := bits.Add64(low, uint64(part), 0)
	q, r := bits.Div64(high+carry, low, uint64(s.window*1000)) // tokens that were taken, so they fit
	return int64(q) + int64(min(r, 1)), 0
}

func bucketCharge(s *State, now int64, spec *Spec, w Window, units int64, _ int) {
	more, part := FillTime(units, w.Length, s.Param())
	us := now*1000 + spec.beyond(now)
	if s.newest < us {
		s.newest, s.past = us, 0
	}
	s.newest, s.past = s.newest+more, s.past+part
	if s.past >= s.Param() {
		s.newest, s.past = s.newest+1, s.past-s.Param()
	}
}

func bucketRoom(s *State, now, most int64, spec *Spec, _ int) int64 {
	us, part := bucketLeft(s, now, spec)
	full, rest := FillTime(most, s.window, s.Param())
	us -= full
	if part > rest {
		us++
	}
	return now + (us+999)/1000
}

func bucketEmpty(s *State, now int64, spec *Spec) int64 {
	us, part := bucketLeft(s, now, spec)
	return now + (us+min(part, 1)+999)/1000
}

func bucketUntil(s *State) int64 { return (s.newest + min(s.past, 1) - 1) / 1000 }
