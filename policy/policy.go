// Package policy implements named policies: named limits for RL.CHECK, with overrides for individual
// keys and prefixes. It does no I/O, reads no clock and starts no goroutine.
//
// A Set is an immutable collection of policies. Its text form is the same as in the
// configuration: one line for each policy and override. A change makes a new Set. A Catalog holds
// the policies in effect: those of the configuration and those that were stored by a command.
//
// The words of a policy are those of RL.SLIDE, RL.COUNTER and RL.FIXED, and are parsed by package
// ratelimit.
//
// Reading order: policy.go (this file), index.go (which override a key has), text.go and
// builder.go (lines), set.go (changes and bounds), catalog.go.
package policy

import (
	"cmp"
	"strconv"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Policy is a named set of limits. It must not be modified once it is in a Set.
type Policy struct {
	Name      string            // 1 to MaxName letters, digits, _, . and -
	Kind      limit.Kind        // its algorithm
	Limits    []limit.Window    // at least one, in the order given
	Param     int64             // that of limit.Spec
	Manner    int64             // that of limit.Spec
	Shards    int               // shards per key as given, which may be more than a limit; 0: not given
	Fail      engine.FailPolicy // FAIL policy; engine.FailDefault: not given
	Shadow    bool              // requests are decided, but not denied
	IPv6      int               // bits of the networks by which IPv6 addresses count, 1 to 128; 0: keys count as given
	Order     []int             // of the values of Envoy's descriptors in a key, from 0; nil: as they come
	Overrides []Override        // sorted by pattern

	Configured bool  // the policy is in the configuration; only set in a Catalog
	Version    int64 // the version of the stored policies; only set in a Catalog; 0 if Configured

	size  int // bytes of the policy's lines
	index index
}

// Override gives some keys of a policy other limits.
type Override struct {
	// Pattern is a key, a prefix of keys followed by *, or a network, which matches keys that are addresses in it.
	Pattern string
	// Limits replace those of the policy. It is empty if there is a Verdict.
	Limits []limit.Window
	// Param is that of limit.Spec, if the limits say it; 0: the policy's.
	Param int64
	// Verdict is the answer to all requests about these keys. It is engine.VerdictNone if there
	// are Limits.
	Verdict engine.Verdict
	// Counts has what the override has decided in this proxy. It stays when the policies are replaced.
	Counts *engine.OverrideCounts
}

// Fill sets all fields of a request about a key, except the cost and the ID, according to the
// policy. The client's key becomes the policy's name, a colon and key. Fill returns an error
// reply if the key is too short or too long, else "". It does not allocate once the pipeline
// has memory.
func (p *Policy) Fill(r *engine.Request, pipe *engine.Pipeline, key []byte) string {
	limits := p.Limits
	if o := p.Override(key); o != nil {
		limits, r.Verdict, r.Override = o.Limits, o.Verdict, o.Counts
		r.Param = o.Param
	}
	counts := key
	var buf [64]byte
	if p.IPv6 > 0 {
		counts = counted(buf[:0], key, p.IPv6)
	}
	n := len(p.Name) + 1 + len(counts)
	if len(key) == 0 || n > engine.MaxKey {
		return keyError(len(key), n)
	}
	joined := append(append(append(pipe.Room(n), p.Name...), ':'), counts...)
	r.Key = pipe.Name(joined, p.Shadow)
	r.Kind, r.Param, r.Manner, r.Shards = p.Kind, cmp.Or(r.Param, p.Param), p.Manner, p.Shards
	r.Fail, r.Shadow, r.Policy = p.Fail, p.Shadow, p.Name
	r.N = copy(r.Windows[:], limits)
	return ""
}

// keyError returns the error about a key of n bytes, which has total bytes with the policy's name.
func keyError(n, total int) string {
	if n == 0 {
		return reply.ErrKey + "; it had 0"
	}
	return reply.ErrKey + "; with the policy's name it had " + strconv.Itoa(total)
}
