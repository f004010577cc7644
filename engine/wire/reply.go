package wire

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Status says which role the node had when it answered an entry, or that it failed.
type Status uint8

// The statuses, with their values on the wire.
const (
	AtNode  Status = iota // the key is not split
	Failed                // the entry failed: see Answer.Failure
	AtHome                // the node is the home of a split key
	AtShard               // the node has a shard of a split key

	held     // only on the wire: AtNode with Answer.Held
	recalled // only on the wire: AtNode with Answer.Held and Answer.Recalled
)

// Answer is a node's answer to one entry.
type Answer struct {
	Status       Status
	Failure      string        // with Failed: the error, which is about this entry only
	MaybeApplied bool          // with Failed: the answer contradicts itself; otherwise the entry was not charged
	Requests     int64         // number of requests of the entry
	Granted      int64         // number of requests admitted, from the first on; for a reset, 1 if the key had state
	Rate         int64         // charging calls per second on this key
	Usages       []limit.Usage // by window; valid until the call's next Decode

	Held     bool  // units of the key are held and may be given back at any time, so a denial must not be remembered
	Recalled bool  // advances were recalled: what was not granted, or has no cost, is to be asked again
	Lapsed   int64 // holds that had lapsed and were removed by this entry

	Shards    int      // with AtHome: number of shards of the key
	Undecided bool     // with AtHome: the home must hear from the shards before it decides the rest
	Refusal   *Refusal // with AtShard: the shard's refusal; nil if all requests were granted
}

// Bounds of the numbers in a reply. The functions never reply with larger ones.
const (
	maxUnits = 1 << 46 // units that count: 70 times the largest limit
	maxClock = 1 << 43 // clock in ms: in the year 2248
	maxDelay = 1 << 43 // ms from the clock to any time: limit.MaxDrain, and more if the clock stepped back
)

// Decode decodes the reply to the call. It returns an Answer for each entry, valid until the
// next Decode, and the node's clock in ms. It returns an error if the reply is malformed; then
// no answer can be trusted. A well-formed answer that contradicts itself is returned as Failed,
// and the other answers are valid: one key's record does not affect the answers about others.
func (c *Call) Decode(reply string) (answers []Answer, clock int64, err error) {
	r := reader{s: reply}
	clock = r.uint(6)
	c.answers, c.usages = c.answers[:0], c.usages[:0]
	for i := range c.entries {
		e := &c.entries[i]
		a, err := c.decodeEntry(&r, &c.specs[e.spec], e.requests, clock)
		if err != nil {
			return nil, 0, err
		}
		c.answers = append(c.answers, a)
	}
	if r.bad || r.s != "" || clock == 0 || clock > maxClock {
		return nil, 0, errMalformed
	}
	return c.answers, clock, nil
}

func (c *Call) decodeEntry(r *reader, s *spec, requests, clock int64) (a Answer, err error) {
	a.Status, a.Requests = Status(r.uint(1)), requests // #nosec G115 -- one byte
	switch a.Status {
	case AtNode, AtShard:
	case Failed:
		a.Failure = r.text(r.uint(2))
		return a, nil
	case AtHome:
		a.Shards = int(r.uint(2))
		flags := r.uint(1)
		a.Undecided, a.Held = flags&1 != 0, flags&2 != 0
	case held, recalled:
		a.Status, a.Held, a.Recalled = AtNode, true, a.Status == recalled
	default:
		return a, errMalformed
	}
	if a.Held {
		a.Lapsed = r.uint(3)
	}
	a.Granted, a.Rate = r.uint(4), r.uint(3)
	from := len(c.usages)
	for range s.N { // used 6 bytes, room at 6, empty at 6
		u := limit.Usage{Used: r.uint(6), Room: r.uint(6), Empty: r.uint(6) - clock}
		if u.Room > 0 {
			u.Room -= clock
		}
		c.usages = append(c.usages, u)
	}
	a.Usages = c.usages[from:len(c.usages):len(c.usages)]
	if a.Status == AtShard {
		if text := r.text(r.uint(2)); a.Granted < requests {
			if a.Refusal, err = decodeRefusal(text, &s.Spec); err != nil {
				return a, err
			}
		}
	}
	if r.bad {
		return a, errMalformed
	}
	if (a.Status == AtShard) != s.atShard {
		return a, errInconsistent
	}
	if !s.reset && !a.consistent(&s.Spec) {
		return Answer{Status: Failed, Failure: errInconsistent.Error(), MaybeApplied: true, Requests: requests}, nil
	}
	return a, nil
}

// consistent reports whether package limit can turn the answer into decisions: the numbers are
// within bounds, and if a request was denied, a window has no room for it.
func (a *Answer) consistent(s *limit.Spec) bool {
	if a.Granted > a.Requests {
		return false
	}
	denies := s.Kind.Rated() // as far as one can see: its units are of any interval
	for i, w := range s.Windows[:s.N] {
		u := &a.Usages[i]
		if u.Used > maxUnits && !s.Kind.Rated() || max(u.Room, u.Empty) > maxDelay {
			return false
		}
		denies = denies || s.Denies(w, u, a.Granted)
	}
	decided := a.Status == AtNode && !a.Recalled || a.Status == AtHome && !a.Undecided
	return denies || !decided || a.Granted == a.Requests
}

// elsewhere has the beginnings of the errors with which a node of a cluster refuses a key that it
// does not serve: those of Redis and of Valkey 8, and those of Valkey 9.1, which runs Lua in a module.
var elsewhere = regexp.MustCompile(
	`^ERR (Script attempted to |Attempted to access |Can not execute a (write )?command )`)

// NotHere reports whether a failure says that a node of a cluster does not serve the key. Then
// the node has read and written nothing for the entry or the request.
func NotHere(failure string) bool { return elsewhere.MatchString(failure) }

// misdated begins the error about a request whose calendar windows are not those of the node's time.
const misdated = "CALENDAR "

// KeyError returns the error for the client if text, a function's error, is about the state of
// one key, so that another attempt would fail too. Otherwise it returns nil.
func KeyError(text string) error {
	known := []error{engine.ErrStates, engine.ErrIDs, engine.ErrHolds, engine.ErrSlotHolds, engine.ErrOverrun}
	for _, known := range known {
		if strings.HasPrefix(text, known.Error()) {
			return known
		}
	}
	if now, ok := strings.CutPrefix(text, misdated); ok {
		now, _, _ = strings.Cut(now, " ") // the function's name, which Redis adds
		if ms, err := strconv.ParseInt(now, 10, 64); err == nil && ms > 0 && ms < maxClock {
			return &engine.Misdated{Now: ms}
		}
	}
	const end = "; RL.RESET removes it"
	at := strings.LastIndex(text, end)
	if at < 0 || !strings.HasPrefix(text, "ERR the stored record of '") {
		return nil
	}
	return errors.New(text[:at] + end) // without the function's name, which Redis adds
}
