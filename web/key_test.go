package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// post requests a reset as a user, with headers of the form "name: value", and returns the status
// and the body.
func (s *site) post(t *testing.T, body, user string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.addr+"/api/reset", strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		key, value, _ := strings.Cut(h, ": ")
		r.Header.Set(key, value)
	}
	return do(t, r, user)
}

func TestKeyShowsItsStates(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, nil)
	s.engine.answers(func(r *engine.Request, a *engine.Result) {
		switch string(r.Key) {
		case "away":
			a.Err = &engine.Unavailable{Node: "a:1", Why: "no answer in time"}
		case "shop":
			a.States = []engine.Inspection{{
				Kind: limit.Slide, Window: 1000, Param: 1, Used: 2, Limit: 3, Remaining: 4, Node: "b:1", TTL: 5, Rate: 6, Held: 10, Holds: 11, Lapsed: 12,
				Advanced: 13, Advances: []engine.ProxyAdvance{{Proxy: "web-7:1:ab", Units: 13, Left: 14}},
				Shards: []engine.Shard{{Number: 1, Node: "c:1", Held: 7, Used: 8, Lease: 9}},
			}}
		case "shop\xffs": // its shadow
			a.States = []engine.Inspection{{Kind: limit.Fixed, Window: 10, Param: 1, Node: "d:1"}}
		}
	})
	code, body := s.get(t, "/api/key?id="+ids.EncodeToString([]byte("shop")), "")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"key":"shop","id":"c2hvcA","node":"a:1","shards":3,"states":[{"command":"rl.slide","window_ms":1000,"parameter":{"buckets":1},"used":2,
		"limit":3,"remaining":4,"node":"b:1","ttl_ms":5,"rate":6,"shadow":false,"held":10,"holds":11,"lapsed":12,"shards":[{"shard":1,"node":"c:1","held":7,"used":8,"lease_ms":9}],"advances":[{"proxy":"web-7:1:ab","units":13,"lapses_ms":14}]},
		{"command":"rl.fixed","window_ms":10,"parameter":{"buckets":1},"used":0,"limit":0,"remaining":0,"node":"d:1","ttl_ms":0,"rate":0,"shadow":true,"held":0,"holds":0,"lapsed":0,"shards":[],"advances":[]}],"trail":[]}`, body)
	code, body = s.get(t, "/api/key?id="+ids.EncodeToString([]byte("none")), "")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"key":"none","id":"bm9uZQ","node":"a:1","shards":3,"states":[],"trail":[]}`, body)
	code, body = s.get(t, "/api/key?id="+ids.EncodeToString([]byte("away")), "")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.JSONEq(t, `{"error":"UNAVAILABLE a:1: no answer in time"}`, body)
	for _, id := range []string{"", "*", "c2hvcA==", ids.EncodeToString(make([]byte, engine.MaxKey+1))} {
		code, body = s.get(t, "/api/key?id="+id, "")
		require.Equal(t, http.StatusBadRequest, code, id)
		require.Contains(t, body, `{"error":"id must be`)
	}
}

func TestUsersSeeOnlyTheKeysThatTheyMay(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t, "default off", "shop on >hush %R~shop* +@ratelimit", "mute on >hush ~* +@all -rl.inspect", "blind on >hush %W~* +@all")}, NoNodes, nil)
	for user, want := range map[string]int{"shop": 200, "mute": 403, "blind": 403} {
		code, body := s.get(t, "/api/key?id="+ids.EncodeToString([]byte("shop")), user+":hush")
		require.Equal(t, want, code, "%s: %s", user, body)
	}
	code, body := s.get(t, "/api/key?id="+ids.EncodeToString([]byte("mail")), "shop:hush")
	require.Equal(t, http.StatusForbidden, code)
	require.JSONEq(t, `{"error":"the user may not run rl.inspect on this key"}`, body)
}

func TestUsersResetOnlyTheKeysThatTheyMay(t *testing.T) {
	t.Parallel()
	rules := Access{Admin: true, ACL: users(t, "default off", "boss on >hush ~* +@all", "shop on >hush ~shop* +@ratelimit", "view on >hush %R~* +@all")}
	s := start(t, rules, NoNodes, nil)
	var resets []string // used only by the goroutine of the current request
	s.engine.answers(func(r *engine.Request, a *engine.Result) {
		if strings.HasPrefix(string(r.Key), "away") {
			a.Err = &engine.Unavailable{Node: "a:1", Why: "no answer in time"}
		} else if r.Op == engine.OpReset {
			resets = append(resets, string(r.Key))
			a.Reset = string(r.Key) == "shop" || string(r.Key) == "trial\xffs" // a key, and a shadow
		}
	})
	body := func(key string) string { return `{"id":"` + ids.EncodeToString([]byte(key)) + `"}` }
	for _, c := range []struct {
		user, body string
		want       int
		says       string
	}{
		{"boss:hush", body("shop"), 200, `{"reset":true}`},
		{"boss:hush", body("none"), 200, `{"reset":false}`},
		{"boss:hush", body("trial"), 200, `{"reset":true}`},
		{"shop:hush", body("shop"), 200, `{"reset":true}`},
		{"boss:hush", body("away"), 503, `{"error":"UNAVAILABLE a:1: no answer in time"}`},
		{"shop:hush", body("mail"), 403, `{"error":"the user may not run rl.reset on this key"}`},
		{"view:hush", body("shop"), 403, `{"error":"the user may not run rl.reset on this key"}`},
		{"", body("shop"), 401, `{"error":"a name and a password are needed"}`},
	} {
		code, says := s.post(t, c.body, c.user)
		require.Equal(t, c.want, code, c)
		require.JSONEq(t, c.says, says)
	}
	require.Equal(t, []string{"shop", "shop\xffs", "none", "none\xffs", "trial", "trial\xffs", "shop", "shop\xffs"}, resets, "keys and their shadows")

	for _, wrong := range []string{"", "{", `{"id":1}`, `{"id":"c2hvcA","more":1}`, `{"id":""}`, `{"id":"c2hvcA"` + strings.Repeat(" ", maxBody) + `}`} {
		code, says := s.post(t, wrong, "boss:hush")
		require.Equal(t, http.StatusBadRequest, code, wrong)
		var e struct{ Error string }
		require.NoError(t, json.Unmarshal([]byte(says), &e))
		require.NotEmpty(t, e.Error)
	}
	for header, want := range map[string]int{
		"Content-Type: text/plain":                        415,
		"Content-Type: application/x-www-form-urlencoded": 415,
		"Sec-Fetch-Site: cross-site":                      403,
		"Sec-Fetch-Site: same-site":                       403,
		"Origin: https://evil.example":                    403,
		"Origin: null":                                    403,
		"Origin: http://" + s.addr:                        200,
		"Content-Type: application/json; charset=utf-8":   200,
	} {
		code, says := s.post(t, body("shop"), "boss:hush", header)
		require.Equal(t, want, code, "%s: %s", header, says)
	}
	require.Len(t, resets, 2*6)

	rules.Admin = false
	s.SetRules(rules)
	code, says := s.post(t, body("shop"), "boss:hush")
	require.Equal(t, http.StatusForbidden, code)
	require.JSONEq(t, `{"error":"resetting keys is disabled; to allow it, set page-admin yes"}`, says)
	require.Len(t, resets, 2*6)
}

// Pages of other sites can neither read keys nor use up streams.
func TestRequestsFromOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, nil)
	for _, path := range []string{"/api/stream", "/api/key?id=c2hvcA"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr+path, nil)
		require.NoError(t, err)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		code, _ := do(t, r, "")
		require.Equal(t, http.StatusForbidden, code, path)
	}
}
