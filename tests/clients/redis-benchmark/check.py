"""redis-benchmark: asks CONFIG GET, then sends any command as fast as it can.

That every request was answered and charged once shows in what is left of a limit.
"""

import os
import subprocess
import sys

LIMIT_ERROR = "ERR limit must be an integer between 1 and 1000000000000; it was '0'"
LIMIT = 1_000_000

login = []
if user := os.environ.get("RL_USERNAME"):
    login += ["--user", user]
if password := os.environ.get("RL_PASSWORD"):
    login += ["-a", password]
address = ["-h", os.environ["RL_HOST"], "-p", os.environ["RL_PORT"]]
protocol = ["-3"] if os.environ["RL_PROTO"] == "3" else []


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def bench(*args):
    return run("redis-benchmark", *address, *login, *protocol, *args)


def left(command, key):
    """What remains of the limit per 366 days: the third integer."""
    words = [*address, *login, command, key, str(LIMIT), "366d", "COST", "0"]
    return int(run("redis-cli", "--no-auth-warning", *words).splitlines()[2])


def want(ok, got):
    if not ok:
        raise AssertionError(f"unexpected: {got!r}")


def connect():
    out = bench("-n", "50", "-c", "50", "-q", "PING")
    want("requests per second" in out and "WARNING: Could not" not in out and "ERR" not in out, out)


def slide():
    out = bench("-n", "2000", "-c", "1", "-q", "RL.SLIDE", "slide", str(LIMIT), "366d")
    want(left("RL.SLIDE", "slide") == LIMIT - 2000, out)


def counter():
    out = bench("-n", "2000", "-c", "1", "-q", "RL.COUNTER", "counter", str(LIMIT), "366d")
    want(left("RL.COUNTER", "counter") == LIMIT - 2000, out)


def pipeline():
    out = bench("-n", "8000", "-c", "10", "-P", "16", "-q", "RL.SLIDE", "pipeline", str(LIMIT), "366d")
    want(left("RL.SLIDE", "pipeline") == LIMIT - 8000, out)


def parallel():
    out = bench("-n", "5000", "-c", "50", "-q", "RL.SLIDE", "parallel", str(LIMIT), "366d")
    want(left("RL.SLIDE", "parallel") == LIMIT - 5000, out)


def error():
    out = bench("-n", "1", "-c", "1", "RL.SLIDE", "error", "0", "3600")
    want(LIMIT_ERROR in out, out)


print("version", run("redis-benchmark", "--version").split()[1])
failed = False
for check in connect, slide, counter, pipeline, parallel, error:
    try:
        check()
        print("ok", check.__name__, flush=True)
    except Exception as e:
        failed = True
        print("FAIL", check.__name__, repr(e), flush=True)
sys.exit(failed)
