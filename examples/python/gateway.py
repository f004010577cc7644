"""A gateway to a language model, where each customer has so many tokens a minute.

    pip install redis
    rlproxy ../policies.conf
    python gateway.py
    curl -N -H 'X-Api-Key: red' -d '{"prompt": "say it again", "max_tokens": 50}' http://127.0.0.1:8080/

How many is the policy `tokens` of rlproxy's configuration. The cost of a response is known only afterwards. So the
gateway holds the most that it can cost, which is the prompt and max_tokens, streams the response, and settles with
what was used. The rest is free again at once.

Both commands have the id of the reservation. If there is no reply, the gateway retries with the same id: nothing is
held or charged twice. If the gateway dies, the reservation lapses after TTL and is charged in full.

RLPROXY names rlproxy's host:port, PORT the port to listen on, TTL the seconds within which a response must
have been streamed.
"""

import json
import logging
import os
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import ceil

import redis

TTL = int(os.environ.get("TTL", 60))
SECONDS_PER_TOKEN = float(os.environ.get("SECONDS_PER_TOKEN", 0.02))

host, port = os.environ.get("RLPROXY", "127.0.0.1:6380").split(":")
rl = redis.Redis(host=host, port=int(port), socket_timeout=1, socket_connect_timeout=1, retry=None)


def count(text):
    """Stands for the model's tokenizer."""
    return len(text.split())


def model(prompt, max_tokens):
    """Stands for the model: it repeats the prompt, one token at a time."""
    for word in prompt.split()[:max_tokens]:
        time.sleep(SECONDS_PER_TOKEN)
        yield word


def ask(patience, *command):
    """Sends a command that has an id, and retries for `patience` seconds while nothing answers."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return rl.execute_command(*command)
        except redis.RedisError as e:
            answered = isinstance(e, redis.ResponseError) and not str(e).startswith("UNAVAILABLE")
            if answered or time.monotonic() > deadline:
                raise
            logging.warning("retrying: %s: %s", command[0], e)
            time.sleep(0.1)


def settle(key, id, used):
    try:
        settled, _, _ = ask(TTL, "RL.SETTLE", key, id, used)
        if not settled:
            logging.error("%s of %s took longer than %d s: charged in full", id, key, TTL)
    except redis.RedisError as e:
        logging.error("%s of %s is not settled and will be charged in full: %s", id, key, e)


class Gateway(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt, max_tokens = asked["prompt"], asked["max_tokens"]
        customer = self.headers.get("X-Api-Key", "anonymous")
        key = "tokens:" + customer  # as all commands but RL.HOLD and RL.CHECK name it
        used = count(prompt)
        # An id of our own. Had the client chosen it, it could use the same one for everything.
        id = uuid.uuid4().hex
        try:
            allowed, _, _, retry_after, _ = ask(
                2, "RL.HOLD", "tokens", customer, "COST", used + max_tokens, "ID", id, "TTL", f"{TTL}s", "FAIL", "ERROR")
        except redis.RedisError as e:
            logging.error("%s: %s", key, e)
            too_much = "cost exceeds limit" in str(e)
            return self.refuse(400 if too_much else 503, "too many tokens" if too_much else "try again later")
        if not allowed:
            return self.refuse(429, "no tokens left", ceil(retry_after / 1000))
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            for word in model(prompt, max_tokens):
                used += 1
                self.wfile.write(word.encode() + b"\n")
        except ConnectionError:
            pass  # the client has left, and pays for what the model has said so far
        finally:
            threading.Thread(target=settle, args=(key, id, used)).start()  # the client need not wait

    def refuse(self, status, why, wait=0):
        self.send_response(status)
        if wait:
            self.send_header("Retry-After", str(wait))
        self.end_headers()
        self.wfile.write(why.encode() + b"\n")


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8080))), Gateway).serve_forever()
