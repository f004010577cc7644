package page

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// rlproxy is a real one with a page.
type rlproxy struct {
	*proxytest.Proxy
	page string // its address

	password string // of the default user; empty: none is needed
}

// start starts an rlproxy with a page, on free ports.
func start(t *testing.T, args ...string) *rlproxy {
	t.Helper()
	port := strconv.Itoa(redistest.FreePort(t))
	return &rlproxy{Proxy: proxytest.Start(t, append([]string{"--http-port", port}, args...)...), page: "http://127.0.0.1:" + port + "/"}
}

// ask sends one command n times and returns the last reply.
func (r *rlproxy) ask(t *testing.T, n int, words ...any) (reply any) {
	t.Helper()
	nc, err := net.Dial("tcp", r.Addr)
	require.NoError(t, err)
	defer func() { _ = nc.Close() }()
	c := proxytest.NewConn(nc)
	if r.password != "" {
		_, err := c.Exchange([]any{"AUTH", r.password})
		require.NoError(t, err)
	}
	for range n {
		replies, err := c.Exchange(words)
		require.NoError(t, err)
		reply = replies[0]
	}
	return reply
}

func TestPageOfRlproxy(t *testing.T) {
	t.Parallel()
	r := start(t, "--page-admin", "yes")
	p := open(t, r.page, 1280, 900, "light")
	p.sees("#keys-empty", "No decision yet.")
	p.sees("#about", "embedded engine")

	r.ask(t, 40, "RL.SLIDE", "tenant:42", 30, 3600)
	p.sees(row("tenant:42"), "0 of 30")
	p.sees(row("tenant:42"), "25.0 %")
	p.sees("#denials", "tenant:42 RL.SLIDE, 30 per 1 h, used 30, retry after")
	p.holds(`points.reduce((n, p) => n + p.decisions, 0) >= 39`)
	p.sees("#memory", "1 key")

	p.click(row("tenant:42") + " a")
	p.sees("#states", "RL.SLIDE, 1 h 30 of 30 used Remaining 0")
	p.click("#reset")
	p.click("#forget")
	p.sees("#done", "The key is reset.")
	p.sees("#said", "Nothing is counted for this key now.")
	d, err := proxytest.ToDecision(r.ask(t, 1, "RL.SLIDE", "tenant:42", 30, 3600))
	require.NoError(t, err)
	require.EqualValues(t, 29, d[2], "remaining")
	p.click("#close")

	hostile := "<img src=x onerror=\"document.title='hacked'\">\xff\r\n\x00"
	r.ask(t, 40, "RL.FIXED", hostile, 30, 3600)
	p.click(row(hostile) + " a")
	p.sees("#states", "RL.FIXED, 1 h 30 of 30 used")
	require.Equal(t, "<img src=x onerror=\"document.title='hacked'\">\ufffd\\u000d\\u000a\\u0000", eval[string](p, `document.querySelector('#detail-key').textContent`))
	require.Zero(t, eval[int](p, `document.querySelectorAll('img').length`))
}

func TestPageOutlivesRlproxy(t *testing.T) {
	t.Parallel()
	r := start(t)
	_, port, err := net.SplitHostPort(r.Addr)
	require.NoError(t, err)
	p := open(t, r.page, 1280, 900, "light")
	r.ask(t, 30, "RL.SLIDE", "before", 10, 3600)
	p.sees("#keys", "before")
	p.expectFailures()
	r.Stop(t)
	p.sees("#lost", "No connection since ")
	require.Contains(t, p.text("#keys"), "before", "what was last seen stays")

	_, page, err := net.SplitHostPort(r.page[len("http://") : len(r.page)-1])
	require.NoError(t, err)
	again := &rlproxy{Proxy: proxytest.Start(t, "--port", port, "--http-port", page), page: r.page}
	p.sees("#link", "live")
	again.ask(t, 30, "RL.SLIDE", "after", 10, 3600)
	p.sees("#keys", "after")
	p.click(row("after") + " a")
	p.sees("#states", "10 of 10 used")
	require.True(t, eval[bool](p, `document.querySelector('#reset').hidden`), "page-admin is no")
}

func TestPageShowsNodes(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	r := start(t, "--backend", a.URL(), "--backend", b.URL())
	p := open(t, r.page, 1280, 900, "light")
	p.sees("#nodes-note", "2 of 2 up")
	for i := range 40 {
		r.ask(t, 30, "RL.SLIDE", fmt.Sprint("tenant:", i%4), 100, 3600)
	}
	p.sees("#keys", "tenant:0")
	p.sees("#keys", "0 of 100")
	p.holds(`/ (µs|ms)/.test(document.querySelector('#nodes tbody td').textContent.replace('\u00a0', ' '))`)
	b.Kill()
	for i := range 20 {
		r.ask(t, 1, "RL.SLIDE", fmt.Sprint("other:", i), 100, 3600, "FAIL", "CLOSED")
	}
	p.sees("#nodes-note", "1 of 2 up")
	p.sees("#nodes tbody tr:first-child", b.Addr)
	p.sees("#nodes tbody tr:first-child .under", "down")
	p.sees("#denials", "no node answered: FAIL CLOSED")
	p.holds(`points.some(p => p.fail > 0)`)
}

// The user is the one that docs/page.md describes.
func TestPageShowsAUserWhatItMaySee(t *testing.T) {
	t.Parallel()
	r := start(t, "--page-admin", "yes", "--requirepass", "battery", "--user", "wall", "on", ">correct-horse", "~*", "+rl.hotkeys", "+rl.inspect", "+rl.nodes", "+rl.policy|list", "+info")
	r.password = "battery"
	r.ask(t, 30, "RL.SLIDE", "tenant:42", 10, 3600)
	p := open(t, "http://wall:correct-horse@"+r.page[len("http://"):], 1280, 900, "light")
	p.sees("#keys", "tenant:42")
	p.sees("#memory", "1 key")
	p.holds(`!document.querySelector('#denials').hidden && !document.querySelector('[data-view=policies]').hidden`)
	require.NotContains(t, p.text("#denials"), "127.0.0.1", "that takes CLIENT LIST")
	p.click(row("tenant:42") + " a")
	p.sees("#states", "10 of 10 used")
	require.True(t, eval[bool](p, `document.querySelector('#reset').hidden`), "that takes RL.RESET")
}

// A node that hangs under load: all that is refused is turned away, in the figures, in the row and in the banner.
func TestPageShowsThatANodeHangs(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t)
	r := start(t, "--backend", node.URL(), "--fail-policy", "closed")
	r.load(t, caller{"shop", 20 * time.Millisecond, 4, func(uint64) []any { return []any{"RL.SLIDE", "tenant:42", 5, 3600} }},
		caller{"auth", 20 * time.Millisecond, 1, func(i uint64) []any { return []any{"RL.SLIDE", fmt.Sprint("user:", i), 5, 1} }})
	p := open(t, r.page, 1280, 900, "light")
	p.sees("#now figure:nth-child(2) .now", " %")
	p.sees(row("tenant:42"), "0 of 5")
	p.holds(`document.querySelector('#problems').hidden`)
	node.Pause()
	t.Cleanup(node.Resume)
	hung := time.Now()
	p.sees("#problems li.page", "Node "+node.Addr+" is down")
	t.Logf("the banner shows it after %.1f s", time.Since(hung).Seconds())
	p.sees("#problems", "are refused because a node does not answer.")
	p.holds(`points.at(-1).decisions > 0 && points.at(-1).refused === points.at(-1).decisions`)
	p.sees("#now figure:nth-child(2) .now", "100 %")
	p.sees("#now figure:nth-child(2)", "no answer 100 %")
	p.sees(row("tenant:42")+" .away", "100 %")
	p.holds(`document.querySelector('` + row("tenant:42") + ` .away .bar .trouble').style.width === '100%'`)
	p.sees(row("tenant:42"), "no node answered 100 %")
	p.sees("#denials", "no node answered: FAIL CLOSED")
	t.Logf("everything shows it after %.1f s", time.Since(hung).Seconds())
	require.True(t, eval[bool](p, `document.querySelector('#problems').getBoundingClientRect().bottom <= document.querySelector('#now').getBoundingClientRect().top`), "it comes first")
	p.holds(`/^\(\d\) /.test(document.title)`)
	p.resize(360, 740)
	p.holds(`innerWidth === 360`)
	require.True(t, eval[bool](p, `document.querySelector('#problems').getBoundingClientRect().bottom < 740`), "it is on the first screen of a phone")
	node.Resume()
	p.holds(`document.querySelector('#problems').hidden`)
}

// Each fault is on the page in words, whatever else is wrong, and goes when it ends.
func TestPageSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	sound, gone, fast := redistest.Start(t), redistest.Start(t), redistest.StartClocked(t)
	evicts := redistest.Start(t, "--maxmemory", "500mb", "--maxmemory-policy", "allkeys-lru")
	file, port := filepath.Join(t.TempDir(), "rlproxy.conf"), redistest.FreePort(t)
	configure := func(more string) {
		text := fmt.Sprintf("bind 127.0.0.1\nport 0\nhttp-port %d\n", port)
		for _, n := range []*redistest.Server{sound, gone, fast, evicts} {
			text += "backend " + n.URL() + "\n"
		}
		require.NoError(t, os.WriteFile(file, []byte(text+more), 0o600))
	}
	configure("")
	r := &rlproxy{Proxy: &proxytest.Proxy{Process: proxytest.Spawn(t, proxytest.Binary, file)}, page: fmt.Sprintf("http://127.0.0.1:%d/", port)}
	r.Ready(t)
	p := open(t, r.page, 1280, 900, "light")
	p.sees("#nodes-note", "4 of 4 up")
	shows := func(fault, text string, inject func()) {
		t.Helper()
		began := time.Now()
		inject()
		p.sees("#problems", text)
		t.Logf("%s: after %.1f s", fault, time.Since(began).Seconds())
	}
	shows("a node may evict keys", "Node "+evicts.Addr+" may evict keys", func() {})
	shows("a reload fails", "The last reload of the configuration failed.", func() {
		configure("nosuch 1\n")
		r.Signal(t, syscall.SIGHUP)
	})
	shows("a clock is wrong", "Node "+fast.Addr+" has a clock that is wrong by", func() { fast.StepClock(5 * time.Second) })
	shows("a node is down", "Node "+gone.Addr+" is down", gone.Kill)
	shows("lists of nodes differ", "Another proxy has other nodes in its configuration", func() { start(t, "--backend", sound.URL()) })
	require.Equal(t, "page", eval[string](p, `document.querySelector('#problems li').className`), "what is urgent comes first")
	configure("")
	r.Signal(t, syscall.SIGHUP)
	p.holds(`!document.querySelector('#problems').textContent.includes('reload')`)
}
