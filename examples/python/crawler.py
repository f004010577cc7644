"""A crawler that is polite: it fetches at most RATE pages per second of a site, and at most BURST at once.

    pip install redis
    printf 'http://example.com/%d\n' 1 2 3 4 5 6 | python crawler.py

A URL is a line of the standard input. Before it is fetched, the worker waits for its turn with one command:
BLOCK has rlproxy answer when there is room, so nothing is asked in a loop. All crawlers that ask the same
rlproxy, or another one with the same Redis, share the limit of a site.

RLPROXY names rlproxy's host:port, and WORKERS says how many pages are fetched at a time.
"""

import os
import queue
import sys
import threading
import time
import urllib.parse
import urllib.request

import redis

BURST = int(os.environ.get("BURST", 3))
RATE = int(os.environ.get("RATE", 1))
WORKERS = int(os.environ.get("WORKERS", 4))
WAIT = 60  # seconds for which a worker waits for its turn before it asks again

host, port = os.environ.get("RLPROXY", "127.0.0.1:6380").split(":")


def turn(rl, site):
    """Waits until a page of the site may be fetched."""
    while True:
        try:
            allowed, _, _, retry_after, _ = rl.execute_command(
                "RL.BUCKET", "crawl:" + site, BURST, RATE, "1s", "BLOCK", WAIT * 1000
            )
            if allowed:
                return
            time.sleep(retry_after / 1000)  # WAIT is over, or will be before there is room
        except redis.RedisError as e:
            print("waiting for rlproxy:", e, file=sys.stderr, flush=True)
            time.sleep(1)


def work(urls):
    # A worker has a connection of its own, because other commands wait behind BLOCK. The client must wait for a
    # reply longer than rlproxy does, and send nothing twice.
    rl = redis.Redis(host=host, port=int(port), socket_timeout=WAIT + 5, retry=None, single_connection_client=True)
    while (url := urls.get()) is not None:
        turn(rl, urllib.parse.urlsplit(url).netloc)
        try:
            with urllib.request.urlopen(url, timeout=10) as page:
                print("fetched", url, len(page.read()), flush=True)
        except OSError as e:
            print("failed", url, e, flush=True)


def main():
    urls = queue.Queue(maxsize=100)
    workers = [threading.Thread(target=work, args=(urls,)) for _ in range(WORKERS)]
    for w in workers:
        w.start()
    for line in sys.stdin:
        urls.put(line.strip())
    for _ in workers:
        urls.put(None)
    for w in workers:
        w.join()


if __name__ == "__main__":
    main()
