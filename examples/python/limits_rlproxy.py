"""A storage for limits, and so for Flask-Limiter and others that stand on it, in which rlproxy decides. It needs
no Redis: rlproxy may keep the state itself.

    import limits_rlproxy  # registers the scheme rlproxy://
    Limiter(get_remote_address, app=app, storage_uri="rlproxy://127.0.0.1:6380", strategy="moving-window")

Only the strategy moving-window can ask rlproxy: the others tell their storage no limit. It is RL.SLIDE, which holds
the limit by the clock of one node, and not by that of each process. Whoever is denied is charged nothing.

When rlproxy does not answer within 250 ms, limits raises an error. Flask-Limiter then answers 500, or does what its
settings swallow_errors and in_memory_fallback say. When only the Redis of rlproxy is away, fail-policy decides.
"""

import time
from urllib.parse import urlparse

import redis
from limits.storage import MovingWindowSupport, Storage


class Rlproxy(Storage, MovingWindowSupport):
    STORAGE_SCHEME = ["rlproxy"]

    def __init__(self, uri, wrap_exceptions=False, **options):
        super().__init__(uri, wrap_exceptions=wrap_exceptions, **options)
        at = urlparse(uri)
        self.rl = redis.Redis(host=at.hostname, port=at.port or 6380, username=at.username, password=at.password,
                              socket_timeout=0.25, socket_connect_timeout=0.25, retry=None)

    @property
    def base_exceptions(self):
        return redis.RedisError

    def acquire_entry(self, key, limit, expiry, amount=1):
        if amount > limit:
            return False  # an error of rlproxy: it could never be admitted
        return self.rl.execute_command("RL.SLIDE", key, limit, expiry, "COST", amount)[0] == 1

    def get_moving_window(self, key, limit, expiry):
        """When the window began, such that it ends when there is room again, and how much is used."""
        _, _, remaining, wait, reset = self.rl.execute_command("RL.SLIDE", key, limit, expiry, "COST", 0)
        return time.time() + (wait or reset) / 1000 - expiry, limit - max(remaining, 0)

    def clear(self, key):
        self.rl.execute_command("RL.RESET", key)

    def check(self):
        try:
            return self.rl.ping()
        except redis.RedisError:
            return False

    def reset(self):
        raise NotImplementedError("reset single keys, with clear")

    def incr(self, key, expiry, amount=1):
        raise NotImplementedError("use the strategy moving-window")

    def get(self, key):
        raise NotImplementedError("use the strategy moving-window")

    def get_expiry(self, key):
        raise NotImplementedError("use the strategy moving-window")
