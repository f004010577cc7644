package envoy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/policy"
)

// readText imports one file with the default options.
func readText(text string) (*Import, error) {
	return Read([]Input{{"a.yaml", []byte(text)}}, Options{limit.Fixed})
}

// lines imports a configuration without remarks, and returns the lines of its policies.
func lines(t *testing.T, text string) string {
	t.Helper()
	im, err := readText(text)
	require.NoError(t, err)
	require.Empty(t, im.Remarks)
	return bare(im)
}

// bare returns the lines of an import without its comments.
func bare(im *Import) string {
	var b strings.Builder
	for l := range strings.Lines(im.Lines()) {
		if l != "\n" && l[0] != '#' {
			b.WriteString(l)
		}
	}
	return b.String()
}

const top = "domain: d\ndescriptors:\n"

func TestErrorsAboutInvalidFilesHaveTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "a.yaml: the file is empty",
		"# nothing\n":         "a.yaml: the file is empty",
		"---\n---\n":          "a.yaml: the file is empty",
		"- a\n- b\n":          "a.yaml:1: the configuration must be a map, not a list",
		"domain: d\n  x: y\n": "a.yaml:2: not YAML: mapping values are not allowed in this context",
		"domain: \"d\n":       "a.yaml:2: not YAML: found unexpected end of stream",
		"domain: d\ndescriptors: [{key: a}]\ndomain: e\n": "a.yaml:3: 'domain' appears twice, first in line 1",
		"descriptors: []\n":                    "a.yaml:1: domain is missing",
		"domain:\n":                            "a.yaml:1: domain is missing",
		"domain: [d]\n":                        "a.yaml:1: domain must be a string, not a list",
		"domain: !!binary ZA==\n":              "a.yaml:1: domain must be a string, not 'ZA=='",
		"domain: d\n":                          "there is no limit in a.yaml",
		top + "- key: a\n":                     "there is no limit in a.yaml",
		"domain: d\ndescriptors: {key: a}\n":   "a.yaml:2: descriptors must be a list, not a map",
		"domain: d\ndescriptors: a\n":          "a.yaml:2: descriptors must be a list, not 'a'",
		top + "- a\n":                          "a.yaml:3: a descriptor must be a map, not 'a'",
		top + "-\n":                            "a.yaml:3: a descriptor must be a map, not empty",
		top + "- value: a\n":                   "a.yaml:3: a descriptor has no key",
		top + "- key: ''\n":                    "a.yaml:3: a descriptor has no key",
		top + "- key: {a: b}\n":                "a.yaml:3: key must be a string, not a map",
		top + "- {key: a, [b]: c}\n":           "a.yaml:3: the name of a field must be a string, not a list",
		top + "- key: a\n- key: b\n- key: a\n": "a.yaml:5: the same key and value as at a.yaml:3",
		top + "- {key: a, value: x*}\n- {key: a, value: x*}\n":                              "a.yaml:4: the same key and value as at a.yaml:3",
		top + "- key: a\n  rate_limit: 5\n":                                                 "a.yaml:4: rate_limit must be a map, not '5'",
		top + "- key: a\n  rate_limit:\n    unit: fortnight\n":                              "a.yaml:5: unit must be second, minute, hour, day, week, month or year, not 'fortnight'",
		top + "- key: a\n  rate_limit:\n    requests_per_unit: 3\n":                         "a.yaml:5: unit must be second, minute, hour, day, week, month or year, not ''",
		top + "- key: a\n  rate_limit: {unit: day,\n    requests_per_unit: 4294967296}\n":   "a.yaml:5: requests_per_unit must be an integer between 0 and 4294967295, not '4294967296'",
		top + "- key: a\n  rate_limit: {unit: day,\n    requests_per_unit: -1}\n":           "a.yaml:5: requests_per_unit must be an integer between 0 and 4294967295, not '-1'",
		top + "- key: a\n  rate_limit: {unit: day,\n    requests_per_unit: 1.0}\n":          "a.yaml:5: requests_per_unit must be an integer between 0 and 4294967295, not '1.0'",
		top + "- key: a\n  rate_limit: {unit: day,\n    requests_per_unit: many}\n":         "a.yaml:5: requests_per_unit must be an integer between 0 and 4294967295, not 'many'",
		top + "- key: a\n  rate_limit: {unit: day, unlimited: true}\n":                      "a.yaml:4: rate_limit is unlimited and has a unit",
		top + "- key: a\n  rate_limit: {unlimited: 2}\n":                                    "a.yaml:4: unlimited must be true or false, not '2'",
		top + "- key: a\n  shadow_mode: [true]\n":                                           "a.yaml:4: shadow_mode must be true or false, not a list",
		top + "- key: a\n  share_threshold: true\n":                                         "a.yaml:4: share_threshold needs a value that ends in *",
		top + "- key: a\n  value: a*b\n  share_threshold: true\n":                           "a.yaml:5: share_threshold needs a value that ends in *",
		top + "- key: a\n  Value: x\n":                                                      "a.yaml:4: unknown field 'Value'; its name is value",
		top + "- key: a\n  rate_limit: {unit: day,\n    Requests_Per_Unit: 1}\n":            "a.yaml:5: unknown field 'Requests_Per_Unit'; its name is requests_per_unit",
		top + "- key: a\n  colour: red\n":                                                   "a.yaml:4: unknown field 'colour'",
		top + "- key: a*\n  descriptors: [{key: b, burst: 5}]\n":                            "a.yaml:4: unknown field 'burst'",
		top + "- key: a\n  rate_limit: {unit: day, replaces: [{name: x, Name: y}]}\n":       "a.yaml:4: unknown field 'Name'; its name is name",
		"Domain: d\ndescriptors: []\n":                                                      "a.yaml:1: unknown field 'Domain'; its name is domain",
		top + "- key: a\n  rate_limit: {unit: day,\n    unit_multiplier: 0}\n":              "a.yaml:5: unit_multiplier must be an integer between 1 and 4294967295, not '0'",
		top + "- key: a\n  rate_limit: {unit: day,\n    unit_multiplier: 1.5}\n":            "a.yaml:5: unit_multiplier must be an integer between 1 and 4294967295, not '1.5'",
		top + "- key: a\n  rate_limit: {unlimited: true, unit_multiplier: 2}\n":             "a.yaml:4: rate_limit is unlimited and has a unit_multiplier",
		top + "- key: a\n  rate_limit: {unlimited: true, replaces: [{}]}\n":                 "a.yaml:4: an entry of replaces has no name",
		top + "- key: a\n  rate_limit: {unlimited: true, replaces: x}\n":                    "a.yaml:4: replaces must be a list, not 'x'",
		top + "- key: a\n  rate_limit: {unlimited: true, name: n, replaces: [{name: n}]}\n": "a.yaml:4: a limit must not replace itself: 'n'",
		top + "- key: a*\n  descriptors: [{value: b}]\n":                                    "a.yaml:4: a descriptor has no key",
		top + "- key: a\n  <<: 5\n":                                                         "a.yaml:4: the value of << must be a map, not '5'",
	} {
		_, err := readText(text)
		require.ErrorContains(t, err, want, "%.200q", text)
	}
}

func TestHostileFilesTakeBoundedWork(t *testing.T) {
	// Fields without a meaning, such as name, may have any value.
	laughs := top + "- {key: k, name: &a0 [{key: k}]}\n"
	merges := top + "- {key: k, name: &m0 {name: y}}\n"
	for i := 1; i < 15; i++ {
		var items, merge []string
		for j := range 10 {
			items = append(items, fmt.Sprintf("{key: k%d, descriptors: *a%d}", j, i-1))
			merge = append(merge, fmt.Sprintf("*m%d", i-1))
		}
		laughs += fmt.Sprintf("- {key: k%d, name: &a%d [%s]}\n", i, i, strings.Join(items, ", "))
		merges += fmt.Sprintf("- {key: k%d, name: &m%d {<<: [%s]}}\n", i, i, strings.Join(merge, ", "))
	}
	deep := top
	for i := range maxDepth + 1 {
		deep += strings.Repeat("  ", i) + "- key: a\n" + strings.Repeat("  ", i) + "  descriptors:\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"a large file":             {top + strings.Repeat("- key: aaaaaaaaaaaaaaaaaa\n", 400_000), "a.yaml: the file has more than 4 MiB"},
		"deep lists":               {strings.Repeat("[", 1<<20), "a.yaml:1: not YAML: exceeded max depth"},
		"deep maps":                {strings.Repeat("- ", 1<<20), "a.yaml:1: not YAML: exceeded max depth"},
		"deep descriptors":         {deep + strings.Repeat("  ", maxDepth+1) + "- key: a\n", fmt.Sprintf("a.yaml:%d: descriptors must not be nested deeper than 16", 2*maxDepth+3)},
		"laughs":                   {laughs + "- {key: all, descriptors: *a14}\n", "more than 1048576 entries, with those that aliases repeat"},
		"merged laughs":            {merges + "- {<<: *m14}\n", "more than 1048576 entries, with those that aliases repeat"},
		"a descriptor in itself":   {top + "- &a {key: k, descriptors: [*a]}\n", "a.yaml:3: descriptors must not be nested deeper than 16"},
		"a list in itself":         {"domain: d\ndescriptors: &a [*a]\n", "a.yaml:2: a descriptor must be a map, not a list"},
		"a map merged into itself": {top + "- &a\n  key: k\n  <<: *a\n", "a.yaml:3: << must not be nested deeper than 16"},
		"an unknown anchor":        {top + "- *nothing\n", "not YAML: unknown anchor 'nothing' referenced"},
	} {
		_, err := readText(c.text)
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestTooManyPoliciesAndCombinationsAreNotWritten(t *testing.T) {
	many := top
	for i := range policy.MaxPolicies + 1 {
		many += fmt.Sprintf("- {key: k%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
	}
	_, err := readText(many)
	require.ErrorContains(t, err, "too many policies: at most 4096")

	wide := top + "- key: small\n  rate_limit: {unit: day}\n- key: a\n  descriptors:\n  - key: b\n    descriptors:\n    - {key: c, rate_limit: {unit: day}}\n"
	for i := range 200 {
		wide += fmt.Sprintf("- key: a\n  value: a%d\n  descriptors:\n  - key: b\n    value: b%d\n    descriptors:\n    - {key: c, value: c%d}\n", i, i, i)
	}
	im, err := readText(wide)
	require.NoError(t, err)
	require.Equal(t, []Remark{{Position{"a.yaml", 9}, "(a), (b), (c) is not carried over: its fixed values can be combined in too many ways"}}, im.Remarks)
	require.Equal(t, "policy d.small FIXED 1 1s\npolicy-override d.small * BLOCKED\n", bare(im))
}

func TestUnitsAreWindowsOfTheSameLength(t *testing.T) {
	text, want := top, ""
	for _, u := range [][2]string{{"second", "1s"}, {"MINUTE", "1m"}, {"Hour", "1h"}, {"day", "1d"}, {"week", "7d"}, {"month", "30d"}, {"YEAR", "365d"}} {
		text += fmt.Sprintf("- {key: %s, rate_limit: {unit: %s, requests_per_unit: 4294967295}}\n", u[0], u[0])
		want += fmt.Sprintf("policy d.%s FIXED 4294967295 %s\n", u[0], u[1])
	}
	require.Equal(t, want, lines(t, text))
}

func TestStringsAndBoolsAreReadAsByEnvoyproxyRatelimit(t *testing.T) {
	require.Equal(t, `policy d.1 FIXED 1 1s
policy-override d.1 * BLOCKED
policy-override d.1 010 5 1m
policy-override d.1 2026-01-02 5 1m
policy-override d.1 true 5 1m
policy-override d.1 yes UNLIMITED
policy d.none FIXED 1 1s
policy-override d.none * BLOCKED
`, lines(t, top+`
- {key: 1, value: 010, rate_limit: &five {unit: minute, requests_per_unit: 5}, shadow_mode: no}
- {key: 1, value: true, rate_limit: *five, shadow_mode: }
- {key: 1, value: 2026-01-02, rate_limit: {<<: [{unit: second}, *five], unit: minute}}
- {key: 1, rate_limit: {unit: day}}
- {key: 1, value: yes, rate_limit: {unlimited: on}}
- {key: none, value: , rate_limit: {unit: day}}
- {key: 7, value: x, rate_limit: ~, descriptors: ~}
`))
}

func TestOwnFieldsWinOverMergedOnesAndEarlierMergesOverLater(t *testing.T) {
	require.Equal(t, "policy d.own FIXED 1 1d\n", lines(t, top+`
- <<: [{key: first, rate_limit: {unit: day, requests_per_unit: 1}}, {key: second, rate_limit: {unit: hour}}]
  key: own
`))
}

func TestAUnitMultiplierMultipliesTheWindow(t *testing.T) {
	require.Equal(t, `policy d.a FIXED 10 5m
policy d.b FIXED 1 366d
policy d.c FIXED 7 12d
policy-override d.c x UNLIMITED
policy d.c.shadow FIXED 1000000000000 1s SHADOW
policy-override d.c.shadow * UNLIMITED
policy-override d.c.shadow x 8 3d
policy d.d FIXED 1 1s
policy-override d.d * BLOCKED
`, lines(t, top+`
- {key: a, rate_limit: {unit: minute, unit_multiplier: 5, requests_per_unit: 10}}
- {key: b, rate_limit: {unit: day, unit_multiplier: 366, requests_per_unit: 1}}
- {key: c, rate_limit: {unit: DAY, unit_multiplier: 12, requests_per_unit: 7}}
- {key: c, value: x, rate_limit: {unit: day, unit_multiplier: 3, requests_per_unit: 8}, shadow_mode: true}
- {key: d, rate_limit: {unit: second, unit_multiplier: 4294967295}}
`))
}

func TestLimitsThatNoPolicyCanBeAreLeftOut(t *testing.T) {
	im, err := readText(top + `
- key: k
  rate_limit: {unit: day, requests_per_unit: 9}
  name: misplaced
  metadata: {a: [b]}
- key: k
  value: quota
  quota_mode: true
  rate_limit: {unit: day, requests_per_unit: 1}
  descriptors:
  - {key: below, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: k, value: free, quota_mode: true, rate_limit: {unlimited: true}}
- {key: k, value: no, quota_mode: true}
- {key: k, value: s*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 3}, descriptors: [{key: below, rate_limit: {unit: day}}]}
- {key: k, value: long, rate_limit: {unit: month, unit_multiplier: 13, requests_per_unit: 4}}
- {key: k, value: "q?x", rate_limit: {unit: day, requests_per_unit: 5}}
- {key: k, value: "[2001:db8::1]*", rate_limit: {unit: day, requests_per_unit: 6}}
- {key: k, value: 10.0.0.0/8, rate_limit: {unit: day, requests_per_unit: 7}}
- {key: k, value: ` + strings.Repeat("v", 5000) + `, rate_limit: {unit: day, requests_per_unit: 8}}
- key: k*
  rate_limit: {unit: day}
`)
	require.NoError(t, err)
	require.Equal(t, `policy d.k FIXED 9 1d
policy-override d.k free UNLIMITED
policy-override d.k no UNLIMITED
policy-override d.k quota UNLIMITED
policy d.k.shadow FIXED 1000000000000 1s SHADOW
policy-override d.k.shadow * UNLIMITED
policy-override d.k.shadow quota 1 1d
policy d.k.below FIXED 1000000000000 1s
policy-override d.k.below * UNLIMITED
policy-override d.k.below quota|* 2 1d
`, bare(im))
	var remarks []string
	for _, r := range im.Remarks {
		remarks = append(remarks, r.String()+": "+r.Text)
	}
	const pattern = "pattern must be a key, a key prefix followed by *, or a network such as 10.0.0.0/8, "
	want := []string{
		"a.yaml:6: the field 'name' has no meaning here, in envoyproxy/ratelimit either",
		"a.yaml:7: metadata is not carried over: replies have none",
		"a.yaml:10: quota_mode becomes SHADOW for k=quota: it counts and denies nothing, but replies have no metadata",
		"a.yaml:16: share_threshold is not carried over, nor are k=s* and what is below it: each value would have a count of its own; what matches is treated as any other value",
		"a.yaml:17: unit_multiplier is not carried over, nor the limit of k=long: a window has at most 366 days, and 13 times a month is longer",
		"a.yaml:18: (k) is not carried over completely, because no override can be for k=q?x: " + pattern + "without ? and [; it was 'q?x'",
		"a.yaml:19: (k) is not carried over completely, because no override can be for k=[2001:db8::1]*: " + pattern + "without ? and [; it was '[2001:db8::1]*'",
		"a.yaml:20: (k) is not carried over completely, because no override can be for k=10.0.0.0/8: a network is not a value; it was '10.0.0.0/8'",
		"a.yaml:21: (k) is not carried over completely, because no override can be for k=",
		"a.yaml:22: a key with a * is not carried over, nor what is below it: 'k*'",
	}
	require.Len(t, remarks, len(want))
	for i := range want {
		require.True(t, strings.HasPrefix(remarks[i], want[i]), "%s\n%s", want[i], remarks[i])
	}
}

func TestEveryDocumentAndConfigMapOfAFileIsRead(t *testing.T) {
	im, err := readText(`apiVersion: v1
kind: ConfigMap
metadata: {name: ratelimit-config}
data:
  config.yaml: |
    domain: d
    descriptors:
    - {key: a, rate_limit: {unit: day, requests_per_unit: 1}, detailed_metric: true}
  more.yaml: "domain: e\ndescriptors: [{key: b, rate_limit: {unit: hour, requests_per_unit: 2}, detailed_metric: yes}]"
---
# nothing
---
apiVersion: apps/v1
kind: Deployment
---
domain: d
descriptors:
- {key: c, rate_limit: {unit: minute, requests_per_unit: 3}}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
- apiVersion: v1
  kind: ConfigMap
  data:
    x: |
      domain: f
      descriptors:
      - {key: d, rate_limit: {unit: second, requests_per_unit: 4}}
- &list {apiVersion: v1, kind: List, items: [*list]}
`)
	require.NoError(t, err)
	require.Equal(t, "policy d.a FIXED 1 1d\npolicy d.c FIXED 3 1m\npolicy e.b FIXED 2 1h\npolicy f.d FIXED 4 1s\n", bare(im))
	var remarks []string
	for _, r := range im.Remarks {
		remarks = append(remarks, fmt.Sprintf("%v: %.40s", r.Position, r.Text))
	}
	require.Equal(t, []string{
		"a.yaml (more.yaml):2: detailed_metric is not carried over: met", "a.yaml:8: detailed_metric is not carried over: met",
		"a.yaml:13: only ConfigMaps are read, and a List of ", "a.yaml:32: only ConfigMaps are read, and a List of ",
	}, remarks)

	const configMap = "kind: ConfigMap\napiVersion: v1\ndata:\n"
	for text, want := range map[string]string{
		configMap + "  a.yaml: |\n    domain: d\n    descriptors:\n    - {key: a, Value: b}\n": "a.yaml:7: unknown field 'Value'; its name is value",
		configMap + "  a.yaml: |\n    domain: d\n    x: y: z\n":                                "a.yaml:6: not YAML",
		configMap + "  b.yaml: \"a\\nb: c\"\n":                                                 "a.yaml (b.yaml):2: not YAML",
		configMap + "  a.yaml: {domain: d}\n":                                                  "a.yaml:4: a.yaml must be a string, not a map",
		configMap + "  a.yaml: ''\n":                                                           "a.yaml (a.yaml): the file is empty",
		configMap + "- a\n":                                                                    "a.yaml:4: data must be a map, not a list",
		configMap + "  a.yaml: |\n    apiVersion: v1\n    kind: ConfigMap\n":                   "unknown field",
		"apiVersion: v1\nkind: List\nitems: x\n":                                               "a.yaml:3: items must be a list",
		"apiVersion: v1\nkind: List\nitems: [x]\n":                                             "a.yaml:3: the configuration must be a map, not 'x'",
		"domain: d\nkind: ConfigMap\n":                                                         "a.yaml:2: unknown field 'kind'",
		"domain: d\ndescriptors: []\n---\n- a\n":                                               "a.yaml:4: the configuration must be a map, not a list",
	} {
		_, err := readText(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestPoliciesWithTheSameNameAreNotBothWritten(t *testing.T) {
	im, err := readText(top + "- {key: a/b, rate_limit: {unit: day, requests_per_unit: 1}}\n- {key: a-b, rate_limit: {unit: day, requests_per_unit: 2}}\n")
	require.NoError(t, err)
	require.Equal(t, "policy d.a-b FIXED 1 1d\n", bare(im))
	require.Equal(t, []Remark{{Position{"a.yaml", 4}, "(a-b) is not carried over: its policy would have the same name as that of (a/b), a.yaml:3"}}, im.Remarks)
}
