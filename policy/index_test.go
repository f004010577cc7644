package policy

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
)

func TestAnExactPatternWinsAndThenTheLongestPrefix(t *testing.T) {
	p := parse(t, `
		policy api SLIDE 5 60
		policy-override api * 1 60
		policy-override api tenant:* 2 60
		policy-override api tenant:4* 3 60
		policy-override api tenant:42 4 60
		policy-override api tenant:42:* 5 60
		policy-override api tenant:42:login 6 60
		policy-override api zone:* BLOCKED
	`).Find([]byte("api"))
	for key, want := range map[string]string{
		"x":                  "*",
		"tenan":              "*",
		"tenant":             "*",
		"tenant:":            "tenant:*",
		"tenant:5":           "tenant:*",
		"tenant:4":           "tenant:4*",
		"tenant:421":         "tenant:4*",
		"tenant:42":          "tenant:42",
		"tenant:42:":         "tenant:42:*",
		"tenant:42:login":    "tenant:42:login",
		"tenant:42:logins":   "tenant:42:*",
		"Tenant:42":          "*",
		"tenant:*":           "tenant:*",
		"zone":               "*",
		"zone:\x00":          "zone:*",
		"zzz":                "*",
		"\x00":               "*",
		"\xff\xff":           "*",
		"tenant:42:\xff\xff": "tenant:42:*",
	} {
		require.Equal(t, want, p.Override([]byte(key)).Pattern, key)
	}
	require.Nil(t, parse(t, "policy api SLIDE 5 60").Find([]byte("api")).Override([]byte("x")))
}

// scan returns what Override must return. It looks at all overrides.
func scan(p *Policy, key string) (found *Override) {
	for i := range p.Overrides {
		o := &p.Overrides[i]
		prefix, ok := strings.CutSuffix(o.Pattern, "*")
		switch {
		case !ok && o.Pattern == key:
			return o
		case ok && strings.HasPrefix(key, prefix) && (found == nil || len(o.Pattern) > len(found.Pattern)):
			found = o
		}
	}
	return found
}

// Small alphabets make patterns that nest, equal keys, or sort next to each other.
func TestTheIndexFindsWhatAScanFinds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- a test
	alphabets := []string{"ab", "a", "\x00\xff", "ab*\x01+)", "0123456789:"}
	found := 0
	for range 2000 {
		alphabet := alphabets[random.IntN(len(alphabets))]
		word := func(least int) string {
			b := make([]byte, least+random.IntN(8))
			for i := range b {
				b[i] = alphabet[random.IntN(len(alphabet))]
			}
			return string(b)
		}
		patterns := make(map[string]bool)
		for range random.IntN(40) {
			pattern := strings.ReplaceAll(word(0), "*", "")
			if random.IntN(2) == 0 || pattern == "" {
				pattern += "*"
			}
			patterns[pattern] = true
		}
		p := &Policy{Name: "api"}
		for pattern := range patterns {
			p.Overrides = append(p.Overrides, Override{Pattern: pattern, Verdict: engine.Blocked})
		}
		p.seal()
		for range 50 {
			key := word(1)
			want, got := scan(p, key), p.Override([]byte(key))
			if got != want { // avoids formatting the message if they are equal
				require.Same(t, want, got, "%q of %q", key, p.appendText(nil))
			}
			if want != nil {
				found++
			}
		}
	}
	require.Greater(t, found, 10_000)
}

// As many prefixes as there may be begin with each other.
func TestTheIndexFindsDeepPrefixes(t *testing.T) {
	const deep = 2000
	p := &Policy{Name: "api"}
	for n := range deep {
		p.Overrides = append(p.Overrides, Override{Pattern: strings.Repeat("a", n) + "*", Verdict: engine.Blocked})
	}
	p.seal()
	for n := range deep {
		key := strings.Repeat("a", n)
		require.Equal(t, key+"*", p.Override([]byte(key+"z")).Pattern)
	}
}

// thousand returns the text of 1,000 policies with 10,000 overrides, half of which belong to one
// policy.
func thousand() string {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "policy policy-%d SLIDE 100 60 1000 1h\n", i)
		n := 5
		if i == 500 {
			n = 5005
		}
		for j := range n {
			star := ""
			if j%2 == 0 {
				star = ":*"
			}
			fmt.Fprintf(&b, "policy-override policy-%d tenant:%d%s 500 60 5000 1h\n", i, 1000+j, star)
		}
	}
	return b.String()
}

// lookups returns names and keys to look up in the policies of thousand. Half of them are of the
// policy with the most overrides, and about a quarter of the keys have no override.
func lookups() (names, keys [][]byte) {
	random := rand.New(rand.NewPCG(3, 4)) // #nosec G404 -- a test
	for i := range 4096 {
		name, tenant, of := random.IntN(1000), 1000+random.IntN(7), ""
		if i%2 == 0 {
			name, tenant = 500, 1000+random.IntN(6700)
		}
		if i%3 > 0 {
			of = ":user"
		}
		names = append(names, fmt.Appendf(nil, "policy-%d", name))
		keys = append(keys, fmt.Appendf(nil, "tenant:%d%s", tenant, of))
	}
	return names, keys
}

func TestALookupAllocatesNothing(t *testing.T) {
	b := new(Catalog)
	b.Configure(parse(t, thousand()))
	names, keys := lookups()
	var pipe engine.Pipeline
	i, overrides := 0, 0
	require.Zero(t, testing.AllocsPerRun(10*len(keys), func() {
		pipe.Reset()
		p := b.Find(names[i%len(names)])
		r := pipe.Add()
		if p.Fill(r, &pipe, keys[i%len(keys)]) != "" {
			panic("wrong key")
		}
		if r.Windows[0].Limit == 500 {
			overrides++
		}
		i++
	}))
	require.Greater(t, overrides, len(keys))
}

func BenchmarkLookup(b *testing.B) {
	var catalog Catalog
	catalog.Configure(parse(b, thousand()))
	names, keys := lookups()
	b.Run("override", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			if catalog.Find(names[i%4096]).Override(keys[i%4096]) == &sink {
				b.Fatal()
			}
		}
	})
	b.Run("fill", func(b *testing.B) {
		var pipe engine.Pipeline
		b.ReportAllocs()
		for i := range b.N {
			pipe.Reset()
			if catalog.Find(names[i%4096]).Fill(pipe.Add(), &pipe, keys[i%4096]) != "" {
				b.Fatal()
			}
		}
	})
}

// The memory is that of the policies in effect. Their text is not kept.
func BenchmarkMemory(b *testing.B) {
	text := thousand()
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for range b.N {
		before := heap()
		var catalog Catalog
		catalog.Configure(parse(b, text))
		b.ReportMetric(heap()-before, "B")
		runtime.KeepAlive(&catalog)
	}
}

var sink Override // an override that no lookup finds
