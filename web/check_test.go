package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/policy"
)

const checkPolicies = `
policy api SLIDE 100 60
policy-override api vip UNLIMITED
policy-override api bad BLOCKED
policy two SLIDE 10 1s 100 1m
policy same SLIDE 10 1s 10 1m
policy fine SLIDE 5 1500ms
policy pail BUCKET 10 5 1s
policy trial SLIDE 3 60 SHADOW
policy-override trial bad BLOCKED
`

// startChecks serves checks by checkPolicies to users.
func startChecks(t *testing.T, lines ...string) *site {
	t.Helper()
	s := start(t, Access{ACL: users(t, lines...), Check: true}, NoNodes, nil)
	set, err := policy.Parse(checkPolicies)
	require.NoError(t, err)
	s.policies.Configure(set)
	return s
}

// head is the head of an answer.
type head struct {
	StatusCode int
	Header     http.Header
}

// ask sends a request without a body, with headers of the form "name: value", and returns the answer's head and body.
func (s *site) ask(t *testing.T, method, path string, headers ...string) (head, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.addr+path, nil)
	require.NoError(t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return head{answer.StatusCode, answer.Header}, string(body)
}

// The statuses, headers and bodies are those of the table in docs/http.md.
func TestCheckAnswersAsTheTableOfHeadersSays(t *testing.T) {
	t.Parallel()
	s := startChecks(t)
	var result engine.Result
	s.engine.answers(func(r *engine.Request, a *engine.Result) {
		if !r.AnswerVerdict(a) {
			*a = result
		}
	})
	admitted := func(limited, remaining int64) engine.Result {
		return engine.Result{Decision: limit.Decision{Allowed: true, Limit: limited, Remaining: remaining, ResetAfter: 9}}
	}
	denied := func(limited, wait int64) engine.Result {
		return engine.Result{Decision: limit.Decision{Limit: limited, RetryAfter: wait, ResetAfter: 60000}}
	}
	inSecond := func(r engine.Result) engine.Result { r.Window = 1; return r }
	failed := func(by engine.FailPolicy) engine.Result {
		return engine.Result{Fail: by, Decision: by.Decide(&engine.Request{Spec: limit.Spec{Windows: [8]limit.Window{{Limit: 100}}}}, 250)}
	}
	for _, c := range []struct {
		path              string
		result            engine.Result
		status            int
		policy, rate, try string // RateLimit-Policy, RateLimit, Retry-After
		body              string
	}{
		{"api/k", admitted(100, 99), 200, `"api";q=100;w=60`, `"api";r=99`, "", `true,"limit":100,"remaining":99,"retry_after_ms":0,"reset_after_ms":9`},
		{"api/k", denied(100, 1001), 429, `"api";q=100;w=60`, `"api";r=0;t=2`, "2", `false,"limit":100,"remaining":0,"retry_after_ms":1001,"reset_after_ms":60000`},
		{"api/k?status=403", denied(100, 1000), 403, `"api";q=100;w=60`, `"api";r=0;t=1`, "1", ""},
		{"api/k?status=403", admitted(100, 1), 200, `"api";q=100;w=60`, `"api";r=1`, "", ""},
		{"api/k", failed(engine.FailOpen), 200, `"api";q=100;w=60`, "", "", `true,"limit":100,"remaining":-1,"retry_after_ms":0,"reset_after_ms":0`},
		{"api/k", failed(engine.FailClosed), 429, `"api";q=100;w=60`, "", "1", `false,"limit":100,"remaining":-1,"retry_after_ms":250,"reset_after_ms":250`},
		{"api/vip", engine.Result{}, 200, "", "", "", `true,"limit":0,"remaining":0,"retry_after_ms":0,"reset_after_ms":0`},
		{"api/bad", engine.Result{}, 429, "", "", "1", `false,"limit":0,"remaining":0,"retry_after_ms":1000,"reset_after_ms":1000`},
		{"two/k", admitted(10, 3), 200, `"two:1s";q=10;w=1, "two:1m";q=100;w=60`, `"two:1s";r=3`, "", ""},
		{"two/k", inSecond(denied(100, 5)), 429, `"two:1s";q=10;w=1, "two:1m";q=100;w=60`, `"two:1m";r=0;t=1`, "1", ""},
		{"same/k", inSecond(denied(10, 5)), 429, `"same:1s";q=10;w=1, "same:1m";q=10;w=60`, `"same:1m";r=0;t=1`, "1", ""},
		{"fine/k", admitted(5, 3), 200, `"fine";q=5`, `"fine";r=3`, "", ""},
		{"pail/k", admitted(10, 3), 200, `"pail";q=10`, `"pail";r=3`, "", ""},
		{"trial/k", denied(3, 500), 200, `"trial";q=3;w=60`, `"trial";r=0`, "", `true,"limit":3,"remaining":0,"retry_after_ms":500,"reset_after_ms":60000`},
		{"trial/k", failed(engine.FailClosed), 200, `"trial";q=3;w=60`, "", "", `true,"limit":3,"remaining":-1,"retry_after_ms":0,"reset_after_ms":0`},
		{"trial/bad", engine.Result{}, 200, "", "", "", `true,"limit":0,"remaining":0,"retry_after_ms":1000,"reset_after_ms":1000`},
	} {
		result = c.result
		for _, method := range []string{"GET", "POST", "HEAD"} {
			answer, body := s.ask(t, method, "/check/"+c.path)
			require.Equal(t, c.status, answer.StatusCode, "%s %s: %s", method, c.path, body)
			for name, want := range map[string]string{
				"RateLimit-Policy": c.policy, "RateLimit": c.rate, "Retry-After": c.try, "Content-Type": "application/json", "Cache-Control": "no-store",
			} {
				require.Equal(t, want, answer.Header.Get(name), "%s: %s", c.path, name)
			}
			switch name, _, _ := strings.Cut(c.path, "/"); {
			case method == "HEAD":
				require.Empty(t, body)
			case c.body != "":
				require.Equal(t, `{"allowed":`+c.body+`,"policy":"`+name+"\"}\n", body, c.path)
			}
		}
	}
	for name, counts := range s.observer.Counts() {
		if name == "fine" {
			require.EqualValues(t, 3, counts.Of(observe.Command(limit.Slide), observe.Allowed), "one for each method")
			return
		}
	}
	require.Fail(t, "checks are not observed")
}

// What a request says arrives at the engine as RL.CHECK would have it.
func TestCheckTranslatesURLsIntoWords(t *testing.T) {
	t.Parallel()
	s := startChecks(t)
	var asked engine.Request
	s.engine.answers(func(r *engine.Request, a *engine.Result) { asked, a.Allowed = *r, true })
	long := strings.Repeat("k", engine.MaxKey-len("api:"))
	for path, want := range map[string]string{
		"/check/api/k":                            "api:k",
		"/check/api/a/b/":                         "api:a/b/",
		"/check/api//":                            "api:/",
		"/check/api/a//b/../c/.":                  "api:a//b/../c/.",
		"/check/api/%2E%2e%2Fk":                   "api:../k",
		"/check/api/a%2Fb%3Fc%23d%25e":            "api:a/b?c#d%e",
		"/check/api/a+b%20c":                      "api:a+b c",
		"/check/api/%00%ff%fe%0d%0a":              "api:\x00\xff\xfe\r\n",
		"/check/api/" + long:                      "api:" + long,
		"/check/api/" + hexed(long):               "api:" + long,
		"/check/api?header=x-api-key":             "api:secret, and more",
		"/check/api?header=X-Forwarded-For":       "api:192.0.2.7",
		"/check/api?header=x-forwarded-for&":      "api:192.0.2.7",
		"/check/api/k?cost=5&once=a%26b&&":        "api:k 5 once",
		"/check/api/k?once=x+y&cost=0&status=400": "api:k 0 once",
	} {
		answer, body := s.ask(t, "GET", path, "X-Api-Key: secret, and more", "X-Forwarded-For: 10.0.0.1, 10.0.0.2", "X-Forwarded-For: evil, ::ffff:192.0.2.7")
		require.Equal(t, http.StatusOK, answer.StatusCode, "%.100s: %s", path, body)
		got := string(asked.Key)
		if asked.Cost != 1 {
			got += fmt.Sprint(" ", asked.Cost)
		}
		if asked.Hold != nil {
			require.True(t, asked.Hold.Once)
			require.Contains(t, []engine.Digest{engine.DigestOf([]byte("a&b")), engine.DigestOf([]byte("x y"))}, asked.Hold.ID)
			got += " once"
		}
		require.Equal(t, want, got, "%.100s", path)
		require.Equal(t, "api", asked.Policy)
	}
}

// hexed escapes every byte.
func hexed(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

// An error is that of RL.CHECK, and quotes the word that is wrong.
func TestCheckSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := startChecks(t) // the engine is not asked
	for path, want := range map[string]string{
		"/check/none/k":     `404 ERR no such policy 'none'`,
		"/check/a%22%0ab/k": `404 ERR no such policy 'a\"\\nb'`,
		"/check/":           `404 ERR no such policy ''`,
		"/check/API/k":      `404 ERR no such policy 'API'`,
		"/check/api":        `400 ERR key must be 1 to 4096 bytes; it had 0`,
		"/check/api/":       `400 ERR key must be 1 to 4096 bytes; it had 0`,
		"/check/api/" + strings.Repeat("k", 2*engine.MaxKey): `400 ERR key must be 1 to 4096 bytes; with the policy's name it had 8196`,
		"/check/api/k?cost=x":                                `400 ERR cost must be an integer between 0 and 1000000000000; it was 'x'`,
		"/check/api/k?cost":                                  `400 ERR cost must be an integer between 0 and 1000000000000; it was ''`,
		"/check/api/k?cost=+1":                               `400 ERR cost must be an integer between 0 and 1000000000000; it was ' 1'`,
		"/check/api/k?cost=101":                              `400 ERR cost exceeds limit: the request can never be admitted; cost was 101, limit 100`,
		"/check/api/k?cost=1&cost=1":                         `400 ERR syntax error: option COST is given twice`,
		"/check/api/k?once=":                                 `400 ERR id must be 1 to 64 bytes; it had 0`,
		"/check/api/k?status=200":                            `400 ERR status must be an integer between 400 and 499; it was '200'`,
		"/check/api/k?status=403&status=403":                 `400 ERR syntax error: option status is given twice`,
		"/check/api/k?header=X-Api-Key":                      `400 ERR syntax error: the path has a key, so header must not be given`,
		"/check/api?header=X-Api-Key&header=X-Api-Key":       `400 ERR syntax error: option header is given twice`,
		"/check/api?header=X-None":                           `400 ERR the request has no header 'X-None'`,
		"/check/api?header=":                                 `400 ERR the request has no header ''`,
		"/check/api?header=X-Empty":                          `400 ERR key must be 1 to 4096 bytes; it had 0`,
		"/check/api?header=X-Twice":                          `400 ERR the request has more than one header 'X-Twice'`,
		"/check/api?header=X-Forwarded-For":                  `400 ERR X-Forwarded-For must end with an address; it was 'unknown'`,
		"/check/api/k?id=x":                                  `400 ERR syntax error: unknown option 'id'; expected cost, once, header or status`,
		"/check/api/k?COST=1":                                `400 ERR syntax error: unknown option 'COST'; expected cost, once, header or status`,
		"/check/api/k?cost=%zz":                              `400 ERR syntax error: invalid URL escape \"%zz\"`,
		"/check/api/k?and=api&x=y":                           `400 ERR syntax error: unknown option 'and'; expected cost, once, header or status`,
	} {
		for _, method := range []string{"GET", "POST"} {
			answer, body := s.ask(t, method, path, "X-Api-Key: k", "X-Empty: ", "X-Twice: a", "X-Twice: b", "X-Forwarded-For: 192.0.2.1,unknown")
			status, text, _ := strings.Cut(want, " ")
			require.Equal(t, status, fmt.Sprint(answer.StatusCode), "%.100s: %s", path, body)
			require.Equal(t, `{"error":"`+text+"\"}\n", body, "%.100s", path)
		}
	}
	s.engine.answers(func(_ *engine.Request, a *engine.Result) {
		a.Err = &engine.Unavailable{Node: "a:1", Why: "no answer in time"}
	})
	answer, body := s.ask(t, "GET", "/check/api/k")
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, `{"error":"UNAVAILABLE a:1: no answer in time"}`+"\n", body)
	s.policies.SetUnknown(&engine.Unavailable{Node: "b:1", Why: "no answer in time"})
	answer, body = s.ask(t, "GET", "/check/none/k")
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, `{"error":"UNAVAILABLE b:1: no answer in time"}`+"\n", body)
}

func TestCheckIsOffUnlessItIsSet(t *testing.T) {
	t.Parallel()
	s := startChecks(t)
	s.SetRules(Access{ACL: users(t)})
	answer, body := s.ask(t, "GET", "/check/api/k")
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	require.Equal(t, `{"error":"checks are disabled; to enable them, set http-check yes"}`+"\n", body)
	s.SetRules(Access{ACL: users(t), Check: true})
	for _, method := range []string{"PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND"} {
		answer, _ = s.ask(t, method, "/check/api/k")
		require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)
		require.Equal(t, "GET, HEAD, POST", answer.Header.Get("Allow"))
		require.Empty(t, answer.Header.Get("Access-Control-Allow-Origin"))
	}
	answer, _ = s.ask(t, "GET", "/check")
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
}

// A user's rules are those of RL.CHECK about the key policy:key.
func TestCheckNeedsTheRightsOfRLCHECK(t *testing.T) {
	t.Parallel()
	s := startChecks(t, "default off", "boss on >hush ~* +@all", "shop on >hush ~api:shop:* +rl.check", "read on >hush %R~* +rl.check", "none on >hush ~* +ping")
	s.engine.answers(func(_ *engine.Request, a *engine.Result) { a.Allowed = true })
	for user, want := range map[string][3]int{ // for shop:1, mail:1, and a policy that does not exist
		"": {401, 401, 401}, "boss:wrong": {401, 401, 401}, "boss:hush": {200, 200, 404}, "shop:hush": {200, 403, 403}, "read:hush": {403, 403, 403}, "none:hush": {403, 403, 403},
	} {
		for i, path := range []string{"/check/api/shop:1", "/check/api/mail:1", "/check/none/shop:1"} {
			code, body := s.get(t, path, user)
			require.Equal(t, want[i], code, "%s as %s: %s", path, user, body)
			require.Equal(t, want[i] >= 400, strings.HasPrefix(body, `{"error":"`), body)
		}
	}
}

// A page in a browser cannot spend the limits of a proxy that needs no password. What a gateway passes on from a
// browser is answered, because it has a header that no page can add.
func TestPagesOfOtherSitesCannotCheck(t *testing.T) {
	t.Parallel()
	s := startChecks(t)
	var asked atomic.Int64
	s.engine.answers(func(_ *engine.Request, a *engine.Result) { asked.Add(1); a.Allowed = true })
	for _, headers := range [][]string{
		{"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site"}, {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"},
		{"Sec-Fetch-Site: same-origin", "Host: attacker.example"}, {"X-Forwarded-For: 192.0.2.1", "Host: attacker.example"},
	} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			text := method + " /check/api/k HTTP/1.1\r\nConnection: close\r\n" + strings.Join(headers, "\r\n") + "\r\n"
			if !strings.Contains(text, "Host: ") {
				text += "Host: localhost\r\n"
			}
			got := s.raw(t, text+"\r\n")
			require.True(t, strings.HasPrefix(got, "HTTP/1.1 403 "), got)
		}
	}
	answer, _ := s.ask(t, "POST", "/check/api/k", "Origin: https://attacker.example")
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	require.Zero(t, asked.Load())
	for _, headers := range [][]string{
		nil, {"Sec-Fetch-Site: same-origin"}, {"Sec-Fetch-Site: none"},
		{"Sec-Fetch-Site: cross-site", "Origin: https://shop.example", "X-Forwarded-For: 192.0.2.1"},
	} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			answer, body := s.ask(t, method, "/check/api/k", headers...)
			require.Equal(t, http.StatusOK, answer.StatusCode, body)
		}
	}
}

// A body is not read, whether it comes or not.
func TestCheckReadsNoBody(t *testing.T) {
	t.Parallel()
	s := startChecks(t)
	s.engine.answers(func(_ *engine.Request, a *engine.Result) { a.Allowed = true })
	for _, head := range []string{"Content-Length: 1000000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n"} {
		got := s.raw(t, "POST /check/api/k HTTP/1.1\r\nHost: localhost\r\n"+head)
		require.True(t, strings.HasPrefix(got, "HTTP/1.1 200 "), got)
		require.Contains(t, got, "\r\nConnection: close\r\n")
	}
}

// While maxChecks checks wait for the engine, others are answered at once, and so are probes and the page.
func TestTooManyChecksAreRefused(t *testing.T) {
	t.Parallel()
	s := startChecks(t)
	release := make(chan struct{})
	var asked atomic.Int64
	s.engine.answers(func(r *engine.Request, a *engine.Result) {
		if r.Op == engine.OpDecide {
			asked.Add(1)
			<-release
			a.Allowed = true
		}
	})
	var waiting sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for range maxChecks {
		waiting.Go(func() { // until release
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/check/api/k", nil)
			if err != nil {
				return
			}
			if answer, err := http.DefaultClient.Do(r); err == nil {
				_ = answer.Body.Close()
			}
		})
	}
	require.Eventually(t, func() bool { return asked.Load() == maxChecks }, 60*time.Second, time.Millisecond)
	answer, body := s.ask(t, "GET", "/check/api/k")
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, "1", answer.Header.Get("Retry-After"))
	require.Equal(t, `{"error":"too many requests are in progress"}`+"\n", body)
	for _, path := range []string{"/healthz", "/readyz", "/api/key?id=AA"} {
		code, _ := s.get(t, path, "")
		require.Equal(t, http.StatusOK, code)
	}
	close(release)
	waiting.Wait()
	answer, _ = s.ask(t, "GET", "/check/api/k")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Zero(t, s.conns.Refused())
}

// FuzzCheck checks that any URL gets either an error or words that RL.CHECK reads as the same key.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		"/check/api/k", "/check/api/%2e%2e/a//b?cost=1&once=x", "/check/api?header=X-Forwarded-For&status=403", "/check/%00/%ff?cost=%zz", "/check/",
	} {
		f.Add(seed, "k", "192.0.2.1, ::1")
	}
	f.Fuzz(func(t *testing.T, target, key, from string) {
		h := http.Header{forwardedFor: {from}, "X-Key": {key}}
		for _, target := range []string{target, "/check/api/" + url.PathEscape(key), "/check/api?header=x-key"} {
			u, err := url.ParseRequestURI(target)
			if err != nil {
				continue
			}
			words, denied, msg := checkWords(u, h)
			if msg != "" {
				require.Nil(t, words)
				continue
			}
			require.GreaterOrEqual(t, len(words), 3)
			require.Equal(t, 1, len(words)%2)
			require.GreaterOrEqual(t, denied, 400)
			require.Less(t, denied, 500)
			if strings.HasPrefix(target, "/check/api/") && u.RawQuery == "" {
				require.Equal(t, u.Path, "/check/api/"+string(words[2]))
			}
		}
		u, err := url.ParseRequestURI("/check/api/" + url.PathEscape(key))
		require.NoError(t, err)
		words, _, msg := checkWords(u, h)
		require.Empty(t, msg)
		require.Equal(t, []string{"RL.CHECK", "api", key}, []string{string(words[0]), string(words[1]), string(words[2])})
	})
}
