#!/usr/bin/env bash
# Runs the tests of ulule/limiter's store for Redis.
set -euo pipefail
cd "$(dirname "$0")"
echo "version $(go list -m -f '{{.Version}}' github.com/ulule/limiter/v3)"
REDIS_URI=redis://$RL_HOST:$RL_PORT/0 go test -v -count 1 github.com/ulule/limiter/v3/drivers/store/redis
