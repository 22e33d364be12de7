"""Passes counts of repeated refusals from readers to the engine's process."""

import json
import logging
from collections import deque
from collections.abc import Callable

from msgspec.structs import asdict

from heatlite.core.errors import DatabaseUnavailable
from heatlite.engine.admission.suppressed_requests import Repeats, SuppressedRequests
from heatlite.store.audit import AuditLog, AuditRecord, Outcome

log = logging.getLogger(__name__)


class RefusalCounts:
    """Counts of a process, as messages."""

    def __init__(self, audit: AuditLog, suppressed: SuppressedRequests) -> None:
        self._audit = audit
        self._suppressed = suppressed
        self._unpassed: deque[bytes] = deque()
        """Counts of a reader that the queue does not hold yet."""
        self.is_unwritten = False
        """True if counts are added and not written."""

    def pass_on(self, put: Callable[[bytes], None]) -> None:
        """Pass the counts of a reader on.

        `put` appends to a queue. If that is full it raises BlockingIOError, and the next call continues.
        """
        while self._unpassed or self._take():
            try:
                put(self._unpassed[0])
            except BlockingIOError:
                return
            except OSError as error:
                log.warning("a count of refusals is lost: %s", error)
            self._unpassed.popleft()

    def _take(self) -> bool:
        """Take what this process has counted. Returns False if that is nothing."""
        found = [{"audit": asdict(one)} for one in self._audit.take_repeats()]
        found += [{"suppressed": asdict(one)} for one in self._suppressed.take_repeats()]
        self._unpassed.extend(json.dumps(one).encode() for one in found)
        return bool(found)

    def add(self, message: bytes) -> None:
        """Add a count that a reader has passed on."""
        for kind, fields in json.loads(message).items():
            if kind == "audit":
                self._audit.add_repeats(AuditRecord(**{**fields, "outcome": Outcome.REFUSED}))
            else:
                self._suppressed.add_repeats(Repeats(**fields))
        self.is_unwritten = True

    def write(self) -> None:
        """Write the added counts of suppressed requests.

        The audit log writes its own within a second.
        """
        self.is_unwritten = False
        try:
            self._suppressed.flush()
        except DatabaseUnavailable as error:
            log.warning("repeats of suppressed requests are not counted so far: %s", error)
