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
	program []string       // from the repository's root
	nodes   []int          // with how many redis-servers behind rlproxy it runs
	passed  *regexp.Regexp // lines about a test that passed; the group is its name
	failed  *regexp.Regexp // lines about a test that failed
}

var (
	goPassed    = regexp.MustCompile(`^\s*--- PASS: (\S+)`)
	goFailed    = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
	shownPassed = regexp.MustCompile(`^PASSED (\S+)`)
	shownFailed = regexp.MustCompile(`^(?:FAILED|ERROR) (\S+)`)
)

var suites = []suite{
	{
		name: "redis", program: []string{"tests/clients/suites/redis/run.sh"}, nodes: []int{1},
		passed: regexp.MustCompile(`^\[ok\]: (.+) \(\d+ ms\)`),
		failed: regexp.MustCompile(`^\[(?:err|exception)\]: (.+?)(?: in tests/\S+)?$`),
	},
	{
		name: "redis-py", program: []string{"tests/clients/suites/redis-py/run.sh"}, nodes: []int{1},
		passed: shownPassed, failed: shownFailed,
	},
	{
		name: "phpredis", program: []string{"tests/clients/suites/phpredis/run.sh"}, nodes: []int{1},
		passed: shownPassed, failed: shownFailed,
	},
	{
		name: "PyrateLimiter", program: []string{"tests/clients/suites/pyrate-limiter/run.sh"}, nodes: []int{1, 3},
		passed: shownPassed, failed: shownFailed,
	},
	{
		name: "ulule/limiter", program: []string{"tests/clients/suites/go/ulule.sh"}, nodes: []int{1, 3},
		passed: goPassed, failed: goFailed,
	},
}
