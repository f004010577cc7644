package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/decisionlog"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/shard"
)

// keyState is the answer to /api/key.
type keyState struct {
	named
	Node   string      `json:"node"`   // the node of the key's home
	Shards int         `json:"shards"` // number of shards, 1 if the key is not split
	States []inspected `json:"states"`
	Policy *keyPolicy  `json:"policy,omitempty"` // the named policy that the key belongs to
	Denial *denial     `json:"denial,omitempty"` // its newest denial, if it is known of
	Trail  []tally     `json:"trail"`            // what was asked about it in the last minutes, if it was busy
}

// inspected is the state of a key for one window of one command. Its fields are those of engine.Inspection.
type inspected struct {
	Command   string       `json:"command"`
	Window    int64        `json:"window_ms"`
	Calendar  string       `json:"calendar,omitempty"` // what a calendar window is, and of which zone; empty for others
	Param     param        `json:"parameter"`
	Used      int64        `json:"used"`
	Limit     int64        `json:"limit"`
	Remaining int64        `json:"remaining"`
	Node      string       `json:"node"`
	TTL       int64        `json:"ttl_ms"`
	Rate      int64        `json:"rate"`   // charging calls per second
	Shadow    bool         `json:"shadow"` // the state is that of the key's shadow
	Held      int64        `json:"held"`   // units that are held now, in addition to Used
	Holds     int64        `json:"holds"`  // reservations or leases that hold them
	Lapsed    int64        `json:"lapsed"` // holds that have lapsed since nothing was held
	Shards    []shardState `json:"shards"`
	Advances  []advance    `json:"advances"` // units that proxies have, in addition to Used
}

// keyPolicy is the named policy whose limits a key has.
type keyPolicy struct {
	Name     string `json:"name"`
	Rule     string `json:"rule"`     // as RL.POLICY SET has it
	Pattern  string `json:"pattern"`  // of the override that the key has; empty: it has none
	Override string `json:"override"` // its limits, UNLIMITED or BLOCKED
}

// param is the parameter of a spec behind its name, such as buckets.
type param map[string]int64

// shardState is the state of one shard of a split key.
type shardState struct {
	Shard int    `json:"shard"`
	Node  string `json:"node"`
	Held  int64  `json:"held"`
	Used  int64  `json:"used"`
	Lease int64  `json:"lease_ms"`
}

// advance is units that are advanced to a proxy.
type advance struct {
	Proxy string `json:"proxy"`
	Units int64  `json:"units"`
	Left  int64  `json:"lapses_ms"`
}

// inspect answers with the state of a key, as RL.INSPECT does.
func (s *Server) inspect(w http.ResponseWriter, r *http.Request) {
	key, ok := decodeKey(w, r, r.URL.Query().Get("id"))
	if !ok || !allowed(w, r, "rl.inspect", key, false) {
		return
	}
	u := visitorOf(r).user
	shown := keyState{named: name(key), States: []inspected{}, Trail: []tally{}}
	if u.MayReadAll("rl.policy|list") {
		shown.Policy = s.policyOf(key)
	}
	if u.MayUse("rl.hotkeys", key, true, false) {
		shown.Trail, shown.Denial = s.trails.of(key), s.newestDenial(key, u.MayRun("client|list"))
	}
	shown.Node, shown.Shards = s.cfg.Engine.Where(shard.AppendName(nil, key, false))
	answers, ok := s.answers(w, r, engine.OpInspect, key)
	if !ok {
		return
	}
	for i, res := range answers {
		if res.Err != nil {
			failEngine(w, r, res.Err)
			return
		}
		for j := range res.States {
			shown.States = append(shown.States, stateOf(&res.States[j], i == 1))
		}
	}
	writeJSON(w, http.StatusOK, &shown)
}

// policyOf returns the policy that a key belongs to, or nil.
func (s *Server) policyOf(key []byte) *keyPolicy {
	name, rest, _ := bytes.Cut(key, []byte(":"))
	p := s.cfg.Policies.Find(name)
	if p == nil {
		return nil
	}
	shown := &keyPolicy{Name: p.Name, Rule: rule(p.Words()[1:])}
	if o := p.Override(rest); o != nil {
		shown.Pattern, shown.Override = valid(o.Pattern), rule(o.Words(p)[2:])
	}
	return shown
}

// newestDenial returns the newest denial of a key, with or without the client, or nil. What only SHADOW would have
// denied is none.
func (s *Server) newestDenial(key []byte, client bool) *denial {
	var newest *decisionlog.Denial
	for _, g := range s.cfg.Denials() {
		for i := range g.Keys {
			d := &g.Keys[i]
			if !d.Shadow && bytes.Equal(d.Key, key) && (newest == nil || d.Time.After(newest.Time)) {
				newest = d
			}
		}
	}
	if newest == nil {
		return nil
	}
	shown := denialOf(newest, client)
	return &shown
}

// stateOf converts a state of a key or of its shadow to JSON form.
func stateOf(from *engine.Inspection, shadow bool) inspected {
	w := limit.Window{Length: from.Window}
	period, zone := w.Calendar()
	to := inspected{
		strings.ToLower(from.Kind.String()), w.Ms(), strings.TrimSpace(period + " " + zone),
		param{from.Kind.Param(): from.Param}, from.Used, from.Limit,
		from.Remaining, from.Node, from.TTL, from.Rate, shadow, from.Held, from.Holds, from.Lapsed,
		make([]shardState, len(from.Shards)), make([]advance, len(from.Advances)),
	}
	for i, a := range from.Advances {
		to.Advances[i] = advance(a)
	}
	for i, p := range from.Shards {
		to.Shards[i] = shardState{p.Number, p.Node, p.Held, p.Used, p.Lease}
	}
	return to
}

// reset deletes the state of a key, as RL.RESET does, if page-admin allows it.
func (s *Server) reset(w http.ResponseWriter, r *http.Request) {
	if !visitorOf(r).rules.Admin {
		fail(w, r, http.StatusForbidden, "resetting keys is disabled; to allow it, set page-admin yes")
		return
	}
	var asked struct {
		ID string `json:"id"`
	}
	body := json.NewDecoder(r.Body)
	body.DisallowUnknownFields()
	connOf(r).SetBusy(false) // until the body has arrived
	err := body.Decode(&asked)
	connOf(r).SetBusy(true)
	if err != nil {
		fail(w, r, http.StatusBadRequest, `the body must be {"id": "..."}: `+err.Error())
		return
	}
	key, ok := decodeKey(w, r, asked.ID)
	if !ok || !allowed(w, r, "rl.reset", key, true) {
		return
	}
	var done struct {
		Reset bool `json:"reset"`
	}
	answers, ok := s.answers(w, r, engine.OpReset, key)
	if !ok {
		return
	}
	for _, res := range answers {
		if res.Err != nil {
			failEngine(w, r, res.Err)
			return
		}
		done.Reset = done.Reset || res.Reset
	}
	writeJSON(w, http.StatusOK, done)
}

// answers asks the engine, unless there are maxAsking requests to it in progress. In that case it answers the request
// and returns false.
func (s *Server) answers(w http.ResponseWriter, r *http.Request, op engine.Op, key []byte) (answers [2]engine.Result,
	ok bool) {
	if !s.asking.take(w, r) {
		return answers, false
	}
	defer s.asking.leave()
	return s.ask(op, key), true
}

// places bounds requests to the engine: it has an element for each that is in progress.
type places chan struct{}

// take reports whether there is a place, and takes it. If there is none, it answers the request.
func (p places) take(w http.ResponseWriter, r *http.Request) bool {
	select {
	case p <- struct{}{}:
		return true
	default:
		failBusy(w, r)
		return false
	}
}

// leave gives a place back.
func (p places) leave() { <-p }

// decodeKey decodes the id of a key. If it is invalid, decodeKey answers the request and returns false.
func decodeKey(w http.ResponseWriter, r *http.Request, id string) (key []byte, ok bool) {
	key, err := ids.DecodeString(id)
	if err != nil || len(key) == 0 || len(key) > engine.MaxKey {
		fail(w, r, http.StatusBadRequest, fmt.Sprintf("id must be the base64url of 1 to %d bytes, without padding",
			engine.MaxKey))
		return nil, false
	}
	return key, true
}

// allowed reports whether the user may run a command that reads a key, and also writes it if
// write is set. If not, it answers the request.
func allowed(w http.ResponseWriter, r *http.Request, command string, key []byte, write bool) bool {
	if !visitorOf(r).user.MayUse(command, key, true, write) {
		forbidKey(w, r, command)
		return false
	}
	return true
}

func forbidKey(w http.ResponseWriter, r *http.Request, command string) {
	fail(w, r, http.StatusForbidden, "the user may not run "+command+" on this key")
}

// sameOrigin passes requests on to next, except those that a page of another site made the browser send.
// The browser would add the user's password to them.
func sameOrigin(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fromAnotherSite(r) {
			fail(w, r, http.StatusForbidden, "the request comes from another site")
			return
		}
		if r.Method == http.MethodPost {
			if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil ||
				kind != "application/json" {
				fail(w, r, http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
				return
			}
		}
		next(w, r)
	})
}

var origins = http.NewCrossOriginProtection()

// fromAnotherSite reports whether a page of another site made the browser send a request.
func fromAnotherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return origins.Check(r) != nil || site != "" && site != "same-origin" && site != "none"
}

// fail answers with an error, in JSON for paths under /api and /check, else as text.
func fail(w http.ResponseWriter, r *http.Request, status int, text string) {
	if !strings.HasPrefix(r.URL.Path, "/api/") && !strings.HasPrefix(r.URL.Path, checkPath) {
		http.Error(w, text, status)
		return
	}
	writeJSON(w, status, struct {
		Error string `json:"error"`
	}{text})
}

// failBusy answers that the engine has too many requests.
func failBusy(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "1")
	fail(w, r, http.StatusServiceUnavailable, "too many requests are in progress")
}

func failEngine(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	var away *engine.Unavailable
	if errors.As(err, &away) {
		status = http.StatusServiceUnavailable
	}
	fail(w, r, status, err.Error())
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}
