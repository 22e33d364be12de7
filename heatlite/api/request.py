"""One request as the handlers see it."""

import time
import uuid
from typing import Any

import falcon
from falcon import RequestOptions

from heatlite.core.context import Context


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
        self.request_id = f"req-{uuid.uuid4()}"
        self.started = time.perf_counter()
        self.base = ""
