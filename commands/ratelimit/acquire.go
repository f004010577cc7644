package ratelimit

import (
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/resp"
)

// The options of RL.ACQUIRE, of which optID must be given, and of RL.RENEW.
const (
	acquireOptions = optID | optCost | optTTL | optConn | optBlock | optFail
	renewOptions   = optTTL
)

// TTLs of the leases of RL.ACQUIRE, in ms.
const (
	defaultSlots = 30_000
	leastConn    = 1000 // with CONN, since rlproxy renews the lease three times in that time
)

var (
	slotsTTL = table.Arg{Name: "window", Type: "string", Token: "TTL", Optional: true,
		About: "the lease ends after this time unless it is renewed; 1ms to 366d, default 30s, rounded up by at most " +
			"1/64, or 1/8 beside 160 deadlines"}
	slotsKeys = "what has slots: 1 to 4096 arbitrary bytes. Slots do not affect what RL.SLIDE and other commands " +
		"count for the same key"
)

func acquire() Command {
	key, cost, id, ttl, block := keyArg, costArg, holdIDArg, slotsTTL, blockArg
	block.About = "1 to 3600000: instead of a denial, wait for up to so long until slots are free. When a lease is " +
		"released, through any proxy, the first that waits gets it at once. See [waiting](limits.md#waiting)"
	key.About = slotsKeys
	cost.About = "the slots to hold, 0 to slots; default 1; 0 holds nothing and does not look at the id, and the " +
		"reply is for a cost of 1"
	id.Token, id.About = "ID", "1 to 64 bytes: identifies the lease and its holder. A request with the same id "+
		"renews the lease and is allowed; each connection should use ids of its own"
	ttl.About += "; at least 1s with CONN"
	return Command{Command: table.Command{
		Name: "rl.acquire", Arity: -5, Flags: writes, Keys: oneKey, Group: "ratelimit", Since: "0.1.0",
		Complexity: "O(1), independent of how many leases are out",
		Summary:    "Acquires slots, of which only a limited number can be held at a time",
		Args: []table.Arg{key,
			{Name: "slots", Type: "integer",
				About: "the most slots held at once, 1 to 1000000000000; leases that are out stay when it is lowered"},
			id, cost, ttl,
			{Name: "conn", Type: "pure-token", Token: "CONN", Optional: true,
				About: "ties the lease to this connection: the proxy renews it while the connection is open, and " +
					"releases it when the connection closes, and at RESET. A connection that `tcp-keepalive` or " +
					"`timeout` ends is closed, too. The newest RL.ACQUIRE of an id through this proxy decides to " +
					"which connection the lease is tied, or to none; AUTH changes nothing"},
			failArg, block},
		Replies: "Five integers: allowed (1 or 0), slots, slots still free (-1: answered by a FAIL policy), " +
			"retry_after (the milliseconds until enough leases must have ended) " +
			"and reset_after (until all must have). " +
			"FAIL OPEN allows, whether slots are free or not; FAIL CLOSED denies, and so does FAIL LOCAL, since a " +
			"proxy alone cannot know which slots are free. In each case the node may hold the slots, until TTL.",
		Examples: []table.Example{
			{Line: "RL.ACQUIRE gpu 8 ID job-17 TTL 1m",
				Reply: "1) (integer) 1\n2) (integer) 8\n3) (integer) 7\n4) (integer) 0\n5) (integer) 60280"},
			{Line: "RL.ACQUIRE gpu 8 ID job-18 CONN",
				Reply: "1) (integer) 1\n2) (integer) 8\n3) (integer) 7\n4) (integer) 0\n5) (integer) 30072"},
		},
	},
		Parse: parseAcquire,
		Reply: replyDecision,
		Tied:  tied,
	}
}

func parseAcquire(args [][]byte, p *engine.Pipeline) string {
	r := p.Add()
	r.Kind, r.Key, r.Cost, r.Param = limit.Concurrency, args[1], 1, 1
	r.Hold = &engine.Hold{TTL: defaultSlots, Release: true}
	if !keyFits(r.Key) {
		return keyError(r.Key)
	}
	slots, ok := word.Integer(args[2])
	if !ok || slots < 1 || slots > limit.MaxLimit {
		return wrong(reply.ErrSlots, args[2])
	}
	r.N, r.Windows[0] = 1, limit.Window{Limit: slots}
	_, seen, msg := parseOptions(r, args[3:], acquireOptions, false)
	switch {
	case msg != "":
		return msg
	case seen&optID == 0:
		return reply.ErrSyntax + ": RL.ACQUIRE needs ID"
	case seen&optConn != 0 && r.Hold.TTL < leastConn:
		return shortTTL(r.Hold.TTL)
	}
	r.Key = p.Name(r.Key, false)
	return checkRequest(r)
}

// tied reports whether RL.ACQUIRE has the option CONN. The command is without a mistake.
func tied(args [][]byte) bool {
	for i := 3; i < len(args); i += 2 { // the options before CONN have values
		if optionOf(args[i]) == optConn {
			return true
		}
	}
	return false
}

// tiesNothing is Tied of RL.RENEW and RL.RELEASE, which may be about leases that are tied.
func tiesNothing([][]byte) bool { return false }

func renew() Command {
	key := keyArg
	key.About = slotsKeys
	return Command{Command: table.Command{
		Name: "rl.renew", Arity: -3, Flags: writes, Keys: oneKey, Group: "ratelimit", Since: "0.1.0",
		Complexity: "O(1)",
		Summary:    "Renews a lease of RL.ACQUIRE",
		Args:       []table.Arg{key, holdIDArg, slotsTTL},
		Replies: "Integer: 1 if the lease is renewed, from now on for TTL; 0 if it has ended, and it stays ended. " +
			"The proxy that renews a lease with CONN still does so in time if this command came through it. If the " +
			"node does not answer it is the error UNAVAILABLE, whatever `fail-policy` says.",
		Examples: []table.Example{{Line: "RL.RENEW gpu job-17 TTL 1m", Reply: "(integer) 1"}},
	},
		Parse: parseRenew,
		Reply: replyRenew,
		Tied:  tiesNothing,
	}
}

func parseRenew(args [][]byte, p *engine.Pipeline) string {
	r := p.Add()
	r.Op, r.Kind, r.Hold = engine.OpRenew, limit.Concurrency, &engine.Hold{TTL: defaultSlots, Release: true}
	if !keyFits(args[1]) {
		return keyError(args[1])
	}
	r.Key, r.ID = p.Name(args[1], false), args[2]
	if msg := setID(r.Hold, args[2]); msg != "" {
		return msg
	}
	_, _, msg := parseOptions(r, args[3:], renewOptions, false)
	return msg
}

func replyRenew(dst []byte, _ int, _ []engine.Request, results []engine.Result) []byte {
	switch r := &results[0]; {
	case r.Err != nil:
		return appendFailure(dst, r.Err)
	case r.Renewed:
		return resp.AppendInt(dst, 1)
	}
	return resp.AppendInt(dst, 0)
}

func release() Command {
	key, ids := keyArg, holdIDArg
	key.About, ids.Multiple = slotsKeys, true
	return Command{Command: table.Command{
		Name: "rl.release", Arity: -3, Flags: writes, Keys: oneKey, Group: "ratelimit", Since: "0.1.0",
		Complexity: "O(N) with N the number of ids",
		Summary:    "Ends leases of RL.ACQUIRE",
		Args:       []table.Arg{key, ids},
		Replies: "Integer: how many of the leases were held. If the node does not answer it is the error " +
			"UNAVAILABLE, whatever `fail-policy` says; " +
			"leases that are released already stay released, and a retry is safe.",
		Examples: []table.Example{{Line: "RL.RELEASE gpu job-17 job-18", Reply: "(integer) 2"}},
	},
		Parse:      parseRelease,
		Reply:      replyRelease,
		MergeCount: countRelease,
		KeepWords:  2,
		Tied:       tiesNothing,
	}
}

// parseRelease appends a request for each id.
func parseRelease(args [][]byte, p *engine.Pipeline) string {
	if !keyFits(args[1]) {
		return keyError(args[1])
	}
	key, holds := p.Name(args[1], false), make([]engine.Hold, len(args)-2)
	for i, id := range args[2:] {
		if msg := setID(&holds[i], id); msg != "" {
			return msg
		}
		r := p.Add()
		r.Op, r.Kind, r.Key, r.ID, r.Hold = engine.OpSettle, limit.Concurrency, key, id, &holds[i]
	}
	return ""
}

// replyRelease replies with the number of leases that were held, or with the first error.
func replyRelease(dst []byte, _ int, _ []engine.Request, results []engine.Result) []byte {
	n, err := countRelease(results)
	if err != nil {
		return appendFailure(dst, err)
	}
	return resp.AppendInt(dst, n)
}

// countRelease returns the number of leases that were held, or the first error.
func countRelease(results []engine.Result) (n int64, err error) {
	for i := range results {
		if err := results[i].Err; err != nil {
			return 0, err
		}
		if results[i].Settled.Settled {
			n++
		}
	}
	return n, nil
}
