<?php
// phpredis, the C extension: sends nothing before AUTH; a persistent process checks
// an idle connection with ECHO or PING. An error reply to rawCommand is false with
// getLastError; only connection faults and AUTH throw. RESP2 only.

function dial(?string $password): Redis
{
    $redis = new Redis();
    $redis->connect(getenv('RL_HOST'), (int) getenv('RL_PORT'), 20.0);
    if ($password) {
        $redis->auth(getenv('RL_USERNAME') ? [getenv('RL_USERNAME'), $password] : $password);
    }
    return $redis;
}

function want(bool $ok, mixed $got): void
{
    if (!$ok) {
        throw new UnexpectedValueException('unexpected: ' . json_encode($got));
    }
}

$redis = dial(getenv('RL_PASSWORD') ?: null);
$checks = [
    'connect' => fn () => want($redis->ping() === true, 'ping'),

    'auth' => function () {
        try {
            dial('wrong');
        } catch (RedisException $e) {
            want(str_starts_with($e->getMessage(), 'WRONGPASS invalid username-password pair'), $e->getMessage());
            return;
        }
        want(false, 'a wrong password was taken');
    },

    'slide' => function () use ($redis) {
        foreach ([[1, 2], [1, 1], [1, 0], [0, 0]] as [$allowed, $remaining]) {
            $r = $redis->rawCommand('RL.SLIDE', 'slide', 3, 3600);
            want(array_slice($r, 0, 3) === [$allowed, 3, $remaining] && count($r) === 5, $r);
            want(($r[3] === 0) === ($allowed === 1) && $r[4] > 0 && $r[4] <= 3_600_001, $r);
        }
    },

    'counter' => function () use ($redis) {
        $r = $redis->rawCommand('RL.COUNTER', 'counter', 10, 3600, 'COST', 4);
        want(array_slice($r, 0, 4) === [1, 10, 6, 0], $r);
    },

    'policy' => function () use ($redis) {
        $redis->rawCommand('RL.POLICY', 'SET', 'plan', 'SLIDE', 3, 3600);
        $r = $redis->rawCommand('RL.CHECK', 'plan', 'k');
        want(array_slice($r, 0, 4) === [1, 3, 2, 0], $r);
        $plan = $redis->rawCommand('RL.POLICY', 'GET', 'plan'); // keys and values
        $limits = $plan[array_search('limits', $plan, true) + 1];
        want(array_slice($plan, 0, 2) === ['name', 'plan'] && array_slice($limits[0], 0, 2) === ['limit', 3], $plan);
    },

    'holds' => function () use ($redis) {
        $ask = fn (string $line) => $redis->rawCommand(...explode(' ', $line));
        for ($i = 0; $i < 2; $i++) {
            $r = $ask('RL.SLIDE once 5 3600 ONCE a');
            want(array_slice($r, 0, 4) === [1, 5, 4, 0], $r);
        }
        $r = $ask('RL.RESERVE reserve 100 3600 COST 40 ID a');
        want(array_slice($r, 0, 4) === [1, 100, 60, 0], $r);
        $r = $ask('RL.SETTLE reserve a 15');
        want($r === [1, 15, 25], $r);
        $r = [$ask('RL.ACQUIRE slots 1 ID a')[0], $ask('RL.ACQUIRE slots 1 ID b')[0], $ask('RL.RELEASE slots a b')];
        want($r === [1, 0, 1], $r);
        $r = array_map(fn ($key) => array_slice($key, 0, 4), $ask('RL.SLIDE user 5 3600 AND everyone 9 3600'));
        want($r === [[1, 5, 4, 0], [1, 9, 8, 0]], $r);
    },

    'pipeline' => function () use ($redis) {
        $pipe = $redis->pipeline();
        for ($i = 0; $i < 20; $i++) {
            $pipe->rawCommand('RL.SLIDE', 'pipeline', 20, 3600);
        }
        $remaining = array_column($pipe->exec(), 2);
        want($remaining === range(19, 0), $remaining);
    },

    'transaction' => function () use ($redis) {
        $multi = $redis->multi();
        for ($i = 0; $i < 3; $i++) {
            $multi->rawCommand('RL.SLIDE', 'transaction', 2, 3600);
        }
        $allowed = array_column($multi->exec(), 0);
        want($allowed === [1, 1, 0], $allowed);
    },

    // PHP has no threads: 50 connections, open at once, take turns.
    'parallel' => function () {
        $clients = array_map(fn () => dial(getenv('RL_PASSWORD') ?: null), range(1, 50));
        $admitted = 0;
        foreach ($clients as $client) {
            $admitted += $client->rawCommand('RL.SLIDE', 'parallel', 30, 3600)[0];
        }
        want($admitted === 30, $admitted);
    },

    'error' => function () use ($redis) {
        $redis->clearLastError();
        want($redis->rawCommand('RL.SLIDE', 'error', 0, 3600) === false, 'no error');
        $error = $redis->getLastError();
        want($error === "ERR limit must be an integer between 1 and 1000000000000; it was '0'", $error);
    },

    'reconnect' => function () use ($redis) {
        echo "RESTART\n";
        want(fgets(STDIN) === "OK\n", 'no OK');
        for ($end = microtime(true) + 60; ; usleep(50_000)) {
            try {
                want($redis->rawCommand('RL.SLIDE', 'reconnect', 1, 3600)[0] === 1, 'denied');
                return;
            } catch (RedisException $e) {
                if (microtime(true) > $end) {
                    throw $e;
                }
            }
        }
    },
];

echo 'version ', phpversion('redis'), "\n";
$failed = 0;
foreach ($checks as $name => $check) {
    if ($name === 'auth' && !getenv('RL_PASSWORD')) {
        continue;
    }
    try {
        $check();
        echo "ok $name\n";
    } catch (Throwable $e) {
        $failed = 1;
        echo "FAIL $name {$e->getMessage()}\n";
    }
}
exit($failed);
