package web

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/policy"
)

// /check decides by a named policy, for gateways. A request is translated into the words of RL.CHECK, which the parser
// of that command reads: so there is one grammar, and an error is that of the command.

// checkPath is what the paths of checks begin with. No mux sees them: it would redirect a key such as "a//b".
const checkPath = "/check/"

// forwardedFor is the header in which a gateway states the address of its client.
const forwardedFor = "X-Forwarded-For"

// checked is the answer to /check.
type checked struct {
	Allowed    bool   `json:"allowed"`
	Limit      int64  `json:"limit"`
	Remaining  int64  `json:"remaining"`
	RetryAfter int64  `json:"retry_after_ms"`
	ResetAfter int64  `json:"reset_after_ms"`
	Policy     string `json:"policy"`
}

// check answers /check/<policy>/<key> and /check/<policy>?header=<name>, as RL.CHECK does.
func (s *Server) check(w http.ResponseWriter, r *http.Request) {
	switch {
	case !visitorOf(r).rules.Check:
		fail(w, r, http.StatusNotFound, "checks are disabled; to enable them, set http-check yes")
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, HEAD, POST")
		fail(w, r, http.StatusMethodNotAllowed, "the method must be GET, HEAD or POST")
		return
	case fromAnotherSite(r) && len(r.Header.Values(forwardedFor)) == 0:
		// A gateway passes on what a browser says of the site. No page can add X-Forwarded-For to a request to
		// another site, because the browser would ask first (CORS), and is not answered.
		fail(w, r, http.StatusForbidden, "the request comes from another site")
		return
	}
	words, denied, msg := checkWords(r.URL, r.Header)
	if msg != "" {
		fail(w, r, http.StatusBadRequest, msg)
		return
	}
	var p engine.Pipeline
	if !s.checks.May(visitorOf(r).user, words) {
		forbidKey(w, r, s.checks.Check.Name)
		return
	}
	if msg = s.checks.Check.Parse(words, &p); msg != "" {
		fail(w, r, statusOf(msg, words[1]), msg)
		return
	}
	if !s.checks.Decide(&p, connOf(r).RemoteAddr()) {
		failBusy(w, r)
		return
	}
	decision, err := ratelimit.Answer(&p.Requests[0], &p.Results[0])
	if err != nil {
		failEngine(w, r, err)
		return
	}
	answerCheck(w, p.Requests, &decision, denied)
}

// statusOf returns the status of an error reply of RL.CHECK about the policy with that name.
func statusOf(msg string, name []byte) int {
	switch {
	case msg == policy.Unknown(name):
		return http.StatusNotFound
	case strings.HasPrefix(msg, "UNAVAILABLE "): // the stored policies are not read yet
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// checkWords translates a request into the words of RL.CHECK. denied is the status that answers a denial. It returns
// an error, or "". It leaves to RL.CHECK what RL.CHECK checks: the policy, the key and the values of its options.
func checkWords(u *url.URL, h http.Header) (words [][]byte, denied int, msg string) {
	name, key, inPath := strings.Cut(strings.TrimPrefix(u.Path, checkPath), "/")
	words = [][]byte{[]byte("RL.CHECK"), []byte(name), []byte(key)}
	denied = http.StatusTooManyRequests
	var seen []string
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		option, value, _ := strings.Cut(part, "=")
		value, err := url.QueryUnescape(value)
		switch {
		case part == "":
			continue
		case err != nil:
			return nil, 0, reply.ErrSyntax + ": " + err.Error()
		case option != "header" && option != "status":
			if option != "cost" && option != "once" {
				return nil, 0, reply.UnknownOption([]byte(option), []string{"cost", "once", "header", "status"})
			}
			words = append(words, []byte(option), []byte(value)) // RL.CHECK takes its options in any case
			continue
		case slices.Contains(seen, option):
			return nil, 0, reply.OptionTwice(option)
		case option == "status":
			denied, msg = statusWord(value)
		case inPath:
			msg = reply.ErrSyntax + ": the path has a key, so header must not be given"
		default:
			words[2], msg = headerKey(h, value)
		}
		if msg != "" {
			return nil, 0, msg
		}
		seen = append(seen, option)
	}
	return words, denied, ""
}

// statusWord returns the status that answers a denial, and an error or "".
func statusWord(value string) (status int, msg string) {
	n, ok := word.Integer([]byte(value))
	if !ok || n < 400 || n > 499 {
		return 0, "ERR status must be an integer between 400 and 499; it was " + word.Literal([]byte(value))
	}
	return int(n), ""
}

// headerKey returns the value of the header that is the key, and an error or "". Of X-Forwarded-For it is the last
// address, which the gateway has added; a client may have sent those before it. Any other header must be there once: of
// two, the application might read the one that was not counted.
func headerKey(h http.Header, name string) (key []byte, msg string) {
	values := h.Values(name)
	switch {
	case len(values) == 0:
		return nil, "ERR the request has no header " + word.Literal([]byte(name))
	case http.CanonicalHeaderKey(name) == forwardedFor:
		all := values[len(values)-1]
		last := strings.TrimSpace(all[strings.LastIndexByte(all, ',')+1:])
		addr, err := netip.ParseAddr(last)
		if err != nil {
			return nil, "ERR " + forwardedFor + " must end with an address; it was " + word.Literal([]byte(last))
		}
		return []byte(addr.Unmap().String()), ""
	case len(values) > 1:
		return nil, "ERR the request has more than one header " + word.Literal([]byte(name))
	}
	return []byte(values[0]), ""
}

// answerCheck answers with a decision, in headers and in JSON.
func answerCheck(w http.ResponseWriter, requests []engine.Request, d *limit.Decision, denied int) {
	status := http.StatusOK
	if !d.Allowed {
		status = denied
	}
	r := &requests[0]
	for _, h := range ratelimit.Headers(requests, r, d) {
		w.Header().Set(h[0], h[1])
	}
	writeJSON(w, status, &checked{d.Allowed, d.Limit, d.Remaining, d.RetryAfter, d.ResetAfter, r.Policy})
}
