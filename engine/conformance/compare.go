package conformance

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance/model"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// key returns the model of a key.
func (h *history) key(r *engine.Request) *model.Key {
	k := h.keys[string(r.Key)]
	if k == nil {
		k = model.New()
		h.keys[string(r.Key)] = k
	}
	return k
}

// compare gives the requests of a pipeline to the model, in order, and returns how the first answer differs.
func (h *history) compare(p *engine.Pipeline) string {
	wants := make([]model.Answer, len(p.Requests))
	for i := 0; i < len(p.Requests); i += 1 + p.Requests[i].MoreKeys {
		n := 1 + p.Requests[i].MoreKeys
		requests, results := p.Requests[i:i+n], p.Results[i:i+n]
		for j := range requests {
			r, res := &requests[j], &results[j]
			if errors.Is(res.Err, engine.ErrStates) && len(h.key(r).Inspect(h.us)) > engine.MaxStates/2 {
				continue // long runs may use more windows of a key than it can have
			}
			wrong := ""
			switch {
			case res.Err != nil && r.Op != engine.OpSettle:
				wrong = res.Err.Error()
			case r.Op != engine.OpDecide:
				wrong = h.other(h.key(r), r, res)
			case j == 0:
				h.decide(requests, wants[i:i+n])
			}
			if wrong != "" {
				return describe(r) + ": " + wrong
			}
		}
	}
	for i := range p.Requests {
		if r := &p.Requests[i]; r.Op == engine.OpDecide && p.Results[i].Err == nil {
			if wrong := h.decision(p, i, wants); wrong != "" {
				return describe(r) + ": " + wrong
			}
		}
	}
	return ""
}

func describe(r *engine.Request) string {
	return fmt.Sprintf("%v %q %v COST %d PARAM %d MANNER %d %+v, one of %d keys", r.Kind, r.Key, r.Limits(), r.Cost, r.Param, r.Manner,
		r.Hold, r.MoreKeys+1)
}

func differs(want, got any) string { return fmt.Sprintf("\nmodel  %+v\nengine %+v", want, got) }

// count counts what was seen.
func (h *history) count(is bool, yes, no string) {
	if !is {
		yes = no
	}
	h.seen[yes]++
}

// other compares the answer to a request that is no decision.
func (h *history) other(k *model.Key, r *engine.Request, res *engine.Result) string {
	switch r.Op {
	case engine.OpReset:
		live, charged := k.Live(h.us), k.Charged()
		delete(h.keys, string(r.Key))
		if live && !res.Reset || !charged && res.Reset { // expired states may still be there
			return differs(live, res.Reset)
		}
	case engine.OpInspect:
		if want, got := h.shown(k.Inspect(h.us), res.States); !reflect.DeepEqual(want, got) {
			return differs(want, got)
		}
	case engine.OpSettle:
		want, lapsed, err := k.Settle(h.us, r.Kind, r.Hold.ID, r.Cost)
		h.count(want.Settled, "settled", "not settled")
		if want != res.Settled || err != res.Err || h.spent == nil && lapsed != res.Lapsed { //nolint:errorlint // both are the constant
			return differs(fmt.Sprintf("%+v %d %v", want, lapsed, err), fmt.Sprintf("%+v %d %v", res.Settled, res.Lapsed, res.Err))
		}
	case engine.OpRenew:
		want, lapsed := k.Renew(h.us, r.Hold.ID, r.Hold.TTL)
		h.count(want, "renewed", "not renewed")
		if want != res.Renewed || h.spent == nil && lapsed != res.Lapsed {
			return differs(fmt.Sprint(want, lapsed), fmt.Sprint(res.Renewed, res.Lapsed))
		}
	}
	return ""
}

// shown returns what is compared of the states that a model and an engine show. Some things are only known to the engine. Of a key
// that had ids, the states with units that count are compared: others may be shown until the next write.
func (h *history) shown(want, got []engine.Inspection) (_, _ []engine.Inspection) {
	got = slices.Clone(got)
	for i := range got {
		got[i].Node, got[i].TTL, got[i].Shards = "", 0, nil
	}
	engine.SortInspections(got)
	for i := range min(len(want), len(got)) {
		if want[i].Rate < 0 || got[i].Rate < want[i].Rate { // equal requests may share a call
			want[i].Rate = got[i].Rate
		}
		if off := want[i].Window - got[i].Window; want[i].Kind.Rated() && -1 <= off && off <= 1 { // in doubles
			want[i].Window = got[i].Window
		}
	}
	if !h.ids {
		return want, got
	}
	counting := func(states []engine.Inspection) (out []engine.Inspection) {
		for _, s := range states {
			if s.Used > 0 || s.Held > 0 {
				out = append(out, engine.Inspection{Kind: s.Kind, Window: s.Window, Param: s.Param, Used: s.Used, Held: s.Held, Holds: s.Holds})
			}
		}
		return out
	}
	return counting(want), counting(got)
}

// decide has the model answer requests that are decided together: either all keys admit them and are charged, or none is.
func (h *history) decide(requests []engine.Request, wants []model.Answer) {
	all := true
	for i := range requests {
		r := &requests[i]
		all = all && (len(requests) == 1 || h.key(r).Admits(h.us, &r.Spec, false))
	}
	for i := range requests {
		r, k := &requests[i], h.key(&requests[i])
		if all || !k.Admits(h.us, &r.Spec, false) {
			gone := h.expires && !k.Live(h.us) // with the number of holds that have lapsed
			wants[i] = k.Decide(h.us, &r.Spec, r.Hold)
			if gone && wants[i].Lapsed > 0 {
				wants[i].Lapsed = unknown
			}
			continue
		}
		wants[i].Decision = k.Peek(h.us, &r.Spec)
		wants[i].Allowed = false
	}
}

// unknown is a number that is not compared.
const unknown = -1

// decision compares the answer to a decision.
func (h *history) decision(p *engine.Pipeline, i int, wants []model.Answer) string {
	r, res, want := &p.Requests[i], &p.Results[i], wants[i]
	got, withID := model.Answer{Decision: res.Decision, Again: res.Again, Lapsed: res.Lapsed}, r.Hold != nil && r.Cost > 0
	if !withID || want.Lapsed == unknown {
		got.Lapsed = want.Lapsed // only requests with an id tell
	}
	if h.inexact && r.KeyNumber > 0 { // units were held before they were charged, or given back
		if !want.Allowed && want.RetryAfter == 0 {
			want.ResetAfter, want.Window = got.ResetAfter, got.Window
		}
		if r.Kind == limit.Counter && r.Param > 1 && got.ResetAfter == want.ResetAfter+1 {
			want.ResetAfter++
		}
	}
	// Equal requests that are made together may be charged at one moment: an engine may say of each when the units of a
	// later one are forgotten.
	for _, j := range Equal(p.Requests, i) {
		if want.Allowed && wants[j].Allowed && wants[j].ResetAfter == got.ResetAfter {
			want.ResetAfter = got.ResetAfter
		}
	}
	if withID && r.Kind != limit.Concurrency && got.Allowed {
		id := fmt.Sprintf("%s %v %x", r.Key, r.Hold.Once, r.Hold.ID)
		if want.Again {
			want.ResetAfter, want.Window = h.first[id], got.Window
		} else {
			h.first[id] = got.ResetAfter
		}
	}
	if want.ResetAfter == unknown && got.ResetAfter > 0 {
		want.ResetAfter = got.ResetAfter
	}
	switch {
	case want.Again:
		h.seen["again"]++
	case want.Allowed && withID && !r.Hold.Once:
		h.seen["held"]++
	default:
		h.count(want.Allowed, r.Kind.String()+" admitted", r.Kind.String()+" denied")
	}
	if want.Lapsed > 0 {
		h.seen["lapsed"]++
	}
	if want != got {
		return differs(want, got)
	}
	if over := h.key(r).Excess(h.us); over > 0 {
		return fmt.Sprintf("%d units above the limit are charged or held", over)
	}
	return ""
}
