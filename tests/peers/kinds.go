package peers

import (
	"crypto/sha1" // #nosec G505 -- the name that Redis gives to a script
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// kind is what the table knows of a peer. It has an adapter, or speaks a dialect of RESP.
type kind struct {
	name    string
	adapter []string // the program, in the project's folder
	// processes is how many copies of the adapter share the connections of a load: its
	// language runs one thread at a time. 0 is 1.
	processes int
	// server starts the peer's server; nil if it is a library, or Redis itself.
	server func(port, redis string) (argv, environment []string)
	// alone reports whether the state is in the server, and not on Redis.
	alone   bool
	dialect dialect
}

// Binary is the rlproxy that is compared.
var Binary = "bin/rlproxy"

const cache = "tests/.cache/peers/"

var kinds = []kind{
	{name: "rlproxy", server: rlproxyOnRedis, dialect: pairs("RL.SLIDE")},
	{name: "rlproxy embedded", server: rlproxyEmbedded, alone: true, dialect: pairs("RL.SLIDE")},
	{name: "sorted-set script", dialect: logScript{}},
	{name: "redis_rate", adapter: []string{cache + "redis_rate/adapter"}},
}

func rlproxyOnRedis(port, redis string) (argv, environment []string) {
	return []string{Binary, "--bind", "127.0.0.1", "--port", port, "--loglevel", "warning", "--backend", "redis://" + redis}, nil
}

func rlproxyEmbedded(port, _ string) (argv, environment []string) {
	return []string{Binary, "--bind", "127.0.0.1", "--port", port, "--loglevel", "warning", "--maxmemory", "8gb"}, nil
}

// pairs is a command of rlproxy that takes limits and windows.
type pairs string

func (p pairs) command(q Question) ([]string, error) {
	return []string{string(p), q.Key, text(q.Limit), text(q.Window.Milliseconds()) + "ms", "COST", text(q.Cost)}, nil
}

func (pairs) answer(reply []int64) (a Answer, err error) {
	if len(reply) != 5 {
		return a, fmt.Errorf("not a decision: %d", reply)
	}
	if reply[2] < 0 {
		a.Err = replyError("the store did not answer: a FAIL policy did")
	}
	a.Allowed, a.RetryAfter = reply[0] == 1, time.Duration(reply[3])*time.Millisecond
	return a, nil
}

// logScript is a sorted set with a member for each unit admitted, kept by a script that
// trims it, counts it and adds to it: what is found most often where a sliding window on
// Redis is asked for.
type logScript struct{}

const logSource = `
local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000, tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
local count = redis.call('ZCARD', KEYS[1])
if count + cost > limit then return { 0, -1 } end
for i = 1, cost do
  redis.call('ZADD', KEYS[1], now, string.format('%.0f-%d', now, count + i))
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return { 1, 0 }`

var logDigest = func() string {
	sum := sha1.Sum([]byte(logSource)) // #nosec G401 -- as above
	return hex.EncodeToString(sum[:])
}()

func (logScript) prepare() []string { return []string{"SCRIPT", "LOAD", logSource} }

func (logScript) command(q Question) ([]string, error) {
	return []string{"EVALSHA", logDigest, "1", q.Key, text(q.Limit), text(q.Window.Milliseconds()), text(q.Cost)}, nil
}

func (logScript) answer(reply []int64) (a Answer, err error) {
	if len(reply) != 2 {
		return a, fmt.Errorf("not a decision: %d", reply)
	}
	a.Allowed, a.RetryAfter = reply[0] == 1, time.Duration(reply[1])*time.Millisecond
	return a, nil
}

func text(n int64) string { return strconv.FormatInt(n, 10) }
