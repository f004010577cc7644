#!/usr/bin/env bash
# At most 5 requests per 10 seconds from one address. Needs redis-cli and socat.
#
#     ./limited.sh          # then: curl -i http://127.0.0.1:8080/
#
# RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens
# when the limit cannot be checked: OPEN serves the request, CLOSED refuses it. rlproxy
# applies it when its Redis is away; this program does when rlproxy is.
# RateLimit and RateLimit-Policy are those of draft-ietf-httpapi-ratelimit-headers-11.
set -u
limit=5 window=10 # requests, seconds
fail=${FAIL:-OPEN} rlproxy=${RLPROXY:-127.0.0.1:6380}

# respond <status> <text> [header ...] answers the request and ends.
respond() {
	printf 'HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n' "$1" $((${#2} + 1))
	[ $# -lt 3 ] || printf '%s\r\n' "${@:3}"
	printf '\r\n%s\n' "$2"
	exit
}

# handle answers one request, on standard input and output.
handle() {
	while read -r line && [ "$line" != $'\r' ]; do :; done # the request and its headers

	if ! reply=$(timeout 1 redis-cli -e -h "${rlproxy%:*}" -p "${rlproxy#*:}" \
		RL.SLIDE "ip:$SOCAT_PEERADDR" $limit $window FAIL "$fail" 2>&1); then
		[ "$fail" = OPEN ] && respond '200 OK' hello
		respond '503 Service Unavailable' 'try again later'
	fi
	mapfile -t n <<<"$reply" # allowed, limit, remaining, retry_after, reset_after
	wait=$(((n[3] + 999) / 1000)) until='' # seconds, when denied
	[ "${n[0]}" = 1 ] || until=";t=$wait"
	headers=("RateLimit-Policy: \"default\";q=$limit;w=$window")
	if [ "${n[2]}" -ge 0 ]; then # -1: rlproxy could not ask its Redis
		headers+=("RateLimit: \"default\";r=${n[2]}$until"
			"X-RateLimit-Limit: ${n[1]}" "X-RateLimit-Remaining: ${n[2]}")
	fi
	[ "${n[0]}" = 1 ] && respond '200 OK' hello "${headers[@]}"
	respond '429 Too Many Requests' 'too many requests' "${headers[@]}" \
		"Retry-After: $wait" "X-RateLimit-Reset: $wait"
}

if [ "${1-}" = handle ]; then
	handle
fi
exec socat "TCP-LISTEN:${PORT:-8080},bind=127.0.0.1,reuseaddr,fork" "EXEC:$0 handle"
