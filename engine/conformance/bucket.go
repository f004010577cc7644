package conformance

import (
	"fmt"
	"math/big"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// bucketReference is a bucket by its definition, in fractions that are exact: it lacked some tokens at a time.
type bucketReference struct {
	lacked *big.Rat
	us     int64
}

// missing returns the tokens that a bucket lacks at a us: what it lacked, less what has come since, and never less than none.
func (b *bucketReference) missing(r *engine.Request, us int64) *big.Rat {
	come := new(big.Rat).Mul(big.NewRat(us-b.us, r.Windows[0].Length*1000), big.NewRat(r.Param, 1))
	if sum := new(big.Rat).Sub(b.lacked, come); sum.Sign() > 0 {
		return sum
	}
	return new(big.Rat)
}

// decide answers a request and takes its tokens.
func (b *bucketReference) decide(r *engine.Request, us int64) limit.Decision {
	most, wanted := r.Windows[0].Limit, max(r.Cost, 1)
	fits := func(us int64) bool {
		return new(big.Rat).Add(b.missing(r, us), big.NewRat(wanted, 1)).Cmp(big.NewRat(most, 1)) <= 0
	}
	d := limit.Decision{Limit: most, Allowed: fits(us)}
	if d.Allowed && r.Cost > 0 {
		b.lacked, b.us = new(big.Rat).Add(b.missing(r, us), big.NewRat(r.Cost, 1)), us
	}
	if !d.Allowed {
		d.RetryAfter = smallest(1, func(ms int64) bool { return fits(us + ms*1000) })
	}
	missing := b.missing(r, us)
	whole := new(big.Int).Div(new(big.Int).Add(missing.Num(), new(big.Int).Sub(missing.Denom(), big.NewInt(1))), missing.Denom())
	d.Remaining = max(most-whole.Int64(), 0)
	d.ResetAfter = smallest(0, func(ms int64) bool { return b.missing(r, us+ms*1000).Sign() == 0 })
	return d
}

// bucket adds a random RL.BUCKET, which goes through its parser.
func (run *instants) bucket(p *engine.Pipeline, seed uint64) {
	for {
		n := run.IntN(3)
		if run.IntN(30) == 0 || run.line[n] == "" {
			run.line[n] = fmt.Sprintf("RL.BUCKET bucket-%d-%d-%d %%d %d %dms", seed, n, run.IntN(1_000_000),
				among[int64](run.randomHold, 1, 3, 7, 1000, 999_983, 1e9, 1e12),
				among[int64](run.randomHold, 1, 7, 1000, 60_000, limit.MaxWindow))
			run.most[n] = among[int64](run.randomHold, 1, 2, 9, 1000, 1e12)
		}
		cost := among(run.randomHold, 1, 1, 0, 1+run.Int64N(run.most[n]))
		if len(p.Requests) > 0 && run.IntN(4) == 0 {
			cost = run.most[n]
		}
		if Parses(p, fmt.Sprintf(run.line[n]+" COST %d", run.most[n], cost)) {
			return
		}
		run.line[n] = ""
	}
}

// compareBucket gives an RL.BUCKET to its reference, and returns how the answer differs.
func (run *instants) compareBucket(r *engine.Request, res *engine.Result) string {
	b := run.buckets[string(r.Key)]
	if b == nil {
		b = &bucketReference{lacked: new(big.Rat)}
		run.buckets[string(r.Key)] = b
	}
	want := b.decide(r, run.us())
	if want.Allowed {
		run.seen["bucket admitted"]++
		after := *b
		for range run.later { // with which an engine may have charged it at one moment
			if next := after.decide(r, run.us()); next.Allowed && next.ResetAfter == res.ResetAfter {
				want.ResetAfter = res.ResetAfter
			}
		}
	} else {
		run.seen["bucket denied"]++
	}
	if res.Err != nil || want != res.Decision {
		return fmt.Sprintf("%d tokens in %d ms, COST %d\nreference %+v\nengine    %+v %v", r.Param, r.Windows[0].Length, r.Cost, want,
			res.Decision, res.Err)
	}
	return ""
}
