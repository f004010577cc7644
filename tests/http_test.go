package tests

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// site is the HTTP server of a proxy.
type site struct {
	*proxy
	url string // ends in a slash
	tls *tls.Config
}

var listeningHTTP = regexp.MustCompile(`msg="listening for HTTP" address=(\S+)`)

// startHTTP starts a proxy with an http-port.
func startHTTP(t *testing.T, args ...string) *site {
	t.Helper()
	return ofProxy(t, startProxy(t, append([]string{"--http-port", strconv.Itoa(redistest.FreePort(t))}, args...)...))
}

// ofProxy returns the HTTP server of a proxy.
func ofProxy(t *testing.T, p *proxy) *site {
	t.Helper()
	s := &site{proxy: p}
	eventually(t, "the HTTP server", func() bool {
		if m := listeningHTTP.FindStringSubmatch(p.Output.String()); m != nil {
			s.url = m[1]
		}
		return s.url != ""
	})
	return s
}

// send sends a request for a path as a user, "name:password" or "".
func (s *site) send(ctx context.Context, method, path, user, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if name, password, ok := strings.Cut(user, ":"); ok {
		r.SetBasicAuth(name, password)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Timeout: 2 * patience, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: s.tls}}
	return client.Do(r)
}

// ask sends a request and returns the status and the body.
func (s *site) ask(t *testing.T, method, path, user, body string) (int, string) {
	t.Helper()
	answer, err := s.send(t.Context(), method, path, user, body)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

func (s *site) get(t *testing.T, path, user string) (int, string) {
	t.Helper()
	return s.ask(t, http.MethodGet, path, user, "")
}

// watch opens the stream as a user, and returns its lines. It requires that the stream is opened.
func (s *site) watch(t *testing.T, user string) *bufio.Scanner {
	t.Helper()
	answer, err := s.send(t.Context(), http.MethodGet, "api/stream", user, "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	t.Cleanup(func() { _ = answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return lines
}

// shown has the fields of a snapshot that matter here.
type shown struct {
	Engine string
	Admin  bool
	Point  struct{ Decisions float64 }
	Keys   []struct {
		Key                             string
		Admitted, Denied, Limit, Shards int64
		Remaining, Fail                 int64
	}
	Nodes  []struct{ Name, State string }
	Memory *struct{ Keys int64 }
}

// snapshot reads the stream until a snapshot for which done returns true.
func snapshot(t *testing.T, lines *bufio.Scanner, done func(s *shown) bool) *shown {
	t.Helper()
	deadline := time.Now().Add(patience)
	for isSnapshot := false; lines.Scan() && time.Now().Before(deadline); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			isSnapshot = lines.Text() == "event: snapshot"
			continue
		}
		if !isSnapshot {
			continue
		}
		var s shown
		require.NoError(t, json.Unmarshal([]byte(data), &s))
		if done(&s) {
			return &s
		}
	}
	require.Fail(t, "the stream ended or did not show it")
	return nil
}

// TestHTTPChecksUsers requests every path without a login, with the right password, with a
// wrong one, and as a user with few rights.
func TestHTTPChecksUsers(t *testing.T) {
	t.Parallel()
	s := startHTTP(t, "--include", write(t, "users.conf", "page-admin yes\nhttp-check yes\npolicy shop SLIDE 100 60\npolicy mail SLIDE 100 60\nuser default off\nuser boss on >hush-boss ~* +@all\n"+
		"user shop on >hush-shop ~shop:* +@ratelimit\nuser probe on >hush-probe\n"))
	c := dial(t, s.addr)
	require.Equal(t, status("OK"), c.do(t, "AUTH", "boss", "hush-boss"))
	for _, key := range []string{"shop:1", "mail:1"} {
		c.decide(t, "RL.SLIDE "+key+" 5 60")
	}
	id := func(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }
	wrong := 0
	for _, c := range []struct {
		method, path, body         string
		stranger, boss, shop, none int
	}{
		{"GET", "healthz", "", 200, 200, 200, 200},
		{"GET", "readyz", "", 401, 200, 200, 200},
		{"GET", "metrics", "", 401, 200, 403, 403},
		{"GET", "", "", 401, 200, 200, 403},
		{"GET", "api/key?id=" + id("shop:1"), "", 401, 200, 200, 403},
		{"GET", "api/key?id=" + id("mail:1"), "", 401, 200, 403, 403},
		{"POST", "api/reset", `{"id":"` + id("mail:1") + `"}`, 401, 200, 403, 403},
		{"POST", "api/reset", `{"id":"` + id("shop:1") + `"}`, 401, 200, 200, 403},
		{"GET", "check/shop/1", "", 401, 200, 200, 403},
		{"HEAD", "check/mail/1", "", 401, 200, 403, 403},
		{"POST", "check/none/1", "", 401, 404, 403, 403},
		{"GET", "none", "", 401, 404, 404, 404},
		{"GET", "metrics/", "", 401, 404, 404, 404},
		{"DELETE", "metrics", "", 401, 405, 405, 405},
	} {
		for user, want := range map[string]int{
			"": c.stranger, "boss:hush-boss": c.boss, "shop:hush-shop": c.shop, "probe:hush-probe": c.none, "boss:hush-shop": c.stranger,
		} {
			code, body := s.ask(t, c.method, c.path, user, c.body)
			require.Equal(t, want, code, "%s %s as %q: %s", c.method, c.path, user, body)
			if user == "boss:hush-shop" && want == http.StatusUnauthorized {
				wrong++
			}
		}
	}
	for user, want := range map[string]int{"": 401, "boss:hush-shop": 401, "probe:hush-probe": 403} {
		code, _ := s.get(t, "api/stream", user)
		require.Equal(t, want, code, user)
	}
	wrong++
	// A login that the RESP port refuses is counted with those of the HTTP port.
	require.Equal(t, errLogin, dial(t, s.addr).do(t, "AUTH", "boss", "hush-no"))
	require.Contains(t, c.do(t, "INFO", "stats"), fmt.Sprintf("acl_access_denied_auth:%d\r\n", wrong+1))
	require.Contains(t, s.Output.String(), `msg="logins refused: wrong name or password"`)

	seen := snapshot(t, s.watch(t, "shop:hush-shop"), func(*shown) bool { return true })
	for _, k := range seen.Keys {
		require.True(t, strings.HasPrefix(k.Key, "shop:"), "the keys of others are shown: %v", seen.Keys)
	}
	require.True(t, seen.Admin)
	require.Nil(t, seen.Memory)
	s.stop(t)
	require.NotContains(t, s.Output.String(), "hush")
}

// TestHTTPShowsAndResetsKeys finds a key on the page's stream, inspects it, and resets it, with
// each engine.
func TestHTTPShowsAndResetsKeys(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 2)
	for name, args := range map[string][]string{"embedded": nil, "redis": backends(nodes...)} {
		t.Run(name, func(t *testing.T) {
			s := startHTTP(t, append(args, "--page-admin", "yes")...)
			c, lines := dial(t, s.addr), s.watch(t, "")
			for range 20 {
				c.decide(t, "RL.SLIDE \x01\xff\"<b> 15 60")
			}
			seen := snapshot(t, lines, func(s *shown) bool { return len(s.Keys) > 0 && s.Keys[0].Denied == 5 })
			k := seen.Keys[0]
			require.Equal(t, "\x01\uFFFD\"<b>", k.Key)
			require.Equal(t, []int64{15, 15, 0, 0}, []int64{k.Admitted, k.Limit, k.Remaining, k.Fail})
			require.Equal(t, name, seen.Engine)
			require.Equal(t, name == "embedded", seen.Memory != nil)
			require.Len(t, seen.Nodes, map[string]int{"embedded": 0, "redis": 2}[name])

			id := base64.RawURLEncoding.EncodeToString([]byte("\x01\xff\"<b>"))
			code, body := s.get(t, "api/key?id="+id, "")
			require.Equal(t, http.StatusOK, code)
			require.Contains(t, body, `"states":[{"command":"rl.slide","window_ms":60000,"parameter":{"buckets":1},"used":15,"limit":15,"remaining":0,`)
			code, body = s.ask(t, http.MethodPost, "api/reset", "", `{"id":"`+id+`"}`)
			require.Equal(t, http.StatusOK, code)
			require.JSONEq(t, `{"reset":true}`, body)
			_, body = s.get(t, "api/key?id="+id, "")
			require.Contains(t, body, `"states":[]`)
			require.EqualValues(t, 14, c.decide(t, "RL.SLIDE \x01\xff\"<b> 15 60").remaining)
			s.stop(t)
		})
	}
}

// TestReloadAppliesToHTTP changes users and page-admin of a running proxy.
// All keys that an override has are counted, however many there are, also after a change of the policies.
func TestOverridesCountAllTheirKeys(t *testing.T) {
	t.Parallel()
	s := startHTTP(t, "--backend", startNode(t).URL())
	c := dial(t, s.addr)
	c.do(t, words("RL.POLICY SET api SLIDE 1 1h")...)
	c.do(t, words("RL.POLICY OVERRIDE api t* 2 1h")...)
	check := func() {
		for i := range 300 {
			for range 3 {
				c.do(t, "RL.CHECK", "api", "t"+strconv.Itoa(i))
			}
		}
	}
	check()
	c.do(t, words("RL.POLICY OVERRIDE api bad BLOCKED")...)
	check()
	c.do(t, words("RL.CHECK api bad AND api t0")...)
	c.do(t, words("RL.HOLD api t0 COST 1 ID a")...)
	c.do(t, words("RL.CHECK api other")...)
	_, body := s.get(t, "api/policies", "")
	require.Contains(t, body, `"overrides":[{"pattern":"t*","rule":"2 1h","decisions":1802,"turned_away":1202},{"pattern":"bad","rule":"BLOCKED","decisions":1,"turned_away":1}]`)
}

func TestReloadAppliesToHTTP(t *testing.T) {
	t.Parallel()
	conf := filepath.Join(t.TempDir(), "rlproxy.conf")
	configure := func(text string) { require.NoError(t, os.WriteFile(conf, []byte(text), 0o600)) }
	configure("user default off\nuser boss on >one ~* +@all\nuser gone on >one ~* +@all\n")
	s := startHTTP(t, "--include", conf)
	boss, gone := s.watch(t, "boss:one"), s.watch(t, "gone:one")
	code, _ := s.ask(t, http.MethodPost, "api/reset", "boss:one", `{"id":"AA"}`)
	require.Equal(t, http.StatusForbidden, code)

	configure("page-admin yes\nuser default off\nuser boss on >two ~* +@all\n")
	s.hangup(t, reloaded)
	code, _ = s.get(t, "readyz", "boss:one")
	require.Equal(t, http.StatusUnauthorized, code)
	code, _ = s.ask(t, http.MethodPost, "api/reset", "boss:two", `{"id":"AA"}`)
	require.Equal(t, http.StatusOK, code)
	for gone.Scan() { // ends with the stream
		continue
	}
	require.NoError(t, gone.Err())
	snapshot(t, boss, func(s *shown) bool { return s.Admin })
	s.stop(t)
}

// TestHTTPSpeaksTLSAsTheTLSPortDoes connects with and without a client certificate, and renews
// the server's certificate.
func TestHTTPSpeaksTLSAsTheTLSPortDoes(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue(t, "server", time.Now().Add(time.Hour))
	pair, err := tls.LoadX509KeyPair(a.issue(t, "client", time.Now().Add(time.Hour)))
	require.NoError(t, err)
	s := startHTTP(t, "--tls-port", strconv.Itoa(redistest.FreePort(t)), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", a.file)
	require.True(t, strings.HasPrefix(s.url, "https://"), s.url)
	s.tls = a.trust()
	_, err = s.send(t.Context(), http.MethodGet, "healthz", "", "") //nolint:bodyclose // there is none
	require.Error(t, err, "a client without a certificate was answered")
	s.tls.Certificates = []tls.Certificate{pair}
	code, _ := s.get(t, "healthz", "")
	require.Equal(t, http.StatusOK, code)
	snapshot(t, s.watch(t, ""), func(*shown) bool { return true })

	plain := &site{proxy: s.proxy, url: strings.Replace(s.url, "https", "http", 1)}
	code, body := plain.get(t, "healthz", "")
	require.Equal(t, http.StatusBadRequest, code)
	require.NotContains(t, body, "ok\n")

	next := newAuthority(t)
	newCert, newKey := next.issue(t, "server", time.Now().Add(time.Hour))
	require.NoError(t, os.Rename(newCert, cert))
	require.NoError(t, os.Rename(newKey, key))
	s.hangup(t, reloaded)
	_, err = s.send(t.Context(), http.MethodGet, "healthz", "", "") //nolint:bodyclose // there is none
	require.Error(t, err, "the old certificate is still in use")
	s.tls = next.trust()
	s.tls.Certificates = []tls.Certificate{pair}
	code, _ = s.get(t, "healthz", "")
	require.Equal(t, http.StatusOK, code)
	s.stop(t)
}

// TestReadyzFollowsTheNodes stops nodes one after the other.
func TestReadyzFollowsTheNodes(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 2)
	one := startHTTP(t, append(backends(nodes...), "--backend-timeout", "200")...)
	all := startHTTP(t, append(backends(nodes...), "--backend-timeout", "200", "--ready-nodes", "all")...)
	none := startHTTP(t, append(backends(nodes...), "--backend-timeout", "200", "--ready-nodes", "none")...)
	expect := func(s *site, want int) (body string) {
		t.Helper()
		eventually(t, "readyz to answer "+strconv.Itoa(want), func() bool {
			var code int
			code, body = s.get(t, "readyz", "")
			return code == want
		})
		return body
	}
	for _, s := range []*site{one, all, none} {
		expect(s, http.StatusOK)
	}
	nodes[0].Kill()
	require.Regexp(t, `^127\.0\.0\.1:\d+: down, .+\n$`, expect(all, http.StatusServiceUnavailable))
	expect(one, http.StatusOK)
	nodes[1].Kill()
	require.Equal(t, 2, strings.Count(expect(one, http.StatusServiceUnavailable), ": down, "))
	for _, s := range []*site{one, all, none} {
		code, _ := s.get(t, "healthz", "")
		require.Equal(t, http.StatusOK, code, "a node that is away is no reason to restart a proxy")
	}
	expect(none, http.StatusOK)
	for _, s := range []*site{one, all, none} {
		s.stop(t)
	}
}

// TestReadyzReportsADrain stops a proxy whose client waits for a node that hangs.
func TestReadyzReportsADrain(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	s := startHTTP(t, "--backend", n.URL(), "--backend-timeout", "20000", "--shutdown-timeout", "60")
	c, lines := dial(t, s.addr), s.watch(t, "")
	c.decide(t, "RL.SLIDE k 10 60")
	n.Pause()
	_, err := c.Write(appendCommand(nil, words("RL.SLIDE k 10 60")...))
	require.NoError(t, err)
	s.Signal(t, syscall.SIGTERM)
	eventually(t, "readyz to report the drain", func() bool {
		code, body := s.get(t, "readyz", "")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "the process is stopping")
	})
	code, _ := s.get(t, "healthz", "")
	require.Equal(t, http.StatusOK, code)
	n.Resume()
	_, err = c.ReadReply()
	require.NoError(t, err)
	for lines.Scan() { // ends with the stream
		continue
	}
	require.Zero(t, s.Exit(t))
	_, err = net.Dial("tcp", strings.Trim(s.url, "htp:/"))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// TestUnusableHTTPPortIsRefused checks the errors at the start.
func TestUnusableHTTPPortIsRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	code, out := outcome(t, "--bind", "127.0.0.1", "--port", "0", "--http-port", port(t, l.Addr().String()))
	require.Equal(t, 1, code)
	require.Contains(t, out, "rlproxy: http-port: can't listen on 127.0.0.1: listen tcp4 "+l.Addr().String()+": bind: address already in use\n")

	a, b := newAuthority(t), newAuthority(t)
	cert, _ := a.issue(t, "server", time.Now().Add(time.Hour))
	_, other := b.issue(t, "server", time.Now().Add(time.Hour))
	for args, want := range map[string]string{
		"--port 7000 --http-port 7000":                    "http-port and port must differ; both are 7000",
		"--tls-port 7001 --http-port 7001":                "http-port and tls-port must differ; both are 7001",
		"--unixsocket /tmp/none --bind  --http-port 7000": "http-port needs an address to listen on: bind must name one",
		"--http-port many":                                `http-port must be an integer from 0 to 65535; it was "many"`,
		"--ready-nodes some":                              `ready-nodes must be none, any or all; it was "some"`,
		"--http-check maybe":                              `http-check must be yes or no; it was "maybe"`,
		"--page-admin maybe":                              `page-admin must be yes or no; it was "maybe"`,
		"--tls-port 7001 --http-port 7002 --tls-auth-clients no --tls-cert-file " + cert + " --tls-key-file " + other: "can't use " + cert + " with " + other,
	} {
		for _, check := range []string{"", " --check"} {
			code, out := outcome(t, strings.Split(args+check, " ")...)
			require.Equal(t, 1, code, "%s\n%s", args, out)
			require.Contains(t, out, want)
			require.Equal(t, 1, strings.Count(out, "\n"), "one sentence: %s", out)
		}
	}
}

// TestHTTPNeverDelaysDecisions floods the HTTP port with connections that send nothing, that
// never end a header, that send huge headers, that guess passwords, that do not read the
// replies, and that ask for checks, also with bodies that do not come. Decisions take as long as before, the process does not grow, and a probe is answered.
func TestHTTPNeverDelaysDecisions(t *testing.T) {
	const clients = 1000
	s := startHTTP(t, "--requirepass", "hush-hush", "--http-check", "yes", "--policy", "api", "SLIDE", "5", "60")
	c := dial(t, s.addr)
	require.Equal(t, status("OK"), c.do(t, "AUTH", "hush-hush"))
	measure := func() (median, late time.Duration) {
		took := make([]time.Duration, 3000)
		if raceEnabled {
			took = took[:1000]
		}
		for i := range took {
			began := time.Now()
			c.decide(t, fmt.Sprintf("RL.SLIDE user:%d 5 60", i%200))
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return took[len(took)/2], took[len(took)*95/100]
	}
	for range 3 { // warm
		measure()
	}
	quiet, quietLate := measure()
	before := residentMB(t, s.Cmd.Process.Pid)

	addr := strings.Trim(s.url, "htp:/")
	basic := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(":hush-hush")) + "\r\n"
	wrong := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(":hush")) + "\r\n"
	done, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { // until the measurement is done
			for done.Err() == nil {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				defer context.AfterFunc(done, func() { _ = nc.Close() })()
				switch i % 7 {
				case 0: // silent
				case 1:
					_, _ = io.WriteString(nc, "GET /metrics HTTP/1.1\r\nX-Slow: ")
				case 2:
					_, _ = io.WriteString(nc, "GET /metrics HTTP/1.1\r\nX-Huge: "+strings.Repeat("x", 64<<10))
				case 3:
					_, _ = io.WriteString(nc, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"+wrong+"\r\n")
				case 4:
					_, _ = io.WriteString(nc, "GET /api/stream HTTP/1.1\r\nHost: localhost\r\n"+basic+"\r\n")
				case 5:
					_, _ = fmt.Fprintf(nc, "GET /check/api/user:%d HTTP/1.1\r\nHost: localhost\r\n%s\r\n", i, basic)
				case 6:
					_, _ = fmt.Fprintf(nc, "POST /check/api/%s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 9\r\n\r\n", strings.Repeat("%ff", 4092), basic)
				}
				if i%7 == 4 {
					<-done.Done() // reads nothing
				}
				_, _ = io.Copy(io.Discard, nc)     // until the server closes it
				time.Sleep(500 * time.Millisecond) // this paces the flood
			}
		})
	}
	eventually(t, "the flood to fill the port", func() bool {
		return strings.Contains(s.Output.String(), "logins refused")
	})
	busy, busyLate := measure()
	t.Logf("median %v before, %v in the flood; 95 of 100 %v before, %v in the flood", quiet, busy, quietLate, busyLate)
	probe, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	eventually(t, "a probe to be answered", func() bool {
		answer, err := s.send(probe, http.MethodGet, "healthz", "", "")
		if err != nil {
			return false // a newer connection took its place
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	grown := residentMB(t, s.Cmd.Process.Pid) - before
	t.Logf("%d MB of memory before, %d more in the flood", before, grown)
	stop()
	all.Wait()
	require.Less(t, busy, quiet*5+20*time.Millisecond) // the clients of the flood take time of the same machine
	require.Less(t, busyLate, quietLate*5+5*time.Second)
	if !raceEnabled {
		require.Less(t, grown, 24)
	}
	s.stop(t)
}
