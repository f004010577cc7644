package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
	"github.com/rlproxy/rlproxy/commands"
	"github.com/rlproxy/rlproxy/commands/acl"
)

// users builds the list of users from the configuration or from aclfile.
func users(c *config.Config) (*acl.Users, error) {
	if c.ACLFile == "" {
		return commands.NewACL(c.Users, c.RequirePass)
	}
	if len(c.Users) > 0 {
		return nil, errors.New("users are set up twice, by user and by aclfile: use only one of them")
	}
	users, err := readACL(c.ACLFile)
	if err != nil {
		return nil, err
	}
	a, err := commands.NewACL(users, c.RequirePass)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.ACLFile, err)
	}
	return a, nil
}

// readACL reads a file of users. As in Redis, quotes have no meaning in it.
func readACL(path string) ([][]string, error) {
	b, err := config.ReadFile(path)
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
