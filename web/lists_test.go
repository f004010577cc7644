package web

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/decisionlog"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/policy"
)

// policySet parses lines of a configuration.
func policySet(t *testing.T, text string) *policy.Set {
	t.Helper()
	set, err := policy.Parse(text)
	require.NoError(t, err)
	return set
}

const threePolicies = `policy api SLIDE 100 60
policy-override api tenant:42 1000 60
policy-override api bad* BLOCKED
policy login FIXED 5 900 FAIL CLOSED
policy trial SLIDE 3 60 SHADOW
`

func TestPoliciesAreShownWithWhatTheyDeny(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t, "shop on >hush ~shop* +@all")}, NoNodes, nil)
	s.policies.Configure(policySet(t, threePolicies))
	decideBy(s.observer, "login", "login:1", limit.Fixed, 30, time.Millisecond, engine.Result{Fail: engine.FailClosed})
	decideBy(s.observer, "api", "api:bad:1", limit.Slide, 50, time.Millisecond, engine.Result{})
	decideBy(s.observer, "api", "api:tenant:42", limit.Slide, 20, time.Millisecond, engine.Result{Decision: limit.Decision{Allowed: true}})
	for pattern, n := range map[string]int64{"bad:1": 50, "tenant:42": 0} {
		o := s.policies.Find([]byte("api")).Override([]byte(pattern))
		o.Counts.Decisions.Add(20 + n)
		o.Counts.TurnedAway.Add(n)
	}
	code, body := s.get(t, "/api/policies", "")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"unknown":"","count":3,"policies":[
		{"name":"api","rule":"SLIDE 100 1m","stored":false,"decisions":70,"denied":50,"refused":0,"shadow":0,"count":2,"overrides":[
			{"pattern":"bad*","rule":"BLOCKED","decisions":70,"turned_away":50},{"pattern":"tenant:42","rule":"1000 1m","decisions":20,"turned_away":0}]},
		{"name":"login","rule":"FIXED 5 15m FAIL CLOSED","stored":false,"decisions":30,"denied":0,"refused":30,"shadow":0,"count":0,"overrides":[]},
		{"name":"trial","rule":"SLIDE 3 1m SHADOW","stored":false,"decisions":0,"denied":0,"refused":0,"shadow":0,"count":0,"overrides":[]}]}`, body)
	code, body = s.get(t, "/api/policies", "shop:hush")
	require.Equal(t, http.StatusForbidden, code, "it counts keys of others")
	require.JSONEq(t, `{"error":"the user may not run rl.policy|list on all keys"}`, body)
}

func TestPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, nil)
	text := "policy a SLIDE 1 1\n"
	for i := range 3 * maxPolicies {
		text += "policy p" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + " SLIDE 1 1\npolicy-override a k" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + " 2 2\n"
	}
	s.policies.Configure(policySet(t, text))
	_, body := s.get(t, "/api/policies", "")
	var got struct {
		Count    int           `json:"count"`
		Policies []shownPolicy `json:"policies"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.Equal(t, 3*maxPolicies+1, got.Count)
	require.Len(t, got.Policies, maxPolicies)
	require.Equal(t, 3*maxPolicies, got.Policies[0].Count)
	require.Len(t, got.Policies[0].Overrides, maxOverrides)
}

func TestFleetShowsTheKeysThatTheUserMaySee(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t, "shop on >hush ~shop* +@all", "none on >hush ~* +@all -rl.hotkeys")}, NoNodes, nil)
	s.fleet.Store(&[]observe.HotKey{{Key: []byte("mail"), Rate: 9.6, Decisions: 6, Denied: 1, Refused: 2, ByFail: 3, Shards: 1}, {Key: []byte("shop"), Shards: 1}})
	code, body := s.get(t, "/api/fleet", "")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"proxies":3,"keys":[{"key":"mail","id":"bWFpbA","rate":10,"decisions":6,"admitted":0,"denied":1,"refused":2,"fail":3,"shadow":0,"drawn":0,"limit":0,"remaining":0,"shards":1},
		{"key":"shop","id":"c2hvcA","rate":0,"decisions":0,"admitted":0,"denied":0,"refused":0,"fail":0,"shadow":0,"drawn":0,"limit":0,"remaining":0,"shards":1}]}`, body)
	_, body = s.get(t, "/api/fleet", "shop:hush")
	require.NotContains(t, body, "mail")
	code, _ = s.get(t, "/api/fleet", "none:hush")
	require.Equal(t, http.StatusForbidden, code)
}

// A key is shown with what its policy says, why it was last denied, and what was before.
func TestKeyShowsWhyItIsDenied(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t, "inspect on >hush ~* +rl.inspect")}, NoNodes, nil)
	s.policies.Configure(policySet(t, threePolicies))
	s.deny(decisionlog.Group{Prefix: "api:", Keys: []decisionlog.Denial{{Time: time.UnixMilli(7), Key: []byte("api:bad:1"), Shadow: true}, {Time: time.UnixMilli(4), Key: []byte("api:bad:1")}}},
		decisionlog.Group{Policy: "api", Keys: []decisionlog.Denial{{Key: []byte("api:other")}, {Time: time.UnixMilli(5), Key: []byte("api:bad:1"), Policy: "api", Client: "10.0.0.9:1"}}})
	s.trails.add(1234, []observe.HotKey{{Key: []byte("api:bad:1"), Denied: 7}})
	ask := func(key, user string) (k keyState) {
		code, body := s.get(t, "/api/key?id="+ids.EncodeToString([]byte(key)), user)
		require.Equal(t, http.StatusOK, code)
		require.NoError(t, json.Unmarshal([]byte(body), &k))
		return k
	}
	k := ask("api:bad:1", "")
	require.Equal(t, &keyPolicy{"api", "SLIDE 100 1m", "bad*", "BLOCKED"}, k.Policy)
	require.Equal(t, "10.0.0.9:1", k.Denial.Client)
	require.EqualValues(t, 7, k.Trail[len(k.Trail)-1].Denied)
	k = ask("login:1", "")
	require.Equal(t, &keyPolicy{"login", "FIXED 5 15m FAIL CLOSED", "", ""}, k.Policy)
	require.Nil(t, k.Denial)
	require.Nil(t, ask("nopolicy", "").Policy)
	require.Nil(t, ask("none:1", "").Policy)
	k = ask("api:bad:1", "inspect:hush")
	require.Nil(t, k.Policy)
	require.Nil(t, k.Denial)
	require.Empty(t, k.Trail)
}
