package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

func TestProblemsComeFirst(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 360, 740, "light")
	p.sees("#link", "live")
	require.True(t, eval[bool](p, `document.querySelector('#problems').hidden`))
	f.set(func() {
		f.shown.Problems = []problem{{true, "Node a:1 is down."}, {true, "Requests are refused."}, {false, "A clock is wrong."}}
	})
	p.sees("#problems li:nth-child(1).page", "Urgent: Node a:1 is down.")
	p.sees("#problems li:nth-child(3):not(.page)", "Warning: A clock is wrong.")
	p.holds(`document.title.startsWith('(2) ')`)
	require.True(t, eval[bool](p, `document.querySelector('#problems').getBoundingClientRect().bottom < document.querySelector('#now').getBoundingClientRect().top`))
	require.Zero(t, overflow(p))
	f.set(func() { f.shown.Problems = []problem{} })
	p.holds(`document.querySelector('#problems').hidden && !document.title.startsWith('(')`)
}

func TestAllProxiesAreShownTogether(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	f.answers = map[string]any{"fleet": map[string]any{"proxies": 3, "keys": []key{{Key: "everywhere", ID: id("everywhere"), Rate: 77, Decisions: 40, Admitted: 10, Denied: 20, Refused: 10, Fail: 10, Limit: 5, Remaining: 1, Shards: 2}}}}
	p := open(t, f.URL, 1280, 900, "dark")
	p.sees("#keys", "tenant:42")
	p.click("[data-view=fleet]")
	p.sees("#view-note", "Added up over 3 proxies.")
	p.sees("#keys tbody", "everywhere no node answered 25.0 % 77 75.0 % 1 of 5 2")
	require.NotContains(t, p.text("#keys"), "tenant:42")
	require.Equal(t, "true", eval[string](p, `document.querySelector('[data-view=fleet]').ariaPressed`))
	p.expectFailures()
	f.set(func() { f.refuse = "too many requests are in progress" })
	p.sees("#view-note", "too many requests are in progress")
	f.set(func() { f.refuse = "" })
	p.sees("#view-note", "Added up over 3 proxies.")
	p.click("[data-view=keys]")
	p.sees("#keys", "tenant:42")
	p.holds(`document.querySelector('#view-note').textContent === ''`)
}

func TestPoliciesAreShownWithTheirOverrides(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	override := func(pattern, rule string, decisions, away int) map[string]any {
		return map[string]any{"pattern": pattern, "rule": rule, "decisions": decisions, "turned_away": away}
	}
	api := map[string]any{"name": "api", "rule": "SLIDE 100 1m", "stored": false, "decisions": 1000, "denied": 500, "refused": 100, "shadow": 0, "count": 30,
		"overrides": []any{override("tenant:42", "1000 1m", 50, 20), override("<b>bad*", "BLOCKED", 0, 0)}}
	answer := map[string]any{"unknown": "", "count": 130, "policies": []any{api}}
	f.answers = map[string]any{"policies": answer}
	p := open(t, f.URL, 1280, 900, "light")
	p.sees("#keys", "tenant:42")
	require.True(t, eval[bool](p, `document.querySelector('[data-view=policies]').hidden`), "the user may not read them")
	f.set(func() { f.shown.Policies = true })
	p.click("[data-view=policies]")
	p.sees("#view-note", "130 policies; the 1 that deny most are shown.")
	p.sees("#policies tbody", "api SLIDE 100 1m, from the configuration 30 overrides, 2 shown – – 600")
	f.set(func() { api["decisions"], api["denied"], api["refused"] = 2000, 1000, 350 })
	p.sees("#policies .away", "75.0 %")
	p.holds(`document.querySelector('#policies .away').title.replaceAll('\u00a0', ' ') === 'by limit 50.0 %, no answer of a node 25.0 %'`)
	p.click("#policies summary")
	p.sees("#policies .overrides", "tenant:42 1000 1m 50 decisions, 20 turned away <b>bad* BLOCKED not asked about yet")
	f.set(func() { api["overrides"] = []any{override("tenant:42", "1000 1m", 60, 20)} })
	p.sees("#policies details[open] .overrides", "60 decisions")
	f.set(func() { answer["policies"], answer["count"] = []any{}, 0 })
	p.sees("#keys-empty", "No policy yet. To set one, type redis-cli -h 127.0.0.1 RL.POLICY SET api SLIDE 100 60")
}

// What is asked at night about one key.
func TestAKeySaysWhatWouldLetItIn(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	ask := func(about map[string]any, states ...state) {
		f.set(func() { f.about, f.states = about, append([]state{}, states...) })
	}
	full := state{Command: "rl.slide", Window: 60_000, Parameter: param{"buckets": 1}, Used: 90, Held: 10, Holds: 2, Limit: 100, TTL: 59_000, Node: "a:1"}
	last := denial{Time: f.now, Command: "rl.slide", Key: "tenant:42", ID: id("tenant:42"), Limit: 100, Window: 60_000, Used: 100, Node: "a:1", Client: "10.0.0.9:1 shop", Count: 7}
	tally := func(ago, denied int64) map[string]any {
		return map[string]any{"t": f.now - ago, "rate": 9, "admitted": 100, "denied": denied, "refused": 0, "fail": 3, "shadow": 0, "limit": 100, "remaining": 25}
	}
	ask(map[string]any{
		"policy": map[string]any{"name": "api", "rule": "SLIDE 10 1m", "pattern": "tenant:4*", "override": "100 1m"},
		"denial": last, "trail": []any{tally(20_000, 10), tally(10_000, 60)}, "shards": 3,
	}, full)
	p := open(t, f.URL+"#key="+id("gone"), 1280, 900, "light")
	p.sees("#verdict.trouble", "The limit of 100 per 1 min is reached. There is room again as units leave the window, which is empty in 59 s, or when one of 2 reservations ends.")
	p.sees("#facts", "Policy api: SLIDE 10 1m Override tenant:4*: 100 1m Last turned away")
	p.sees("#facts", "RL.SLIDE, 100 per 1 min, used 100 By client 10.0.0.9:1 shop Let in so far 100 Denied so far 60 No node answered 3 Node 10.0.0.1:6379 Shards 3")
	p.sees("#past", "Used, last 5 min 75 of 100 Turned away, last 5 min 5 /s")
	require.Equal(t, 2, eval[int](p, `[...document.querySelectorAll('#past path:nth-child(2)')].filter(e => e.getAttribute('d')).length`))

	last.RetryAfter = 100_000_000
	ask(map[string]any{"denial": last}, full)
	p.sees("#verdict", "for a request like the last one, or when")
	ask(map[string]any{"policy": map[string]any{"name": "api", "rule": "SLIDE 10 1m", "pattern": "bad*", "override": "BLOCKED"}})
	p.sees("#verdict.trouble", "Every request is turned away, because the override bad* of policy api blocks this key. To let it in, change the override.")
	ask(map[string]any{"policy": map[string]any{"name": "api", "rule": "SLIDE 10 1m", "pattern": "own:*", "override": "UNLIMITED"}})
	p.sees("#verdict:not(.trouble)", "Every request is let in, because the override own:* of policy api is UNLIMITED.")
	last.Fail, last.Used, last.Time = "local", -1, f.now
	ask(map[string]any{"denial": last})
	p.sees("#verdict.trouble", "Its limit is reached by what this proxy has counted, because a:1 did not answer.")
	p.sees("#facts", ", RL.SLIDE, 100 per 1 min, counted by this proxy alone: FAIL LOCAL By client")
	last.Fail = "closed"
	ask(map[string]any{"denial": last})
	p.sees("#verdict.trouble", "Its last requests were turned away because a:1 did not answer. It is let in when that node is up.")
	p.sees("#facts", ", no node answered: FAIL CLOSED By client")
	full.Remaining = 40
	ask(nil, full)
	p.sees("#verdict", "The next request is let in: there is room for 40 more.")
	full.Remaining, full.Held, full.Command, full.Window, full.Limit = 0, 5, "rl.acquire", 0, 5
	ask(nil, full)
	p.sees("#verdict", "The limit of 5 slots is reached. There is room again when one of 2 leases ends.")
	ask(nil)
	p.sees("#said", "Nothing is counted for this key now.")
	p.holds(`document.querySelector('#verdict').textContent === '' && document.querySelector('#past').hidden`)
}

func TestSlashLooksUpAKey(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	p.sees("#link", "live")
	p.press("/")
	p.holds(`document.activeElement.matches('#find input')`)
	p.press("/v1/orders", kb.Enter)
	p.sees("#detail-key", "/v1/orders")
	p.press("/")
	p.holds(`document.querySelector('dialog').contains(document.activeElement) || document.activeElement === document.body`)
	p.press(kb.Escape)
	p.holds(`!document.querySelector('dialog').open`)
}

// crowded is a server with as much as a page can have to show.
func crowded(t *testing.T) *fake {
	f := showcase(t)
	f.set(func() {
		long := strings.Repeat("long-", 800)
		for i := range 12 {
			f.shown.Nodes = append(f.shown.Nodes, node{Name: fmt.Sprintf("redis-%d.production.eu-central-1.example.internal:6379", i), State: "up", Latency: 200 + int64(i), Offset: 1_234_567, Wrong: i == 3, Queue: 12_345})
			f.shown.Keys = append(f.shown.Keys, key{Key: long + fmt.Sprint(i), ID: id(long + fmt.Sprint(i)), Rate: 1_234_567, Limit: 1e12, Remaining: 999_999_999_999, Shards: 64, deny: 0.5, trial: 999_999})
			d := denial{Time: f.now, Command: "rl.slide", Key: long, ID: id(long), Limit: 1e12, Window: 86_400_000, Used: 1e12, RetryAfter: 86_399_000, Node: "redis.production.example.internal:6379", Client: "[2001:db8:1234:5678:9abc:def0:1234:5678]:65535 " + strings.Repeat("client", 20), Count: 5_000_000}
			f.shown.Denials = append(f.shown.Denials, group{Policy: strings.Repeat("p", 64), Prefix: fmt.Sprint(i), Count: 123_456_789, Keys: []denial{d, d, d}})
			f.shown.Problems = append(f.shown.Problems, problem{Page: i < 6, Text: fmt.Sprintf("%d: %s", i, strings.Repeat("A problem ", 20))})
		}
		f.next = point{Decisions: 123_456_789, Denied: 61_728_394, Refused: 12_345_678, Fail: 22_345_678, Through: 10_000_000, Shadow: 11_111_111, P50: ptr(int64(999_999)), P99: ptr(int64(59_999_999))}
		f.live = nil
	})
	return f
}

// 640 pixels are a window of 1280 at a zoom of 200 %.
func TestNothingIsCutOff(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*fake{"usual": showcase(t), "crowded": crowded(t)} {
		p := open(t, f.URL, 1280, 900, "light")
		p.holds(`document.querySelectorAll('#denials tbody tr').length > 4`)
		if name == "crowded" {
			p.sees("#now", "1.0 s")
		}
		for _, width := range []int64{320, 360, 640, 1000, 1280, 1920} {
			p.resize(width, 900)
			p.holds(fmt.Sprintf(`innerWidth === %d`, width))
			require.Zero(t, overflow(p), "%s, %d pixels", name, width)
			cut := eval[string](p, `[...document.querySelectorAll('h1, h2, figcaption, .now, .note, button, thead th, .under, summary, .views, #problems li, #link, #nodes td, #denials td:first-child, #denials td:last-child, #keys td')]
				.filter(e => e.offsetParent && !e.classList.contains('sr') && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline')
				.map(e => e.className + ': ' + e.textContent.slice(0, 60)).slice(0, 5).join(' | ')`)
			require.Empty(t, cut, "%s, %d pixels", name, width)
		}
	}
}

// A long key is cut in its row, and is whole in its panel and in its title.
func TestLongKeysCanBeRead(t *testing.T) {
	t.Parallel()
	f := crowded(t)
	p := open(t, f.URL, 1280, 900, "light")
	long := strings.Repeat("long-", 800) + "0"
	p.holds(`!!document.querySelector(` + quote(row(long)) + `)`)
	require.Less(t, eval[int](p, `document.querySelector(`+quote(row(long))+`).offsetHeight`), 90)
	require.Equal(t, long, eval[string](p, `document.querySelector(`+quote(row(long)+" a")+`).title`))
	p.do(chromedp.Navigate(f.URL + "#key=" + id(long)))
	p.sees("#detail-key", long)
	require.Zero(t, overflow(p))
}

// The figures change, and nothing else moves.
func TestFiguresAreSteadyToRead(t *testing.T) {
	t.Parallel()
	f := showcase(t)
	p := open(t, f.URL, 1280, 900, "light")
	p.sees("#now", "most in 5 min")
	places := func() string {
		return eval[string](p, `[...document.querySelectorAll('figure, .chart, .now, #keys, #keys tbody tr, #nodes, #denials')].map(e => { const r = e.getBoundingClientRect(); return [r.x, r.y, r.width].map(Math.round).join(); }).join(' ')`)
	}
	require.Contains(t, eval[string](p, `getComputedStyle(document.querySelector('.now')).fontVariantNumeric`), "tabular-nums")
	before := places()
	for _, next := range []point{
		{Decisions: 9, Denied: 8, Refused: 1, Fail: 1, P50: ptr(int64(7)), P99: ptr(int64(8))},
		{Decisions: 123_456, Denied: 99, Shadow: 7, P50: ptr(int64(70_000)), P99: ptr(int64(800_000))},
		{},
	} {
		f.set(func() { f.live, f.next = nil, next })
		p.holds(fmt.Sprintf(`points.at(-1).decisions === %v`, next.Decisions))
		require.Equal(t, before, places())
	}
}

// Text has the contrast of WCAG AA with what is behind it, in both themes.
func TestTextHasContrast(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"light", "dark"} {
		f := showcase(t)
		f.set(func() {
			f.shown.Problems = []problem{{true, "Down."}, {false, "Wrong."}}
			k := &f.shown.Keys[0]
			k.Decisions, k.Fail, k.Refused = k.Decisions+1000, 1000, 1000
		})
		p := open(t, f.URL+"#key="+id("tenant:42"), 1280, 900, scheme)
		p.sees("#states", "used")
		p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 5, 5))
		low := eval[string](p, `(() => {
			const draw = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
			const paint = colours => { draw.clearRect(0, 0, 1, 1); for (const c of colours) { draw.fillStyle = c; draw.fillRect(0, 0, 1, 1); } return [...draw.getImageData(0, 0, 1, 1).data]; };
			const light = c => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => sum + part * (c[i] / 255 <= 0.04045 ? c[i] / 255 / 12.92 : ((c[i] / 255 + 0.055) / 1.055) ** 2.4), 0);
			const behind = e => e ? [...behind(e.parentElement), getComputedStyle(e).backgroundColor] : [];
			const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
			return [...document.querySelectorAll('body *')].filter(e => own(e) && e.getClientRects().length && !e.closest('svg, .sr, script, style')).map(e => {
				const back = behind(e), style = getComputedStyle(e);
				const [a, b] = [light(paint([...back, style.color])), light(paint(back))];
				return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e];
			}).filter(([ratio]) => ratio < 4.5).map(([ratio, e]) => ratio.toFixed(2) + ' ' + e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 30)).slice(0, 9).join(' | ');
		})()`)
		require.Empty(t, low, scheme)
	}
}
