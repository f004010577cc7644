package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// expectationsFile lists the tests that pass with Redis and that rlproxy fails.
const expectationsFile = "tests/clients/suites/expected.txt"

// expectation is a line of expectationsFile.
type expectation struct {
	suite, test, reason string // test: a name, or what names begin with if it ends in *
}

// covers reports whether the expectation is about a test.
func (e expectation) covers(test string) bool {
	prefix, open := strings.CutSuffix(e.test, "*")
	return e.test == test || open && strings.HasPrefix(test, prefix)
}

// readExpectations reads expectationsFile: lines of `suite | test | reason`. Empty lines and
// lines that begin with # say nothing.
func readExpectations() ([]expectation, error) {
	text, err := os.ReadFile(expectationsFile)
	if err != nil {
		return nil, err
	}
	return parseExpectations(string(text))
}

func parseExpectations(text string) ([]expectation, error) {
	var all []expectation
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, " | ")
		if len(fields) != 3 || slices.Contains(fields, "") {
			return nil, fmt.Errorf("%s:%d: not `suite | test | reason`: %q", expectationsFile, i+1, line)
		}
		all = append(all, expectation{fields[0], fields[1], fields[2]})
	}
	return all, nil
}

// outcomes tells of each test of a suite whether it passed.
type outcomes map[string]bool

// note records one line of a suite's output. A test whose name comes twice has passed if
// both have.
func (o outcomes) note(s *suite, line string) {
	if m := s.failed.FindStringSubmatch(line); m != nil {
		o[m[1]] = false
	}
	if m := s.passed.FindStringSubmatch(line); m != nil {
		_, known := o[m[1]]
		o[m[1]] = !known || o[m[1]]
	}
}

// verdict compares a suite's outcomes with rlproxy to those with Redis.
type verdict struct {
	run, passed, expected int      // tests that Redis passes: how many, and what rlproxy did
	problems              []string // what makes the run fail
}

// judge counts the tests that Redis passes. What Redis fails says nothing about rlproxy, but a
// failure that only occurs with rlproxy does. The expectations are those of the suite: each must
// cover a failure, and no test that passed.
func judge(redis, proxy outcomes, expected []expectation) verdict {
	var v verdict
	used := map[expectation]bool{}
	for _, test := range sorted(redis, proxy) {
		passes, ran := redis[test]
		if ran && !passes {
			continue
		}
		v.run++
		at := slices.IndexFunc(expected, func(e expectation) bool { return e.covers(test) })
		switch {
		case proxy[test] && at < 0:
			v.passed++
		case proxy[test]:
			v.passed++
			v.problems = append(v.problems, fmt.Sprintf("%s passed: take %q off the list", test, expected[at].test))
		case at >= 0:
			v.expected++
		default:
			v.problems = append(v.problems, test+" failed")
		}
		if at >= 0 {
			used[expected[at]] = true
		}
	}
	for _, e := range expected {
		if !used[e] {
			v.problems = append(v.problems, fmt.Sprintf("no test is called %q, or Redis fails it: take it off the list", e.test))
		}
	}
	if v.run == 0 {
		v.problems = append(v.problems, "no test ran")
	}
	return v
}

// sorted returns the names of all tests.
func sorted(all ...outcomes) []string {
	var names []string
	for _, o := range all {
		for name := range o {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
