package wire

import (
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
)

// Kinds of ids, as nodes store them.
const (
	idOnce        = 1 // ONCE
	idReservation = 2 // RL.RESERVE and RL.SETTLE
	idEnds        = 3 // forgotten as soon as its hold ends: RL.ACQUIRE, and multi-key requests, which are not repeated
)

// kindOfID returns the kind of the id of r.
func kindOfID(r *engine.Request) int64 {
	switch {
	case r.Hold.Once:
		return idOnce
	case r.Kind == limit.Concurrency || r.Hold.MultiKey:
		return idEnds
	}
	return idReservation
}

// awaited is added to what an id says of lapsed units, for a lease whose client waits until it is free.
const awaited = 2

// IDFields returns what a request with an id of its own adds to its spec. Only additive units can be charged when they
// lapse.
func IDFields(r *engine.Request) []byte {
	b := formatID.append(nil, r.Hold.ID[:], kindOfID(r))
	flags := flag(r.Hold.Release || !r.Kind.Additive(), 1) + flag(r.Kind == limit.Concurrency && r.Block > 0, awaited)
	return formatHOLD.append(b, nil, r.Hold.TTL, int64(flags))
}

// AdmitArgs returns the arguments of the function admit, which decides a request with an id of its own.
func AdmitArgs(r *engine.Request) [][]byte {
	return [][]byte{specArg(r), IDFields(r)}
}

func specArg(r *engine.Request) []byte {
	asked := spec{Spec: r.Spec}
	return asked.append(nil)
}

// Admitted is the answer to a request with an id of its own.
type Admitted struct {
	Answer
	Clock int64 // node's clock when the answer was first given, in ms
	Again bool  // the id is known, and this repeats the answer to the first request with it

	// Spec is the spec that the answer is about. With Again it is that of the first request.
	Spec limit.Spec
}

// Decision returns the decision that the answer contains.
func (a *Admitted) Decision() limit.Decision { return a.Spec.Decide(a.Usages, a.Clock, a.Granted, 0) }

// DecodeAdmit decodes the reply of the function admit to a request: again 1, then, if that is 1,
// the length of a spec 1, that spec, and the first reply, which begins with a 0 of its own; and
// in both cases the clock 6 and the answer to one entry.
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
	if a.Status == Failed || a.Again && (a.Granted != 1 || r.Hold.MultiKey) { // the id of a multi-key request is random
		return a, errInconsistent
	}
	if a.Again && r.Kind != limit.Concurrency {
		a.Lapsed = 0 // these holds were counted with the first answer
	}
	return a, nil
}

// DecodeHomeAdmit decodes the reply of the function lend to a request with an id of its own. It
// returns the home's reply, or if the id is known, the first answer to it instead.
func DecodeHomeAdmit(reply string, r *engine.Request, refusal *lease.Refusal) (*HomeReply, *Admitted, error) {
	var lent Lent
	if err := Unpack(reply, &lent); err != nil {
		return nil, nil, err
	}
	if (lent.Home == nil) == (lent.Known == "") {
		return nil, nil, errMalformed
	}
	if lent.Home != nil {
		h, err := lent.Home.check(&r.Spec, 1, refusal)
		return h, nil, err
	}
	in := reader{s: lent.Known}
	if in.uint(1) != 1 {
		return nil, nil, errMalformed
	}
	a, err := decodeAdmitted(&in, r, 1)
	return nil, &a, err
}

// SettleArgs returns the argument of the function settle.
func SettleArgs(r *engine.Request) [][]byte {
	return [][]byte{formatSETTLE.append(nil, r.Hold.ID[:], kindOfID(r), r.Cost)}
}

// DecodeSettle decodes the reply of the function settle. lapsed is the number of holds that had lapsed.
func DecodeSettle(reply string) (s engine.Settlement, lapsed int64, err error) {
	r := reader{s: reply}
	var how int64 // 1: by this call, 2: by an earlier one
	r.packed(formatSETTLED, &how, &s.Charged, &s.Returned, &s.Overrun, &lapsed)
	s.Settled, s.Again = how > 0, how == 2
	if err := r.end(); err != nil {
		return engine.Settlement{}, 0, err
	}
	if how > 2 || s.Charged > limit.MaxLimit || s.Returned > limit.MaxLimit || s.Overrun > s.Charged ||
		!s.Settled && s.Charged+s.Returned > 0 || s.Overrun > 0 && s.Returned > 0 {
		return engine.Settlement{}, 0, errInconsistent
	}
	return s, lapsed, nil
}

// EachFunction returns the function that answers requests in one call.
func EachFunction(requests []*engine.Request) *lua.Function {
	if slices.ContainsFunc(requests, func(r *engine.Request) bool { return r.Op == engine.OpDecide }) {
		return lua.Each
	}
	return lua.End
}

// EachArgs returns the arguments of the function each: two for each request. Those of an OpRenew end in a word.
func EachArgs(requests []*engine.Request) (args [][]byte) {
	for _, r := range requests {
		switch r.Op {
		case engine.OpRenew:
			args = append(args, formatRENEW.append(nil, r.Hold.ID[:], r.Hold.TTL), []byte("renew"))
		case engine.OpSettle:
			args = append(args, SettleArgs(r)[0], nil)
		default:
			args = append(args, AdmitArgs(r)...)
		}
	}
	return args
}

// Each is the part of the reply of the function each that is about one request.
type Each struct {
	Reply   string // as of admit or settle, or of a renewal, unless the request failed
	Failure string // error of the request, which charged nothing; "" if there is none
}

// DecodeEach decodes the reply of the function each to n requests.
func DecodeEach(reply string, n int) ([]Each, error) {
	const failed = 1 << 15 // added to the length of an error
	in := reader{s: reply}
	all := make([]Each, n)
	for i := range all {
		if length := in.uint(2); length < failed {
			all[i].Reply = in.text(length)
		} else if all[i].Failure = in.text(length - failed); all[i].Failure == "" {
			return nil, errMalformed
		}
	}
	return all, in.end()
}

// DecodeRenew decodes the reply to an OpRenew. renewed is false if the lease had ended.
func DecodeRenew(reply string) (renewed bool, lapsed int64, err error) {
	r := reader{s: reply}
	var n int64
	r.packed(formatRENEWED, &n, &lapsed)
	if err := r.end(); err != nil || n > 1 {
		return false, 0, errMalformed
	}
	return n == 1, lapsed, nil
}

// AllArgs returns the arguments of the function all, which decides requests about several keys
// all or nothing: the spec of each request.
func AllArgs(requests []engine.Request) [][]byte {
	args := make([][]byte, len(requests))
	for i := range requests {
		args[i] = specArg(&requests[i])
	}
	return args
}

// DecodeAll decodes the reply of the function all: the clock 6, 1 if all were granted 1, and for
// each request the answer to one entry. If not all were granted, nothing was charged, and
// Granted of each answer says whether there was room for the request.
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
