package conformance

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance/model"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// Advancing is an engine whose keys may have advances, see package advance. Before it answers, it has its time pass as
// long as the clock did, so that no advance lapses.
type Advancing interface {
	engine.Engine

	// Advanced reports whether anything may have been advanced at any time during the newest Do.
	Advanced() bool
}

// RunAdvances sends random requests about hot keys, so many as Soak says, to an engine that admits many of them from
// advances. It alone has advances, so a request must be admitted if a model has room, and denied if not, with one exception: what was
// drawn may count up to model.Late ms longer. So the numbers of an answer lie between those of the model and those of a
// model that dates draws so late. Remaining and reset_after take what is advanced for used. Those of a request that was
// admitted from an advance are as of the node's newest answer, as docs/hot-keys.md says.
func RunAdvances(t *testing.T, open func(t *testing.T, clock func() int64) Advancing, random int) {
	h := newHistory(3)
	h.spent = map[string][]spent{}
	h.From = map[string][]int64{
		"window": {800, 1000, 1000, 5000, 60_000, 86_400_000}, "limit": {200, 1000, 5000, 20_000, 65_537, 200_000},
		"BUCKETS": {1, 1, 2, 10, 100}, "capacity": {200, 1000, 5000, 20_000}, "refill": {10, 500, 3000},
	}
	h.commands = slices.Concat(Decisions, Decisions, slices.Repeat([]string{"RL.RESERVE", "RL.HOLD", "RL.SETTLE"}, 3),
		[]string{"RL.ACQUIRE", "RL.RENEW", "RL.RELEASE", "RL.INSPECT", "RL.INSPECT", "RL.RESET"})
	e := open(t, h.clock)
	random = Soak(t, random)
	t.Logf("seed %d", h.seed)
	var p, hot engine.Pipeline
	kinds := Kinds(limit.Kind.Windowed)
	for step, left, phase := 0, 0, 0; step < random; step += len(p.Requests) {
		if left--; left < 0 {
			left, phase = 200+h.IntN(500), phase+1
			h.heat(&hot, kinds[phase%len(kinds)])
			h.us += 1000 * h.Int64N([]int64{1, 100, 5000, 100_000}[h.IntN(4)])
			h.us = max(h.us, 1000*(beginsAnew(hot.Requests[0].Spec, h.us/1000)-h.Int64N(4000)))
		}
		p.Reset()
		if h.IntN(4) == 0 {
			h.request(&p)
		} else {
			for range 1 + h.IntN(8) {
				p.Requests = append(p.Requests, hot.Requests[0])
			}
		}
		e.Do(&p)
		if wrong := h.judge(&p, e.Advanced()); wrong != "" {
			t.Fatalf("-seed %d, step %d, clock base+%d us: %s", h.seed, step, h.us-Base*1000, wrong)
		}
		h.us += 1000 * h.Int64N([]int64{1, 2, 5, 10}[h.IntN(4)])
	}
	t.Logf("%d steps: %v", random, h.seen)
	require.Positive(t, h.seen["drawn"])
	if random < 40_000 { // too few hot keys to demand more
		return
	}
	require.Greater(t, h.seen["drawn"], random/10)
	require.Positive(t, h.seen["calendar drawn"])
	for _, k := range kinds {
		require.Positive(t, h.seen[k.String()+" drawn"], k)
	}
}

// heat chooses a request of a kind that comes often.
func (h *history) heat(hot *engine.Pipeline, kind limit.Kind) {
	for {
		hot.Reset()
		h.Narrow()
		h.Add(hot, kind.String())
		r := &hot.Requests[0]
		if len(hot.Requests) == 1 && r.Hold == nil && r.Cost > 0 && r.Cost*10 < r.Smallest() {
			return
		}
	}
}

// beginsAnew returns the ms at which a calendar window of a spec ends that a ms is in, if it is in a few days; else 0.
func beginsAnew(s limit.Spec, ms int64) int64 {
	s.Date(ms)
	for _, w := range s.Limits() {
		if period, _ := w.Calendar(); period == "day" || period == "week" {
			return w.EndsAt(ms)
		}
	}
	return 0
}

// spent is what a request was granted.
type spent struct {
	spec  limit.Spec // without cost; that of what was drawn
	us    int64
	units int64
	used  [limit.MaxWindows]int64 // that count then at most, by window of spec
}

// judge compares the answers to equal requests, or to a multi-key request, with the model. Those that were admitted from
// an advance come first: the node has counted their units before. out says whether units may be advanced.
func (h *history) judge(p *engine.Pipeline, out bool) (wrong string) {
	for i := range p.Requests {
		if r := &p.Requests[i]; p.Results[i].Drawn {
			if wrong = h.drawn(r, &p.Results[i]); wrong != "" {
				return describe(r) + ": " + wrong
			}
		}
	}
	for i := 0; i < len(p.Requests) && wrong == ""; i += 1 + p.Requests[i].MoreKeys {
		n := 1 + p.Requests[i].MoreKeys
		if !p.Results[i].Drawn {
			wrong = h.fromHome(p.Requests[i:i+n], p.Results[i:i+n], out, len(p.Requests) > n)
		}
		if r := &p.Requests[i]; wrong == "" && h.key(r).Excess(h.us) > 0 {
			wrong = "units above the limit are charged or held"
		}
		if wrong != "" {
			wrong = fmt.Sprintf("%s, %d of %d: %s", describe(&p.Requests[i]), i+1, len(p.Requests), wrong)
		}
	}
	return wrong
}

// newest is for how many us the answer from which units are drawn may be old.
const newest = 250_000

// drawn compares the answer to a request that was admitted from an advance.
func (h *history) drawn(r *engine.Request, res *engine.Result) string {
	k, got, bounds := h.key(r), res.Decision, r.Spec
	bounds.Cost = 0
	if r.Op != engine.OpDecide || r.Hold != nil || r.Cost == 0 || !k.Draw(h.us, &r.Spec).Allowed || !got.Allowed {
		return differs("not to be admitted", got)
	}
	others, most := h.sinceNewest(r, got.Window)
	h.spend(r, bounds)
	h.seen["drawn"]++
	h.seen[r.Kind.String()+" drawn"]++
	h.count(r.HasCalendar(), "calendar drawn", "other drawn")
	exact := k.Window(h.us, &r.Spec, got.Window, true, false)
	least := max(exact.Limit-most, 0)
	soonest := exact.ResetAfter
	switch {
	case r.Kind == limit.Slide:
		if others > 0 { // units may have been held meanwhile
			soonest = r.Windows[got.Window].Ms() + 1
		}
	case k.Uses(&r.Spec), others > 0 && (r.Kind == limit.Bucket || r.Manner != limit.Strict): // how many units count matters
		soonest = 0
	}
	latest := h.longest(r, got.Window)
	switch {
	case others > 0: // units that the newest answer has as held may be settled
		latest = got.ResetAfter
	case r.Kind == limit.Slide:
		latest = exact.ResetAfter + model.Late + r.Windows[got.Window].Ms()/65536 + 1
	}
	if got.Limit != exact.Limit || got.RetryAfter != 0 || got.Remaining < least || got.Remaining > exact.Remaining+others ||
		got.ResetAfter < soonest || got.ResetAfter > latest {
		return fmt.Sprintf("%s\nremaining from %d, others %d, reset_after to %d", differs(exact, got), least, others, latest)
	}
	return ""
}

// sinceNewest returns, for a request that was drawn, how many units other requests were granted since the node's newest
// answer at most, and how many of a window the answer then counts as used at most. If there were others, which may have
// advances, too, that is not known.
func (h *history) sinceNewest(r *engine.Request, window int) (others, most int64) {
	bounds, drawn := r.Spec, r.Cost
	bounds.Cost = 0
	for _, s := range slices.Backward(h.spent[string(r.Key)]) {
		if s.spec == bounds {
			most = max(most, s.used[window]+drawn)
			drawn += s.units
		} else {
			others, most = others+s.units, limit.MaxLimit
		}
		if s.us < h.us-newest {
			break
		}
	}
	return others, max(most, drawn)
}

// spend notes what a request was granted. spec is its own if it was drawn.
func (h *history) spend(r *engine.Request, spec limit.Spec) {
	all := h.spent[string(r.Key)]
	for len(all) > 1 && all[1].us < h.us-newest {
		all = all[1:]
	}
	s := spent{spec: spec, us: h.us, units: r.Cost}
	for i := range spec.N {
		s.used[i] = r.Windows[i].Limit - h.key(r).Later(h.us).Window(h.us, &r.Spec, i, true, false).Remaining
	}
	h.spent[string(r.Key)] = append(all, s)
}

// longest returns the longest reset_after of a window: that of one that becomes full as late as a draw may be dated.
func (h *history) longest(r *engine.Request, i int) int64 {
	full := r.Spec
	full.N, full.Windows[0], full.Cost = 1, r.Windows[i], r.Windows[i].Limit
	return model.New().Decide(h.us+model.Late*1000, &full, nil).ResetAfter + model.Late
}

// fromHome compares the answer that a node gave to a request, or to a multi-key request.
func (h *history) fromHome(requests []engine.Request, results []engine.Result, out, several bool) string {
	r, res := &requests[0], &results[0]
	k := h.key(r)
	for j := range results {
		if err := results[j].Err; errors.Is(err, engine.ErrStates) {
			return ""
		} else if err != nil && r.Op != engine.OpSettle {
			return err.Error()
		}
	}
	switch {
	case r.Op == engine.OpReset:
		if live, charged := k.Live(h.us), k.Charged(); live && !res.Reset || !charged && res.Reset && !out {
			return differs(live, res.Reset)
		}
		h.keys[string(r.Key)] = k.Reset(h.us)
		return ""
	case r.Op == engine.OpInspect:
		return h.inspected(k, res.States)
	case r.Op != engine.OpDecide:
		h.spend(r, limit.Spec{})
		return h.other(k, r, res)
	}
	allowed, room, late := res.Allowed, true, true
	for j := range requests {
		r, withID := &requests[j], requests[j].Hold != nil
		room = room && h.key(r).Admits(h.us, &r.Spec, withID)
		late = late && h.key(r).Later(h.us).Admits(h.us, &r.Spec, withID)
	}
	switch {
	case !allowed && !res.Again && room && !late:
		h.seen["denied for a draw"]++
		for j := range results {
			if results[j].Allowed {
				return "one key is admitted"
			}
		}
		return ""
	case len(requests) > 1 && allowed != room:
		return differs(room, allowed)
	case len(requests) > 1 && !allowed:
		return ""
	}
	for j := range requests {
		r, res := &requests[j], &results[j]
		if wrong := h.decided(r, res, out, several, len(requests) > 1); wrong != "" {
			return wrong
		}
	}
	return ""
}

// decided compares a node's answer about one key with the model, which then charges what the node did.
func (h *history) decided(r *engine.Request, res *engine.Result, out, several, multiKey bool) string {
	k, got := h.key(r), res.Decision
	out = out && r.Cost > 0 && r.Kind.Windowed() // a question waits until nothing is
	withID := r.Hold != nil && r.Cost > 0
	denies := k.Later(h.us).Decide
	if k.Later(h.us).Admits(h.us, &r.Spec, withID) {
		denies = nil
	}
	want := k.Decide(h.us, &r.Spec, r.Hold)
	h.count(want.Allowed, r.Kind.String()+" admitted", r.Kind.String()+" denied")
	if want.Allowed && r.Cost > 0 {
		h.spend(r, limit.Spec{})
	}
	if want.Allowed != got.Allowed || want.Again != res.Again {
		return differs(want, got)
	}
	if want.Again || multiKey {
		return ""
	}
	exact := k.Window(h.us, &r.Spec, got.Window, got.Allowed, withID)
	late := k.Later(h.us).Window(h.us, &r.Spec, got.Window, got.Allowed, withID)
	least, retry, reset := late.Remaining, int64(0), late.ResetAfter
	if out {
		least = 0
	}
	if out || several && r.Kind != limit.Concurrency { // equal requests: when the units of all of them are forgotten
		reset = max(reset, h.longest(r, got.Window))
	}
	if denies != nil && !got.Allowed {
		retry = denies(h.us, &r.Spec, r.Hold).RetryAfter
	}
	if got.Limit != exact.Limit || got.Remaining < least || got.Remaining > exact.Remaining ||
		got.RetryAfter < want.RetryAfter || got.RetryAfter > retry || got.ResetAfter < exact.ResetAfter || got.ResetAfter > reset {
		return fmt.Sprintf("out %v %s\nlate   %+v, retry %d, reset %d", out, differs(exact, got), late, retry, reset)
	}
	return ""
}

// inspected compares what a key shows: the units that count are those used, and at most those advanced.
func (h *history) inspected(k *model.Key, got []engine.Inspection) string {
	late := k.Later(h.us).Inspect(h.us)
	same := func(a, b *engine.Inspection) bool {
		return a.Kind == b.Kind && a.Param == b.Param && (a.Window == b.Window || a.Kind.Rated())
	}
	for _, want := range k.Inspect(h.us) {
		i := slices.IndexFunc(got, func(s engine.Inspection) bool { return same(&s, &want) })
		j := slices.IndexFunc(late, func(s engine.Inspection) bool { return same(&s, &want) })
		if i < 0 {
			if want.Used+want.Held == 0 {
				continue
			}
			return differs(want, got)
		}
		g, l := got[i], late[j]
		if g.Used > l.Used || g.Used+g.Advanced < want.Used || g.Held != want.Held || g.Holds != want.Holds ||
			g.Remaining != max(g.Limit-g.Used-g.Held-g.Advanced, 0) {
			return differs(want, g)
		}
	}
	return ""
}
