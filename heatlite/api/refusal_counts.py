"""Passes counts of repeated refusals from readers to the engine's process."""

import json
import logging

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.records import shallow
from heatlite.engine.admission.suppressed_requests import Repeats, SuppressedRequests
from heatlite.store.audit import AuditLog, AuditRecord, Outcome

log = logging.getLogger(__name__)


class RefusalCounts:
    """Counts of a process, as messages."""

    def __init__(self, audit: AuditLog, suppressed: SuppressedRequests) -> None:
        self._audit = audit
        self._suppressed = suppressed

    def take(self) -> list[bytes]:
        """Return the counts of a reader, and forget them."""
        found = [{"audit": shallow(one)} for one in self._audit.take_repeats()]
        found += [{"suppressed": shallow(one)} for one in self._suppressed.take_repeats()]
        return [json.dumps(one).encode() for one in found]

    def add(self, message: bytes) -> None:
        """Add a count."""
        for kind, fields in json.loads(message).items():
            if kind == "audit":
                self._audit.add_repeats(AuditRecord(**{**fields, "outcome": Outcome.REFUSED}))
            else:
                self._suppressed.add_repeats(Repeats(**fields))

    def write(self) -> None:
        """Write the added counts of suppressed requests.

        The audit log writes its own within a second.
        """
        try:
            self._suppressed.flush()
        except DatabaseUnavailable as error:
            log.warning("repeats of suppressed requests are not counted so far: %s", error)
