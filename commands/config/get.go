package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/internal/glob"
)

// fixed are settings in CONFIG GET that are not directives. Some clients read databases
// before SELECT; redis-benchmark reads save and appendonly.
var fixed = [][2]string{
	{"appendonly", "no"}, {"databases", "1"}, {"maxmemory-policy", "noeviction"}, {"save", ""},
}

func (c *Config) get(w reply.Writer, args [][]byte) string {
	found := make(map[string][2]string) // by name: as many as there are, however many patterns match
	for _, a := range args[2:] {
		pattern := string(a)
		isGlob := strings.ContainsAny(pattern, "*?[")
		for _, s := range c.matching(pattern) {
			name := s[0]
			if _, ok := found[name]; ok {
				continue
			}
			if !isGlob {
				s[0] = pattern // as in Redis, the name is in the case of the first pattern that matches it
			}
			found[name] = s
		}
	}
	w.Map(len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		w.Field(found[name][0], found[name][1])
	}
	return ""
}

// matching returns the settings that match a pattern: the fixed ones, then the directives.
func (c *Config) matching(pattern string) (found [][2]string) {
	for _, s := range fixed {
		if glob.Match(strings.ToLower(pattern), s[0]) {
			found = append(found, s)
		}
	}
	if c.Settings != nil {
		found = append(found, c.Settings.Matching(pattern)...)
	}
	return found
}
