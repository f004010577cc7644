package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	entry := func(test string) []expectation { return []expectation{{"s", test, "because"}} }
	for name, c := range map[string]struct {
		redis, proxy outcomes
		expected     []expectation
		want         verdict
	}{
		"a test that passes with both counts": {
			redis: outcomes{"a": true}, proxy: outcomes{"a": true},
			want: verdict{run: 1, passed: 1},
		},
		"a failure fails the run": {
			redis: outcomes{"a": true}, proxy: outcomes{"a": false},
			want: verdict{run: 1, problems: []string{"a failed"}},
		},
		"a test that did not run has failed": {
			redis: outcomes{"a": true}, proxy: outcomes{},
			want: verdict{run: 1, problems: []string{"a failed"}},
		},
		"a failure that only occurs with rlproxy fails the run": {
			redis: outcomes{"a": true}, proxy: outcomes{"a": true, "b": false},
			want: verdict{run: 2, passed: 1, problems: []string{"b failed"}},
		},
		"what Redis fails does not count": {
			redis: outcomes{"a": true, "b": false, "c": false}, proxy: outcomes{"a": true, "b": false, "c": true},
			want: verdict{run: 1, passed: 1},
		},
		"an expected failure is counted": {
			redis: outcomes{"a": true}, proxy: outcomes{"a": false}, expected: entry("a"),
			want: verdict{run: 1, expected: 1},
		},
		"an expectation covers what begins with it": {
			redis: outcomes{"ab": true, "ac": true}, proxy: outcomes{"ab": false}, expected: entry("a*"),
			want: verdict{run: 2, expected: 2},
		},
		"an expected failure that passes fails the run": {
			redis: outcomes{"ab": true, "ac": true}, proxy: outcomes{"ab": true, "ac": false}, expected: entry("a*"),
			want: verdict{run: 2, passed: 1, expected: 1, problems: []string{`ab passed: take "a*" off the list`}},
		},
		"an expectation about nothing fails the run": {
			redis: outcomes{"a": true}, proxy: outcomes{"a": true}, expected: entry("b"),
			want: verdict{run: 1, passed: 1, problems: []string{
				`no test is called "b", or Redis fails it: take it off the list`,
			}},
		},
		"a suite without tests fails the run": {
			redis: outcomes{"a": false}, proxy: outcomes{},
			want: verdict{problems: []string{"no test ran"}},
		},
	} {
		require.Equal(t, c.want, judge(c.redis, c.proxy, c.expected), name)
	}
}

func TestOutcomesAreReadFromTheSuitesOutput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		suite string
		lines []string
		want  outcomes
	}{
		"Redis": {
			"redis",
			[]string{"[ok]: SET an item (1 ms)", "[err]: Is the hash big? in tests/unit/type/hash.tcl", "Expected 'a'"},
			outcomes{"SET an item": true, "Is the hash big?": false},
		},
		"a name that comes twice": {
			"redis",
			[]string{"[ok]: A (1 ms)", "[err]: A in tests/unit/a.tcl", "[ok]: A (2 ms)", "[ok]: B (1 ms)", "[ok]: B (1 ms)"},
			outcomes{"A": false, "B": true},
		},
		"a suite that ended early": {
			"redis",
			[]string{"[exception]: Executing test client: too many nested evaluations."},
			outcomes{"Executing test client: too many nested evaluations.": false},
		},
		"pytest": {
			"redis-py",
			[]string{"PASSED a.py::T::test_a[x]", "FAILED a.py::T::test_b - AssertionError", "ERROR a.py::T::test_c - no"},
			outcomes{"a.py::T::test_a[x]": true, "a.py::T::test_b": false, "a.py::T::test_c": false},
		},
		"Go": {
			"ulule/limiter",
			[]string{"=== RUN   TestA", "--- PASS: TestA (0.00s)", "    --- FAIL: TestB/c (0.10s)", "--- FAIL: TestB (0.10s)"},
			outcomes{"TestA": true, "TestB/c": false, "TestB": false},
		},
	} {
		got := outcomes{}
		for _, s := range suites {
			for _, line := range c.lines {
				if s.name == c.suite {
					got.note(&s, line)
				}
			}
		}
		require.Equal(t, c.want, got, name)
	}
}

func TestExpectationsHaveAReason(t *testing.T) {
	t.Parallel()
	got, err := parseExpectations("# why\n\nredis | BLPOP: one | it blocks\n")
	require.NoError(t, err)
	require.Equal(t, []expectation{{"redis", "BLPOP: one", "it blocks"}}, got)
	for _, line := range []string{"redis | BLPOP: one", "redis | BLPOP: one | ", "redis |  | it blocks"} {
		_, err := parseExpectations(line)
		require.ErrorContains(t, err, line)
	}
}
