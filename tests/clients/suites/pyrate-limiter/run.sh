#!/usr/bin/env bash
# Runs those tests of PyrateLimiter that use Redis and do not depend on timing.
set -euo pipefail
cd "$(dirname "$0")/../../../.cache/suites/pyrate-limiter"
echo "version $(sed -n 's/^Version: //p' PKG-INFO)"
export COLUMNS=300 # so that pytest does not shorten its lines
export REDIS=redis://$RL_HOST:$RL_PORT
../python/bin/python -m pytest -q -p no:cacheprovider -rpfE --tb no --timeout 120 -k redis \
	tests/test_redis_bucket.py tests/test_bucket_all.py::test_bucket_performance \
	tests/test_limiter.py::test_limiter_constructor_02
