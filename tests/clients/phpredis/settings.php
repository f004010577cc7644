<?php
// What phpredis does with a request whose reply is lost, that is not answered, or that cannot be sent: with its own settings, and
// with those below, which docs/clients.md shows. settings.go says what the lines of the output mean.

function connect(string $host, int $port): Redis
{
    $ms = (int) getenv('RL_MS'); // 250 in an application
    // settings
    $redis = new Redis();
    $redis->connect($host, $port, $ms / 1000, null, 0, $ms / 1000); // to connect, and to wait for a reply
    $redis->setOption(Redis::OPT_MAX_RETRIES, 0); // else it tries ten times to connect again
    // end
    return $redis;
}

function plain(string $host, int $port): Redis
{
    $redis = new Redis();
    $redis->connect($host, $port);
    return $redis;
}

function ask(callable $connect, string $port, string $key, int $limit, string ...$more): ?Redis
{
    $began = microtime(true);
    $redis = null;
    try {
        $redis = $connect(getenv('RL_HOST'), (int) getenv($port));
        $reply = $redis->rawCommand('RL.SLIDE', $key, $limit, 3600, ...$more);
        $outcome = is_array($reply) && $reply[1] === $limit ? 'reply' : 'wrong';
    } catch (RedisException $e) {
        fwrite(STDERR, "$key {$e->getMessage()}\n");
        $outcome = 'error';
    }
    echo "$key $outcome ", round(1000 * (microtime(true) - $began)), "\n";
    return $redis;
}

ask('plain', 'RL_PORT', 'lose-default', 5);
ask('plain', 'RL_PORT', 'lose-once', 5, 'ONCE', 'x');
ask('connect', 'RL_PORT', 'lose-set', 5);
ask('connect', 'RL_PORT', 'lose-other', 5, 'ONCE', 'x');
ask('connect', 'RL_OTHER', 'lose-other', 5, 'ONCE', 'x');
ask('connect', 'RL_PORT', 'hang-set', 5);
ask('connect', 'RL_AWAY', 'away-set', 5);
$redis = ask('connect', 'RL_PORT', 'late-first', 9);
ask(fn () => $redis, 'RL_PORT', 'late-kept', 5);
$redis->close();
ask('connect', 'RL_PORT', 'late-closed', 5);
