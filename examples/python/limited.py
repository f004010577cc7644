"""At most 5 requests per 10 seconds from one address, for any WSGI application.

    pip install redis
    python limited.py          # then: curl -i http://127.0.0.1:8080/

RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens
when the limit cannot be checked: OPEN serves the request, CLOSED refuses it. rlproxy
applies it when its Redis is away; this program does when rlproxy is.
RateLimit and RateLimit-Policy are those of draft-ietf-httpapi-ratelimit-headers-11.
"""

import os
from math import ceil
from wsgiref.simple_server import make_server

import redis

LIMIT, WINDOW = 5, 10  # requests, seconds
FAIL = os.environ.get("FAIL", "OPEN")

host, port = os.environ.get("RLPROXY", "127.0.0.1:6380").split(":")
rl = redis.Redis(host=host, port=int(port), socket_timeout=0.25, socket_connect_timeout=0.25, retry=None)


def limited(app):
    """Wraps a WSGI application; use it as a decorator."""

    def guarded(environ, start_response):
        key = "ip:" + environ["REMOTE_ADDR"]
        try:
            reply = rl.execute_command("RL.SLIDE", key, LIMIT, WINDOW, "FAIL", FAIL)
        except redis.RedisError:
            if FAIL == "OPEN":
                return app(environ, start_response)
            start_response("503 Service Unavailable", [])
            return [b"try again later\n"]
        allowed, limit, remaining, retry_after, _ = reply
        wait = str(ceil(retry_after / 1000))  # seconds, when denied

        headers = [("RateLimit-Policy", f'"default";q={LIMIT};w={WINDOW}')]
        if remaining >= 0:  # -1: rlproxy could not ask its Redis
            headers += [
                ("RateLimit", f'"default";r={remaining}' + ("" if allowed else f";t={wait}")),
                ("X-RateLimit-Limit", str(limit)),
                ("X-RateLimit-Remaining", str(remaining)),
            ]
        if not allowed:
            headers += [("Retry-After", wait), ("X-RateLimit-Reset", wait)]
            start_response("429 Too Many Requests", headers)
            return [b"too many requests\n"]
        return app(environ, lambda status, own: start_response(status, own + headers))

    return guarded


@limited
def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello\n"]


if __name__ == "__main__":
    make_server("127.0.0.1", int(os.environ.get("PORT", 8080)), hello).serve_forever()
