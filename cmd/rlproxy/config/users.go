package config

import (
	"slices"
)

// password is the default user's password. none is set by the empty word, which allows a
// reload to remove the password. A configuration without the directive does not.
type password struct {
	p    *string
	none *bool
}

func (v password) set(words []string) bool {
	word, ok := single(words)
	if ok {
		*v.p, *v.none = word, word == ""
	}
	return ok
}

func (v password) allowed() string { return "one word" }
func (v password) clear()          { *v.p, *v.none = "", false }

func (v password) words() [][]string {
	if *v.p == "" && !*v.none {
		return nil
	}
	return line(*v.p)
}

// userLines is the list of users and their rules, one line per user. Rules are checked
// once the whole configuration is read, since a user may be described only once.
type userLines struct{ p *[][]string }

func (v userLines) set(words []string) bool {
	if len(words) == 0 || words[0] == "" {
		return false
	}
	*v.p = append(*v.p, slices.Clone(words))
	return true
}

func (v userLines) allowed() string {
	return "a name and rules such as on >password ~keys:* +@ratelimit"
}
func (v userLines) clear()            { *v.p = nil }
func (v userLines) words() [][]string { return *v.p }
