#!/usr/bin/env bash
# Runs phpredis's tests of its class Redis, each in a process of its own, because PHP ends at an
# error that a test does not expect. What the tests say is hidden among PHP's warnings; their
# status is not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../../.cache/suites/phpredis/tests"
echo "version $(php -r 'echo phpversion("redis");')"
tests=$(sed -n 's/^ *public function \(test[A-Za-z0-9_]*\).*/\1/p' RedisTest.php)
for test in $(grep -vf "$here/left-out.txt" <<<"$tests"); do
	run=(timeout 120 php TestRedis.php --class Redis --test "$test" --host "$RL_HOST" --port "$RL_PORT")
	if output=$("${run[@]}" 2>&1 </dev/null); then
		echo "PASSED $test"
	else
		grep -v Deprecated <<<"$output" || true
		echo "FAILED $test"
	fi
done
