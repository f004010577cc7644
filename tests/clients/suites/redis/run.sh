#!/usr/bin/env bash
# Runs those units of Redis's own test suite, which is in Tcl, that are about commands which
# rlproxy forwards.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
suite=$here/../../../.cache/suites/redis
echo "version $(sed -n 's/.*REDIS_VERSION "\(.*\)"/\1/p' "$suite/src/version.h")"

# The suite writes into its folder, and finds programs in src.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$suite/tests" "$work"
cat "$here/nodes.tcl" >>"$work/tests/support/redis.tcl"
mkdir "$work/src"
for program in redis-server redis-cli redis-benchmark; do
	ln -s "$(command -v $program)" "$work/src"
done
cd "$work"

units=(dump protocol keyspace scan type/string type/incr type/list type/list-2 type/set type/zset type/hash
	type/stream type/stream-cgroups sort expire scripting functions bitops bitfield geo hyperloglog)
single=()
for unit in "${units[@]}"; do
	single+=(--single "unit/$unit")
done
tclsh tests/test_helper.tcl --host "$RL_HOST" --port "$RL_PORT" --singledb --clients 1 --durable \
	--baseport $((RL_PORT - 10000)) --portcount 100 --timeout 120 --tags '-slow -large-memory -needs:repl' \
	--skipfile "$here/left-out.txt" "${single[@]}" 2>&1 | sed 's/\x1b\[[0-9;]*m//g'
