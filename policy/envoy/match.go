package envoy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/policy"
)

// The matching of descriptors to policies, by which the importer names what it writes and the server of Envoy finds it.

// shadowSuffix ends the name of the policy with the limits in shadow mode of keys that also have others.
const shadowSuffix = ".shadow"

// Names returns the names of the policies that descriptors with these keys may have. The limits of all of them apply.
func Names(domain string, keys []string) [2]string {
	return [2]string{policyName(domain, keys, ""), policyName(domain, keys, shadowSuffix)}
}

// policyName returns the name of a policy: the domain and the keys, joined by dots, with a dash for
// each character that a name cannot have, and a suffix. Long names are shortened and get a hash.
func policyName(domain string, keys []string, suffix string) string {
	whole := domain + "." + strings.Join(keys, ".")
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
			return c
		}
		return '-'
	}, whole)
	if len(name)+len(suffix) > policy.MaxName {
		h := fnv.New32a()
		_, _ = h.Write([]byte(whole)) // never fails
		suffix = fmt.Sprintf("-%08x", h.Sum32()) + suffix
	}
	return name[:min(len(name), policy.MaxName-len(suffix))] + suffix
}

// separator stands between the values in a client's key. A value that contains it is escaped, so that different values
// never make the same key.
const separator = "|"

var escaped = strings.NewReplacer("%", "%25", separator, "%7C")

// escape returns a value, or the prefix of one, as it stands in a key of so many values. A value alone stands there as
// it is, unless it begins with a %: what begins with only one % stands for no value.
func escape(value string, values int) string {
	switch {
	case values > 1:
		return escaped.Replace(value)
	case strings.HasPrefix(value, "%"):
		return "%" + value
	}
	return value
}

// Key returns the client's key of a descriptor with these values, for the policy p. It reports false if p is for
// descriptors with another number of values. A key is neither empty nor longer than engine.MaxKey allows: instead of no
// value there is a %, and the rest of a long key is replaced by its SHA-256.
func Key(p *policy.Policy, values []string) (key string, ok bool) {
	if p.Order != nil && len(p.Order) != len(values) {
		return "", false
	}
	var b strings.Builder
	for i := range values {
		at := i
		if p.Order != nil {
			at = p.Order[i]
		}
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(escape(values[at], len(values)))
	}
	if key = b.String(); key == "" {
		return "%", true
	}
	const digest = 1 + 2*sha256.Size
	if most := engine.MaxKey - len(p.Name) - 1; len(key) > most {
		sum := sha256.Sum256([]byte(key))
		key = key[:most-digest] + "%" + hex.EncodeToString(sum[:])
	}
	return key, true
}
