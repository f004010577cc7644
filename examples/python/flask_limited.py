"""Limits by policy for Flask. rlproxy knows the limits, and says which headers to send.

    rlproxy ../policies.conf
    pip install -r requirements.txt
    python flask_limited.py    # then: curl -i http://127.0.0.1:8080/

RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens when
rlproxy does not answer within 250 ms, or has no such policy: OPEN serves the request,
CLOSED refuses it. When only the Redis of rlproxy is away, the policy's FAIL decides.
"""

import os
from functools import wraps

import redis
from flask import Flask, make_response, request

FAIL = os.environ.get("FAIL", "OPEN")

host, port = os.environ.get("RLPROXY", "127.0.0.1:6380").split(":")
rl = redis.Redis(
    host=host,
    port=int(port),
    protocol=3,  # RL.CHECK with DETAILS is then a dict
    decode_responses=True,
    socket_timeout=0.25,
    socket_connect_timeout=0.25,
    retry=None,  # a request that may have been charged is not sent again
)
app = Flask(__name__)


def limited(policy, key):
    """Limits a view by a policy. key returns what is counted in a request."""

    def decorate(view):
        @wraps(view)
        def guarded(*args, **kwargs):
            try:
                check = rl.execute_command("RL.CHECK", policy, key(), "DETAILS")
            except redis.RedisError as e:
                app.logger.error("no limit: %s", e)
                if FAIL == "OPEN":
                    return view(*args, **kwargs)
                return "try again later\n", 503
            if check["allowed"]:
                response = make_response(view(*args, **kwargs))
            else:
                response = make_response("too many requests\n", 429)
            response.headers.update(check["headers"])
            return response

        return guarded

    return decorate


def address():
    """The client's address. Behind a gateway, have werkzeug's ProxyFix take it from there."""
    return request.remote_addr


@app.get("/")
@limited("hello", address)
def hello():
    return "hello\n"


if __name__ == "__main__":
    app.run("127.0.0.1", int(os.environ.get("PORT", 8080)))
