"""Writes each request that changes something to the audit log."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus

from heatlite.api.access.login_throttle import Network, address_of
from heatlite.api.access.policy import OPEN, PROVEN
from heatlite.api.request import Request
from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.audit import AuditLog, AuditOutcome, AuditRecord

log = logging.getLogger(__name__)

READING = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
UNRECORDED = frozenset(
    {
        "stacks:lookup",
        "stacks:preview",
        "stacks:preview_update",
        "stacks:preview_update_patch",
        "stacks:validate_template",
        OPEN,
        PROVEN,  # of agents, at each change; rows tell what they did
    }
)
"""Rules of requests that change nothing, or are recorded elsewhere."""

_OF_COLUMNS = frozenset({"project", "stack_name", "stack_id", "resource_name", "form"})
"""Variables of paths that have columns of their own, or none."""

MAX_NAME, MAX_PATH, MAX_REASON = 255, 2000, 1000
"""Characters that are kept. A client chooses the length of each."""


class AuditTrail:
    """Follows each request from its begin to its answer."""

    def __init__(self, audit: AuditLog, clock: Clock, trusted: Sequence[Network]) -> None:
        self._audit = audit
        self._clock = clock
        self._trusted = trusted
        self._left_out = {*UNRECORDED}
        self._kept_if_refused = {PROVEN}

    def leave_out(self, rule: str) -> None:
        """Record requests with a rule only if they are refused."""
        self._left_out.add(rule)
        self._kept_if_refused.add(rule)

    def begin(self, req: Request) -> None:
        """Begin the row of a request that may change something."""
        # A replay is part of the request that asks for it.
        if req.method not in READING and req.replay is None:
            self.follow(req)

    def follow(self, req: Request) -> None:
        """Begin the row of a request, unless it has one."""
        if req.entry is None:
            req.entry = self._audit.begin(partial(self._describe, req, self._clock.now()))

    def admitted(self, req: Request) -> None:
        """Drop the row of a request that the log leaves out."""
        if req.entry is not None and req.operation in self._left_out:
            req.entry.close(is_kept=False)
            req.entry = None

    def end(self, req: Request, status: int) -> None:
        """Write the outcome. `status` is the code of the answer."""
        entry, req.entry = req.entry, None
        if entry is None:
            if req.operation != PROVEN or status < HTTPStatus.BAD_REQUEST:
                return
            entry = self._audit.begin(partial(self._describe, req, self._clock.now()))
            names = (req.parts.get("resource_name"), req.parts.get("stack_name"), address_of(req, self._trusted))
            log.warning("the agent of %s in stack %s, from %s, is refused: %s", *names, req.refusal)
        req.answered = status
        try:
            # A refused report is kept: another system may have tried a token.
            is_kept = req.operation in self._kept_if_refused or req.operation not in self._left_out
            entry.close(is_kept=bool(req.operation) and is_kept)
        except DatabaseUnavailable as error:
            log.error("%s %r by %s is missing in the audit log: %s", req.method, req.path, _user(req), error)

    def _describe(self, req: Request, time: float) -> AuditRecord:
        status = 200 if req.answered is None else req.answered
        caller = _caller(req)
        return AuditRecord(
            request_id=req.request_id,
            project=req.parts.get("project", "")[:MAX_NAME],
            time=time,
            user=_user(req),
            user_id="" if caller is None else caller.user_id[:64],
            address=address_of(req, self._trusted)[:64],
            method=req.method[:8],
            path=req.path[:MAX_PATH],
            operation=req.operation,
            stack_id=_kept(req.parts, "stack_id", 36),
            stack_name=_kept(req.parts, "stack_name", MAX_NAME),
            resource=_kept(req.parts, "resource_name", MAX_NAME),
            target=None if req.parts.keys() <= _OF_COLUMNS else _target(req.parts),
            outcome=_outcome(status),
            status=None if status < 400 else status,
            reason=req.refusal[:MAX_REASON],
            plan_digest=None if req.plan_digest is None else req.plan_digest[:64],
            action_id=req.queued[0] if req.queued else None,
            approval_id=None if caller is None or not caller.approvals else caller.approvals[-1],
        )


def _outcome(status: int) -> AuditOutcome:
    if status < 400:
        return AuditOutcome.DONE
    return AuditOutcome.REFUSED if status < 500 else AuditOutcome.FAILED


def _caller(req: Request) -> Context | None:
    """Return the caller; None if not admitted, or if the signature is not verified."""
    return getattr(req, "caller", None) if req.is_proven else None


def _user(req: Request) -> str | None:
    caller = _caller(req)
    return None if caller is None else caller.user[:MAX_NAME]


def _target(parts: Mapping[str, str]) -> str | None:
    """Return the id or name of what is neither stack nor resource: a token …"""
    found = [value for name, value in parts.items() if name not in _OF_COLUMNS]
    return found[-1][:MAX_NAME] or None


def _kept(parts: Mapping[str, str], name: str, length: int) -> str | None:
    found = parts.get(name)
    return None if found is None else found[:length]
