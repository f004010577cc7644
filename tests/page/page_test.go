package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

// row is the selector of a key's row.
func row(key string) string { return fmt.Sprintf(`#keys tr[data-id="%s"]`, id(key)) }

func TestPageShowsWhatHappens(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	p.sees("#link", "live")
	require.Equal(t, "0.1.0 · 3 nodes · up 3 d 4 h", p.text("#about"))

	p.sees(row("tenant:42"), "0 of 100K 4")
	p.sees(row("tenant:42"), "91.4 %")
	p.sees(row("user:20411:login"), "1 of 5")
	p.sees(row("tenant:1138"), "0 %")
	require.Equal(t, "down", strings.Fields(p.text("#nodes tbody tr:first-child .under"))[0][:4], "trouble comes first")
	p.sees("#nodes tbody tr:first-child", "down: connection refused")
	p.sees("#nodes tbody tr:nth-child(2)", "184 µs 2 −310 µs")
	require.Equal(t, "2 of 3 up", p.text("#nodes-note"))
	p.sees("#denials tbody tr:nth-child(2)", "user:81723:login RL.SLIDE, 5 per 15 min, used 5, retry after 10 min 10.1.4.9:40110 auth → 10.0.0.12:6379 1")
	p.sees("#denials tbody tr:nth-child(4)", "no node answered: FAIL CLOSED")
	require.Equal(t, 5, eval[int](p, `[...document.querySelectorAll('#now .chart path:nth-child(4)')].filter(p => p.getAttribute('d').split('L').length > 250).length`),
		"each figure has a line of five minutes")

	f.set(func() {
		f.live = func() {
			f.next = point{Decisions: 1234, Denied: 123.4, Refused: 30.85, Fail: 37.85, Through: 7, P50: ptr(int64(250)), P99: ptr(int64(12_345))}
		}
		f.shown.Keys = []key{{Key: "new", ID: id("new"), Rate: 8, Decisions: 16, Admitted: 12, Denied: 4, Limit: 10, Remaining: -1, Shards: 1, deny: 0.25}}
		f.shown.Nodes[2].State, f.shown.Nodes[2].Why = "up", ""
	})
	p.sees("#now", "Decisions by limit no answer 1,234 /s")
	p.sees("#now", "Turned away 12.5 % ")
	p.sees("#now", "by limit 10.0 %, no answer 2.5 %")
	p.sees("#now", "No node answered 38 /s")
	p.sees("#now", "let through 7 /s")
	p.sees("#now", "Half within 250 µs")
	p.sees("#now", "99 % within 12.3 ms")
	p.sees("#keys tbody", "new 8 25.0 % – of 10 –")
	p.sees("#nodes-note", "3 of 3 up")
	p.holds(`document.title === '1,234\u00a0/s · rlproxy'`)
	require.Equal(t, 1, eval[int](p, `document.querySelectorAll('#keys tbody tr').length`))

	checked := denial{Command: "rl.slide", Policy: "api", Key: "api:tenant:7", ID: id("api:tenant:7"), Limit: 100, Window: 60_000, Used: 100}
	blocked := denial{Command: "rl.slide", Policy: "api", Key: "api:tenant:8", ID: id("api:tenant:8"), RetryAfter: 1000}
	f.set(func() {
		checked.Time, blocked.Time = f.now, f.now
		f.shown.Denials = []group{{Policy: "api", Count: 12_345, Keys: []denial{checked, blocked}}, {Prefix: "tenant:", Count: 3, Keys: []denial{checked}}}
	})
	p.sees("#denials tbody tr:nth-child(1)", "policy api api:tenant:7 RL.SLIDE, 100 per 1 min, used 100")
	p.sees("#denials tbody tr:nth-child(1)", "1 more key 12.3K")
	p.click("#denials summary")
	p.sees("#denials tbody tr:nth-child(1) details", "api:tenant:8")
	require.False(t, eval[bool](p, `document.querySelector('dialog').open`), "only a click beside the list follows the row's link")
	f.set(func() { f.shown.Denials[0].Keys[0], f.shown.Denials[0].Keys[1] = blocked, checked })
	p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 5, 5))
	p.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	p.sees("#denials tbody tr:nth-child(1)", "policy api api:tenant:8 RL.SLIDE, blocked by an override, retry after 1 s")
	p.sees("#denials tbody tr:nth-child(1) details[open]", "api:tenant:7")
}

// What SHADOW would deny is shown, and is nowhere among what was denied.
func TestPageShowsWhatSHADOWWouldDeny(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	f.set(func() {
		f.live = func() { f.next = point{Decisions: 1234, Denied: 0, Shadow: 56} }
		f.shown.Keys = []key{{Key: "trial", ID: id("trial"), Rate: 8, Shadow: 1000, Limit: 10, Remaining: 3, Shards: 1, trial: 7}}
		f.shown.Denials = []group{{Prefix: "trial", Count: 1, Keys: []denial{{Time: f.now, Command: "rl.slide", Key: "trial", ID: id("trial"), Limit: 10, Window: 60_000, Used: 10, Shadow: true}}}}
		f.states = []state{
			{Command: "rl.slide", Window: 60_000, Parameter: param{"buckets": 1}, Used: 1, Limit: 2, Remaining: 1},
			{Command: "rl.slide", Window: 60_000, Parameter: param{"buckets": 1}, Used: 3, Limit: 4, Remaining: 1, Shadow: true},
		}
	})
	p := open(t, f.URL, 1280, 900, "light")
	p.sees("#now", "SHADOW would deny 56 /s")
	p.sees("#keys tbody", "trial SHADOW would deny 7 /s 8 0 %")
	p.sees("#denials tbody", "trial not denied: SHADOW only tries the limit RL.SLIDE, 10 per 1 min")
	p.click(row("trial") + " a")
	p.sees("#states .state:nth-child(1)", "RL.SLIDE, 1 min 1 of 2 used")
	p.sees("#states .state:nth-child(2)", "RL.SLIDE, 1 min, SHADOW 3 of 4 used")
}

func TestPageBeforeTheFirstDecision(t *testing.T) {
	t.Parallel()
	f := serve(t, snapshot{Version: "0.1.0", Engine: "embedded", Port: 6390, Memory: &memory{Used: 3 << 19, Max: 64 << 20, Keys: 1}})
	p := open(t, f.URL, 1280, 900, "light")
	p.sees("#keys-empty", "No decision yet. To make the first one, type redis-cli -h 127.0.0.1 -p 6390 RL.SLIDE tenant:42 100 60")
	p.sees("#denials-empty", "Nothing was turned away.")
	p.sees("#memory", "1.5 MB of 64.0 MB · 1 key")
	p.sees("#about", "embedded engine")
	p.sees("#now", "Turned away – none in 5 min")

	f.set(func() { f.next = point{Decisions: 1, Denied: 0} })
	p.sees("#keys-empty", "No key is busy now.")
}

func TestPageWhileItLoads(t *testing.T) {
	t.Parallel()
	f := serve(t, snapshot{})
	f.set(func() { f.silent = true })
	p := open(t, f.URL, 1280, 900, "light")
	require.Equal(t, "connecting", p.text("#link"))
	require.Equal(t, "Waiting for the first second.", p.text("#keys-empty"))
}

func TestChosenKeyIsShown(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	p.sees("#link", "live")
	p.click(row("tenant:42") + " td:nth-child(4)") // the whole row is a link
	p.sees("#states .state:first-child", "RL.SLIDE, 1 min 100,000 of 100,000 used Remaining 0 Charged by 1,590 calls a second Forgotten in 1 min Node 10.0.0.11:6379")
	p.sees("#states .state:first-child tbody", "2 10.0.0.11:6379 12 11,304 710 ms")
	p.sees("#states .state:nth-child(2)", "RL.FIXED, 1 d 1,204,511 of 5,000,000 used")
	require.Equal(t, "tenant:42", p.text("#detail-key"))

	f.set(func() {
		f.states = []state{{Command: "rl.counter", Window: 10_000, Parameter: param{"buckets": 10}, Used: 3, Limit: 4, Remaining: 1}}
	})
	p.sees("#states", "RL.COUNTER, 10 s, 10 sub-windows 3 of 4 used Remaining 1")
	p.holds(`document.querySelectorAll('#states .state').length === 1 && document.querySelector('#states table').hidden`)
	f.set(func() {
		f.states[0].Held, f.states[0].Holds, f.states[0].Remaining, f.states[0].Lapsed = 1, 2, 0, 4
		f.states = append(f.states, state{Command: "rl.acquire", Parameter: param{"buckets": 1}, Held: 3, Holds: 3, Limit: 5, Remaining: 2, Node: "a:1"},
			state{Command: "rl.bucket", Window: 1000, Parameter: param{"refill": 5000}, Used: 1, Limit: 2, Remaining: 1})
	})
	p.sees("#states .state:nth-child(1)", "3 of 4 used Remaining 0 Charged by 0 calls a second Forgotten in 0 ms Node Held 1 by 2 reservations Lapsed 4")
	p.sees("#states .state:nth-child(2)", "RL.ACQUIRE 3 of 5 slots held Remaining 2 Forgotten in 0 ms Node a:1 Held 3 by 3 leases Lapsed 0")
	p.sees("#states .state:nth-child(3)", "RL.BUCKET, 1 s, refill 5,000 1 of 2 used")
	f.set(func() {
		f.states = nil
		for _, calendar := range []string{"", "day UTC", "day Europe/Berlin"} {
			f.states = append(f.states, state{Command: "rl.fixed", Window: 86_400_000, Calendar: calendar, Parameter: param{"buckets": 1}, Used: int64(len(calendar)), Limit: 17})
		}
	})
	p.sees("#states .state:nth-child(1)", "RL.FIXED, 1 d 0 of 17 used")
	p.sees("#states .state:nth-child(2)", "RL.FIXED, day UTC 7 of 17 used")
	p.sees("#states .state:nth-child(3)", "RL.FIXED, day Europe/Berlin 17 of 17 used")
	p.sees("#verdict", "The limit of 17 per day Europe/Berlin is reached.")
	f.set(func() { f.states = []state{} })
	p.sees("#said", "Nothing is counted for this key now.")

	p.press(kb.Escape)
	p.holds(`!document.querySelector('dialog').open && location.hash === ''`)
	p.click("#denials tbody tr:nth-child(2) a")
	p.sees("#detail-key", "user:81723:login")
	p.do(chromedp.NavigateBack())
	p.holds(`!document.querySelector('dialog').open`)

	p.do(chromedp.Navigate(f.URL + "#key=" + id("tenant:7")))
	p.sees("#detail-key", "tenant:7")
	p.click("#close")
	p.holds(`!document.querySelector('dialog').open`)
}

func TestErrorsAboutAKeyAreShown(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	p.sees("#link", "live")
	p.expectFailures()
	f.set(func() { f.refuse = "the user may not run rl.inspect on this key" })
	p.click(row("tenant:42") + " a")
	p.sees("#said", "the user may not run rl.inspect on this key")
	require.Contains(t, eval[string](p, `document.querySelector('#said').className`), "trouble")
	f.set(func() { f.refuse = "" })
	p.sees("#states", "RL.SLIDE")
	p.holds(`document.querySelector('#said').textContent === ''`)
}

func TestResetAsksFirst(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL+"#key="+id("tenant:42"), 1280, 900, "light")
	asked := func() (ids []string) {
		f.set(func() { ids = f.resets })
		return ids
	}
	p.click("#reset")
	p.sees("#ask", "Forget everything that is counted for this key?")
	p.holds(`document.activeElement.id === 'keep'`)
	p.press(kb.Escape) // closes the confirmation and leaves the key open
	p.holds(`document.querySelector('#ask').hidden && document.querySelector('dialog').open`)
	p.click("#reset")
	p.click("#keep")
	p.holds(`document.querySelector('#ask').hidden`)
	require.Empty(t, asked())

	p.click("#reset")
	p.click("#forget")
	p.sees("#done", "The key is reset.")
	require.Equal(t, []string{id("tenant:42")}, asked())

	p.expectFailures()
	f.set(func() { f.refuse = "resetting keys is disabled; to allow it, set page-admin yes" })
	p.click("#reset")
	p.click("#forget")
	p.sees("#done", "The key may not have been reset: resetting keys is disabled; to allow it, set page-admin yes")

	f.set(func() { f.shown.Admin = false })
	p.holds(`document.querySelector('#reset').hidden && document.querySelector('#ask').hidden`)
}

func TestKeysAreNeverMarkup(t *testing.T) {
	t.Parallel()
	hostile := []struct{ key, shown string }{
		{`<img src=x onerror="document.title='hacked'">`, `<img src=x onerror="document.title='hacked'">`},
		{`"><script>document.title='hacked'</script>`, `"><script>document.title='hacked'</script>`},
		{"javascript:alert(1)", "javascript:alert(1)"},
		{"user\u202e24:tnanet", `user\u202e24:tnanet`},
		{"a\x00b\r\nc\x1b[31m", `a\u0000b\u000d\u000ac\u001b[31m`},
		{"__proto__", "__proto__"},
		{"\xff\xfe", "\ufffd"},
		{strings.Repeat("long", 1024), strings.Repeat("long", 1024)},
	}
	f := serve(t, snapshot{Version: "0.1.0", Engine: "redis", Admin: true})
	f.set(func() {
		for _, h := range hostile {
			text := strings.ToValidUTF8(h.key, "\ufffd")
			f.shown.Keys = append(f.shown.Keys, key{Key: text, ID: id(h.key), Rate: 5, Admitted: 5, Limit: 10, Remaining: 5, Shards: 1})
			d := denial{Time: 1, Command: "rl.slide", Key: text, ID: id(h.key), Limit: 10, Window: 1000, Node: text, Fail: text, Client: text}
			f.shown.Denials = append(f.shown.Denials, group{Policy: text, Keys: []denial{d, d}}, group{Prefix: text, Keys: []denial{d, d}})
			f.shown.Problems = append(f.shown.Problems, problem{Page: true, Text: text})
		}
		f.shown.Nodes = []node{{Name: hostile[0].key, State: "down", Why: hostile[1].key}}
		f.states = []state{{Command: hostile[0].key, Window: 1000, Parameter: param{"buckets": 1}, Used: 1, Limit: 2, Node: hostile[1].key, Shards: []shard{{Node: hostile[0].key}}}}
	})
	p := open(t, f.URL, 360, 800, "light")
	p.holds(fmt.Sprintf(`document.querySelectorAll('#keys tbody tr').length === %d`, len(hostile)))
	for _, h := range hostile {
		require.Equal(t, h.shown, eval[string](p, `document.querySelector(`+quote(row(h.key))+`).querySelector('bdi').textContent`))
		p.do(chromedp.Navigate(f.URL + "#key=" + id(h.key)))
		p.sees("#states", "of 2 used")
		require.Equal(t, h.shown, eval[string](p, `document.querySelector('#detail-key').textContent`))
		require.Zero(t, overflow(p))
	}
	require.Zero(t, eval[int](p, `document.querySelectorAll('img, body script:not(:last-child)').length`))
	require.NotContains(t, eval[string](p, `document.title`), "hacked")
}

// overflow returns by how many pixels the page, or the open key, is wider than the screen.
func overflow(p *tab) int {
	return eval[int](p, `Math.max(document.documentElement.scrollWidth - innerWidth, document.querySelector('dialog').scrollWidth - innerWidth, 0)`)
}

func TestNarrowWindowHasNoHorizontalScrolling(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 360, 740, "dark")
	p.sees("#keys tbody", "tenant:42")
	for _, width := range []int64{360, 320, 768, 1024, 1280, 2560} {
		p.resize(width, 740)
		p.holds(fmt.Sprintf(`innerWidth === %d`, width))
		require.Zero(t, overflow(p), "%d pixels", width)
	}
	p.resize(320, 740)
	p.click(row("tenant:42") + " a")
	p.sees("#states", "RL.FIXED")
	require.Zero(t, overflow(p), "with a key")
}

func TestThemeIsThatOfTheSystemOrChosen(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "dark")
	const light, dark = "rgb(247, 247, 244)", "rgb(13, 14, 17)"
	paper := func(want string) {
		t.Helper()
		p.holds(fmt.Sprintf(`getComputedStyle(document.documentElement).backgroundColor === %q`, want))
	}
	paper(dark)
	p.prefers("prefers-color-scheme", "light")
	paper(light)
	p.click("#theme")
	p.click("#theme")
	require.Equal(t, "Theme: dark", eval[string](p, `document.querySelector('#theme').ariaLabel`))
	paper(dark)
	p.do(chromedp.Reload())
	paper(dark)
	p.click("#theme")
	paper(light)
	p.holds(`getComputedStyle(document.querySelector('main')).transitionDuration !== '0s'`)
	p.prefers("prefers-reduced-motion", "reduce")
	p.holds(`getComputedStyle(document.querySelector('main')).transitionDuration === '0s'`)
}

func TestPageIsUsableByKeyboard(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	p.sees("#keys tbody", "tenant:42")
	focused := func() string {
		return eval[string](p, `(e => e.id || e.getAttribute('aria-label') || e.textContent)(document.activeElement)`)
	}
	var order []string
	for range 7 {
		p.press(kb.Tab)
		order = append(order, focused())
		require.NotEqual(t, "none", eval[string](p, `getComputedStyle(document.activeElement).outlineStyle`), "focus is seen on %s", order[len(order)-1])
		if focused() == "now" {
			p.press(kb.ArrowLeft, kb.ArrowLeft)
			p.holds(`/ago: Decisions [\d,]+\u00a0\/s, Turned away [\d.]+\u00a0%/.test(document.querySelector('#read').textContent)`)
			p.sees("#now", "ago")
			p.press(kb.Home)
			p.holds(`/^[45]\smin/.test(document.querySelector('#now .note').textContent)`)
			p.press(kb.Escape)
			p.sees("#now", "most in 5 min")
		}
	}
	require.Equal(t, []string{"theme", "now", "Busiest keys", "All proxies", "Key to look up", "tenant:42", "tenant:7:search"}, order)

	p.press(kb.Enter)
	p.sees("#detail-key", "tenant:7:search")
	p.sees("#states", "RL.SLIDE")
	for range 6 {
		p.press(kb.Tab)
		require.True(t, eval[bool](p, `document.activeElement === document.body || document.querySelector('dialog').contains(document.activeElement)`), "the focus stays with the key")
	}
	p.press(kb.Escape)
	p.holds(`!document.querySelector('dialog').open`)
	require.Equal(t, "tenant:7:search", focused(), "where it was before")

	p.click("#find input")
	p.press("ключ/ü?", kb.Enter)
	p.sees("#detail-key", "ключ/ü?")
	require.Equal(t, "#key="+id("ключ/ü?"), eval[string](p, `location.hash`))
}

func TestRowsHoldStillUnderThePointer(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	first := `document.querySelector('#keys tbody bdi').textContent`
	p.holds(`!!document.querySelector('#keys tbody tr')`)
	move := func(x, y float64) {
		t.Helper()
		p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y))
	}
	move(200, 420)
	f.set(func() {
		f.shown.Keys[0].Rate, f.shown.Keys[1].Rate = 1, 99_000
		f.shown.Keys[0], f.shown.Keys[1] = f.shown.Keys[1], f.shown.Keys[0]
		f.live = nil
	})
	p.sees(row("tenant:7:search"), "99K")
	require.Equal(t, "tenant:42", eval[string](p, first), "it holds still")
	move(5, 5)
	p.holds(first + ` === 'tenant:7:search'`)
}

func TestPointerReadsEarlierSeconds(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	p.sees("#now", "most in 5 min")
	p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 60, 190))
	p.sees("#now figure:nth-child(1)", "ago")
	p.sees("#now figure:nth-child(5)", "ago")
	require.Equal(t, 5, eval[int](p, `[...document.querySelectorAll('.cross')].filter(e => !e.hidden).length`))
	p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 60, 600))
	p.sees("#now figure:nth-child(5)", "most in 5 min")
}

func TestLostConnectionIsSaidAndEnds(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	p.sees("#link", "live")
	require.False(t, eval[bool](p, `!document.querySelector('#lost').hidden`))
	p.expectFailures()
	f.set(func() { f.refuse = "too many streams are open" })
	f.hangUp()
	p.sees("#lost", "No connection since ")
	p.sees("#lost", "The answer is: too many streams are open. The page keeps trying.")
	require.Equal(t, "offline", p.text("#link"))
	require.Equal(t, "offline · rlproxy", eval[string](p, `document.title`))
	require.Equal(t, "alert", eval[string](p, `document.querySelector('#lost span').role`))
	p.holds(`Number(getComputedStyle(document.querySelector('main')).opacity) < 0.5`)

	f.set(func() { f.refuse = "" })
	p.sees("#link", "live")
	p.holds(`document.querySelector('#lost').hidden`)
	p.holds(`getComputedStyle(document.querySelector('main')).opacity === '1'`)
	require.Equal(t, 1, f.watchers())
}

func TestSilentConnectionIsLost(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	p.sees("#link", "live")
	f.set(func() { f.silent = true })
	p.sees("#lost", "No connection since ")
	f.set(func() { f.silent = false })
	p.sees("#link", "live")
}

func TestHiddenPageIsNotConnected(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	p.sees("#link", "live")
	hide := func(hidden bool) {
		p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`Object.defineProperty(document, 'hidden', { value: %t, configurable: true });
			document.dispatchEvent(new Event('visibilitychange'))`, hidden)))
	}
	hide(true)
	proxytest.Eventually(t, "the end of the stream", func() bool { return f.watchers() == 0 })
	seen := eval[int](p, `snapshot.time`)
	hide(false)
	p.holds(fmt.Sprintf(`snapshot.time > %d`, seen))
	require.Equal(t, 1, f.watchers())
	require.Equal(t, "live", p.text("#link"))
}

func TestNewVersionReloadsThePage(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	p.holds(`!!snapshot && (window.before = true)`)
	f.set(func() { f.shown.Version = "0.2.0" })
	p.holds(`typeof snapshot !== 'undefined' && snapshot?.version === '0.2.0' && !window.before`)
}

// The clock of rlproxy's machine may be set back, and a name may occur twice for a moment.
func TestPageGoesOnAfterOddSnapshots(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	p.holds(`!!snapshot`)
	p.do(chromedp.Evaluate[chromedp.Void](`{
		disconnect();
		const base = structuredClone(snapshot);
		for (let i = 1; i <= 9; i++) {
			const s = structuredClone(base);
			s.time = s.point.t = base.time - 3600_000 + i * 1000;
			s.point.decisions = 1234;
			s.nodes.push(s.nodes[0]);
			take(s);
		}
		disconnect();
	}`))
	p.holds(`points.at(-1).decisions === 1234`)
	p.holds(`[...trails.values()].every(t => t.length === 9)`)
	p.holds(`document.querySelectorAll('#nodes tbody tr').length === snapshot.nodes.length`)
}

// TestPageDoesNotGrow shows a quarter of an hour with ever new keys and denials.
func TestPageDoesNotGrow(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	p.holds(`!!snapshot`)
	pass := func(seconds int) (heap float64) {
		for range seconds / 100 {
			p.do(chromedp.Evaluate[chromedp.Void](`{
				disconnect();
				const base = structuredClone(snapshot);
				for (let i = 1; i <= 100; i++) {
					const s = structuredClone(base);
					s.time = s.point.t = base.time + i * 1000;
					for (const k of s.keys) k.id = encode(k.key = k.key.slice(0, 20) + s.time);
					for (const g of s.denials) for (const d of g.keys) d.id = encode(d.key = g.prefix = d.key.slice(0, 20) + (d.time = s.time));
					take(s);
				}
				disconnect();
			}`))
		}
		_, err := chromedp.Call(p.ctx, heapprofiler.CollectGarbage, cdp.Empty{})
		require.NoError(t, err)
		usage, err := chromedp.Call(p.ctx, runtime.GetHeapUsage, cdp.Empty{})
		require.NoError(t, err)
		return usage.UsedSize
	}
	before := pass(200)
	elements := eval[int](p, `document.querySelectorAll('*').length`)
	after := pass(800)
	require.Equal(t, elements, eval[int](p, `document.querySelectorAll('*').length`))
	require.LessOrEqual(t, eval[int](p, `points.length`), 300)
	require.LessOrEqual(t, eval[int](p, `trails.size`), 20)
	require.Less(t, after-before, 500e3, "bytes of the heap")
}
