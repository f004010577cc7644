#!/usr/bin/env bash
# Usage: install-peers.sh [<peer>...]
# Builds the named peers of tests/peers, or all of them, each by its own package manager
# from its registry, into tests/.cache/peers. Languages are Debian packages, installed as
# root or with sudo. Whatever is up to date is kept, so that a second run takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p tests/.cache/peers
cache=$(cd tests/.cache/peers && pwd -P) # npm ci refuses a folder behind a symbolic link

# changed <name> <file ...> succeeds if the files differ from those of the last run.
# Call done_with <name> after building from them.
sum=
changed() {
	sum=$(cat "${@:2}" | sha256sum)
	[ "$(cat "$cache/$1.sum" 2>/dev/null)" != "$sum" ]
}
done_with() { echo "$sum" >"$cache/$1.sum"; }

build_redis_rate() {
	go build -C tests/peers/redis_rate -o "$cache/redis_rate/adapter" .
}

build_ratelimit() {
	go build -C tests/peers/ratelimit -o "$cache/ratelimit/adapter" .
	go build -C tests/peers/ratelimit -o "$cache/ratelimit/server" github.com/envoyproxy/ratelimit/src/service_cmd
}

build_throttlecrab() {
	scripts/need cargo gcc protoc
	if changed throttlecrab tests/peers/throttlecrab/version; then
		nice cargo install --quiet --locked --root "$cache/throttlecrab" --target-dir "$cache/throttlecrab/target" \
			"throttlecrab-server@$(cat tests/peers/throttlecrab/version)"
		rm -rf "$cache/throttlecrab/target"
		done_with throttlecrab
	fi
}

build_limits() {
	scripts/need python3
	scripts/need python3-venv
	if changed limits tests/peers/limits/requirements.txt; then
		python3 -m venv --clear "$cache/limits"
		"$cache/limits/bin/pip" install -q -r tests/peers/limits/requirements.txt
		done_with limits
	fi
}

build_rate_limiter_flexible() {
	scripts/need node npm
	local from=tests/peers/rate-limiter-flexible to=$cache/rate-limiter-flexible
	if changed rate-limiter-flexible $from/package-lock.json; then
		mkdir -p "$to"
		cp $from/package.json $from/package-lock.json "$to"
		npm ci --loglevel error --no-fund --no-audit --ignore-scripts --prefix "$to"
		done_with rate-limiter-flexible
	fi
}

build_bucket4j() {
	scripts/need javac mvn
	local from=tests/peers/bucket4j to=$cache/bucket4j
	if changed bucket4j $from/pom.xml $from/Adapter.java; then
		rm -rf "$to"
		mvn -q -B -f $from/pom.xml dependency:copy-dependencies -DoutputDirectory="$to/lib"
		javac -cp "$to/lib/*" -d "$to/classes" $from/Adapter.java
		done_with bucket4j
	fi
}

[ $# -gt 0 ] || set -- redis_rate ratelimit limits rate_limiter_flexible bucket4j throttlecrab
for peer; do
	echo "peers: $peer"
	"build_$peer"
done
