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
	about   About
	adapter []string // the program, in the project's folder
	// processes is how many copies of the adapter share the connections of a load: its
	// language runs one thread at a time. 0 is 1.
	processes int
	// server starts the peer's server; nil if it is a library, or Redis itself.
	server func(port, redis string) (argv, environment []string)
	// alone reports whether the state is in the server, and not on Redis.
	alone   bool
	dialect dialect
	// store is the program on which the state is kept, in the project's folder; empty: redis-server.
	store string
}

// About is what the page says of a peer.
type About struct {
	Algorithm string // in a few words
	Package   string // the file of this folder that names its version; empty: rlproxy's own
	Before    string // the text in that file that its version follows
	Setting   string // how it runs here
}

// Binary is the rlproxy that is compared.
var Binary = "bin/rlproxy"

const (
	cache   = "tests/.cache/peers/"
	servers = "tests/.cache/servers/" // of scripts/install-servers.sh
)

var kinds = []kind{
	{
		name: "rlproxy", server: rlproxyOnRedis, dialect: pairs("RL.SLIDE"),
		about: About{Algorithm: "sliding log, exact", Setting: "RL.SLIDE on one Redis, as shipped"},
	},
	{
		name: "rlproxy embedded", server: rlproxyEmbedded, alone: true, dialect: pairs("RL.SLIDE"),
		about: About{Algorithm: "sliding log, exact", Setting: "RL.SLIDE with the state in rlproxy's memory"},
	},
	{
		name: "rlproxy RL.COUNTER", server: rlproxyOnRedis, dialect: pairs("RL.COUNTER"),
		about: About{Algorithm: "two counters, weighted", Setting: "RL.COUNTER on one Redis, as shipped"},
	},
	{
		name: "rlproxy CL.THROTTLE", server: rlproxyOnRedis, dialect: throttle{name: "CL.THROTTLE", burst: -1, denied: 1},
		about: About{Algorithm: "GCRA", Setting: "CL.THROTTLE on one Redis, as shipped; the burst is the limit"},
	},
	newer("Redis 8", "redis-8"),
	newer("Valkey 8", "valkey-8"),
	newer("Valkey 9", "valkey-9"),
	{
		name: "sorted-set script", dialect: logScript{},
		about: About{Algorithm: "sliding log", Setting: "EVALSHA of a sorted set with a member for each unit, which is trimmed and counted, sent to Redis directly by a client without a timeout"},
	},
	{
		name: "limits moving window", adapter: limits("moving-window"), processes: 2,
		about: About{
			Algorithm: "sliding log", Package: "limits/requirements.txt", Before: "limits==",
			Setting: "MovingWindowRateLimiter on RedisStorage; two processes of 25 threads, since Python runs one thread at a time",
		},
	},
	{
		name: "limits sliding counter", adapter: limits("sliding-counter"), processes: 2,
		about: About{
			Algorithm: "two counters, weighted", Package: "limits/requirements.txt", Before: "limits==",
			Setting: "SlidingWindowCounterRateLimiter, the same way",
		},
	},
	{
		name: "redis_rate", adapter: []string{cache + "redis_rate/adapter"},
		about: About{
			Algorithm: "GCRA", Package: "redis_rate/go.mod", Before: "redis_rate/v10 v",
			Setting: "on go-redis with a connection for each of 50 goroutines; the burst is the limit, as its PerSecond and PerMinute have it",
		},
	},
	{
		name: "bucket4j", adapter: []string{"java", "-cp", cache + "bucket4j/classes:" + cache + "bucket4j/lib/*", "Adapter"},
		about: About{
			Algorithm: "token bucket", Package: "bucket4j/pom.xml", Before: "bucket4j_jdk17-lettuce</artifactId>\n      <version>",
			Setting: "LettuceBasedProxyManager, which compares and swaps, on Lettuce's one shared connection; 50 threads; greedy refill",
		},
	},
	{
		name: "rate-limiter-flexible", processes: 2,
		adapter: []string{"env", "NODE_PATH=" + cache + "rate-limiter-flexible/node_modules", "node", "tests/peers/rate-limiter-flexible/adapter.js"},
		about: About{
			Algorithm: "fixed window from a key's first request", Package: "rate-limiter-flexible/package.json", Before: `"rate-limiter-flexible": "`,
			Setting: "RateLimiterRedis on ioredis with enableOfflineQueue off, as its documentation has it; two processes with 25 callers on a connection each, since Node runs one thread",
		},
	},
	{
		name: "envoyproxy/ratelimit", server: ratelimit, adapter: []string{cache + "ratelimit/adapter"},
		about: About{
			Algorithm: "fixed window", Package: "ratelimit/go.mod", Before: "envoyproxy/ratelimit v",
			Setting: "asked by gRPC on 50 connections and without a deadline (Envoy sets one); its limits in its file; statistics off, everything else as shipped",
		},
	},
	{
		name: "rlproxy for Envoy", server: rlproxyForEnvoy, adapter: []string{cache + "ratelimit/adapter"},
		about: About{
			Algorithm: "fixed window", Setting: "asked as envoyproxy/ratelimit is, by the same client; FIXED policies on one Redis, as shipped",
		},
	},
	{
		name: "throttlecrab", server: throttlecrab, alone: true, dialect: throttle{name: "THROTTLE", denied: 0},
		about: About{
			Algorithm: "GCRA", Package: "throttlecrab/version",
			Setting: "its RESP server, as shipped; the burst is the limit; the state is in its memory",
		},
	},
}

// newer returns rlproxy on a server that is newer than the other peers' Redis.
func newer(server, folder string) kind {
	return kind{
		name: "rlproxy on " + server, server: rlproxyOnRedis, dialect: pairs("RL.SLIDE"), store: servers + folder + "/redis-server",
		about: About{Algorithm: "sliding log, exact", Setting: "RL.SLIDE on one " + server + ", as shipped"},
	}
}

func rlproxyOnRedis(port, redis string) (argv, environment []string) {
	return []string{Binary, "--bind", "127.0.0.1", "--port", port, "--loglevel", "warning", "--backend", "redis://" + redis}, nil
}

func rlproxyForEnvoy(port, redis string) (argv, environment []string) {
	return []string{
		Binary, "--bind", "127.0.0.1", "--port", "0", "--rls-port", port, "--loglevel", "warning", "--backend", "redis://" + redis,
		"--policy", "peers.second", "FIXED", "100", "1s", "--policy", "peers.minute", "FIXED", "100", "1m",
	}, nil
}

func rlproxyEmbedded(port, _ string) (argv, environment []string) {
	return []string{Binary, "--bind", "127.0.0.1", "--port", port, "--loglevel", "warning", "--maxmemory", "8gb"}, nil
}

func limits(strategy string) []string {
	return []string{cache + "limits/bin/python", "tests/peers/limits/adapter.py", strategy}
}

func ratelimit(port, redis string) (argv, environment []string) {
	return []string{cache + "ratelimit/server"}, []string{
		"HOST=127.0.0.1", "PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + port,
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis, "DISABLE_STATS=true",
		"RUNTIME_ROOT=tests/peers/ratelimit/runtime", "RUNTIME_WATCH_ROOT=false",
	}
}

func throttlecrab(port, _ string) (argv, environment []string) {
	return []string{cache + "throttlecrab/bin/throttlecrab-server", "--redis", "--redis-host", "127.0.0.1", "--redis-port", port}, nil
}

// pairs is a command of rlproxy that takes limits and windows.
type pairs string

func (p pairs) command(q Request) ([]string, error) {
	return []string{string(p), q.Key, text(q.Limit), text(q.Window.Milliseconds()) + "ms", "COST", text(q.Cost)}, nil
}

func (pairs) answer(reply []int64) (a Answer, err error) {
	if len(reply) != 5 {
		return a, fmt.Errorf("not a decision: %d", reply)
	}
	a.Fallback = reply[2] < 0
	a.Allowed, a.RetryAfter = reply[0] == 1, time.Duration(reply[3])*time.Millisecond
	return a, nil
}

// throttle is a command for GCRA: a burst, a count and a period of whole seconds.
type throttle struct {
	name   string
	burst  int64 // what the burst has more than the limit: -1 if a first request comes on top of it
	denied int64 // the first integer of a denial
}

func (t throttle) command(q Request) ([]string, error) {
	if q.Window%time.Second != 0 {
		return nil, fmt.Errorf("a window is whole seconds, not %s", q.Window)
	}
	return []string{t.name, q.Key, text(q.Limit + t.burst), text(q.Limit), text(int64(q.Window / time.Second)), text(q.Cost)}, nil
}

// answer reads the reply of redis-cell, limited, limit, remaining, retry after and reset
// after, or that of throttlecrab, which begins with allowed and ends with reset after
// and retry after.
func (t throttle) answer(reply []int64) (a Answer, err error) {
	if len(reply) != 5 {
		return a, fmt.Errorf("not a decision: %d", reply)
	}
	a.Allowed, a.Fallback = reply[0] != t.denied, reply[2] < 0
	if !a.Allowed {
		a.RetryAfter = time.Duration(reply[3+1-t.denied]) * time.Second
	}
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

func (logScript) command(q Request) ([]string, error) {
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
