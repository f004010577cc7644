package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands"
	"github.com/rlproxy/rlproxy/commands/acl"
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

// acl builds the list of users from the configuration or from aclfile.
func (c *config) acl() (*acl.List, error) {
	if c.aclFile == "" {
		return commands.NewACL(c.users, c.requirePass)
	}
	if len(c.users) > 0 {
		return nil, errors.New("users are set up twice, by user and by aclfile: use only one of them")
	}
	users, err := readACL(c.aclFile)
	if err != nil {
		return nil, err
	}
	a, err := commands.NewACL(users, c.requirePass)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.aclFile, err)
	}
	return a, nil
}

// readACL reads a file of users. As in Redis, quotes have no meaning in it.
func readACL(path string) ([][]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("can't read the users: %w", err)
	}
	var users [][]string
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0][0] == '#':
		case words[0] != "user" || len(words) == 1:
			return nil, fmt.Errorf("%s:%d: a line must be user, a name and rules", path, n)
		default:
			users = append(users, words[1:])
		}
	}
	return users, nil
}
