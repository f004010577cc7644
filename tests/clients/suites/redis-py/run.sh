#!/usr/bin/env bash
# Runs redis-py's tests of commands, pipelines, scripts, functions, locks and encodings.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../../.cache/suites/redis-py"
echo "version $(sed -n 's/^Version: //p' PKG-INFO)"
left_out=()
while read -r test; do
	left_out+=(--deselect "$test")
done < <(grep -v '^#' "$here/left-out.txt")
export COLUMNS=300 # so that pytest does not shorten its lines
../python/bin/python -m pytest -q -p no:cacheprovider -o addopts= -rpfE --tb no --timeout 120 "${left_out[@]}" \
	-m 'not onlycluster and not redismod and not ssl and not cp_integration' \
	--redis-url "redis://$RL_HOST:$RL_PORT/0" \
	tests/test_{commands,pipeline,scripting,function,lock,encoding}.py
