package envoy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/policy"
)

// maxCombinations is the most combinations of classes that are considered, in all shapes together.
const maxCombinations = 1 << 21

// maxOrdered is the number of entries with classes up to which all orders are tried.
const maxOrdered = 4

// A table has the decision of envoyproxy/ratelimit for each combination of the classes of a shape's
// entries. A combination is a number: the sum of each entry's class times its stride.
type table struct {
	shape   *shape
	strides []int         // by entry
	decided []*descriptor // by combination: the descriptor whose limit applies; nil if none does
	effects []int         // by combination: a number; equal numbers stand for equal limits
}

// newTable decides all combinations. It returns false if there are more than left.
func newTable(s *shape, left int) (*table, bool) {
	t := &table{shape: s, strides: make([]int, len(s.keys))}
	n := 1
	for i, v := range s.levels {
		t.strides[i] = n
		if n *= len(v.classes); n > left {
			return nil, false
		}
	}
	t.decided, t.effects = make([]*descriptor, n), make([]int, n)
	type distinct struct {
		effect
		shadow bool
	}
	numbers := map[distinct]int{{effect: unlimited}: 0}
	classes := make([]class, len(s.keys))
	for c := range n {
		for i, v := range s.levels {
			classes[i] = v.classes[t.class(c, i)]
		}
		d := s.domain.decide(s.keys, classes)
		if d == nil {
			continue
		}
		k := distinct{*d.limit, d.shadows()}
		number, ok := numbers[k]
		if !ok {
			number = len(numbers)
			numbers[k] = number
		}
		t.decided[c], t.effects[c] = d, number
	}
	return t, true
}

// class returns the index of the class of entry i in combination c.
func (t *table) class(c, i int) int {
	return c / t.strides[i] % len(t.shape.levels[i].classes)
}

// with returns the combination c with another class of entry i.
func (t *table) with(c, i, class int) int {
	return c + (class-t.class(c, i))*t.strides[i]
}

// last returns the index of the class of entry i for all values that no other class covers.
func (t *table) last(i int) int { return len(t.shape.levels[i].classes) - 1 }

// reduced returns the combination with the longest pattern that matches the keys of c, in an
// order: entries with one value each, then one entry with a prefix, then entries with any value.
func (t *table) reduced(c int, order []int) int {
	anyValue := false
	for _, i := range order {
		v := &t.shape.levels[i]
		if anyValue {
			c = t.with(c, i, t.last(i))
		}
		anyValue = !v.classes[t.class(c, i)].exact
	}
	return c
}

// parent returns the combination with the next shorter pattern that matches the keys of c. c must
// have a pattern itself.
func (t *table) parent(c int, order []int) int {
	for k := len(order) - 1; k >= 0; k-- {
		i := order[k]
		if class := t.class(c, i); class != t.last(i) {
			return t.with(c, i, t.shape.levels[i].wider[class])
		}
	}
	return c
}

// lost returns the combinations that get other limits with this order, up to most.
func (t *table) lost(order []int, most int) []int {
	var lost []int
	for c := range t.effects {
		if len(lost) == most {
			break
		}
		if t.effects[c] != t.effects[t.reduced(c, order)] {
			lost = append(lost, c)
		}
	}
	return lost
}

// order returns the order of the entries that loses the fewest combinations, and those that it
// loses. Of equally good orders it is the one closest to that of envoyproxy/ratelimit.
func (t *table) order() (best, lost []int) {
	var fixed, free []int
	for i := range t.shape.keys {
		if t.last(i) > 0 {
			fixed = append(fixed, i)
		} else {
			free = append(free, i)
		}
	}
	natural := make([]int, len(t.shape.keys))
	for i := range natural {
		natural[i] = i
	}
	best, lost = natural, t.lost(natural, len(t.effects))
	try := func(order []int) {
		if len(lost) > 0 {
			order = append(order, free...)
			if l := t.lost(order, len(lost)); len(l) < len(lost) {
				best, lost = order, l
			}
		}
	}
	if len(fixed) > maxOrdered {
		try(fixed)
	} else {
		permute(nil, fixed, try)
	}
	return best, lost
}

// permute calls use with begun followed by each permutation of rest, the given order first. use may
// keep and modify its argument.
func permute(begun, rest []int, use func([]int)) {
	if len(rest) == 0 {
		use(append([]int(nil), begun...))
	}
	for i := range rest {
		others := append(append([]int(nil), rest[:i]...), rest[i+1:]...)
		permute(append(append([]int(nil), begun...), rest[i]), others, use)
	}
}

// pattern returns the pattern of a combination that has one, with the values in the given order.
func (t *table) pattern(c int, order []int) string {
	var b strings.Builder
	for k, i := range order {
		if k > 0 {
			b.WriteString(separator)
		}
		class := t.shape.levels[i].classes[t.class(c, i)]
		b.WriteString(escape(class.text, len(order)))
		if !class.exact {
			b.WriteByte('*')
			break
		}
	}
	return b.String()
}

// policies returns the policies of a shape: one, or two if some of its limits are in shadow mode
// and others are not. It returns none, with a remark, if there would be more than left
// combinations. names has the names of policies that are taken.
func (s *shape) policies(names map[string]*shape, left *int, im *Import) []Imported {
	t, ok := newTable(s, *left)
	if !ok {
		im.remark(s.limits[0].Position, fmt.Sprintf("%s is not carried over: its fixed values can be combined in too "+
			"many ways", keyNames(s.keys)))
		return nil
	}
	*left -= len(t.effects)
	both := Names(s.domain.name, s.keys)
	for _, name := range both {
		if other := names[name]; other != nil {
			im.remark(s.limits[0].Position, fmt.Sprintf("%s is not carried over: its policy would have the same name "+
				"as that of %s, %v", keyNames(s.keys), keyNames(other.keys), other.limits[0].Position))
			return nil
		}
		names[name] = s
	}
	order, lost := t.order()
	t.remarks(order, lost, im)
	shadows := 0
	for _, d := range s.limits {
		if d.shadows() {
			shadows++
		}
	}
	var policies []Imported
	if shadows < len(s.limits) {
		policies = append(policies, t.policy(order, im, both[0], false))
	}
	if shadows > 0 {
		policies = append(policies, t.policy(order, im, both[len(policies)], true))
	}
	return policies
}

// policy returns the policy with the limits that are in shadow mode, or with those that are not.
func (t *table) policy(order []int, im *Import, name string, shadow bool) Imported {
	all := len(t.decided) - 1 // the last class of each entry: all values
	w := &writer{table: t, order: order, im: im, shadow: shadow, given: make(map[int]*given),
		refused: make(map[*descriptor]bool)}
	w.Policy = policy.Policy{Name: name, Kind: im.options.Algorithm, Shadow: shadow}
	if !slices.IsSorted(order) {
		w.Order = order
	}
	e := w.wanted(all)
	w.given[all] = &given{e, t.decided[all]}
	w.Limits = []limit.Window{e.window}
	if e.verdict != engine.VerdictNone {
		w.Limits[0] = placeholder(e.verdict)
		w.Overrides = append(w.Overrides, e.override("*"))
	}
	for c := range t.decided {
		r := t.reduced(c, order)
		if g := w.give(r); w.wanted(c) == w.wanted(r) && w.wanted(c) != g.effect {
			w.refuse(c, g, w.check(r))
		}
	}
	slices.SortFunc(w.Overrides, func(a, b policy.Override) int { return strings.Compare(a.Pattern, b.Pattern) })
	first := slices.IndexFunc(t.shape.limits, func(d *descriptor) bool { return d.shadows() == shadow })
	return Imported{Policy: w.Policy, At: t.shape.limits[first].Position, Domain: t.shape.domain.name,
		Keys: t.shape.keys}
}

// A writer makes the overrides of a policy.
type writer struct {
	policy.Policy
	*table
	order   []int
	im      *Import
	shadow  bool
	given   map[int]*given       // what the policy has for each combination with a pattern so far
	refused map[*descriptor]bool // those that have a remark of refuse
}

// given is the effect that a policy has for a combination, and the descriptor that it is from; nil if it is from none.
type given struct {
	effect
	from *descriptor
}

// wanted returns the effect that the policy should have for a combination.
func (w *writer) wanted(c int) effect {
	if d := w.decided[c]; d != nil && d.shadow == w.shadow {
		return *d.limit
	}
	return unlimited
}

// give gives the combination c, which has a pattern, the effect that it should have: that of the next shorter pattern,
// or an override, unless there can be none. It returns what c has then.
func (w *writer) give(c int) *given {
	if g := w.given[c]; g != nil {
		return g
	}
	g := w.give(w.parent(c, w.order))
	if e := w.wanted(c); e != g.effect && w.check(c) == "" {
		w.Overrides = append(w.Overrides, e.override(w.pattern(c, w.order)))
		g = &given{e, w.decided[c]}
	}
	w.given[c] = g
	return g
}

// check returns an error reply if there can be no override with the pattern of c, else "".
func (w *writer) check(c int) string {
	pattern := []byte(w.pattern(c, w.order))
	if policy.IsNetwork(pattern) { // Envoy means this value, and not the addresses in a network
		return "a network is not a value; it was " + word.Literal(pattern)
	}
	return policy.CheckPattern(w.Name, pattern)
}

// refuse adds a remark that the combination c, since there can be no override, has g instead of what it should have.
// There is one remark for each descriptor whose limit does not apply as it should.
func (w *writer) refuse(c int, g *given, why string) {
	if d := cmp.Or(w.decided[c], g.from); !w.refused[d] {
		w.refused[d] = true
		w.im.remark(d.Position, keyNames(w.shape.keys)+" is not carried over completely, because no override can be "+
			"for "+w.example(c)+": "+
			strings.TrimPrefix(why, "ERR "))
	}
}

// placeholder returns a limit for a policy whose override * has a verdict. A policy must have a
// limit, but this one is never used. It is close to the verdict.
func placeholder(v engine.Verdict) limit.Window {
	w := limit.Window{Limit: 1, Length: 1000}
	if v == engine.Unlimited {
		w.Limit = limit.MaxLimit
	}
	return w
}

// override returns the override that has the effect for keys that match the pattern.
func (e effect) override(pattern string) policy.Override {
	o := policy.Override{Pattern: pattern, Verdict: e.verdict}
	if e.verdict == engine.VerdictNone {
		o.Limits = []limit.Window{e.window}
	}
	return o
}

// remarks adds remarks on what an order loses: one for each descriptor whose limit does not apply
// to all requests to which it should, with an example.
func (t *table) remarks(order, lost []int, im *Import) {
	said := make(map[*descriptor]bool)
	for _, c := range lost {
		d, instead := t.decided[c], t.decided[t.reduced(c, order)]
		if d == nil {
			d = instead
		}
		if said[d] {
			continue
		}
		said[d] = true
		text := keyNames(t.shape.keys) + " is not carried over completely, because an override is for a key or a key " +
			"prefix: " + t.example(c)
		switch {
		case t.decided[c] == nil:
			text += " should have no limit, but has this one"
		case instead == nil:
			text += " has no limit"
		default:
			text += fmt.Sprintf(" has the limit of %v", instead.Position)
		}
		im.remark(d.Position, text)
	}
}

// example describes the values of a combination, such as "user=7, path with any other value".
func (t *table) example(c int) string {
	entries := make([]string, len(t.shape.keys))
	for i, key := range t.shape.keys {
		class := t.shape.levels[i].classes[t.class(c, i)]
		switch {
		case class.text == "":
			entries[i] = plain(key) + " with any other value"
		case class.exact:
			entries[i] = plain(key) + "=" + plain(class.text)
		default:
			entries[i] = plain(key) + "=" + plain(class.text+"*")
		}
	}
	return strings.Join(entries, ", ")
}
