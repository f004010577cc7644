package main

import "slices"

// client is one row of the table: a client's program and what is expected of it.
type client struct {
	name      string
	language  string
	program   []string // from the repository's root
	env       []string // environment in addition to what every program gets
	byDefault int      // protocol that the client speaks by default
	other     int      // protocol that the client speaks when configured; 0 for none
	noUser    bool     // whether the client cannot send a user name
	lacks     []string // common checks that the client cannot make
	adds      []string // checks that only this client makes
	call      string   // how its users write RL.SLIDE
}

// common has the checks that every client's program makes, in the matrix's order. The
// check auth, that a wrong password is refused, is made in runs with a password.
var common = []string{
	"connect", "auth", "slide", "counter", "policy", "holds", "pipeline", "transaction", "parallel", "error", "reconnect",
}

var clients = []client{
	{
		name: "redis-cli", language: "shell",
		program:   []string{"python3", "tests/clients/redis-cli/check.py"},
		byDefault: 2, other: 3, adds: []string{"pipe", "hints"},
		call: `redis-cli -p 6380 RL.SLIDE k 5 60`,
	},
	{
		name: "redis-benchmark", language: "shell",
		program:   []string{"python3", "tests/clients/redis-benchmark/check.py"},
		byDefault: 2, other: 3, lacks: []string{"auth", "policy", "holds", "transaction", "reconnect"},
		call: `redis-benchmark -p 6380 -r 1000 RL.SLIDE k:__rand_int__ 5 60`,
	},
	redisPy("5", 2),
	redisPy("7", 2),
	redisPy("8", 3),
	nodeRedis("4", 2, 0),
	nodeRedis("5", 2, 3),
	nodeRedis("6", 3, 2),
	ioredis("5", 2, 0),
	ioredis("6", 3, 2),
	{
		name: "go-redis", language: "Go",
		program:   []string{"tests/.cache/bin/go-redis"},
		byDefault: 3, other: 2,
		call: `client.Do(ctx, "RL.SLIDE", "k", 5, 60).Int64Slice()`,
	},
	{
		name: "rueidis", language: "Go",
		program:   []string{"tests/.cache/bin/rueidis"},
		byDefault: 3, adds: []string{"cache"},
		call: `client.Do(ctx, client.B().Arbitrary("RL.SLIDE").Keys("k").Args("5", "60").Build()).AsIntSlice()`,
	},
	{
		name: "rueidis, cache off", language: "Go",
		program:   []string{"tests/.cache/bin/rueidis"},
		env:       []string{"RL_CACHE=off"},
		byDefault: 3, other: 2,
		call: `the same, with ClientOption{DisableCache: true}`,
	},
	{
		name: "Jedis", language: "Java",
		program:   []string{"java", "-cp", "tests/.cache/jedis/*", "tests/clients/jedis/Check.java"},
		byDefault: 3, other: 2,
		call: `redis.executeCommand(new CommandArguments(() -> "RL.SLIDE".getBytes()).addObjects("k", 5, 60))`,
	},
	{
		name: "Lettuce", language: "Java",
		program:   []string{"java", "-cp", "tests/.cache/lettuce/*", "tests/clients/lettuce/Check.java"},
		byDefault: 3, other: 2,
		call: `redis.sync().dispatch(SLIDE, new ArrayOutput<>(codec), new CommandArgs<>(codec).addKey("k").add(5).add(60))`,
	},
	{
		name: "redis-rs", language: "Rust",
		program:   []string{"tests/.cache/cargo/debug/rlproxy-check-redis-rs"},
		byDefault: 2, other: 3,
		call: `redis::cmd("RL.SLIDE").arg("k").arg(5).arg(60).query_async(&mut c).await?`,
	},
	{
		name: "hiredis", language: "C",
		program:   []string{"tests/.cache/bin/hiredis"},
		byDefault: 2,
		call:      `redisCommand(c, "RL.SLIDE %s 5 60", "k")`,
	},
	{
		name: "phpredis", language: "PHP",
		program:   []string{"php", "tests/clients/phpredis/check.php"},
		byDefault: 2,
		call:      `$redis->rawCommand('RL.SLIDE', 'k', 5, 60)`,
	},
	{
		name: "predis", language: "PHP",
		program:   []string{"php", "tests/clients/predis/check.php"},
		byDefault: 2, noUser: true,
		call: `$redis->executeRaw(['RL.SLIDE', 'k', 5, 60])`,
	},
	{
		name: "redis-rb", language: "Ruby",
		program:   []string{"ruby", "tests/clients/redis-rb/check.rb"},
		byDefault: 2,
		call:      `redis.call("RL.SLIDE", "k", 5, 60)`,
	},
}

func redisPy(version string, byDefault int) client {
	return client{
		name: "redis-py " + version, language: "Python",
		program:   []string{"tests/.cache/redis-py-" + version + "/bin/python", "tests/clients/redis-py/check.py"},
		byDefault: byDefault, other: 5 - byDefault,
		call: `r.execute_command("RL.SLIDE", "k", 5, 60)`,
	}
}

func nodeRedis(version string, byDefault, other int) client {
	return client{
		name: "node-redis " + version, language: "Node",
		program:   []string{"node", "tests/clients/node-redis/check.mjs"},
		env:       []string{"RL_MODULE=redis-" + version},
		byDefault: byDefault, other: other,
		call: `client.sendCommand(['RL.SLIDE', 'k', '5', '60'])`,
	}
}

func ioredis(version string, byDefault, other int) client {
	return client{
		name: "ioredis " + version, language: "Node",
		program:   []string{"node", "tests/clients/ioredis/check.mjs"},
		env:       []string{"RL_MODULE=ioredis-" + version},
		byDefault: byDefault, other: other,
		call: `redis.call('RL.SLIDE', 'k', 5, 60)`,
	}
}

// checks returns what the program must report, with or without a password.
func (c *client) checks(password bool) []string {
	var all []string
	for _, check := range common {
		if !slices.Contains(c.lacks, check) && (check != "auth" || password) {
			all = append(all, check)
		}
	}
	return append(all, c.adds...)
}

// trials returns every run of the client: each protocol with each way to log in on the
// embedded engine, and each protocol once more with a redis-server behind rlproxy.
func (c *client) trials() []*trial {
	protocols := []int{c.byDefault}
	if c.other != 0 {
		protocols = append(protocols, c.other)
	}
	logins := []login{noLogin, passwordLogin, userLogin}
	if c.noUser {
		logins = logins[:2]
	}
	var all []*trial
	for _, p := range protocols {
		for _, l := range logins {
			all = append(all, &trial{client: c, protocol: p, login: l})
		}
		all = append(all, &trial{client: c, protocol: p, backend: true})
	}
	return all
}
