package config

import "github.com/rlproxy/rlproxy/policy"

// policyLines is the lines of the directive policy or of policy-override. Both fill one Builder,
// which checks each line, since an override depends on its policy.
type policyLines struct {
	p     **policy.Builder
	first string // the directive
}

func (v policyLines) put(words []string) error { return (*v.p).Add(v.first, words) }
func (v policyLines) set(words []string) bool  { return v.put(words) == nil }
func (v policyLines) allowed() string          { return "the line of a policy" }
func (v policyLines) clear()                   { (*v.p).Clear(v.first) }

func (v policyLines) words() (lines [][]string) {
	for _, p := range (*v.p).Set().All() {
		if v.first == policy.PolicyLine {
			lines = append(lines, p.Words())
			continue
		}
		for i := range p.Overrides {
			lines = append(lines, p.Overrides[i].Words(p))
		}
	}
	return lines
}
