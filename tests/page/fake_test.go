package page

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/web/page"
)

// fake is a server with the page and an /api that says what the test wants to see. Its
// clock runs ten times as fast as ours.
type fake struct {
	*httptest.Server

	mu      sync.Mutex
	now     int64          // ms, of the newest snapshot
	history []point        // before the newest snapshot
	next    point          // the newest
	shown   snapshot       // but for its time and point
	states  []state        // of every key
	about   map[string]any // more fields of the answer about a key
	answers map[string]any // to /api/fleet and /api/policies
	refuse  string         // the error of every answer; empty: none
	resets  []string       // the ids for which a reset was asked
	cut     chan struct{}  // closed to end all streams
	streams int            // that are open
	silent  bool           // sends no snapshots
	live    func()         // called at each second with mu held, to change what is shown
}

type point struct {
	T         int64   `json:"t"`
	Decisions float64 `json:"decisions"`
	Denied    float64 `json:"denied"`
	Refused   float64 `json:"refused"`
	Fail      float64 `json:"fail"`
	Through   float64 `json:"through"`
	Shadow    float64 `json:"shadow"`
	P50       *int64  `json:"p50_us"`
	P99       *int64  `json:"p99_us"`
}

type snapshot struct {
	Time     int64     `json:"time"`
	Version  string    `json:"version"`
	Engine   string    `json:"engine"`
	Port     int       `json:"port"`
	Uptime   int64     `json:"uptime_s"`
	Admin    bool      `json:"admin"`
	Policies bool      `json:"policies"`
	Point    point     `json:"point"`
	Problems []problem `json:"problems"`
	Keys     []key     `json:"keys"`
	Nodes    []node    `json:"nodes"`
	Memory   *memory   `json:"memory,omitempty"`
	Denials  []group   `json:"denials"`
}

type problem struct {
	Page bool   `json:"page"`
	Text string `json:"text"`
}

type key struct {
	Key       string `json:"key"`
	ID        string `json:"id"`
	Rate      int64  `json:"rate"`
	Decisions int64  `json:"decisions"`
	Admitted  int64  `json:"admitted"`
	Denied    int64  `json:"denied"`
	Refused   int64  `json:"refused"`
	Fail      int64  `json:"fail"`
	Shadow    int64  `json:"shadow"`
	Limit     int64  `json:"limit"`
	Remaining int64  `json:"remaining"`
	Shards    int    `json:"shards"`

	deny  float64 // the share of its decisions that are denials
	trial int64   // what SHADOW would deny each second
}

type node struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Why     string `json:"why"`
	Latency int64  `json:"latency_us"`
	Offset  int64  `json:"offset_us"`
	Wrong   bool   `json:"wrong"`
	Queue   int64  `json:"queue"`
}

type memory struct {
	Used int64 `json:"used"`
	Max  int64 `json:"max"`
	Keys int64 `json:"keys"`
}

type group struct {
	Policy string   `json:"policy"`
	Prefix string   `json:"prefix"`
	Count  int64    `json:"count"`
	Keys   []denial `json:"keys"`
}

type denial struct {
	Time       int64  `json:"time"`
	Command    string `json:"command"`
	Policy     string `json:"policy"`
	Key        string `json:"key"`
	ID         string `json:"id"`
	Limit      int64  `json:"limit"`
	Window     int64  `json:"window_ms"`
	Used       int64  `json:"used"`
	RetryAfter int64  `json:"retry_after_ms"`
	Node       string `json:"node"`
	Fail       string `json:"fail"`
	Shadow     bool   `json:"shadow"`
	Count      int64  `json:"count"`
	Client     string `json:"client"`
}

type state struct {
	Command   string  `json:"command"`
	Window    int64   `json:"window_ms"`
	Calendar  string  `json:"calendar,omitempty"`
	Parameter param   `json:"parameter"`
	Used      int64   `json:"used"`
	Limit     int64   `json:"limit"`
	Remaining int64   `json:"remaining"`
	Node      string  `json:"node"`
	TTL       int64   `json:"ttl_ms"`
	Rate      int64   `json:"rate"`
	Shadow    bool    `json:"shadow"`
	Held      int64   `json:"held"`
	Holds     int64   `json:"holds"`
	Lapsed    int64   `json:"lapsed"`
	Shards    []shard `json:"shards"`
}

// param is the parameter of a state behind its name.
type param map[string]int64

type shard struct {
	Shard int    `json:"shard"`
	Node  string `json:"node"`
	Held  int64  `json:"held"`
	Used  int64  `json:"used"`
	Lease int64  `json:"lease_ms"`
}

// id is the name of a key in requests.
func id(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

func ptr[T any](v T) *T { return &v }

// serve starts a server that shows s.
func serve(t *testing.T, s snapshot) *fake {
	s.Keys, s.Nodes, s.Denials, s.Problems = []key{}, []node{}, []group{}, []problem{}
	f := &fake{now: time.Now().UnixMilli(), shown: s, cut: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", page.Serve)
	mux.HandleFunc("GET /api/stream", f.stream)
	mux.HandleFunc("GET /api/key", f.key)
	mux.HandleFunc("POST /api/reset", f.reset)
	for _, name := range []string{"fleet", "policies"} {
		mux.HandleFunc("GET /api/"+name, func(w http.ResponseWriter, _ *http.Request) {
			var value any
			f.set(func() { value = f.answers[name] })
			f.answer(w, value)
		})
	}
	f.Server = httptest.NewServer(mux)
	tick := time.NewTicker(100 * time.Millisecond)
	stop := make(chan struct{})
	go func() { // ends with the test
		for {
			select {
			case <-tick.C:
				f.second()
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		f.hangUp()
		f.Close()
	})
	return f
}

// set changes what the server says.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// second is what happens each second.
func (f *fake) second() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now += 1000
	f.next.T = f.now
	f.history = append(f.history, f.next)
	f.history = f.history[max(0, len(f.history)-300):]
	for i := range f.shown.Keys {
		k := &f.shown.Keys[i]
		denied := int64(float64(k.Rate) * k.deny)
		k.Decisions += k.Rate
		k.Admitted, k.Denied, k.Shadow = k.Admitted+k.Rate-denied, k.Denied+denied, k.Shadow+k.trial
	}
	if f.live != nil {
		f.live()
	}
}

// watchers returns how many streams are open.
func (f *fake) watchers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams
}

// hangUp ends all streams.
func (f *fake) hangUp() {
	f.set(func() {
		close(f.cut)
		f.cut = make(chan struct{})
	})
}

func (f *fake) stream(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	cut, history := f.cut, map[string]any{"points": f.history, "trails": map[string]any{}}
	refused := f.refuse != ""
	if !refused {
		f.streams++
	}
	f.mu.Unlock()
	if refused {
		f.answer(w, nil)
		return
	}
	defer f.set(func() { f.streams-- })
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(event string, data any) {
		b, _ := json.Marshal(data) // plain structs are always JSON
		// The page may be gone.
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, b)
		w.(http.Flusher).Flush()
	}
	send("history", history)
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		f.mu.Lock()
		s := f.shown
		s.Time, s.Point = f.now, f.next
		s.Point.T = f.now
		s.Keys = slices.Clone(s.Keys)
		silent := f.silent
		f.mu.Unlock()
		if !silent {
			send("snapshot", s)
		}
		select {
		case <-tick.C:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// answer sends a value, or the error of the test.
func (f *fake) answer(w http.ResponseWriter, value any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if f.refuse != "" {
		w.WriteHeader(http.StatusForbidden)
		value = map[string]string{"error": f.refuse}
	}
	_ = json.NewEncoder(w).Encode(value) // the page may be gone
}

func (f *fake) key(w http.ResponseWriter, r *http.Request) {
	name, _ := base64.RawURLEncoding.DecodeString(r.URL.Query().Get("id")) // the tests' own ids
	all := map[string]any{
		"key": strings.ToValidUTF8(string(name), "\ufffd"), "id": r.URL.Query().Get("id"), "node": "10.0.0.1:6379", "shards": 1, "trail": []any{},
	}
	f.set(func() {
		all["states"] = f.states
		maps.Copy(all, f.about)
	})
	f.answer(w, all)
}

func (f *fake) reset(w http.ResponseWriter, r *http.Request) {
	var ask struct{ ID string }
	_ = json.NewDecoder(r.Body).Decode(&ask) // an id that is missing is found by the test
	f.set(func() { f.resets = append(f.resets, ask.ID) })
	f.answer(w, map[string]bool{"reset": true})
}

// showcase is a server with a busy day.
func showcase(t *testing.T) *fake {
	f := serve(t, snapshot{Version: "0.1.0", Engine: "redis", Uptime: 3*86400 + 4*3600, Admin: true})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shown.Nodes = []node{
		{Name: "10.0.0.11:6379", State: "up", Latency: 184, Offset: -310, Queue: 2},
		{Name: "10.0.0.12:6379", State: "up", Latency: 203, Offset: 1240},
		{Name: "10.0.0.13:6379", State: "down", Why: "connection refused", Queue: 0},
	}
	rates := []struct {
		name             string
		rate             int64
		denied           float64
		limit, remaining int64
		shards           int
	}{
		{"tenant:42", 18_420, 0.914, 100_000, 0, 4},
		{"tenant:7:search", 3_105, 0, 250_000, 171_204, 1},
		{"api:/v1/orders", 2_240, 0.032, 150_000, 4_118, 2},
		{"user:81723:login", 412, 0.988, 5, 0, 1},
		{"tenant:1138", 388, 0, 60_000, 41_730, 1},
		{"ip:203.0.113.77", 120, 0.61, 100, 2, 1},
		{"export:monthly:2026-11", 35, 0, 500, 133, 1},
		{"tenant:88", 29, 0, 6_000, 4_870, 1},
		{"user:20411:login", 11, 0.45, 5, 1, 1},
		{"webhook:acme", 8, 0, 1_000, 902, 1},
		{"user:5", 4, 0, 100, 96, 1},
	}
	for _, r := range rates {
		f.shown.Keys = append(f.shown.Keys, key{Key: r.name, ID: id(r.name), Rate: r.rate, Limit: r.limit, Remaining: r.remaining, Shards: r.shards, deny: r.denied})
	}
	for i, d := range []struct {
		key           string
		limit, window int64
		retry, ago    int64
		fail, client  string
	}{
		{"tenant:42", 100_000, 60_000, 412, 0, "", "10.1.4.2:51822 checkout"},
		{"user:81723:login", 5, 900_000, 611_000, 2, "", "10.1.4.9:40110 auth"},
		{"api:/v1/orders", 150_000, 60_000, 38, 3, "", "10.1.4.2:51830 checkout"},
		{"tenant:901", 1_000, 60_000, 740, 9, "closed", "10.1.4.7:33912 search"},
		{"ip:203.0.113.77", 100, 60_000, 8_300, 14, "", "10.1.4.3:60002 edge"},
	} {
		f.shown.Denials = append(f.shown.Denials, group{Prefix: d.key, Count: 1, Keys: []denial{{
			Time: f.now - d.ago*1000, Command: "rl.slide", Key: d.key, ID: id(d.key), Limit: d.limit, Window: d.window, Used: d.limit,
			RetryAfter: d.retry, Node: fmt.Sprintf("10.0.0.1%d:6379", 1+i%3), Fail: d.fail, Client: d.client, Count: 1,
		}}})
	}
	f.states = []state{
		{Command: "rl.slide", Window: 60_000, Parameter: param{"buckets": 1}, Used: 100_000, Limit: 100_000, Node: "10.0.0.11:6379", TTL: 60_000, Rate: 1_590, Shards: []shard{
			{0, "10.0.0.11:6379", 0, 61_022, 0}, {1, "10.0.0.12:6379", 0, 19_480, 640}, {2, "10.0.0.11:6379", 12, 11_304, 710}, {3, "10.0.0.12:6379", 0, 8_182, 640},
		}},
		{Command: "rl.fixed", Window: 86_400_000, Parameter: param{"buckets": 1}, Used: 1_204_511, Limit: 5_000_000, Remaining: 3_795_489, Node: "10.0.0.11:6379", TTL: 41_000_000, Rate: 1_590},
	}
	for i := range 300 {
		p := busy(i)
		p.T = f.now - int64(299-i)*1000
		f.history = append(f.history, p)
	}
	f.next = busy(300)
	at := 301
	f.live = func() {
		f.next = busy(at)
		for i := range f.shown.Keys {
			k := &f.shown.Keys[i]
			k.Rate = int64(float64(rates[i].rate) * (1 + 0.06*math.Sin(float64(at)/(2.1+float64(i))) + 0.03*math.Sin(float64(at*(i+3)))))
		}
		at++
	}
	return f
}

// busy is second i of the busy day: its denials grow when a tenant does.
func busy(i int) point {
	x := float64(i)
	noise := rand.New(rand.NewPCG(uint64(i), 7)).NormFloat64
	rise := 1 / (1 + math.Exp(-(x-190)/9))
	calm := 7_200 + 500*math.Sin(x/23) + 150*noise()
	p := point{Decisions: math.Round(calm + rise*(17_500+700*math.Sin(x/31)+380*noise()))}
	p.Denied = p.Decisions * (0.021 + 0.002*noise()*(1-rise) + rise*(0.63+0.008*noise()))
	p.P50 = ptr(int64(171 + 8*math.Sin(x/40) + 3*noise() + 22*rise))
	p.P99 = ptr(int64(880 + 60*math.Sin(x/29) + 70*math.Abs(noise()) + 420*rise))
	if i > 240 && i < 262 {
		p.Refused = math.Round(46 + 9*noise())
		p.Fail = p.Refused
	}
	return p
}
