"""Customers with plans: a request names its customer's plan, and rlproxy knows the plan's
limits. For any WSGI application.

    rlproxy policies.conf
    pip install redis
    python plans.py            # then: curl -i -H 'X-Api-Key: red' http://127.0.0.1:8080/

RLPROXY names rlproxy's host:port, PORT the port to listen on. When the Redis of rlproxy is
away, the policy's FAIL says what happens. When rlproxy itself is away, or does not know the
plan, FAIL does so here: OPEN serves the request, CLOSED refuses it.
RateLimit and RateLimit-Policy are those of draft-ietf-httpapi-ratelimit-headers-11.
"""

import logging
import os
from math import ceil
from wsgiref.simple_server import make_server

import redis

FAIL = os.environ.get("FAIL", "OPEN")

# In an application of yours these come from its accounts.
CUSTOMERS = {
    "green": ("customer:0", "vip"),
    "red": ("customer:1", "pro"),
    "blue": ("customer:2", "vip"),
    "white": ("customer:3", "gold"),  # a plan without a policy: somebody has forgotten it
    "black": ("customer:9", "free"),
}

host, port = os.environ.get("RLPROXY", "127.0.0.1:6380").split(":")
rl = redis.Redis(host=host, port=int(port), socket_timeout=0.25, socket_connect_timeout=0.25, retry=None)


def limited(app):
    """Wraps a WSGI application; use it as a decorator."""

    def guarded(environ, start_response):
        stranger = ("ip:" + environ["REMOTE_ADDR"], "free")
        customer, plan = CUSTOMERS.get(environ.get("HTTP_X_API_KEY"), stranger)
        try:
            reply = rl.execute_command("RL.CHECK", plan, customer)
        except redis.RedisError as e:
            logging.error("no limit for %s with plan %s: %s", customer, plan, e)
            if FAIL == "OPEN":
                return app(environ, start_response)
            start_response("503 Service Unavailable", [])
            return [b"try again later\n"]
        allowed, limit, remaining, retry_after, _ = reply
        wait = str(ceil(retry_after / 1000))  # seconds, when denied

        headers = []
        if limit > 0:  # 0: an override says UNLIMITED or BLOCKED
            headers += [("RateLimit-Policy", f'"{plan}";q={limit}'), ("X-RateLimit-Limit", str(limit))]
            if remaining >= 0:  # -1: rlproxy could not ask its Redis
                headers += [
                    ("RateLimit", f'"{plan}";r={remaining}' + ("" if allowed else f";t={wait}")),
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
