package envoy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/policy"
)

func TestValuesAreJoinedInTheOrderThatLosesLeast(t *testing.T) {
	day := func(n int) string { return fmt.Sprintf("rate_limit: {unit: day, requests_per_unit: %d}", n) }
	for name, c := range map[string]struct{ text, want string }{
		"a fixed value comes before a free one": {
			"- {key: a, descriptors: [{key: b, value: x, " + day(5) + "}]}",
			"(a), (b)   RL.CHECK d.a.b <b>|<a>\npolicy d.a.b FIXED 1000000000000 1s ORDER 2,1\npolicy-override d.a.b * UNLIMITED\npolicy-override d.a.b x|* 5 1d\n",
		},
		"envoyproxy/ratelimit's order is kept if it loses nothing": {
			"- {key: a, value: x, descriptors: [{key: b, value: y, " + day(5) + "}, {key: b, " + day(6) + "}]}",
			"(a), (b)   RL.CHECK d.a.b <a>|<b>\npolicy d.a.b FIXED 1000000000000 1s\npolicy-override d.a.b * UNLIMITED\npolicy-override d.a.b x|* 6 1d\npolicy-override d.a.b x|y 5 1d\n",
		},
		"there is no way back to a less exact descriptor": {
			"- {key: a, value: x, descriptors: [{key: c}]}\n- {key: a, descriptors: [{key: b, value: y, " + day(5) + "}]}",
			"(a), (b)   RL.CHECK d.a.b <b>|<a>\npolicy d.a.b FIXED 1000000000000 1s ORDER 2,1\npolicy-override d.a.b * UNLIMITED\npolicy-override d.a.b y|* 5 1d\npolicy-override d.a.b y|x UNLIMITED\n",
		},
		"a prefix comes last": {
			"- {key: a, value: 10.*, descriptors: [{key: b, value: y, " + day(5) + "}]}",
			"(a), (b)   RL.CHECK d.a.b <b>|<a>\npolicy d.a.b FIXED 1000000000000 1s ORDER 2,1\npolicy-override d.a.b * UNLIMITED\npolicy-override d.a.b y|10.* 5 1d\n",
		},
		"the first wildcard that matches wins": {
			"- {key: a, value: x*, " + day(5) + "}\n- {key: a, value: xy*, " + day(6) + "}\n- {key: a, value: '*', " + day(7) + "}\n- {key: a, " + day(8) + "}",
			"(a)   RL.CHECK d.a <a>\npolicy d.a FIXED 7 1d\npolicy-override d.a x* 5 1d\n",
		},
		"only the last key's limit applies": {
			"- {key: a, " + day(5) + ", descriptors: [{key: b, value: x, " + day(6) + "}, {key: b, " + day(7) + "}]}",
			"(a)        RL.CHECK d.a <a>\n(a), (b)   RL.CHECK d.a.b <b>|<a>\npolicy d.a FIXED 5 1d\npolicy d.a.b FIXED 7 1d ORDER 2,1\npolicy-override d.a.b x|* 6 1d\n",
		},
		"a free value between fixed ones goes to the end": {
			"- {key: a, value: x, descriptors: [{key: b, descriptors: [{key: c, value: z, " + day(5) + "}]}]}",
			"(a), (b), (c)   RL.CHECK d.a.b.c <a>|<c>|<b>\npolicy d.a.b.c FIXED 1000000000000 1s ORDER 1,3,2\npolicy-override d.a.b.c * UNLIMITED\npolicy-override d.a.b.c x|z|* 5 1d\n",
		},
	} {
		im, err := readText(top + c.text)
		require.NoError(t, err, name)
		require.Empty(t, im.Remarks, name)
		var b strings.Builder
		for l := range strings.Lines(im.Lines()) {
			if call, ok := strings.CutPrefix(l, "#   d "); ok {
				b.WriteString(call)
			}
		}
		require.Equal(t, c.want, b.String()+bare(im), name)
	}
}

// entry is a descriptor of a random configuration.
type entry struct {
	key, value string
	requests   int // 0: no limit; 1: unlimited
	days       int // unit_multiplier
	shadow     bool
	quota      bool // quota_mode
	line       int
	below      []*entry
}

// search is the search of envoyproxy/ratelimit. At each level it looks for a descriptor with the
// key and its value, then for a wildcard, in the order of the file, then for one without a value,
// and continues with the descriptors below. Only the descriptor found for the last key counts. quota_mode denies nothing, as shadow_mode.
func search(all []*entry, keys, values []string) *entry {
	var met *entry
	for i, key := range keys {
		byName := make(map[string]*entry)
		var wildcards []*entry
		for _, e := range all {
			name := e.key
			if e.value != "" {
				name += "_" + e.value
			}
			byName[name] = e
			if strings.HasSuffix(name, "*") {
				wildcards = append(wildcards, e)
			}
		}
		met = byName[key+"_"+values[i]]
		for _, w := range wildcards {
			if met == nil && strings.HasPrefix(key+"_"+values[i], strings.TrimSuffix(w.key+"_"+w.value, "*")) {
				met = w
			}
		}
		if met == nil {
			met = byName[key]
		}
		if met == nil {
			return nil
		}
		all = met.below
	}
	if met.requests == 0 {
		return nil
	}
	return met
}

// grow makes random descriptors and writes them, each on a line of its own.
func grow(r *rand.Rand, depth int, b *strings.Builder, line *int) []*entry {
	values := []string{"", "", "x", "y", "xy", "xyz", "x*", "xy*", "*"}
	if r.IntN(4) == 0 {
		values = append(values, "x?", "x?*", "[x")
	}
	var all []*entry
	for range 1 + r.IntN(4) {
		e := &entry{key: []string{"a", "b"}[r.IntN(2)], value: values[r.IntN(len(values))], shadow: r.IntN(5) == 0, quota: r.IntN(12) == 0}
		if slices.ContainsFunc(all, func(o *entry) bool { return o.key == e.key && o.value == e.value }) {
			continue
		}
		all = append(all, e)
		*line++
		e.line = *line
		fmt.Fprintf(b, "{key: %s, value: '%s', shadow_mode: %t, quota_mode: %t, ", e.key, e.value, e.shadow, e.quota)
		if r.IntN(3) > 0 {
			e.requests = 1 + r.IntN(4)
			switch e.days = r.IntN(3); {
			case e.requests == 1:
				b.WriteString("rate_limit: {unlimited: true}, ")
			case e.days == 0:
				e.days = 1
				fmt.Fprintf(b, "rate_limit: {unit: day, requests_per_unit: %d}, ", e.requests)
			default:
				fmt.Fprintf(b, "rate_limit: {unit: day, unit_multiplier: %d, requests_per_unit: %d}, ", e.days, e.requests)
			}
		}
		b.WriteString("descriptors: [\n")
		if depth > 1 && r.IntN(2) == 0 {
			e.below = grow(r, depth-1, b, line)
		}
		b.WriteString("]},\n")
		*line++
	}
	return all
}

// With random configurations and requests of all kinds, the policies decide as the search of
// envoyproxy/ratelimit. There is a remark on a descriptor if, and only if, they differ.
func TestPoliciesDecideAsEnvoyproxyRatelimit(t *testing.T) {
	whole := 0
	const rounds = 150
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		var b strings.Builder
		b.WriteString("domain: d\ndescriptors: [\n")
		line := 2
		all := grow(r, 3, &b, &line)
		b.WriteString("]\n")
		im, err := readText(b.String())
		if err != nil {
			require.ErrorContains(t, err, "there is no limit", b.String())
			continue
		}
		set, err := policy.Parse(im.Lines())
		require.NoError(t, err, b.String())
		require.Len(t, set.All(), len(im.Policies))
		reported, differs := make(map[int]bool), make(map[int]bool)
		for _, r := range im.Remarks {
			if strings.HasPrefix(r.Text, "quota_mode becomes SHADOW for ") {
				continue
			}
			require.Contains(t, r.Text, "is not carried over completely")
			reported[r.Line] = true
		}
		if len(reported) == 0 {
			whole++
		}
		asked := make(map[string]bool)
		for _, p := range im.Policies {
			asked[strings.Join(p.Keys, ".")] = true
		}
		requests(func(keys, values []string) {
			met := search(all, keys, values)
			if !asked[strings.Join(keys, ".")] {
				require.Nil(t, met, "%v %v\n%s", keys, values, b.String())
			}
			for i := range im.Policies {
				p := &im.Policies[i]
				if !slices.Equal(p.Keys, keys) {
					continue
				}
				want := 1
				if met != nil && (met.shadow || met.quota) == p.Shadow {
					want = met.effect()
				}
				if got := ask(t, set, p, values); got != want {
					lines := linesOf(all, got)
					if met != nil {
						lines = append(lines, met.line)
					}
					require.True(t, slices.ContainsFunc(lines, func(l int) bool { return reported[l] }), "%v %v: %d, not %d\n%s%s", keys, values, got, want, b.String(), im.Lines())
					for _, l := range lines {
						differs[l] = true
					}
				}
			}
		})
		for l := range reported {
			require.True(t, differs[l], "line %d: nothing differs\n%s%s", l, b.String(), im.Lines())
		}
	}
	require.Greater(t, whole, rounds*2/5)
	require.Less(t, whole, rounds*9/10, "too few configurations have remarks")
}

// requests calls ask with each list of one to three keys and with values of all kinds.
func requests(ask func(keys, values []string)) {
	var extend func(keys, values []string)
	extend = func(keys, values []string) {
		if len(keys) > 0 {
			ask(keys, values)
		}
		if len(keys) == 3 {
			return
		}
		for _, key := range []string{"a", "b"} {
			for _, value := range []string{"x", "y", "xy", "xyz", "xq", "xyq", "q", "x?", "x?q", "[x", "x|y", "%"} {
				extend(append(slices.Clone(keys), key), append(slices.Clone(values), value))
			}
		}
	}
	extend(nil, nil)
}

// effect returns a number for the limit: 1 if it is unlimited.
func (e *entry) effect() int {
	if e.requests <= 1 {
		return e.requests
	}
	return 100*e.days + e.requests
}

// ask returns the number of the limit that a policy has for a list of values, see entry.effect.
func ask(t *testing.T, set *policy.Set, p *Imported, values []string) int {
	t.Helper()
	key, ok := Key(set.Find([]byte(p.Name)), values)
	require.True(t, ok)
	var r engine.Request
	var pipe engine.Pipeline
	require.Empty(t, set.Find([]byte(p.Name)).Fill(&r, &pipe, []byte(key)))
	require.Equal(t, p.Shadow, r.Shadow)
	if r.Verdict == engine.Unlimited {
		return 1
	}
	require.Equal(t, engine.VerdictNone, r.Verdict)
	require.Equal(t, limit.Fixed, r.Kind)
	require.Zero(t, r.Windows[0].Length%day)
	return (&entry{requests: int(r.Windows[0].Limit), days: int(r.Windows[0].Length / day)}).effect()
}

// linesOf returns the lines of the descriptors with the limit of this number.
func linesOf(all []*entry, effect int) []int {
	var lines []int
	for _, e := range all {
		if e.effect() == effect {
			lines = append(lines, e.line)
		}
		lines = append(lines, linesOf(e.below, effect)...)
	}
	return lines
}
