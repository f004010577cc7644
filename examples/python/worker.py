"""A worker of background jobs. Of all workers together, at most SLOTS run a job at a time.

    pip install redis
    seq 20 | python worker.py & seq 21 40 | python worker.py & seq 41 60 | python worker.py

A job is a line of the standard input. Before it begins, the worker acquires a slot, which it releases in
the end. CONN ties the slot to the worker's connection: rlproxy renews it while the connection is open, and
releases it when the connection closes. So a worker that is killed frees its slot at once, and a job may
take longer than the lease.

RLPROXY names rlproxy's host:port. If it ends, slots are free after TTL seconds.
"""

import os
import sys
import time
import uuid

import redis

SLOTS = int(os.environ.get("SLOTS", 2))
TTL = os.environ.get("TTL", "30") + "s"
STEPS = int(os.environ.get("STEPS", 20))
KEY = "jobs:thumbnails"

host, port = os.environ.get("RLPROXY", "127.0.0.1:6380").split(":")
# One connection, to which the slot is tied. When it breaks, it is an error: it must not be opened again
# behind our back.
rl = redis.Redis(host=host, port=int(port), socket_timeout=5, retry=None, single_connection_client=True)


class Lost(Exception):
    """The slot is no longer ours."""


def acquire():
    """Waits for a slot and returns the id of its lease."""
    lease = uuid.uuid4().hex  # a retry with the same id renews the lease and does not take another slot
    while True:
        try:
            allowed, _, _, retry_after, _ = rl.execute_command("RL.ACQUIRE", KEY, SLOTS, "ID", lease, "TTL", TTL, "CONN")
        except redis.RedisError as e:
            print("waiting for rlproxy:", e, file=sys.stderr, flush=True)
            allowed, retry_after = 0, 200
        if allowed:
            return lease
        time.sleep(min(retry_after, 50) / 1000)  # retry_after is when the slot is free at the latest


def check(lease):
    """Raises Lost unless the slot is ours still: the connection broke, or nobody could renew it in time."""
    try:
        if rl.execute_command("RL.RENEW", KEY, lease, "TTL", TTL) == 1:
            return
    except redis.RedisError as e:
        raise Lost from e
    raise Lost


def run(job, lease):
    """Stands for the job. Before each step that has an effect, it checks that the slot is ours."""
    for _ in range(STEPS):
        time.sleep(0.01)
        check(lease)


def main():
    for line in sys.stdin:
        job, done = line.strip(), False
        while not done:
            lease = acquire()
            print("begin", job, time.time_ns(), flush=True)
            try:
                run(job, lease)
                done = True
            except Lost:
                pass  # another worker may run by now: begin again
            print("end" if done else "lost", job, time.time_ns(), flush=True)
            try:
                rl.execute_command("RL.RELEASE", KEY, lease)
            except redis.RedisError:
                pass  # the connection is closed, and with it the slot released


if __name__ == "__main__":
    main()
