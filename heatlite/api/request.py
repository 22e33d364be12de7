"""One request as the handlers see it."""

import time
import uuid
from random import getrandbits
from typing import Any

import falcon
from falcon import RequestOptions

from heatlite.core.context import Context

REPLAY = "heatlite.replay"
"""In the environment of a request that an operator makes again from the list of suppressed ones."""


class Request(falcon.Request):
    """A Falcon request that knows its id, its caller and how the client reaches us."""

    __slots__ = ("base", "caller", "max_body", "request_id", "started")

    base: str
    """Scheme, host and prefix of the server as clients reach it, without a slash at the end."""
    caller: Context
    """Set on every route below a project."""
    max_body: int
    """The most bytes that a body may have."""

    def __init__(self, env: dict[str, Any], options: RequestOptions | None = None) -> None:
        super().__init__(env, options)
        # uuid4() asks the kernel, and lets another thread have the interpreter while it does.
        self.request_id = f"req-{uuid.UUID(int=getrandbits(128), version=4)}"
        self.started = time.perf_counter()
        self.base = ""
