"""The request object of the handlers."""

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
"""Key in the WSGI environment of a replayed request for its `Replay`."""


class Request(falcon.Request):
    """A Falcon request with its id, its caller and the URL that the client uses."""

    __slots__ = ("admit", "base", "caller", "logged", "max_body", "queued", "replay", "request_id", "started")

    admit: Callable[[], None]
    """Repeats the access check; set with `caller`. Raises Unauthorized, Forbidden, Unavailable."""
    base: str
    """Scheme, host and prefix of the server's URL for clients, without a trailing slash."""
    caller: Context
    """Set on every route below a project."""
    logged: Token[Ids]
    """Token that removes the ids of this request from the log context."""
    queued: list[str]
    """Ids of the actions that the request has queued."""
    max_body: int
    """Maximum size of a body in bytes."""

    def __init__(self, env: dict[str, Any], options: RequestOptions | None = None) -> None:
        super().__init__(env, options)
        self.replay: Replay | None = env.get(REPLAY)
        # uuid4() calls the kernel and so yields the interpreter to another thread.
        self.request_id = f"req-{uuid.UUID(int=getrandbits(128), version=4)}"
        if self.replay is not None:
            self.request_id = self.replay.request_id
        self.started = time.perf_counter()
        self.base = ""
        self.queued = []

    def require(self, rule: str) -> None:
        """Raise Forbidden unless the caller has the right that the rule names."""
        self.caller.require(rule)
