package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/layout"
	"github.com/rlproxy/rlproxy/engine/replicas"
	"github.com/rlproxy/rlproxy/engine/split"
)

// repeated is a value with one line per entry. Entries on the command line replace
// those of the file, so the first of them calls clear.
type repeated interface {
	value
	clear()
}

// inOne is a repeated value of which CONFIG SET sets all lines at once.
type inOne interface {
	repeated
	// lines splits the words of all lines, in the order in which words has them.
	lines(words []string) [][]string
}

// addresses is the list of addresses to listen on, on one line.
type addresses struct{ p *[]string }

func (v addresses) set(words []string) bool {
	if len(words) == 1 && words[0] == "" {
		*v.p = nil
		return true
	}
	seen := make(map[netip.Addr]bool)
	for _, w := range words {
		w = strings.TrimPrefix(w, "-")
		ip, err := netip.ParseAddr(w)
		switch w {
		case "*":
			ip, err = netip.IPv4Unspecified(), nil
		case "::*":
			ip, err = netip.IPv6Unspecified(), nil
		}
		if err != nil || seen[ip] {
			return false
		}
		seen[ip] = true
	}
	if len(words) == 0 {
		return false
	}
	*v.p = slices.Clone(words)
	return true
}

func (v addresses) allowed() string {
	return `one or more IP addresses, * or ::*, each once, with a leading - if it is optional, or "" for none`
}

func (v addresses) words() [][]string {
	if len(*v.p) == 0 {
		return line("")
	}
	return [][]string{*v.p}
}

// backends is the list of the nodes' URLs.
type backends struct{ p *[]string }

func (v backends) set(words []string) bool {
	word, ok := single(words)
	if !ok || backend.CheckURL(word) != nil {
		return false
	}
	*v.p = append(*v.p, word)
	return true
}

func (v backends) allowed() string {
	return "a URL such as redis://127.0.0.1:6379, rediss://user:password@host:6379/0, " +
		"redis+sentinel://host:26379,host:26379/master or redis+cluster://host:6379,host:6379, " +
		"with ports from 1 to 65535 and databases from 0"
}

func (v backends) clear() { *v.p = nil }

func (v backends) words() [][]string {
	var lines [][]string
	for _, b := range *v.p {
		lines = append(lines, []string{b})
	}
	return lines
}

// failPolicies holds the FAIL policies: one for all keys, and one for each glob.
type failPolicies struct {
	all   *engine.FailPolicy
	rules *[]engine.FailRule
}

func (v failPolicies) set(words []string) bool {
	if len(words) == 0 || len(words) > 2 {
		return false
	}
	fail, ok := engine.ParseFailPolicy(words[len(words)-1])
	switch {
	case !ok:
		return false
	case len(words) == 1:
		*v.all = fail
	default:
		*v.rules = append(*v.rules, engine.FailRule{Glob: words[0], Fail: fail})
	}
	return true
}

func (v failPolicies) allowed() string {
	return "closed, open, local or error, alone for all keys or after a glob for the keys that match it"
}

func (v failPolicies) clear() { *v.all, *v.rules = engine.FailClosed, nil }

// lines makes a line of its own of the first word if the number of words is odd: it has no glob.
func (v failPolicies) lines(words []string) [][]string {
	if len(words) == 0 {
		return [][]string{nil}
	}
	var lines [][]string
	if len(words)%2 == 1 {
		lines, words = [][]string{words[:1]}, words[1:]
	}
	return slices.AppendSeq(lines, slices.Chunk(words, 2))
}

func (v failPolicies) words() [][]string {
	lines := line(v.all.String())
	for _, r := range *v.rules {
		lines = append(lines, []string{r.Glob, r.Fail.String()})
	}
	return lines
}

// replicaNeed is how many replicas must have a decision, and how many ms they have for it if that is not up to the
// timeout of the nodes.
type replicaNeed struct{ p *replicas.Need }

// maxReplicas is the most replicas that a decision can wait for. No master has more in service.
const maxReplicas = 100

func (v replicaNeed) set(words []string) bool {
	var n, ms int
	if len(words) == 0 || len(words) > 2 || !(integer{&n, 0, maxReplicas}).set(words[:1]) ||
		len(words) == 2 && !(integer{&ms, 1, 60_000}).set(words[1:]) {
		return false
	}
	*v.p = replicas.Need{Replicas: n, Within: time.Duration(ms) * time.Millisecond}
	return true
}

func (v replicaNeed) allowed() string {
	return fmt.Sprintf("a number of replicas from 0 to %d, and perhaps the milliseconds they have, from 1 to 60000",
		maxReplicas)
}

func (v replicaNeed) words() [][]string {
	words := []string{strconv.Itoa(v.p.Replicas)}
	if v.p.Within > 0 {
		words = append(words, strconv.FormatInt(v.p.Within.Milliseconds(), 10))
	}
	return [][]string{words}
}

// guardMode is what to do when proxies have different backends.
func guardMode(p *layout.Mode) choice[layout.Mode] {
	modes := []layout.Mode{layout.Off, layout.Warn, layout.Strict}
	return choice[layout.Mode]{p, []string{"off", "warn", "strict"}, modes}
}

// hotKeys is the list of globs of keys to split, each with its number of shards.
type hotKeys struct{ p *[]split.Rule }

func (v hotKeys) set(words []string) bool {
	if len(words) != 2 {
		return false
	}
	n, err := strconv.Atoi(words[1])
	if err != nil || n < 1 || n > engine.MaxShards || words[0] == "" {
		return false
	}
	*v.p = append(*v.p, split.Rule{Glob: words[0], Shards: n})
	return true
}

func (v hotKeys) allowed() string {
	return "a glob and the number of shards, from 1 to " + strconv.Itoa(engine.MaxShards)
}

func (v hotKeys) clear() { *v.p = nil }

func (v hotKeys) lines(words []string) [][]string { return slices.Collect(slices.Chunk(words, 2)) }

func (v hotKeys) words() [][]string {
	var lines [][]string
	for _, r := range *v.p {
		lines = append(lines, []string{r.Glob, strconv.Itoa(r.Shards)})
	}
	return lines
}

// outputLimit is a client-output-buffer-limit in Redis's form, but with only the
// class normal and no soft limit.
type outputLimit struct{ p *int64 }

func (v outputLimit) set(words []string) bool {
	return len(words) == 4 && strings.EqualFold(words[0], "normal") &&
		words[2] == "0" && words[3] == "0" && size{v.p, 1 << 20}.set(words[1:2])
}

func (v outputLimit) allowed() string {
	return "normal <size> 0 0, the size at least 1048576: there is no soft limit"
}

func (v outputLimit) words() [][]string {
	return [][]string{{"normal", strconv.FormatInt(*v.p, 10), "0", "0"}}
}

// headerNames is no, yes for the names that Envoy's own service has, or the names of three headers.
type headerNames struct{ p *[]string }

// usualHeaders are the headers that yes stands for.
var usualHeaders = []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}

func (v headerNames) set(words []string) bool {
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	}
	switch word, one := single(words); {
	case one && strings.EqualFold(word, "no"):
		*v.p = nil
		return true
	case one && strings.EqualFold(word, "yes"):
		*v.p = usualHeaders
		return true
	case len(words) != 3:
		return false
	}
	for _, w := range words {
		if w == "" || strings.ContainsFunc(w, odd) {
			return false
		}
	}
	*v.p = slices.Clone(words)
	return true
}

func (v headerNames) allowed() string {
	return "no, yes, or the names of three headers, of letters, digits, - and _"
}

func (v headerNames) words() [][]string {
	switch {
	case *v.p == nil:
		return line("no")
	case slices.Equal(*v.p, usualHeaders):
		return line("yes")
	}
	return [][]string{*v.p}
}
