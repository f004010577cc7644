package acl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

func TestInvalidRulesAreRefusedWithoutQuotingThem(t *testing.T) {
	for rule, want := range map[string]string{
		"hunter2":                     `user "shop": rule 2: unknown rule`,
		"":                            "unknown rule",
		"%X~hunter2":                  "unknown rule",
		"%~hunter2":                   "unknown rule",
		"%R":                          "unknown rule",
		"+rl.hunter2":                 "unknown command or category name in ACL",
		"+@hunter2":                   "unknown command or category name in ACL",
		"-client|hunter":              "unknown command or category name in ACL",
		"+":                           "unknown command or category name in ACL",
		"#hunter2":                    "the password hash must be exactly 64 characters",
		"!hunter2":                    "the password hash must be exactly 64 characters",
		"#" + strings.Repeat("A", 64): "the password hash must be exactly 64 characters",
		"<hunter2":                    "the password to be removed does not exist",
	} {
		_, err := New([][]string{{"shop", "on", rule}}, "", known)
		require.ErrorContains(t, err, want, rule)
		require.NotContains(t, err.Error(), "hunter", rule)
	}
}

func TestInvalidSelectorsAreRefusedAsByRedis(t *testing.T) {
	server := redistest.Start(t)
	for rules, want := range map[string]string{
		"(":                  "rule 1: unmatched parenthesis in acl selector",
		"(~a +get":           "rule 1: unmatched parenthesis in acl selector",
		"on (~a) (~b +get":   "rule 3: unmatched parenthesis in acl selector",
		"(~a +get)x on":      "rule 1: unmatched parenthesis in acl selector",
		"(hunter2":           "rule 1: unmatched parenthesis in acl selector",
		"on )":               "rule 2: unknown rule",
		"~a +get)":           "rule 2: unknown command or category name in ACL",
		"(~a +get))":         "rule 1: rule 2 of the selector: unknown command or category name in ACL",
		"((~a +get))":        "rule 1: rule 1 of the selector: a selector can only have rules about commands, keys and channels",
		"(~a) (~b (+get)":    "rule 2: rule 2 of the selector: a selector can only have rules",
		"~a (~b +get on) on": "rule 2: rule 3 of the selector: a selector can only have rules",
		"(off)":              "a selector can only have rules about commands, keys and channels",
		"(nopass)":           "a selector can only have rules about commands, keys and channels",
		"(>hunter2)":         "a selector can only have rules about commands, keys and channels",
		"(resetpass)":        "a selector can only have rules about commands, keys and channels",
		"(reset)":            "a selector can only have rules about commands, keys and channels",
		"(clearselectors)":   "a selector can only have rules about commands, keys and channels",
		"(sanitize-payload)": "a selector can only have rules about commands, keys and channels",
		"(hunter2)":          "a selector can only have rules about commands, keys and channels",
		"(%X~a)":             "a selector can only have rules about commands, keys and channels",
		"(+rl.hunter2)":      "rule 1: rule 1 of the selector: unknown command or category name in ACL",
		"(+@hunter2)":        "unknown command or category name in ACL",
		"(+)":                "unknown command or category name in ACL",
		"(~* ~a)":            "a pattern after ~* or allkeys has no effect",
	} {
		_, err := New([][]string{append([]string{"shop"}, strings.Fields(rules)...)}, "", known)
		require.ErrorContains(t, err, want, rules)
		require.NotContains(t, err.Error(), "hunter", rules)
		require.Error(t, setUser(t, server, "shop "+rules), rules)
	}
	// A selector may be one word, if it is quoted in the configuration.
	_, err := New([][]string{{"shop", "(~a +get)", "(~b\t+set)"}}, "", known)
	require.NoError(t, err)
	// Redis would remove the quotes.
	_, err = New([][]string{{"shop", `(~'a`, `b' +get)`}}, "", known)
	require.ErrorContains(t, err, "quotes in a selector are not supported")
}
