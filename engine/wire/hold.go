package wire

import (
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Kinds of ids, as nodes store them.
const (
	idOnce        = 1
	idReservation = 2
	idSlots       = 3
)

// appendID appends the kind of the id of r 1, and its digest 16.
func appendID(b []byte, r *engine.Request) []byte {
	kind := byte(idReservation)
	if r.Hold.Once {
		kind = idOnce
	} else if r.Kind == limit.Concurrency {
		kind = idSlots
	}
	return append(append(b, kind), r.Hold.ID[:]...)
}

// Rider returns what a request with an id of its own adds to its spec: kind of the id 1 byte, digest 16, ms until it
// lapses 5, 1 if what lapses is forgotten 1. The function lend takes it as its last argument.
func Rider(r *engine.Request) []byte {
	b := appendUint(appendID(nil, r), r.Hold.TTL, 5)
	return append(b, flag(r.Hold.Release || r.Kind != limit.Slide, 1)) // only a log can be charged later
}

// AdmitArgs returns the arguments of the function admit, which decides a request with an id of its own.
func AdmitArgs(r *engine.Request) [][]byte {
	return [][]byte{specArg(r), Rider(r)}
}

func specArg(r *engine.Request) []byte {
	asked := spec{Spec: r.Spec}
	return asked.append(nil)
}

// Admitted is the answer to a request with an id of its own.
type Admitted struct {
	Answer
	Clock int64 // ms by which the answer was given: with Again, that of the first answer
	Again bool  // the id is known, and this is its first answer

	// Spec is what the answer is about, for Spec.Decide. With Again it is what was asked first.
	Spec limit.Spec
}

// Decision returns the decision.
func (a *Admitted) Decision() limit.Decision { return a.Spec.Decide(a.Usages, a.Clock, a.Granted, 0) }

// DecodeAdmit reads the reply of the function admit to a request: again 1, and if it is 1 the length of a spec 1, that spec,
// and the first reply; else the clock 6 and the answer to one entry.
func DecodeAdmit(reply string, r *engine.Request) (Admitted, error) {
	in := reader{s: reply}
	again := in.uint(1)
	return decodeAdmitted(&in, r, again)
}

func decodeAdmitted(in *reader, r *engine.Request, again int64) (a Admitted, err error) {
	asked := spec{Spec: r.Spec}
	switch again {
	case 0:
	case 1:
		a.Again = true
		if asked.Spec, err = decodeSpec(in.text(in.uint(1)), r); err != nil {
			return a, err
		}
		if in.uint(1) != 0 {
			return a, errMalformed
		}
	default:
		return a, errMalformed
	}
	a.Spec, a.Clock = asked.Spec, in.uint(6)
	var c Call
	if a.Answer, err = c.decodeEntry(in, &asked, 1, a.Clock); err != nil {
		return a, err
	}
	if err = in.end(); err != nil {
		return a, err
	}
	if a.Clock == 0 || a.Clock > maxClock {
		return a, errMalformed
	}
	if a.Status == Failed || a.Again && a.Granted != 1 {
		return a, errInconsistent
	}
	if a.Again && r.Kind != limit.Concurrency {
		a.Lapsed = 0 // they were counted with the first answer
	}
	return a, nil
}

// decodeSpec reads the spec of the request that came first with the id of r.
func decodeSpec(text string, r *engine.Request) (limit.Spec, error) {
	in := reader{s: text}
	s := limit.Spec{Cost: in.uint(6), Strict: in.uint(1)&flagStrict != 0, Kind: limit.Kind(in.uint(1)), Buckets: in.uint(2)} // #nosec G115 -- one byte
	for in.s != "" && !in.bad && s.N < limit.MaxWindows {
		s.Windows[s.N] = limit.Window{Length: in.uint(5), Limit: in.uint(5)}
		s.N++
	}
	if err := in.end(); err != nil {
		return s, err
	}
	counted := s.Kind == limit.Slide || s.Kind == limit.Counter || s.Kind == limit.Fixed
	if s.N == 0 || s.Cost == 0 || s.Buckets == 0 || !counted && s.Kind != limit.Concurrency || (s.Kind == limit.Concurrency) != (r.Kind == limit.Concurrency) {
		return s, errInconsistent
	}
	for _, w := range s.Limits() {
		if w.Limit == 0 || w.Limit > limit.MaxLimit || w.Length > limit.MaxWindow || (w.Length == 0) != (s.Kind == limit.Concurrency) ||
			s.Buckets > max(w.Length, 1) || s.Buckets > limit.MaxBuckets {
			return s, errInconsistent
		}
	}
	return s, nil
}

// HomeAdmitArgs returns the arguments of the function lend for a request with an id of its own.
func HomeAdmitArgs(r *engine.Request, args [][]byte) [][]byte { return append(args, Rider(r)) }

// DecodeHomeAdmit reads the reply of the function lend to a request with an id of its own. If the id is
// known, there is its first answer and no reply of the home.
func DecodeHomeAdmit(reply string, r *engine.Request, refusal *Refusal) (*HomeReply, *Admitted, error) {
	in := reader{s: reply}
	switch in.uint(1) {
	case 0:
		h, err := DecodeHomeReply(in.s, &r.Spec, 1, refusal)
		return h, nil, err
	case 1:
		a, err := decodeAdmitted(&in, r, 1)
		return nil, &a, err
	}
	return nil, nil, errMalformed
}

// SettleArgs returns the argument of the function settle: kind of the id 1 byte, digest 16, cost 6.
func SettleArgs(r *engine.Request) [][]byte {
	return [][]byte{appendUint(appendID(nil, r), r.Cost, 6)}
}

// DecodeSettle reads the reply of the function settle: settled 1 (2: by an earlier call), charged 6,
// returned 6, overrun 6, and holds that had lapsed 3.
func DecodeSettle(reply string) (s engine.Settlement, lapsed int64, err error) {
	r := reader{s: reply}
	how := r.uint(1)
	s = engine.Settlement{Settled: how > 0, Again: how == 2, Charged: r.uint(6), Returned: r.uint(6), Overrun: r.uint(6)}
	lapsed = r.uint(3)
	if err := r.end(); err != nil {
		return engine.Settlement{}, 0, err
	}
	if how > 2 || s.Charged > limit.MaxLimit || s.Returned > limit.MaxLimit || s.Overrun > s.Charged ||
		!s.Settled && s.Charged+s.Returned > 0 || s.Overrun > 0 && s.Returned > 0 {
		return engine.Settlement{}, 0, errInconsistent
	}
	return s, lapsed, nil
}

// EachArgs returns the arguments of the function each, which runs admit and settle for requests.
func EachArgs(requests []*engine.Request) (args [][]byte) {
	for _, r := range requests {
		if r.Op == engine.OpSettle {
			args = append(args, SettleArgs(r)[0], nil)
		} else {
			args = append(args, AdmitArgs(r)...)
		}
	}
	return args
}

// DecodeEach reads the reply of the function each to n requests: what admit or settle replies to each of them, empty if
// its key has failed.
func DecodeEach(reply string, n int) ([]string, error) {
	in := reader{s: reply}
	all := make([]string, n)
	for i := range all {
		all[i] = in.text(in.uint(2))
	}
	return all, in.end()
}

// RenewArgs returns the argument of the function renew: by request the digest 16 and the ms 5.
func RenewArgs(requests []*engine.Request) [][]byte {
	var b []byte
	for _, r := range requests {
		b = appendUint(append(b, r.Hold.ID[:]...), r.Hold.TTL, 5)
	}
	return [][]byte{b}
}

// Renewal says what became of one renewal.
type Renewal byte

// What became of a renewal, as it stands on the wire.
const (
	Ended       Renewal = iota // nothing is held any more
	Renewed                    // what is held lasts
	RenewFailed                // the key has failed; asked for alone, the node says why
)

// DecodeRenew reads the reply of the function renew to n requests.
func DecodeRenew(reply string, n int) ([]Renewal, error) {
	if len(reply) != n {
		return nil, errMalformed
	}
	all := make([]Renewal, n)
	for i := range all {
		if all[i] = Renewal(reply[i]); all[i] > RenewFailed {
			return nil, errMalformed
		}
	}
	return all, nil
}

// AllArgs returns the arguments of the function all, which asks several keys at once: their specs.
func AllArgs(requests []engine.Request) [][]byte {
	args := make([][]byte, len(requests))
	for i := range requests {
		args[i] = specArg(&requests[i])
	}
	return args
}

// DecodeAll reads the reply of the function all: the clock 6, 1 if all were granted 1, and
// by request the answer to one entry. If not all were granted, nothing was charged, and Granted says which
// requests there was room for.
func DecodeAll(reply string, requests []engine.Request) (answers []Answer, clock int64, all bool, err error) {
	r := reader{s: reply}
	clock, all = r.uint(6), r.uint(1) == 1
	granted := true
	for i := range requests {
		var c Call
		a, err := c.decodeEntry(&r, &spec{Spec: requests[i].Spec}, 1, clock)
		if err != nil {
			return nil, 0, false, err
		}
		granted = granted && a.Status != Failed && a.Granted == 1
		answers = append(answers, a)
	}
	if err := r.end(); err != nil {
		return nil, 0, false, err
	}
	if clock == 0 || clock > maxClock {
		return nil, 0, false, errMalformed
	}
	if all && !granted {
		return nil, 0, false, errInconsistent
	}
	return answers, clock, all, nil
}
