"""redis-py: pools connections, retries a broken one, and its pipeline() is a transaction."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import redis

LIMIT_ERROR = "limit must be an integer between 1 and 1000000000000; it was '0'"  # redis-py strips "ERR "

# By default version 8 waits for 5 s and then repeats the command: too short for a busy machine.
options = {"host": os.environ["RL_HOST"], "port": int(os.environ["RL_PORT"]), "socket_timeout": 20, "socket_connect_timeout": 20}
for name in ("username", "password"):
    if value := os.environ.get("RL_" + name.upper()):
        options[name] = value
if "RL_DEFAULT" not in os.environ:
    options["protocol"] = int(os.environ["RL_PROTO"])
r = redis.Redis(**options)


def connect():
    assert r.ping() is True
    info = r.client_info()
    assert info["resp"] == os.environ["RL_PROTO"], info


def auth():
    try:
        redis.Redis(**{**options, "password": "wrong"}).ping()
    except redis.AuthenticationError as e:
        assert "invalid username-password pair" in str(e), e
    else:
        raise AssertionError("a wrong password was taken")


def slide():
    for allowed, remaining in (1, 2), (1, 1), (1, 0), (0, 0):
        reply = r.execute_command("RL.SLIDE", "slide", 3, 3600)
        assert all(type(n) is int for n in reply) and len(reply) == 5, reply
        assert reply[:3] == [allowed, 3, remaining], reply
        assert (reply[3] == 0) == bool(allowed) and 0 < reply[4] <= 3_600_001, reply


    with open("README.md") as readme:
        line = next(line.strip() for line in readme if line.startswith("    allowed, limit, remaining"))
    names = {"r": r}
    exec(line.replace("redis.Redis(port=6380)", "r"), names)
    assert [names["allowed"], names["limit"], names["remaining"], names["retry_after"]] == [1, 100, 99, 0], names


def counter():
    reply = r.execute_command("RL.COUNTER", "counter", 10, 3600, "COST", 4)
    assert reply[:4] == [1, 10, 6, 0], reply


def as_map(reply):
    """In RESP2 a map is a list of its keys and values."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def policy():
    r.execute_command("RL.POLICY SET", "plan", "SLIDE", 3, 3600)
    reply = r.execute_command("RL.CHECK", "plan", "k")
    assert reply[:4] == [1, 3, 2, 0], reply
    plan = as_map(r.execute_command("RL.POLICY GET", "plan"))
    assert plan[b"name"] == b"plan" and as_map(plan[b"limits"][0])[b"limit"] == 3, plan


def holds():
    def ask(line):
        return r.execute_command(*line.split())

    for _ in range(2):
        assert ask("RL.SLIDE once 5 3600 ONCE a")[:4] == [1, 5, 4, 0]
    assert ask("RL.RESERVE reserve 100 3600 COST 40 ID a")[:4] == [1, 100, 60, 0]
    assert ask("RL.SETTLE reserve a 15") == [1, 15, 25]
    assert [ask(f"RL.ACQUIRE slots 1 ID {id}")[0] for id in "ab"] == [1, 0]
    assert ask("RL.RELEASE slots a b") == 1
    reply = ask("RL.SLIDE user 5 3600 AND everyone 9 3600")
    assert [key[:4] for key in reply] == [[1, 5, 4, 0], [1, 9, 8, 0]], reply


def pipeline():
    pipe = r.pipeline(transaction=False)
    for _ in range(20):
        pipe.execute_command("RL.SLIDE", "pipeline", 20, 3600)
    assert [reply[2] for reply in pipe.execute()] == list(range(19, -1, -1))


def transaction():
    pipe = r.pipeline()
    for _ in range(3):
        pipe.execute_command("RL.SLIDE", "transaction", 2, 3600)
    assert [reply[0] for reply in pipe.execute()] == [1, 1, 0]


def parallel():
    with ThreadPoolExecutor(50) as pool:
        replies = pool.map(lambda _: r.execute_command("RL.SLIDE", "parallel", 30, 3600), range(50))
    assert sum(reply[0] for reply in replies) == 30


def error():
    try:
        r.execute_command("RL.SLIDE", "error", 0, 3600)
    except redis.ResponseError as e:
        assert str(e) == LIMIT_ERROR, e
    else:
        raise AssertionError("no error was raised")


def reconnect():
    print("RESTART", flush=True)
    assert sys.stdin.readline() == "OK\n"
    deadline = time.monotonic() + 60
    while True:
        try:
            assert r.execute_command("RL.SLIDE", "reconnect", 1, 3600)[0] == 1
            return
        except redis.ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


print("version", redis.__version__)
failed = False
for check in connect, auth, slide, counter, policy, holds, pipeline, transaction, parallel, error, reconnect:
    if check is auth and "password" not in options:
        continue
    try:
        check()
        print("ok", check.__name__, flush=True)
    except Exception as e:
        failed = True
        print("FAIL", check.__name__, repr(e), flush=True)
sys.exit(failed)
