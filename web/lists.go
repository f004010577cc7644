package web

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/policy"
)

// Bounds of the answer to /api/policies.
const (
	maxPolicies  = 100 // policies, those with the most denials
	maxOverrides = 20  // overrides of a policy, those with the most denials
)

// fleet answers /api/fleet: the busiest keys of all proxies, as RL.HOTKEYS FLEET does.
func (s *Server) fleet(w http.ResponseWriter, r *http.Request) {
	if !s.asking.take(w, r) {
		return
	}
	keys, proxies := s.cfg.FleetKeys()
	s.asking.leave()
	writeJSON(w, http.StatusOK, struct {
		Proxies int      `json:"proxies"`
		Keys    []hotKey `json:"keys"`
	}{proxies, shownKeys(keys, visitorOf(r).user)})
}

// shownPolicy is a named policy and what became of the requests about it since the start. Counts are by this proxy.
type shownPolicy struct {
	Name      string          `json:"name"`
	Rule      string          `json:"rule"` // as RL.POLICY SET has it
	Stored    bool            `json:"stored"`
	Decisions int64           `json:"decisions"`
	Denied    int64           `json:"denied"`
	Refused   int64           `json:"refused"`
	Shadow    int64           `json:"shadow"` // requests that SHADOW would have denied
	Count     int             `json:"count"`  // overrides
	Overrides []shownOverride `json:"overrides"`
}

// shownOverride is an override, and what it has decided since it was set.
type shownOverride struct {
	Pattern    string `json:"pattern"`
	Rule       string `json:"rule"`
	Decisions  int64  `json:"decisions"`
	TurnedAway int64  `json:"turned_away"`
}

// policies answers /api/policies: the named policies in effect, those with the most denials first.
func (s *Server) policies(w http.ResponseWriter, r *http.Request) {
	if !visitorOf(r).user.MayReadAll("rl.policy|list") {
		fail(w, r, http.StatusForbidden, "the user may not run rl.policy|list on all keys")
		return
	}
	turned := make(map[string]*totals)
	for name, counts := range s.cfg.Observer.Counts() {
		turned[name] = countPolicy(counts)
	}
	of := func(p *policy.Policy) *totals { return cmp.Or(turned[p.Name], &totals{}) }
	away := func(p *policy.Policy) int64 { return of(p).denied + of(p).refused + of(p).shadow }
	all := slices.Clone(s.cfg.Policies.InEffect().All())
	slices.SortStableFunc(all, func(a, b *policy.Policy) int { return cmp.Compare(away(b), away(a)) })
	shown := []shownPolicy{}
	for _, p := range all[:min(len(all), maxPolicies)] {
		t := of(p)
		shown = append(shown, shownPolicy{
			Name: p.Name, Rule: rule(p.Words()[1:]), Stored: !p.Configured, Decisions: t.decisions, Denied: t.denied,
			Refused: t.refused, Shadow: t.shadow, Count: len(p.Overrides), Overrides: showOverrides(p),
		})
	}
	var unknown string
	if why := s.cfg.Policies.WhyUnknown(); why != nil {
		unknown = why.Error()
	}
	writeJSON(w, http.StatusOK, struct {
		Unknown  string        `json:"unknown"` // why the stored policies are not known yet; empty: they are
		Count    int           `json:"count"`
		Policies []shownPolicy `json:"policies"`
	}{unknown, len(all), shown})
}

func countPolicy(counts *observe.Counts) *totals {
	t := new(totals)
	for _, by := range observe.Commands {
		t.add(counts, by)
	}
	return t
}

// showOverrides returns the overrides of a policy, those that turned most away first, at most maxOverrides.
func showOverrides(p *policy.Policy) []shownOverride {
	type counted struct {
		of                    *policy.Override
		decisions, turnedAway int64
	}
	all := make([]counted, len(p.Overrides))
	for i := range p.Overrides {
		o := &p.Overrides[i]
		all[i] = counted{o, o.Counts.Decisions.Load(), o.Counts.TurnedAway.Load()}
	}
	slices.SortStableFunc(all, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.turnedAway, a.turnedAway), cmp.Compare(b.decisions, a.decisions))
	})
	shown := []shownOverride{}
	for _, o := range all[:min(len(all), maxOverrides)] {
		shown = append(shown, shownOverride{valid(o.of.Pattern), rule(o.of.Words(p)[2:]), o.decisions, o.turnedAway})
	}
	return shown
}

// rule joins the words of a policy or of an override.
func rule(words []string) string { return strings.Join(words, " ") }

// valid replaces bytes that are not UTF-8, which JSON cannot have.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
