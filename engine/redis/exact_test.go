package redis

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// asked is one request and its answer. The node decided it between two moments, in ns of the machine's clock.
type asked struct {
	from, to int64
	allowed  bool // and not because its id was known
}

// claim is a request that is made over and over, and what may be admitted of it.
type claim struct {
	name    string
	request func() engine.Request
	depth   int   // requests of a pipeline
	limit   int64 // units that are admitted at once

	// most returns the most units that may be admitted between two moments in ns.
	most func(from, to int64) int64
	// lasts reports whether a unit that was admitted at one moment may still count at a later one. Without it, units
	// drain at an interval in ns.
	lasts    func(at, later int64) bool
	interval int64
}

// drift is by how much, in ns, a node's clock may differ from the machine's: Valkey 9 extrapolates it.
const drift = 200_000

// tooMany returns how the admissions exceed what may be admitted in some span of time.
func (c *claim) tooMany(all []asked) string {
	var got []asked
	for _, a := range all {
		if a.allowed {
			got = append(got, a)
		}
	}
	slices.SortFunc(got, func(a, b asked) int { return int(a.from - b.from) })
	for size := 2; size < 2*len(got); size *= 2 {
		for i := 0; i < len(got); i += max(size/4, 1) {
			run := got[i:min(i+size, len(got))]
			to := slices.MaxFunc(run, func(a, b asked) int { return int(a.to - b.to) }).to
			if most := c.most(run[0].from-drift, to+drift); int64(len(run)) > most {
				return fmt.Sprintf("%d of at most %d admitted in %v", len(run), most, time.Duration(to-run[0].from))
			}
		}
	}
	return ""
}

// tooFew returns how one caller's requests, in order, were denied although there was room.
func (c *claim) tooFew(all []asked) string {
	var got []int64 // the last moments at which units may have been admitted
	drained := int64(0)
	for i, a := range all {
		from := a.from - drift
		switch {
		case a.allowed:
			got = append(got, a.to+drift)
			drained = max(drained, a.to+drift) + c.interval
		case c.lasts == nil && drained <= from+(c.limit-1)*c.interval,
			c.lasts != nil && (int64(len(got)) < c.limit || !c.lasts(got[int64(len(got))-c.limit], from)):
			return fmt.Sprintf("request %d of %d was denied, but there was room", i, len(all))
		}
	}
	return ""
}

// claims returns claims of every command, with extreme rates and the shortest windows and times to live.
func claims() (all []claim) {
	ms := func(at int64) int64 { return at / 1_000_000 }
	for _, count := range []int64{300, 350, 900, 5000, 100_000, 1_000_000} {
		for _, burst := range []int64{0, 9} {
			r := conformance.Throttle("", burst, count, 1, 1)
			all = append(all, claim{
				name: fmt.Sprintf("CL.THROTTLE %d %d 1", burst, count), request: func() engine.Request { return r },
				depth: int(1 + min(count/1000, 31)), limit: burst + 1, interval: r.Manner,
				most: func(from, to int64) int64 { return burst + 1 + (to-from)/r.Manner },
			})
		}
	}
	// A unit counts for so many ms: at most `limit` are admitted in any as long time.
	counting := func(name string, most, length int64, request func() engine.Request) claim {
		return claim{
			name: name, request: request, depth: 1, limit: most,
			most:  func(from, to int64) int64 { return ((ms(to)-ms(from))/length + 1) * most },
			lasts: func(at, later int64) bool { return ms(at)+length > ms(later) },
		}
	}
	for _, length := range []int64{1, 2, 3, 5} {
		for _, most := range []int64{1, 3} {
			ask := func(kind limit.Kind) func() engine.Request {
				return func() engine.Request { return conformance.Request(kind, "", most, length) }
			}
			aligned := counting(fmt.Sprintf("RL.FIXED %d %dms", most, length), most, length, ask(limit.Fixed))
			aligned.most = func(from, to int64) int64 { return (ms(to)/length - ms(from)/length + 1) * most }
			aligned.lasts = func(at, later int64) bool { return ms(at)/length >= ms(later)/length }
			weighted := aligned
			weighted.name, weighted.request = fmt.Sprintf("RL.COUNTER %d %dms", most, length), ask(limit.Counter)
			weighted.lasts = func(at, later int64) bool { return ms(at)/length+1 >= ms(later)/length }
			strict := weighted
			strict.name += " STRICT"
			strict.request = func() engine.Request {
				r := weighted.request()
				r.Manner = limit.Strict
				return r
			}
			held := func(r engine.Request, release bool) func() engine.Request {
				return func() engine.Request {
					another := r // callers ask at the same time
					another.Hold = &engine.Hold{ID: engine.RandomDigest(), TTL: length, Release: release}
					return another
				}
			}
			slots, units := conformance.Request(limit.Concurrency, "", most, 0), conformance.Slide("", most, 5, 1)
			all = append(all, aligned, weighted, strict,
				counting(fmt.Sprintf("RL.SLIDE %d %dms", most, length), most, length+1, ask(limit.Slide)),
				counting(fmt.Sprintf("RL.ACQUIRE %d TTL %dms", most, length), most, length, held(slots, true)),
				counting(fmt.Sprintf("RL.RESERVE %d 5ms TTL %dms LAPSE RELEASE", most, length), most, length, held(units, true)),
				counting(fmt.Sprintf("RL.RESERVE %d 5ms TTL %dms", most, length), most, length+6, held(units, false)))
		}
		once := conformance.Slide("", 1000, length, 1)
		once.Hold = &engine.Hold{ID: engine.DigestOf([]byte("id")), Once: true}
		all = append(all, counting(fmt.Sprintf("RL.SLIDE 1000 %dms ONCE", length), 1, length+1,
			func() engine.Request { return once }))
	}
	return all
}

// ask makes the request of a claim for so long, and returns the answers in order.
func (c *claim) ask(t *testing.T, e *Engine, key string, lasts time.Duration) (all []asked) {
	var p engine.Pipeline
	for began := time.Now(); time.Since(began) < lasts; {
		p.Reset()
		for range c.depth {
			r := p.Add()
			*r = c.request()
			r.Key, r.Fail = []byte(key), engine.FailError
		}
		from := time.Now().UnixNano()
		e.Do(&p)
		to := time.Now().UnixNano()
		for i := range p.Results {
			if err := p.Results[i].Err; err != nil {
				t.Errorf("%s: %v", c.name, err)
				return all
			}
			all = append(all, asked{from, to, p.Results[i].Allowed && !p.Results[i].Again})
		}
	}
	return all
}

// By a node's own clock, in real time, no command ever admits more than it should, from one proxy or from several. To
// a single caller, none is denied while there is room, whether its proxy remembers denials or not.
func TestConformanceInRealTime(t *testing.T) {
	t.Parallel()
	proxies, nodes := openSplit(t, 4, 1)
	always := openAlways(t, 5*time.Second, nodes[0].URL())
	lasts := min(time.Duration(conformance.Soak(t, 6000))*4*time.Microsecond, 500*time.Millisecond)
	requests, admitted := 0, 0
	for _, c := range claims() {
		for name, callers := range map[string][]*Engine{"always": {always}, "one": proxies[:1], "several": proxies} {
			key, answers := c.name+" by "+name, make([][]asked, len(callers))
			var wg sync.WaitGroup
			for i, e := range callers {
				wg.Go(func() { answers[i] = c.ask(t, e, key, lasts) })
			}
			wg.Wait()
			all := slices.Concat(answers...)
			require.Empty(t, c.tooMany(all), key)
			if len(callers) == 1 {
				require.Empty(t, c.tooFew(all), key)
			}
			requests += len(all)
			for _, a := range all {
				if a.allowed {
					admitted++
				}
			}
		}
	}
	t.Logf("%d requests, %d admitted", requests, admitted)
	require.Greater(t, admitted, 200)
	require.Greater(t, requests, 2*admitted)
}
