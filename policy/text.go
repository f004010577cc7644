package policy

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// The words that lines begin with, which are also directives of the configuration.
const (
	PolicyLine   = "policy"
	OverrideLine = "policy-override"
)

// The words that an override may have in place of limits.
const (
	unlimited = "UNLIMITED"
	blocked   = "BLOCKED"
)

// Beginnings of errors.
const (
	errName    = "ERR policy name must be 1 to 64 letters, digits, _, . and -"
	errPattern = "ERR pattern must be a key, a key prefix followed by *, or a network such as 10.0.0.0/8"
	errUnknown = "ERR no such policy " // followed by the name
)

// Options that only policies have: one orders the values of Envoy's descriptors, the other says by which networks IPv6
// addresses count.
const (
	orderWord = "ORDER"
	ipv6Word  = "IPV6"
)

const errIPv6 = "ERR IPV6 must be an integer between 1 and 128"

// MaxValues is the most values that ORDER has.
const MaxValues = 16

var errOrder = fmt.Sprint("ERR ORDER must have the numbers from 1 to n, at most ", MaxValues,
	", each once, such as 2,1")

// Errors about the bounds of a Set.
var (
	errPolicies = fmt.Sprint("ERR too many policies: at most ", MaxPolicies)
	errMany     = fmt.Sprint("ERR too many overrides: at most ", MaxOverrides)
	errLong     = fmt.Sprint("ERR too many bytes of policies: at most ", MaxText)
)

// Unknown returns the error reply about a name that no policy has.
func Unknown(name []byte) string { return errUnknown + word.Literal(name) }

// parsePolicy parses a policy from its name on. It returns an error reply, or "".
func parsePolicy(words [][]byte) (*Policy, string) {
	if len(words) == 0 || !isName(words[0]) {
		return nil, wrongName(words)
	}
	order, rules, msg := parseOrder(words[1:])
	if msg != "" {
		return nil, msg
	}
	ipv6, rules, msg := parseIPv6(rules)
	if msg != "" {
		return nil, msg
	}
	var r engine.Request
	if msg := ratelimit.ParsePolicy(&r, rules); msg != "" {
		return nil, msg
	}
	return &Policy{
		Name: string(words[0]), Kind: r.Kind, Limits: limits(&r), Param: r.Param, Manner: r.Manner,
		Shards: r.Shards, Fail: r.Fail, Shadow: r.Shadow, IPv6: ipv6, Order: order,
	}, ""
}

// cutOption returns the value of an option that only policies have, nil if it is not given, and the words without the
// option; and an error reply or "". No other word of a policy can be such an option.
func cutOption(words [][]byte, name string) (value []byte, rest [][]byte, msg string) {
	i := slices.IndexFunc(words, func(w []byte) bool { return word.Is(w, name) })
	switch {
	case i < 0:
		return nil, words, ""
	case i == len(words)-1:
		return nil, nil, reply.OptionWithoutValue(name)
	}
	return words[i+1], slices.Concat(words[:i], words[i+2:]), ""
}

// parseOrder parses the option ORDER. It returns the words without it, and an error reply or "".
func parseOrder(words [][]byte) (order []int, rest [][]byte, msg string) {
	value, rest, msg := cutOption(words, orderWord)
	if value == nil {
		return nil, rest, msg
	}
	for n := range strings.SplitSeq(string(value), ",") {
		at, ok := word.Integer([]byte(n))
		if !ok || at < 1 || at > MaxValues || slices.Contains(order, int(at-1)) {
			return nil, nil, errOrder + "; it was " + word.Literal(value)
		}
		order = append(order, int(at-1))
	}
	if slices.Max(order) >= len(order) {
		return nil, nil, errOrder + "; it was " + word.Literal(value)
	}
	if slices.IsSorted(order) {
		order = nil
	}
	return order, rest, ""
}

// parseIPv6 parses the option IPV6. It returns the words without it, and an error reply or "".
func parseIPv6(words [][]byte) (bits int, rest [][]byte, msg string) {
	value, rest, msg := cutOption(words, ipv6Word)
	if value == nil {
		return 0, rest, msg
	}
	n, ok := word.Integer(value)
	if !ok || n < 1 || n > 128 {
		return 0, nil, errIPv6 + "; it was " + word.Literal(value)
	}
	return int(n), rest, ""
}

// parseOverride parses an override of p from its pattern on. It returns an error reply, or "".
func parseOverride(p *Policy, words [][]byte) (o Override, msg string) {
	if len(words) == 0 {
		return o, errPattern + "; nothing was given"
	}
	if msg = CheckPattern(p.Name, words[0]); msg != "" {
		return o, msg
	}
	o.Pattern = string(words[0])
	if len(words) > 1 && (word.Is(words[1], unlimited) || word.Is(words[1], blocked)) {
		o.Verdict = engine.Unlimited
		if word.Is(words[1], blocked) {
			o.Verdict = engine.Blocked
		}
		if len(words) > 2 {
			msg = reply.ErrSyntax + ": nothing follows UNLIMITED or BLOCKED; it was " + word.Literal(words[2])
		}
		return o, msg
	}
	var r engine.Request
	msg = ratelimit.ParseOverride(&r, p.Kind, words[1:], p.Param)
	o.Limits, o.Param = limits(&r), r.Param
	return o, msg
}

// CheckPattern returns an error reply if a policy with this name can have no override with a pattern, else "". It
// refuses patterns that look as if they matched more than they do.
func CheckPattern(name string, pattern []byte) string {
	star := bytes.IndexByte(pattern, '*')
	_, written, network := parseNetwork(pattern)
	switch n := len(name) + 1 + len(pattern); {
	case len(pattern) == 0 || star >= 0 && star < len(pattern)-1:
		return errPattern + "; it was " + word.Literal(pattern)
	case n > engine.MaxKey:
		return reply.ErrKey + "; with the policy's name the pattern had " + strconv.Itoa(n)
	case bytes.ContainsAny(pattern, "?["):
		return errPattern + ", without ? and [; it was " + word.Literal(pattern)
	case network && written != string(pattern):
		return "ERR pattern is a network that is written as " + written + "; it was " + word.Literal(pattern)
	}
	return ""
}

// limits returns a copy of the windows of a request.
func limits(r *engine.Request) []limit.Window {
	return append([]limit.Window(nil), r.Limits()...)
}

// isName reports whether b is a valid name of a policy.
func isName(b []byte) bool {
	for _, c := range b {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return len(b) >= 1 && len(b) <= MaxName
}

// CheckNames returns an error reply if no policy can have the name that is the first word, or no override of it
// the pattern that is the second word, if there is one; else "".
func CheckNames(words [][]byte) string {
	if !isName(words[0]) {
		return wrongName(words)
	}
	if len(words) > 1 {
		return CheckPattern(string(words[0]), words[1])
	}
	return ""
}

// wrongName returns the error about words whose first is not a valid name of a policy.
func wrongName(words [][]byte) string {
	if len(words) == 0 {
		return errName + "; nothing was given"
	}
	return errName + "; it was " + word.Literal(words[0])
}

// Words returns the policy's line without its first word, PolicyLine.
func (p *Policy) Words() []string {
	words := append([]string{p.Name, ratelimit.Algorithm(p.Kind)}, ratelimit.LimitWords(p.Kind, p.Param, p.Limits)...)
	words = append(words, ratelimit.OptionWords(p.Kind, p.Param, p.Manner, p.Limits)...)
	if p.Shards > 0 {
		words = append(words, "SHARDS", strconv.Itoa(p.Shards))
	}
	if p.Fail != engine.FailDefault {
		words = append(words, "FAIL", strings.ToUpper(p.Fail.String()))
	}
	if p.Shadow {
		words = append(words, "SHADOW")
	}
	if p.IPv6 > 0 {
		words = append(words, ipv6Word, strconv.Itoa(p.IPv6))
	}
	if p.Order != nil {
		places := make([]string, len(p.Order))
		for i, at := range p.Order {
			places[i] = strconv.Itoa(at + 1)
		}
		words = append(words, orderWord, strings.Join(places, ","))
	}
	return words
}

// Words returns the line of an override of p without its first word, OverrideLine.
func (o *Override) Words(p *Policy) []string {
	words := []string{p.Name, o.Pattern}
	switch o.Verdict {
	case engine.Unlimited:
		return append(words, unlimited)
	case engine.Blocked:
		return append(words, blocked)
	}
	return append(words, ratelimit.LimitWords(p.Kind, cmp.Or(o.Param, p.Param), o.Limits)...)
}

func appendLine(dst []byte, first string, words []string) []byte {
	dst = append(dst, first...)
	for _, w := range words {
		dst = append(dst, ' ')
		dst = append(dst, word.InLine(w)...)
	}
	return append(dst, '\n')
}

func (p *Policy) appendText(dst []byte) []byte {
	dst = appendLine(dst, PolicyLine, p.Words())
	for i := range p.Overrides {
		dst = appendLine(dst, OverrideLine, p.Overrides[i].Words(p))
	}
	return dst
}

// Text returns the lines of all policies, sorted by name and pattern. Parse turns it into an equal
// Set.
func (s *Set) Text() string {
	text := make([]byte, 0, s.size)
	for _, p := range s.all {
		text = p.appendText(text)
	}
	return string(text)
}

// Parse returns the policies of a text. It ignores blank lines and those that begin with #. An
// error gives the number of the line and quotes the word that is wrong.
func Parse(text string) (*Set, error) {
	var b Builder
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.Trim(line, word.Blanks)
		if line == "" || line[0] == '#' {
			continue
		}
		words, err := word.SplitLine(line)
		if err == nil {
			err = b.Add(words[0], words[1:])
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return b.Set(), nil
}
