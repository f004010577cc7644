package policies

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/engine/redis"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/policy"
	"github.com/rlproxy/rlproxy/shard"
)

// catalog returns a catalog in which the policies of a text are in effect.
func catalog(t *testing.T, text string) *policy.Catalog {
	t.Helper()
	s, err := policy.Parse(text)
	require.NoError(t, err, text)
	b := new(policy.Catalog)
	b.Configure(s)
	return b
}

// words splits a line without quotes.
func words(line string) (args [][]byte) {
	for w := range strings.FieldsSeq(line) {
		args = append(args, []byte(w))
	}
	return args
}

// command returns the rate limit command with this name.
func command(t *testing.T, name string) ratelimit.Command {
	for _, c := range ratelimit.Commands() {
		if c.Name == name {
			return c
		}
	}
	t.Fatal(name)
	return ratelimit.Command{}
}

// pair is an RL.CHECK and the equivalent command with limits of its own.
type pair struct {
	policy string // the lines of the policy api
	check  string // RL.CHECK
	plain  string // a command such as RL.SLIDE
}

// pairs draws pairs of any algorithm. If options is false, there are no options whose effect depends on how a key is split.
func pairs(seed uint64, options bool) *conformance.Lines {
	l := &conformance.Lines{
		Rand: rand.New(rand.NewPCG(seed, 1)), Without: []string{"AND"},
		From: map[string][]int64{"limit": {1, 2, 3, 4, 5, 6}, "window": {20, 35, 2000, 30_000, 120_000, 3_600_000}},
	}
	if !options {
		l.Without = append(l.Without, "SHARDS", "FAIL", "ID", "ONCE", "TZ") // nor those that need package calendar
	}
	return l
}

// randomPair returns a pair. Its RL.CHECK is about the key api:k, and its plain command about name:k.
// Some pairs are errors, because their cost exceeds a limit.
func randomPair(l *conformance.Lines, name string) pair {
	l.Keys = []string{name + ":k"}
	l.Narrow()
	for {
		var pipe engine.Pipeline
		algorithms := slices.DeleteFunc(slices.Clone(conformance.Decisions), func(name string) bool { return !strings.HasPrefix(name, "RL.") })
		line := l.Add(&pipe, algorithms[l.IntN(len(algorithms))])
		algorithm, after, _ := strings.Cut(strings.TrimPrefix(line, "RL."), " "+name+":k ")
		l.Add(&pipe, "RL."+algorithm)
		limits := func(r *engine.Request) string {
			return strings.Join(ratelimit.LimitWords(r.Kind, r.Param, r.Limits()), " ")
		}
		own, others := limits(&pipe.Requests[0]), limits(&pipe.Requests[1])
		ofRequest := regexp.MustCompile(` (COST|ID|ONCE) \S+`)
		rest := strings.Join(ofRequest.FindAllString(after, -1), "")
		rules := ofRequest.ReplaceAllString(after, "")
		rules = strings.Join(strings.Fields(rules)[len(strings.Fields(own)):], " ")
		if !strings.Contains(rest, "COST") && l.IntN(2) == 0 {
			rest += " COST 7"
			line += " COST 7"
		}
		p := pair{policy: "policy api " + algorithm + " " + own + " " + rules + "\n", check: "RL.CHECK api k" + rest, plain: line}
		if l.IntN(2) == 0 {
			p.policy = "policy api " + algorithm + " " + others + " " + rules + "\npolicy-override api " + []string{"k", "k*", "*"}[l.IntN(3)] + " " + own + "\n"
		}
		if _, err := policy.Parse(p.policy); err == nil {
			return p
		}
	}
}

// parse returns the request of a line, or an error reply.
func parse(c ratelimit.Command, line string) (engine.Request, string) {
	var pipe engine.Pipeline
	msg := c.Parse(words(line), &pipe)
	if msg != "" {
		return engine.Request{}, msg
	}
	return pipe.Requests[0], ""
}

// plainCommand returns the command of a line.
func plainCommand(t *testing.T, line string) ratelimit.Command {
	name, _, _ := strings.Cut(line, " ")
	return command(t, strings.ToLower(name))
}

func TestACheckBecomesTheRequestOfTheEquivalentCommand(t *testing.T) {
	random := pairs(5, true)
	wrong := 0
	for range 5000 {
		p := randomPair(random, "api")
		got, msg := parse(Check(catalog(t, p.policy)), p.check)
		want, wantMsg := parse(plainCommand(t, p.plain), p.plain)
		require.Equal(t, wantMsg, msg, "%+v", p)
		if msg != "" {
			wrong++
			continue
		}
		require.Equal(t, "api", got.Policy)
		got.Policy, got.Override = "", nil
		require.Equal(t, want, got, "%+v", p)
	}
	require.Greater(t, wrong, 250)
}

// Each of the two commands has an engine of its own. Both engines have the same clock.
func TestACheckIsAnsweredLikeTheEquivalentCommand(t *testing.T) {
	random := pairs(7, true)
	now := time.UnixMilli(1_800_000_000_000)
	clock := func() time.Time { return now }
	checks, plains := memory.New(memory.Config{Now: clock}), memory.New(memory.Config{Now: clock})
	denied := 0
	for range 300 {
		p := randomPair(random, "api")
		for range 40 {
			now = now.Add(time.Duration(random.ExpFloat64()*1000) * time.Millisecond)
			got := answer(checks, Check(catalog(t, p.policy)), p.check)
			want := answer(plains, plainCommand(t, p.plain), p.plain)
			require.Equal(t, want, got, "%+v", p)
			if strings.HasPrefix(got, "*5\r\n:0\r\n") {
				denied++
			}
		}
	}
	require.Greater(t, denied, 1000)
}

// answer returns the reply to a line.
func answer(e engine.Engine, c ratelimit.Command, line string) string {
	var pipe engine.Pipeline
	if msg := c.Parse(words(line), &pipe); msg != "" {
		return msg
	}
	e.Do(&pipe)
	return string(c.Reply(nil, 2, pipe.Requests, pipe.Results))
}

// A node has no clock that a test could set. But requests of a pipeline are decided in one call at
// one time, so the two commands use two keys with the same history.
func TestANodeAnswersACheckLikeTheEquivalentCommand(t *testing.T) {
	fleet, err := backend.Open(backend.Config{Backends: []string{redistest.Start(t).URL()}, Timeout: time.Minute})
	require.NoError(t, err)
	e := redis.Open(fleet, redis.Config{Settings: redis.Settings{Fail: engine.FailError}, AskAlways: true})
	t.Cleanup(func() {
		require.NoError(t, e.Close())
		require.NoError(t, fleet.Close())
	})
	random := pairs(9, false)
	denied := 0
	for round := range 200 {
		p := randomPair(random, "apj")
		check, plain := Check(catalog(t, p.policy)), plainCommand(t, p.plain)
		reset := command(t, "rl.reset")
		_ = answer(e, reset, "RL.RESET api:k apj:k")
		for range 5 {
			var pipe engine.Pipeline
			commands := []ratelimit.Command{check, plain, check, plain, check, plain}
			lines := []string{p.check, p.plain, p.check, p.plain, p.check, p.plain}
			if _, msg := parse(check, p.check); msg != "" {
				break // the cost exceeds a limit
			}
			for i := range commands {
				require.Empty(t, commands[i].Parse(words(lines[i]), &pipe))
			}
			e.Do(&pipe)
			for i := 0; i < len(commands); i += 2 {
				var replies [2]string
				for j := range replies {
					replies[j] = string(commands[i+j].Reply(nil, 2, pipe.Requests[i+j:], pipe.Results[i+j:]))
				}
				require.True(t, strings.HasPrefix(replies[0], "*5\r\n"), replies[0])
				require.Equal(t, replies[1], replies[0], "round %d: %+v", round, p)
				if strings.HasPrefix(replies[0], "*5\r\n:0\r\n") {
					denied++
				}
			}
		}
	}
	require.Greater(t, denied, 100)
}

func TestACheckIsUnavailableUntilTheStoredPoliciesAreRead(t *testing.T) {
	b := catalog(t, "policy api SLIDE 5 60")
	b.SetUnknown(&engine.Unavailable{Node: "10.0.0.1:6379", Why: "policies have not been read yet"})
	c := Check(b)
	_, msg := parse(c, "RL.CHECK api k") // policies of the configuration are known
	require.Empty(t, msg)
	_, msg = parse(c, "RL.CHECK web k")
	require.Equal(t, "UNAVAILABLE 10.0.0.1:6379: policies have not been read yet", msg)
	s, err := policy.Parse("policy web FIXED 5 60\npolicy api FIXED 1 60")
	require.NoError(t, err)
	b.Store(s, 7)
	_, msg = parse(c, "RL.CHECK web k")
	require.Empty(t, msg)
	_, msg = parse(c, "RL.CHECK what k")
	require.Equal(t, "ERR no such policy 'what'", msg)
	r, _ := parse(c, "RL.CHECK api k")
	require.Equal(t, "RL.SLIDE", r.Kind.String(), "the configuration's policy is in effect")
}

func TestTheLengthOfAKeyIncludesThePolicysName(t *testing.T) {
	c := Check(catalog(t, "policy api SLIDE 5 60"))
	for n, want := range map[int]string{
		0:    "ERR key must be 1 to 4096 bytes; it had 0",
		1:    "",
		4092: "",
		4093: "ERR key must be 1 to 4096 bytes; with the policy's name it had 4097",
	} {
		var pipe engine.Pipeline
		msg := c.Parse([][]byte{[]byte("RL.CHECK"), []byte("api"), []byte(strings.Repeat("k", n))}, &pipe)
		require.Equal(t, want, msg, n)
	}
}

func TestACheckAllocatesNothing(t *testing.T) {
	b := catalog(t, "policy api SLIDE 100 60 SHADOW\npolicy web COUNTER 5 60\npolicy-override web k* 7 1h\npolicy-override web x BLOCKED")
	c := Check(b)
	for _, line := range []string{"RL.CHECK api tenant:42 COST 3 ID x", "RL.CHECK web key", "RL.CHECK web x"} {
		args := words(line)
		var pipe engine.Pipeline
		var buf [256]byte
		require.Zero(t, testing.AllocsPerRun(100, func() {
			pipe.Reset()
			if msg := c.Parse(args, &pipe); msg != "" {
				panic(msg)
			}
			pipe.Grow()
			c.Reply(buf[:0], 2, pipe.Requests, pipe.Results)
		}), line)
	}
}

// Whatever the words are, the result is an error reply of one line or a valid request.
func FuzzCheck(f *testing.F) {
	s, err := policy.Parse("policy api SLIDE 5 60\npolicy-override api a* 2 1h\npolicy-override api free UNLIMITED")
	if err != nil {
		f.Fatal(err)
	}
	b := new(policy.Catalog)
	b.Configure(s)
	c := Check(b)
	for _, line := range []string{"api\x00k", "api\x00a1\x00COST\x002\x00ID\x00x", "api\x00free\x00cost\x0099", "what\x00k", "api\x00" + string(shard.AppendName(nil, []byte("k"), true)), "api\x00\x00cost", "api\x00k\x00id"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := [][]byte{[]byte("RL.CHECK")}
		for w := range strings.SplitSeq(line, "\x00") {
			args = append(args, []byte(w))
		}
		if !c.Fits(len(args)) {
			return
		}
		var pipe engine.Pipeline
		switch msg := c.Parse(args, &pipe); {
		case msg != "":
			require.True(t, strings.HasPrefix(msg, "ERR "), msg)
			require.NotContains(t, msg, "\n")
		default:
			r := &pipe.Requests[0]
			key, shadow := shard.ClientKey(r.Key)
			require.Equal(t, fmt.Sprintf("%s:%s", args[1], args[2]), string(key))
			require.False(t, shadow)
			for _, w := range r.Limits() {
				require.LessOrEqual(t, r.Cost, w.Limit)
			}
			require.Equal(t, r.N == 0, r.Verdict != engine.VerdictNone)
		}
	})
}

// BenchmarkCheckAndSlide measures RL.CHECK and the equivalent RL.SLIDE in turns, in this process:
// parsing, the decision and the reply.
func BenchmarkCheckAndSlide(b *testing.B) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "policy policy-%d SLIDE 1000000 60\n", i)
		for j := range 10 {
			fmt.Fprintf(&text, "policy-override policy-%d tenant:%d 1000000 60\n", i, j)
		}
	}
	s, err := policy.Parse(text.String())
	if err != nil {
		b.Fatal(err)
	}
	catalog := new(policy.Catalog)
	catalog.Configure(s)
	e := memory.New(memory.Config{})
	var slide ratelimit.Command
	for _, c := range ratelimit.Commands() {
		if c.Name == "rl.slide" {
			slide = c
		}
	}
	type measured struct {
		command ratelimit.Command
		lines   [][][]byte
		took    time.Duration
	}
	both := [2]measured{{command: Check(catalog)}, {command: slide}}
	for i := range 1000 {
		both[0].lines = append(both[0].lines, words(fmt.Sprintf("RL.CHECK policy-%d tenant:%d", i, i%20)))
		both[1].lines = append(both[1].lines, words(fmt.Sprintf("RL.SLIDE policy-%d:tenant:%d 1000000 60", i, i%20)))
	}
	var pipe engine.Pipeline
	var out []byte
	b.ReportAllocs()
	for i := range b.N {
		a := &both[i%2]
		began := time.Now()
		for at := 0; at < len(a.lines); at += 50 {
			pipe.Reset()
			for _, line := range a.lines[at : at+50] {
				if msg := a.command.Parse(line, &pipe); msg != "" {
					b.Fatal(msg)
				}
			}
			e.Do(&pipe)
			out = out[:0]
			for j := range pipe.Requests {
				out = a.command.Reply(out, 2, pipe.Requests[j:], pipe.Results[j:])
			}
		}
		a.took += time.Since(began)
	}
	each := float64(b.N/2) * 1000
	b.ReportMetric(float64(both[0].took)/each, "ns/check")
	b.ReportMetric(float64(both[1].took)/each, "ns/slide")
}

// The keys against which a user's rules are checked are those of the requests, wherever the words
// of keys and options are.
func TestKeysOfACommandAreThoseOfItsRequests(t *testing.T) {
	check := Check(catalog(t, "policy api SLIDE 5 60\npolicy and FIXED 5 60\npolicy try COUNTER 5 60 SHADOW\npolicy-override api k UNLIMITED\npolicy-override api l BLOCKED"))
	random := rand.New(rand.NewPCG(11, 12)) // #nosec G404 -- a test's choices
	vocabulary := []string{"AND", "AND", "and", "DETAILS", "api", "try", "k", "l", "m", "ID", "COST", "1"}
	several, joined := 0, 0
	for range 80_000 {
		line := "RL.CHECK " + vocabulary[2+random.IntN(4)]
		for range 1 + random.IntN(9) {
			line += " " + vocabulary[random.IntN(len(vocabulary))]
		}
		var pipe engine.Pipeline
		if check.Parse(words(line), &pipe) != "" {
			continue
		}
		keys := check.Keys.Of(words(line))
		require.Len(t, keys, len(pipe.Requests), line)
		for i := range pipe.Requests {
			r := &pipe.Requests[i]
			key, _ := shard.ClientKey(r.Key)
			require.Equal(t, string(keys[max(int(r.KeyNumber), 1)-1]), string(key), line)
			together := i <= pipe.Requests[0].MoreKeys && pipe.Requests[0].MoreKeys > 0
			require.False(t, together && (r.Shadow || r.Verdict != engine.VerdictNone), line)
			joined += r.MoreKeys
		}
		if len(keys) > 1 {
			several++
		}
	}
	require.Greater(t, several, 500)
	require.Greater(t, joined, 100)
}

func TestKeysWithoutLimitsAreNotPartOfAMultiKeyRequest(t *testing.T) {
	check := Check(catalog(t, "policy api SLIDE 5 60\npolicy web FIXED 9 60\npolicy try COUNTER 5 60 SHADOW\npolicy-override api free UNLIMITED\npolicy-override api out BLOCKED\npolicy-override try out BLOCKED"))
	for line, want := range map[string]string{ // place:verdict+number of requests decided together with it
		"RL.CHECK api a AND web a AND api b":     "1:0+2 2:0 3:0",
		"RL.CHECK api free AND web a AND api b":  "2:0+1 3:0 1:1",
		"RL.CHECK api free AND web a":            "2:0 1:1",
		"RL.CHECK api free AND api out":          "1:1 2:2",
		"RL.CHECK web a AND api out AND api b":   "1:3 2:2 3:3",
		"RL.CHECK try a AND api a AND web a":     "2:0+1 3:0 1:0",
		"RL.CHECK try out AND api a AND web a":   "2:0+1 3:0 1:2", // a shadow denies nothing
		"RL.CHECK try a AND api out AND web a":   "1:0 2:2 3:3",
		"RL.CHECK try a AND api a AND api free":  "2:0 1:0 3:1",
		"RL.CHECK api a COST 0 AND web a COST 9": "1:0+1 2:0",
		"RL.CHECK api free COST 99 AND web a":    "2:0 1:1",
	} {
		var pipe engine.Pipeline
		require.Empty(t, check.Parse(words(line), &pipe), line)
		var got []string
		for _, r := range pipe.Requests {
			text := fmt.Sprintf("%d:%d", r.KeyNumber, r.Verdict)
			if r.MoreKeys > 0 {
				text += fmt.Sprintf("+%d", r.MoreKeys)
			}
			got = append(got, text)
		}
		require.Equal(t, want, strings.Join(got, " "), line)
	}
}
