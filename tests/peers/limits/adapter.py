"""The adapter of limits (PyPI): the strategy named first, on Redis by redis-py.

Its windows are whole seconds.
"""

import json
import os
import random
import sys
import threading
import time

from limits import RateLimitItemPerSecond, storage, strategies

STRATEGIES = {
    "moving-window": strategies.MovingWindowRateLimiter,
    "sliding-counter": strategies.SlidingWindowCounterRateLimiter,
}
limiter = STRATEGIES[sys.argv[1]](storage.RedisStorage("redis://" + os.environ["PEER_REDIS"]))


def per(limit, ms):
    if ms % 1000:
        raise ValueError("a window is whole seconds")
    return RateLimitItemPerSecond(limit, ms // 1000)


def ask():
    for line in sys.stdin:
        key, limit, ms, cost = line.split()
        try:
            item = per(int(limit), int(ms))
            if limiter.hit(item, key, cost=int(cost)):
                answer = "1 0"
            else:
                wait = limiter.get_window_stats(item, key).reset_time - time.time()
                answer = f"0 {max(1, int(wait * 1000) + 1)}"
        except Exception as e:
            answer = "error " + " ".join(f"{type(e).__name__}: {e}".split())
        print(answer, flush=True)


def load(threads, keys, item):
    """Asks about random keys with so many threads for as many seconds as each line says."""
    for line in sys.stdin:
        results = []
        began = time.perf_counter()
        end = began + float(line)
        workers = [threading.Thread(target=lambda: results.append(work(end, keys, item))) for _ in range(threads)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        seconds = time.perf_counter() - began
        took = sorted(t for r in results for t in r[0])
        report = {
            "decisions": len(took),
            "allowed": sum(r[1] for r in results),
            "errors": sum(r[2] for r in results),
            "seconds": seconds,
            "p50_us": took[(len(took) - 1) // 2] * 1e6,
            "p99_us": took[(len(took) - 1) * 99 // 100] * 1e6,
        }
        print(json.dumps(report), flush=True)


def work(end, keys, item):
    took, allowed, errors = [], 0, 0
    at = time.perf_counter()
    while at < end:
        try:
            allowed += limiter.hit(item, f"key:{random.randrange(keys):012d}")
        except Exception:
            errors += 1
        now = time.perf_counter()
        took.append(now - at)
        at = now
    return took, allowed, errors


if sys.argv[2] == "load":
    connections, keys, limit, ms = map(int, sys.argv[3:])
    load(connections, keys, per(limit, ms))
else:
    ask()
