// Package policies has the commands about named policies.
//
// Reading order: check.go (this file) has RL.CHECK, policy.go has RL.POLICY, and windows.go
// determines which windows begin to count at 0 after a change.
package policies

import (
	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/policy"
)

// Check returns RL.CHECK, which applies the policies in effect of a catalog.
func Check(catalog *policy.Catalog) ratelimit.Command {
	return ratelimit.ByPolicy(table.Command{
		Name: "rl.check", Arity: -3, Since: "0.1.0",
		Complexity: "As the command that the policy names",
		Summary:    "Asks for the limits that a named policy has for a key",
		Args: []table.Arg{
			{Name: "policy", Type: "string",
				About: "the name of the policy, as in the configuration or `RL.POLICY SET`"},
			{Name: "key", Type: "key", About: "what is limited. RL.INSPECT, RL.RESET and the key patterns of users " +
				"know it as `policy:key`, which is 1 to 4096 bytes"},
		},
		Replies: " A key that the policy lets through without a limit gets 1, 0, 0, 0 and 0, and a key that it " +
			"blocks 0, 0, 0, 1000 and 1000, or 1, 0, 0, 1000 and 1000 if the policy has SHADOW.",
		Examples: []table.Example{
			{Line: "RL.CHECK api tenant:42",
				Reply: "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 60001"},
			{Line: "RL.CHECK api scraper:9",
				Reply: "1) (integer) 0\n2) (integer) 0\n3) (integer) 0\n4) (integer) 1000\n5) (integer) 1000"},
		},
	}, func(r *engine.Request, pipe *engine.Pipeline, name, key []byte) string {
		p, msg := find(catalog, name)
		if msg == "" {
			msg = p.Fill(r, pipe, key)
		}
		return msg
	})
}

// find returns the policy in effect with this name, or an error reply.
func find(catalog *policy.Catalog, name []byte) (*policy.Policy, string) {
	p := catalog.Find(name)
	if p == nil {
		if err := catalog.WhyUnknown(); err != nil {
			return nil, err.Error()
		}
		return nil, policy.Unknown(name)
	}
	return p, ""
}
