#!/usr/bin/env bash
# Usage: install-peers.sh [<peer>...]
# Builds the named peers of tests/peers, or all of them, each by its own package manager
# from its registry, into tests/.cache/peers. Languages are Debian packages, installed as
# root or with sudo. Whatever is up to date is kept, so that a second run takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/tests/.cache/peers
mkdir -p "$cache"

# changed <name> <file ...> succeeds if the files differ from those of the last run.
# Call done_with <name> after building from them.
sum=
changed() {
	sum=$(cat "${@:2}" | sha256sum)
	[ "$(cat "$cache/$1.sum" 2>/dev/null)" != "$sum" ]
}
done_with() { echo "$sum" >"$cache/$1.sum"; }

build_redis_rate() {
	(cd tests/peers/redis_rate && nice go build -o "$cache/redis_rate/adapter" .)
}

[ $# -gt 0 ] || set -- redis_rate
for peer; do
	echo "peers: $peer"
	"build_$peer"
done
