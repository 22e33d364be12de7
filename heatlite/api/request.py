"""The request object of the handlers."""

import os
import time
import uuid
from collections.abc import Callable, Mapping
from contextvars import Token
from random import Random
from typing import Any

import falcon
from falcon import RequestOptions
from msgspec.structs import replace

from heatlite.core.context import MACHINE, Context, Replay
from heatlite.core.runtime.logs import Ids
from heatlite.store.audit import AuditEntry
from heatlite.store.records import StackRecord

REFUSAL = "heatlite.refusal"
"""Key in the WSGI environment for the error that answers a request."""
REPLAY = "heatlite.replay"
"""Key in the WSGI environment of a replayed request for its `Replay`."""


_RANDOM = Random()
"""Source of the ids. It is separate from the module's, which a program may seed with the same number twice."""
os.register_at_fork(after_in_child=_RANDOM.seed)


class Request(falcon.Request):
    """A Falcon request with its id, its caller and the URL that the client uses."""

    __slots__ = (
        "admit", "answered", "base", "caller", "entry", "is_proven", "logged", "operation", "parts",
        "plan_digest", "queued", "refusal", "replay", "request_id", "stack", "started",
    )  # fmt: skip

    admit: "Callable[[Request], None]"
    """Repeats the access check of the request that it gets. Raises Unauthorized, Forbidden, Unavailable."""
    base: str
    """Scheme, host and prefix of the server's URL for clients, without a trailing slash."""
    caller: Context
    """Set on every route below a project."""
    logged: Token[Ids]
    """Token that removes the ids of this request from the log context."""
    queued: list[str]
    """Ids of the actions that the request has queued."""

    def __init__(self, env: dict[str, Any], options: RequestOptions | None = None) -> None:
        super().__init__(env, options)
        self.replay: Replay | None = env.get(REPLAY)
        # uuid4() calls the kernel and so yields the interpreter to another thread.
        self.request_id = f"req-{uuid.UUID(int=_RANDOM.getrandbits(128), version=4)}"
        if self.replay is not None:
            self.request_id = self.replay.request_id
        self.started = time.perf_counter()
        self.base = ""
        self.queued = []
        self.is_proven = True
        """False until the signature of the URL is verified, which names the caller."""
        self.entry: AuditEntry | None = None
        """The row in the audit log; None for a request that only reads."""
        self.operation = ""
        """The last rule of the access policy that was checked."""
        self.parts: Mapping[str, str] = {}
        """Variables of the path, and what `concerns` adds, for the audit log."""
        self.stack: StackRecord | None = None
        """The stack that it is about, as it was found."""
        self.plan_digest: str | None = None
        """The plan that the request approves."""
        self.refusal = ""
        """Message of the error that is answered."""
        self.answered: int | None = None
        """Code of the answer, once there is one."""

    def prove(self, physical_name: str) -> None:
        """Set the machine that the signature of the URL has proven."""
        self.caller = replace(self.caller, user=f"{MACHINE}{physical_name}")
        self.is_proven = True

    def concerns(self, stack: StackRecord | None = None, **named: str) -> None:
        """Note for the audit log what the path does not say.

        `named` may have a `resource_name`, and a `target`: the id or name of what is neither stack nor resource.
        """
        if stack is not None:
            self.stack = stack
            named |= {"stack_name": stack.name, "stack_id": stack.id}
        self.parts = {**self.parts, **named}

    def require(self, rule: str) -> None:
        """Raise Forbidden unless the caller has the right that the rule names."""
        self.operation = rule
        self.caller.require(rule)
