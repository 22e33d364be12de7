"""One request as the handlers see it."""

import time
import uuid
from collections.abc import Callable
from contextvars import Token
from random import getrandbits
from typing import Any

import falcon
from falcon import RequestOptions

from heatlite.core.context import Context, Replay
from heatlite.core.logs import Ids

REPLAY = "heatlite.replay"
"""In the environment of a request that is made again from the list of suppressed ones: its `Replay`."""


class Request(falcon.Request):
    """A Falcon request that knows its id, its caller and how the client reaches us."""

    __slots__ = ("admit", "base", "caller", "logged", "max_body", "queued", "replay", "request_id", "started")

    admit: Callable[[], None]
    """Asks the door once more; set with `caller`. Raises Unauthorized, Forbidden, Unavailable."""
    base: str
    """Scheme, host and prefix of the server as clients reach it, without a slash at the end."""
    caller: Context
    """Set on every route below a project."""
    logged: Token[Ids]
    """What takes this request's ids off what its thread logs."""
    queued: list[str]
    """The ids of the actions that the request has put into the queue."""
    max_body: int
    """The most bytes that a body may have."""

    def __init__(self, env: dict[str, Any], options: RequestOptions | None = None) -> None:
        super().__init__(env, options)
        self.replay: Replay | None = env.get(REPLAY)
        # uuid4() asks the kernel, and lets another thread have the interpreter while it does.
        self.request_id = f"req-{uuid.UUID(int=getrandbits(128), version=4)}"
        if self.replay is not None:
            self.request_id = self.replay.request_id
        self.started = time.perf_counter()
        self.base = ""
        self.queued = []

    def require(self, rule: str) -> None:
        """Raise Forbidden unless the caller may do what the rule names."""
        self.caller.require(rule)
