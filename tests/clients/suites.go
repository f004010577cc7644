package main

import "regexp"

// suite is another project's own test suite, which scripts/install-clients.sh fetches. Its
// program runs the suite against one address and shows the outcome of each test in a line.
// The environment tells it where:
//
//	RL_HOST, RL_PORT  the server to test
//	RL_NODES          the ports of the redis-servers that have the keys
type suite struct {
	name    string
	program []string         // from the repository's root
	nodes   []int            // with how many redis-servers behind rlproxy it runs
	passed  []*regexp.Regexp // lines about a test that passed; the group is its name
	failed  []*regexp.Regexp // lines about a test that failed
}

var (
	goPassed     = []*regexp.Regexp{regexp.MustCompile(`^\s*--- PASS: (\S+)`)}
	goFailed     = []*regexp.Regexp{regexp.MustCompile(`^\s*--- FAIL: (\S+)`)}
	pytestPassed = []*regexp.Regexp{regexp.MustCompile(`^PASSED (\S+)`)}
	pytestFailed = []*regexp.Regexp{regexp.MustCompile(`^(?:FAILED|ERROR) (\S+)`)}
)

var suites = []suite{
	{
		name: "redis", program: []string{"tests/clients/suites/redis/run.sh"}, nodes: []int{1},
		passed: []*regexp.Regexp{regexp.MustCompile(`^\[ok\]: (.+) \(\d+ ms\)`)},
		failed: []*regexp.Regexp{regexp.MustCompile(`^\[err\]: (.+) in tests/`), regexp.MustCompile(`^\[(exception)\]`)},
	},
	{
		name: "redis-py", program: []string{"tests/clients/suites/redis-py/run.sh"}, nodes: []int{1},
		passed: pytestPassed, failed: pytestFailed,
	},
	{
		name: "PyrateLimiter", program: []string{"tests/clients/suites/pyrate-limiter/run.sh"}, nodes: []int{1, 3},
		passed: pytestPassed, failed: pytestFailed,
	},
	{
		name: "ulule/limiter", program: []string{"tests/clients/suites/go/ulule.sh"}, nodes: []int{1, 3},
		passed: goPassed, failed: goFailed,
	},
}
