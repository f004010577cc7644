// Package policies has the commands about named policies.
//
// Reading order: check.go (this file), RL.CHECK; policy.go, RL.POLICY; windows.go, which windows a
// change makes anew.
package policies

import (
	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/policy"
)

// Check returns RL.CHECK, which asks by the policies of a book that are in force.
func Check(book *policy.Book) ratelimit.Command {
	return ratelimit.Deciding(table.Command{
		Name: "rl.check", Arity: -3, Keys: table.Keys{First: 2, Last: 2, Step: 1, Joined: true}, Since: "0.1.0",
		Cost:    "As the command that the policy names",
		Summary: "Asks for the limits that a named policy has for a key",
		Args: append([]table.Arg{
			{Name: "policy", Type: "string", About: "the name of the policy, as in the configuration or `RL.POLICY SET`"},
			{Name: "key", Type: "key", About: "what is limited. RL.INSPECT, RL.RESET and the key patterns of users know it as `policy:key`, which is 1 to 4096 bytes"},
		}, ratelimit.RequestArgs()...),
		Replies: " A key that the policy lets through without a limit gets 1, 0, 0, 0 and 0, and a key that it blocks 0, 0, 0, 1000 and 1000.",
		Examples: []table.Example{
			{Line: "RL.CHECK api tenant:42", Reply: "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 60001"},
			{Line: "RL.CHECK api scraper:9", Reply: "1) (integer) 0\n2) (integer) 0\n3) (integer) 0\n4) (integer) 1000\n5) (integer) 1000"},
		},
	}, func(args [][]byte, pipe *engine.Pipeline) string { return parseCheck(book, args, pipe) })
}

func parseCheck(book *policy.Book, args [][]byte, pipe *engine.Pipeline) string {
	p, msg := find(book, args[1])
	if msg != "" {
		return msg
	}
	r := pipe.Add()
	if msg = p.Fill(r, pipe, args[2]); msg == "" {
		msg = ratelimit.ParseRequest(r, args[3:])
	}
	return msg
}

// find returns the policy of a name that is in force, or an error reply.
func find(book *policy.Book, name []byte) (*policy.Policy, string) {
	p := book.Find(name)
	if p == nil {
		if err := book.Unread(); err != nil {
			return nil, err.Error()
		}
		return nil, policy.Unknown(name)
	}
	return p, ""
}
