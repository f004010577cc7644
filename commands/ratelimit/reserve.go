package ratelimit

import (
	"slices"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/resp"
)

// The options of RL.RESERVE, of which optCost and optID must be given.
const reserveOptions = optCost | optID | optTTL | optLapse | optFail

// defaultReserve is the TTL, in ms, of a reservation without the option TTL; the longest window caps it.
const defaultReserve = 60_000

var holdIDArg = table.Arg{Name: "id", Type: "string", About: "1 to 64 bytes"}

// holdArgs returns the arguments of RL.RESERVE and RL.HOLD after those that say what is limited.
func holdArgs() []table.Arg {
	cost, id := costArg, holdIDArg
	cost.Optional, cost.About = false, "the units to hold, 0 to the smallest limit; 0 holds nothing, neither finds "+
		"nor stores an id, and the reply is for a cost of 1"
	id.Token, id.About = "ID", "1 to 64 bytes: names the reservation. The same id again answers as the first time "+
		"and holds nothing more"
	return []table.Arg{cost, id,
		{Name: "window", Type: "string", Token: "TTL", Optional: true,
			About: "after this time a reservation that is not settled lapses; default 60s, at most the longest " +
				"window, rounded up by at most 1/64, or 1/8 beside 160 deadlines"},
		{Name: "lapse", Type: "oneof", Token: "LAPSE", Optional: true, About: "what a lapse does",
			Args: []table.Arg{
				{Name: "charge", Type: "pure-token", Token: "CHARGE",
					About: "the default: charges the units held, at the moment at which they lapse"},
				{Name: "release", Type: "pure-token", Token: "RELEASE", About: "gives them back"},
			}}, failArg}
}

const heldReply = "After an answer by a FAIL policy the node may hold the units nevertheless, until they are settled " +
	"or lapse. FAIL LOCAL charges them in the proxy, too, at once."

func reserve() Command {
	return Command{Command: table.Command{
		Name: "rl.reserve", Arity: -8, Flags: writes, Keys: oneKey, Group: "ratelimit", Since: "0.1.0",
		Complexity: "O(W) with W the number of windows, independent of how many reservations are out",
		Summary:    "Holds units as RL.SLIDE would charge them, until RL.SETTLE charges what was really used",
		Args:       append([]table.Arg{keyArg, pairs}, holdArgs()...),
		Replies: decisionReply + " Units held count like units charged, for RL.SLIDE on the same key and window too. " +
			heldReply,
		Examples: []table.Example{{Line: "RL.RESERVE tenant:7 100000 60 COST 4000 ID req-81 TTL 30",
			Reply: "1) (integer) 1\n2) (integer) 100000\n3) (integer) 96000\n4) (integer) 0\n5) (integer) 90073"}},
	},
		Parse: parseReserve,
		Reply: replyDecision,
	}
}

func parseReserve(args [][]byte, p *engine.Pipeline) string {
	r := p.Add()
	r.Kind, r.Key, r.Param = limit.Slide, args[1], 1
	if !keyFits(r.Key) {
		return keyError(r.Key)
	}
	words, msg := parsePairs(r, args[2:], reserveOptions)
	if msg == "" {
		msg = parseHold(r, words, "RL.RESERVE", true)
	}
	if msg == "" {
		msg = checkWindows(r.Limits(), args[2:])
	}
	if msg == "" {
		msg = checkRequest(r)
	}
	r.Key = p.Name(r.Key, false)
	return msg
}

// parseHold parses the options of a command that holds units; pairs says that limits stand before them. It returns an
// error reply, or "".
func parseHold(r *engine.Request, words [][]byte, command string, pairs bool) string {
	r.Hold = new(engine.Hold)
	_, seen, msg := parseOptions(r, words, reserveOptions, pairs)
	switch {
	case msg != "":
		return msg
	case seen&optCost == 0 || seen&optID == 0:
		return reply.ErrSyntax + ": " + command + " needs COST and ID"
	case seen&optTTL == 0:
		r.Hold.TTL = min(defaultReserve, r.Longest())
	}
	return ""
}

// HoldByPolicy returns RL.HOLD, which is to ByPolicy what RL.RESERVE is to RL.SLIDE. c.Args are its first arguments.
// fill is as for ByPolicy.
func HoldByPolicy(c table.Command, fill func(r *engine.Request, p *engine.Pipeline, name, key []byte) string) Command {
	c.Flags, c.Group = writes, "ratelimit"
	c.Keys = table.Keys{First: 2, Last: 2, Step: 1, Joined: true}
	c.Args, c.Replies = append(slices.Clone(c.Args), holdArgs()...), "As [RL.RESERVE](#rlreserve). "+heldReply+
		" Units that are held of a calendar window lapse at its end at the latest."+c.Replies
	return Command{Command: c, Reply: replyDecision, Parse: func(args [][]byte, p *engine.Pipeline) string {
		r := p.Add()
		msg := fill(r, p, args[1], args[2])
		switch {
		case msg != "":
			return msg
		case !r.Kind.Additive():
			return wrong(reply.ErrHeld, []byte(Algorithm(r.Kind)))
		}
		if msg = parseHold(r, args[3:], "RL.HOLD", false); msg == "" {
			msg = checkRequest(r)
		}
		return msg
	}}
}

// Settle returns RL.SETTLE. shadowed reports whether units may be held of a key's shadow, too: then the hold is sought
// there as well.
func Settle(shadowed func(key []byte) bool) Command {
	return Command{Command: table.Command{
		Name: "rl.settle", Arity: 4, Flags: writes, Keys: oneKey, Group: "ratelimit", Since: "0.1.0",
		Complexity: "O(W) with W the number of windows, independent of how many reservations are out",
		Summary:    "Ends a reservation and charges what was really used",
		Args: []table.Arg{keyArg, holdIDArg,
			{Name: "cost", Type: "integer",
				About: "0 to 1000000000000: 0 gives all units back; more units than were held are charged in full, " +
					"even beyond the limit"}},
		Replies: "Three integers: settled (1 if this call or an earlier equal one settled it, else 0), units " +
			"charged, and units given back. " +
			"An unknown or lapsed id, and one that was settled with another cost, gets 0, 0 and 0, and nothing is " +
			"charged. " +
			"If the node does not answer it is the error UNAVAILABLE, whatever `fail-policy` says; a retry is safe.",
		Examples: []table.Example{{Line: "RL.SETTLE tenant:7 req-81 1234",
			Reply: "1) (integer) 1\n2) (integer) 1234\n3) (integer) 2766"}},
	},
		Parse: func(args [][]byte, p *engine.Pipeline) string {
			msg := parseSettle(args, p)
			if msg == "" && shadowed(args[1]) {
				r := p.Requests[len(p.Requests)-1]
				r.Key, r.Shadow = p.Name(args[1], true), true
				*p.Add() = r
			}
			return msg
		},
		Reply: replySettle,
	}
}

func parseSettle(args [][]byte, p *engine.Pipeline) string {
	hold := new(engine.Hold)
	r := p.Add()
	r.Op, r.Hold = engine.OpSettle, hold
	if !keyFits(args[1]) {
		return keyError(args[1])
	}
	r.Key = p.Name(args[1], false)
	if msg := setID(hold, args[2]); msg != "" {
		return msg
	}
	r.ID = args[2]
	return setOption(r, optCost, args[3])
}

func replySettle(dst []byte, _ int, _ []engine.Request, results []engine.Result) []byte {
	s := &results[0].Settled
	for i := range results { // of the key, and perhaps of its shadow
		if err := results[i].Err; err != nil {
			return appendFailure(dst, err)
		}
		if results[i].Settled.Settled {
			s = &results[i].Settled
		}
	}
	settled := int64(0)
	if s.Settled {
		settled = 1
	}
	dst = resp.AppendInt(resp.AppendArray(dst, 3), settled)
	return resp.AppendInt(resp.AppendInt(dst, s.Charged), s.Returned)
}

// setID sets the id of a hold. It returns an error reply, or "".
func setID(h *engine.Hold, id []byte) string {
	if len(id) < 1 || len(id) > engine.MaxID {
		return idError(id)
	}
	h.ID = engine.DigestOf(id)
	return ""
}

// setTTL parses after how long a hold lapses. It returns an error reply, or "".
func setTTL(r *engine.Request, value []byte) string {
	ttl, ok := window(value)
	switch {
	case r.Kind == limit.Concurrency && !ok:
		return wrong(reply.ErrSlotsTTL, value)
	case r.Kind != limit.Concurrency && (!ok || ttl > r.Longest() && r.Verdict == engine.VerdictNone):
		return wrong(reply.ErrTTL, value)
	}
	r.Hold.TTL = ttl
	return ""
}

// setLapse parses what becomes of a reservation that lapses. It returns an error reply, or "".
func setLapse(h *engine.Hold, value []byte) string {
	h.Release = word.Is(value, "RELEASE")
	if !h.Release && !word.Is(value, "CHARGE") {
		return wrong(reply.ErrSyntax+": LAPSE must be CHARGE or RELEASE", value)
	}
	return ""
}
