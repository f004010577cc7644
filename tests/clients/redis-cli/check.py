"""redis-cli: one command a process, commands on stdin, --pipe, and typed at a terminal.

The terminal is a pty of our own: redis-cli then asks COMMAND DOCS and shows, while
one types, what arguments a command wants.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

LIMIT_ERROR = "ERR limit must be an integer between 1 and 1000000000000; it was '0'"
USER, PASSWORD = os.environ.get("RL_USERNAME"), os.environ.get("RL_PASSWORD")


def options(password=PASSWORD):
    words = ["redis-cli", "-h", os.environ["RL_HOST"], "-p", os.environ["RL_PORT"]]
    if os.environ["RL_PROTO"] == "3":
        words.append("-3")
    if USER:
        words += ["--user", USER]
    if password:
        words += ["--pass", password, "--no-auth-warning"]
    return words


def cli(*args, text=None):
    done = subprocess.run(options() + list(args), input=text, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def integers(text):
    return [int(n) for n in re.findall(r"^(?:\s*\d+\) )*(?:\(integer\) )?(-?\d+)$", text, re.M)]


def want(ok, got):
    if not ok:
        raise AssertionError(f"unexpected: {got!r}")


class Terminal:
    """redis-cli at a terminal of 200 columns."""

    def __init__(self):
        pid, self.fd = pty.fork()
        if pid == 0:
            # Before redis-cli starts: without a width it would ask the terminal, and wait for ever.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
            os.environ.update(TERM="xterm", REDISCLI_HISTFILE="/dev/null", REDISCLI_RCFILE="/dev/null")
            os.execvp("redis-cli", options())
        self.pid = pid
        self.expect("> $")

    def type(self, text):
        os.write(self.fd, text.encode())

    def run(self, line, pattern):
        """Types a line and waits for the pattern and the next prompt. What is typed
        before a prompt is lost: redis-cli flushes its input there."""
        self.type(line + "\r")
        self.expect(pattern + ".*> $")

    def expect(self, pattern):
        """Reads until the pattern is on the screen, for a minute at most."""
        screen, deadline = "", time.monotonic() + 60
        while not re.search(pattern, screen, re.S):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"{pattern!r} is not on the screen: {screen!r}")
            screen += os.read(self.fd, 4096).decode()
        return screen

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def connect():
    want(cli("PING") == "PONG\n", cli("PING"))
    info = cli("CLIENT", "INFO")
    want(f"resp={os.environ['RL_PROTO']}" in info, info)


def auth():
    done = subprocess.run(options("wrong") + ["PING"], capture_output=True, text=True, timeout=60)
    want("WRONGPASS invalid username-password pair" in done.stdout + done.stderr, done)


def slide():
    for allowed, remaining in (1, 2), (1, 1), (1, 0), (0, 0):
        reply = integers(cli("RL.SLIDE", "slide", "3", "3600"))
        want(len(reply) == 5 and reply[:3] == [allowed, 3, remaining], reply)
        want((reply[3] == 0) == bool(allowed) and 0 < reply[4] <= 3_600_001, reply)


def counter():
    reply = integers(cli("RL.COUNTER", "counter", "10", "3600", "COST", "4"))
    want(reply[:4] == [1, 10, 6, 0], reply)


def policy():
    set = cli("RL.POLICY", "SET", "plan", "SLIDE", "3", "3600")
    want("version" in set, set)
    reply = integers(cli("RL.CHECK", "plan", "k"))
    want(reply[:4] == [1, 3, 2, 0], reply)
    plan = cli("RL.POLICY", "GET", "plan")
    want(re.search(r"^algorithm\s+slide$", plan, re.M), plan)


def holds():
    def ask(line):
        return integers(cli(*line.split()))

    for _ in range(2):
        reply = ask("RL.SLIDE once 5 3600 ONCE a")
        want(reply[:4] == [1, 5, 4, 0], reply)
    reply = ask("RL.RESERVE reserve 100 3600 COST 40 ID a")
    want(reply[:4] == [1, 100, 60, 0], reply)
    reply = ask("RL.SETTLE reserve a 15")
    want(reply == [1, 15, 25], reply)
    reply = [ask(f"RL.ACQUIRE slots 1 ID {id}")[0] for id in "ab"]
    want(reply == [1, 0], reply)
    reply = ask("RL.RELEASE slots a b")
    want(reply == [1], reply)
    reply = ask("RL.SLIDE user 5 3600 AND everyone 9 3600")
    want(reply[:4] + reply[5:9] == [1, 5, 4, 0, 1, 9, 8, 0], reply)


def pipeline():
    reply = integers(cli(text="RL.SLIDE pipeline 20 3600\n" * 20))
    want(reply[2::5] == list(range(19, -1, -1)), reply)


def transaction():
    text = "MULTI\n" + "RL.SLIDE transaction 2 3600\n" * 3 + "EXEC\n"
    reply = integers(cli(text=text))
    want(reply[0::5] == [1, 1, 0], reply)


def parallel():
    words = options() + ["RL.SLIDE", "parallel", "30", "3600"]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(50)]
    admitted = sum(integers(p.communicate(timeout=60)[0])[0] for p in running)
    want(admitted == 30, admitted)


def error():
    done = subprocess.run(options() + ["-e", "RL.SLIDE", "error", "0", "3600"], capture_output=True, text=True, timeout=60)
    want(done.returncode == 1 and LIMIT_ERROR in done.stdout + done.stderr, done)


def pipe():
    command = "*4\r\n$8\r\nRL.SLIDE\r\n$4\r\npipe\r\n$4\r\n1000\r\n$4\r\n3600\r\n"
    out = cli("--pipe", text=command * 1000)
    want("errors: 0, replies: 1000" in out, out)
    reply = integers(cli("RL.SLIDE", "pipe", "1000", "3600", "COST", "0"))
    want(reply[:3] == [0, 1000, 0], reply)


def hints():
    terminal = Terminal()
    terminal.type("rl.slide ")
    terminal.expect(r"key.*limit.*window.*COST")
    terminal.run("typed 5 60", r"1\) \(integer\) 1\s+2\) \(integer\) 5\s+3\) \(integer\) 4\s+4\) \(integer\) 0")
    for words, hint in (
        ("rl.check ", r"policy.*key.*COST n.*ID id.*ONCE id.*AND policy.*key"),
        ("rl.slide k 5 60 AND ", r"key.*limit.*window"),
        ("rl.reserve ", r"key.*limit.*window.*COST n.*ID id.*TTL window.*CHARGE\|RELEASE"),
        ("rl.acquire ", r"key.*slots.*ID id.*TTL window.*CONN"),
        ("rl.policy set ", r"name.*SLIDE\|COUNTER\|FIXED.*limit.*window.*BUCKETS n.*SHADOW"),
        ("rl.policy override ", r"name.*pattern.*limit.*window.*UNLIMITED\|BLOCKED"),
        ("rl.policy del ", r"name.*\[pattern\]"),
        ("rl.policy get ", r"name"),
    ):
        terminal.type("\x15")  # ^U: an empty line
        terminal.type(words)
        terminal.expect(hint)
    terminal.type("\x15")
    terminal.run("help rl.counter", "summary:")
    terminal.close()


def reconnect():
    terminal = Terminal()
    terminal.run("PING", "PONG")
    print("RESTART", flush=True)
    want(sys.stdin.readline() == "OK\n", "no OK")
    terminal.run("PING", "Server closed the connection")  # as redis-cli says of any server
    terminal.run("RL.SLIDE reconnect 1 3600", r"1\) \(integer\) 1")
    terminal.close()


print("version", subprocess.run(["redis-cli", "--version"], capture_output=True, text=True).stdout.split()[1])
failed = False
for check in connect, auth, slide, counter, policy, holds, pipeline, transaction, parallel, error, pipe, hints, reconnect:
    if check is auth and not PASSWORD:
        continue
    try:
        check()
        print("ok", check.__name__, flush=True)
    except Exception as e:
        failed = True
        print("FAIL", check.__name__, repr(e), flush=True)
sys.exit(failed)
