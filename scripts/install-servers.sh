#!/usr/bin/env bash
# Usage: install-servers.sh
# Downloads the servers that newer releases of Debian have, Redis 8, Valkey 8 and Valkey 9, with
# the libraries that they need, into tests/.cache/servers. Nothing is installed on the system, so
# it needs no rights. Each server has a folder with a program redis-server: with that folder first
# in PATH, tests and benchmarks run on that server.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/tests/.cache/servers
apt=$cache/.apt

command -v apt-get >/dev/null || {
	echo "install-servers.sh downloads packages of Debian, and there is no apt-get." >&2
	exit 1
}

# from_suite <suite> <apt command and arguments> runs it as if nothing were installed and the
# suite were the only source.
from_suite() {
	"$2" -q \
		-o Acquire::Retries=3 -o Dir::State="$apt/$1" -o Dir::State::status=/dev/null -o Dir::Cache="$apt/$1" \
		-o Dir::Etc::SourceList="$apt/$1/sources" -o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User= "${@:3}"
}

# install <folder> <suite> <package> <lowest major version>
install() {
	local into=$cache/$1 suite=$2 package=$3 lowest=$4 packages loader found
	[ ! -x "$into/redis-server" ] || return 0
	echo "servers: $1"
	mkdir -p "$apt/$suite/lists/partial"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" >"$apt/$suite/sources"
	from_suite "$suite" apt-get update >/dev/null
	# Of what apt-get would install: the server, and libraries.
	packages=$(from_suite "$suite" apt-get install -s --no-install-recommends "$package" |
		awk -v tools="${package%-server}-tools" -v server="$package" '$1 == "Inst" && ($2 == server || $2 == tools || $2 ~ /^(lib|zlib)/) { print $2 }')
	rm -rf "$into"
	mkdir -p "$into/packages"
	# shellcheck disable=SC2086 # one word for each package
	(cd "$into/packages" && from_suite "$suite" apt-get download $packages >/dev/null)
	for file in "$into"/packages/*.deb; do
		dpkg -x "$file" "$into/root"
	done
	rm -r "$into/packages"
	loader=$(find "$into/root" -name 'ld-linux*' -type f)
	cat >"$into/run" <<-END
		#!/bin/sh
		exec '$loader' --library-path '$(dirname "$loader")' --argv0 $package '$into/root/usr/bin/$package' "\$@"
	END
	chmod +x "$into/run"
	found=$("$into/run" --version)
	[[ $found =~ v=([0-9]+) && ${BASH_REMATCH[1]} -ge $lowest ]] || {
		echo "Debian's suite $suite has an older version: $found" >&2
		exit 1
	}
	mv "$into/run" "$into/redis-server"
}

install redis-8 trixie redis-server 8
install valkey-8 trixie valkey-server 8
install valkey-9 forky valkey-server 9
rm -rf "$apt"
