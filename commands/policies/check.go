// Package policies has the commands about named policies.
//
// Reading order: check.go (this file) has RL.CHECK and RL.HOLD, policy.go has RL.POLICY, and windows.go
// determines which windows begin to count at 0 after a change.
package policies

import (
	"bytes"

	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/policy"
)

// ofPolicy are the first arguments of the commands that apply policies.
var ofPolicy = []table.Arg{
	{Name: "policy", Type: "string", About: "the name of the policy, as in the configuration or `RL.POLICY SET`"},
	{Name: "key", Type: "key", About: "what is limited. RL.INSPECT, RL.RESET and the key patterns of users " +
		"know it as `policy:key`, which is 1 to 4096 bytes"},
}

// Check returns RL.CHECK, which applies the policies in effect of a catalog.
func Check(catalog *policy.Catalog) ratelimit.Command {
	return ratelimit.ByPolicy(table.Command{
		Name: "rl.check", Arity: -3, Since: "0.1.0",
		Complexity: "As the command that the policy names",
		Summary:    "Asks for the limits that a named policy has for a key",
		Args:       ofPolicy,
		Replies: " A key that the policy lets through without a limit gets 1, 0, 0, 0 and 0, and a key that it " +
			"blocks 0, 0, 0, 1000 and 1000, or 1, 0, 0, 1000 and 1000 if the policy has SHADOW.",
		Examples: []table.Example{
			{Line: "RL.CHECK api tenant:42",
				Reply: "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 60001"},
			{Line: "RL.CHECK api scraper:9",
				Reply: "1) (integer) 0\n2) (integer) 0\n3) (integer) 0\n4) (integer) 1000\n5) (integer) 1000"},
		},
	}, filler(catalog))
}

// Hold returns RL.HOLD, which applies the policies in effect of a catalog.
func Hold(catalog *policy.Catalog) ratelimit.Command {
	return ratelimit.HoldByPolicy(table.Command{
		Name: "rl.hold", Arity: -7, Since: "0.1.0",
		Complexity: "As RL.RESERVE; of a COUNTER or FIXED policy O(D) with D the deadlines, some 370 at most",
		Summary:    "Holds units as RL.CHECK would charge them, until RL.SETTLE charges what was really used",
		Args:       ofPolicy,
		Replies: " The policy is one of SLIDE, COUNTER or FIXED. RL.SETTLE names the key `policy:key`. " +
			"What is settled, or lapses, counts in the window of the moment at which it is charged. " +
			"A key that the policy lets through without a limit gets 1, 0, 0, 0 and 0, and a key that it blocks " +
			"0, 0, 0, 1000 and 1000: nothing is held, and its RL.SETTLE replies 0, 0 and 0. With a policy that has " +
			"SHADOW, units of the shadow are held, and the first integer is 1.",
		Examples: []table.Example{{Line: "RL.HOLD tokens red COST 400 ID req-81 TTL 30",
			Reply: "1) (integer) 1\n2) (integer) 1000\n3) (integer) 600\n4) (integer) 0\n5) (integer) 34000"}},
	}, filler(catalog))
}

// Settle returns RL.SETTLE, which ends the holds of RL.HOLD and RL.RESERVE.
func Settle(catalog *policy.Catalog) ratelimit.Command {
	return ratelimit.Settle(func(key []byte) bool {
		name, _, found := bytes.Cut(key, []byte(":"))
		if !found {
			return false
		}
		p := catalog.Find(name)
		return p != nil && p.Shadow
	})
}

// filler returns the function that makes requests by the policies in effect.
func filler(catalog *policy.Catalog) func(r *engine.Request, pipe *engine.Pipeline, name, key []byte) string {
	return func(r *engine.Request, pipe *engine.Pipeline, name, key []byte) string {
		p, msg := find(catalog, name)
		if msg == "" {
			msg = p.Fill(r, pipe, key)
		}
		return msg
	}
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
