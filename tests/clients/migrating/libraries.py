# Each library asks eight times for a limit of five an hour. migrants.go says what the lines of the output mean.
import logging
import os
import sys

import redis
from flask import Flask
from flask_limiter import Limiter
from limits import parse, storage, strategies

sys.path.append("examples/python")
import limits_rlproxy  # noqa: F401

address = "{RL_HOST}:{RL_PORT}".format(**os.environ)
five = parse("5/hour")


def show(name, hit, counted):
    """hit says whether a request is admitted, or raises; counted returns what the library has counted."""
    try:
        print(name, sum(hit() for _ in range(8)), counted())
    except Exception as e:
        print(name, "error", " ".join(str(e.__cause__ or e).split()))


def flask_limiter(name, uri, strategy):
    app = Flask(name)
    logger = logging.getLogger(name)
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    Limiter(lambda: name, app=app, default_limits=["5 per hour"], storage_uri=uri, strategy=strategy)
    app.get("/")(lambda: "hello\n")
    why = []
    app.register_error_handler(500, lambda e: (why.append(e.original_exception), ("", 500))[1])
    client = app.test_client()

    def hit():
        status = client.get("/").status_code
        if why:
            raise why[0]
        return status == 200

    show(name, hit, lambda: "-")


at = f"redis://{address}"
for name, strategy in {
    "limits-fixed-window": strategies.FixedWindowRateLimiter,
    "limits-moving-window": strategies.MovingWindowRateLimiter,
    "limits-sliding-window-counter": strategies.SlidingWindowCounterRateLimiter,
}.items():
    of = storage.storage_from_string(at)
    limiter = strategy(of)
    fixed = name == "limits-fixed-window"
    show(name, lambda: limiter.hit(five, name), lambda: of.get(five.key_for(name)) if fixed else "-")

own = strategies.MovingWindowRateLimiter(storage.storage_from_string(f"rlproxy://{address}"))
show("limits-rlproxy", lambda: own.hit(five, "own"), lambda: 5 - own.get_window_stats(five, "own").remaining)

flask_limiter("Flask-Limiter", at, "fixed-window")
flask_limiter("Flask-Limiter-rlproxy", f"rlproxy://{address}", "moving-window")

r = redis.Redis.from_url(at)
count = r.register_script("""
    local n = redis.call('INCR', KEYS[1])
    if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
    return n <= tonumber(ARGV[1]) and 1 or 0
""")
show("script", lambda: count(keys=["script:k"], args=[5, 3600000]), lambda: int(r.get("script:k")))
show("CL.THROTTLE", lambda: r.execute_command("CL.THROTTLE", "cell", 4, 5, 3600)[0] == 0, lambda: "-")
show("RL.BUCKET", lambda: r.execute_command("RL.BUCKET", "bucket", 5, 5, "1h")[0], lambda: "-")
