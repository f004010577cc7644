"""A login with FastAPI whose attempts are limited, by address and by account.

    rlproxy ../policies.conf
    pip install -r requirements.txt
    python fastapi_login.py
    curl -i -d '{"account": "ann", "password": "x"}' -H 'Content-Type: application/json' http://127.0.0.1:8080/login

One command asks about both keys. An attempt is charged to both, or to none: one that the
account's limit denies does not use up what is left for the others at that address.

RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens when
rlproxy does not answer within 250 ms, or has no such policy: CLOSED, the default here,
lets nobody in; OPEN does not count attempts. When only the Redis of rlproxy is away, the
policies' FAIL decides. No request is sent twice: it may have been charged.
"""

import hmac
import logging
import os

import redis.asyncio as redis
import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, Field

FAIL = os.environ.get("FAIL", "CLOSED")

host, port = os.environ.get("RLPROXY", "127.0.0.1:6380").split(":")
rl = redis.Redis(host=host, port=int(port), protocol=3, decode_responses=True,
                 socket_timeout=0.25, socket_connect_timeout=0.25, retry=None)
app = FastAPI()


class Login(BaseModel):
    account: str = Field(min_length=1, max_length=200)
    password: str


async def limited(login: Login, request: Request, response: Response) -> Login:
    """Returns the login if it may be tried."""
    account, address = login.account.lower(), request.client.host
    try:
        check = await rl.execute_command(
            "RL.CHECK", "login-account", account, "DETAILS", "AND", "login-address", address)
    except redis.RedisError as e:
        logging.error("no limit: %s", e)
        if FAIL == "OPEN":
            return login
        raise HTTPException(503, "try again later")
    if not check["allowed"]:
        what = "account" if check["policy"] == "login-account" else "address"
        raise HTTPException(429, f"too many attempts for this {what}", check["headers"])
    response.headers.update(check["headers"])
    return login


@app.post("/login")
async def enter(response: Response, login: Login = Depends(limited)):
    if not hmac.compare_digest(login.password.encode(), b"open sesame"):  # yours are hashed
        response.status_code = 401
        return "wrong account or password"
    return "welcome"


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ.get("PORT", 8080)))
