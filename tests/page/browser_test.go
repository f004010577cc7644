// Package page tests the page of rlproxy in a real Chromium: against a server that says
// whatever a test needs to see, and against rlproxy itself.
package page

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"
)

// browser is the one Chromium of all tests. Each test has a profile of its own in it.
var browser context.Context

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox)
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	var stop context.CancelFunc
	browser, stop = chromedp.NewContext(allocator)
	defer stop()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "starting chromium:", err)
		return 1
	}
	proxytest.Binary = "../../bin/rlproxy" // make test-page builds it
	return m.Run()
}

// tab is a page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string // what the browser had to complain of, guarded by mu
	offline    bool     // whether requests may fail, guarded by mu
}

// open opens an address in a profile of its own, on a screen of a size in pixels, for a
// reader who prefers a colour scheme, light or dark. The test fails if the page logs, throws
// or violates its policy.
func open(t *testing.T, url string, width, height int64, scheme string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Do(ctx)) // the tab lasts as long as this context
	require.NoError(t, chromedp.Listen(ctx, p.listen))
	p.prefers("prefers-color-scheme", scheme)
	p.resize(width, height)
	p.do(chromedp.Navigate(url))
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		require.Empty(t, p.complaints, "the browser complains")
	})
	return p
}

// patience is how long a browser may take for what a test waits for: several of them run beside each other, with proxies.
const patience = 3 * proxytest.Patience

func (p *tab) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		p.complaints = append(p.complaints, fmt.Sprintf("console.%s %s", e.Type, e.Args[0].Value))
	case *runtime.EventExceptionThrown:
		p.complaints = append(p.complaints, fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.Exception.Description))
	case *log.EventEntryAdded:
		if e.Entry.Source != log.EntrySourceNetwork || !p.offline {
			p.complaints = append(p.complaints, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

// expectFailures has the test go on when requests of the page fail.
func (p *tab) expectFailures() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offline = true
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, actions...))
}

// eval returns the value of a JavaScript expression.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(p.t, err, expression)
	return value
}

// quote makes a JavaScript string of s.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string is always JSON
	}
	return string(b)
}

// text returns the text of an element as a person sees it: in one line, with plain spaces.
func (p *tab) text(selector string) string {
	p.t.Helper()
	seen := eval[string](p, `document.querySelector(`+quote(selector)+`)?.innerText ?? 'no such element'`)
	return strings.Join(strings.Fields(strings.ReplaceAll(seen, "\u00a0", " ")), " ")
}

// sees waits until an element has a text in it.
func (p *tab) sees(selector, text string) {
	p.t.Helper()
	var last string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if last = p.text(selector); strings.Contains(last, text) {
			return
		}
	}
	require.Fail(p.t, "not on the page", "%s should contain %q; it is %q", selector, text, last)
}

// holds waits until a JavaScript expression is true, on whatever page there is by then.
func (p *tab) holds(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if is {
			return
		}
		require.NoError(p.t, ctx.Err(), "%s does not come true: %v", expression, err)
		time.Sleep(20 * time.Millisecond)
	}
}

// press presses keys, one after the other.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}

// click clicks on an element as a person does: at the place where it is seen.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// resize gives the page a screen of another size, that of a phone if it is narrow.
func (p *tab) resize(width, height int64) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	})
	require.NoError(p.t, err)
}

// prefers changes a setting of the reader's system.
func (p *tab) prefers(feature, value string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: feature, Value: value}},
	})
	require.NoError(p.t, err)
}
