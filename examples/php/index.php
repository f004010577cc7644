<?php
// At most 5 requests per 10 seconds from one address. Needs the phpredis extension.
//
//     php -S 127.0.0.1:8080 index.php          # then: curl -i http://127.0.0.1:8080/
//
// RLPROXY names rlproxy's host:port. FAIL says what happens when the limit cannot be
// checked: OPEN serves the request, CLOSED refuses it. rlproxy applies it when its
// Redis is away; this program does when rlproxy is.
// RateLimit and RateLimit-Policy are those of draft-ietf-httpapi-ratelimit-headers-11.

const LIMIT = 5; // requests
const WINDOW = 10; // seconds

/** Answers and ends the request here when it is one too many. */
function limit_requests(string $fail): void
{
    [$host, $port] = explode(':', getenv('RLPROXY') ?: '127.0.0.1:6380');
    try {
        $rl = new Redis();
        $rl->pconnect($host, (int) $port, 0.25); // kept for the next request
        $rl->setOption(Redis::OPT_READ_TIMEOUT, 0.25);
        $key = 'ip:' . $_SERVER['REMOTE_ADDR'];
        $reply = $rl->rawCommand('RL.SLIDE', $key, LIMIT, WINDOW, 'FAIL', $fail);
        if ($reply === false) {
            throw new RedisException($rl->getLastError());
        }
    } catch (RedisException $e) {
        error_log($e->getMessage());
        if ($fail === 'OPEN') {
            return;
        }
        http_response_code(503);
        exit("try again later\n");
    }
    [$allowed, $limit, $remaining, $retry_after] = $reply;
    $wait = ceil($retry_after / 1000); // seconds, when denied
    header(sprintf('RateLimit-Policy: "default";q=%d;w=%d', LIMIT, WINDOW));
    if ($remaining >= 0) { // -1: rlproxy could not ask its Redis
        header("RateLimit: \"default\";r=$remaining" . ($allowed ? '' : ";t=$wait"));
        header("X-RateLimit-Limit: $limit");
        header("X-RateLimit-Remaining: $remaining");
    }
    if (!$allowed) {
        header("Retry-After: $wait");
        header("X-RateLimit-Reset: $wait");
        http_response_code(429);
        exit("too many requests\n");
    }
}

limit_requests(getenv('FAIL') ?: 'OPEN');
echo "hello\n";
