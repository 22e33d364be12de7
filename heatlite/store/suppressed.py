"""Requests that a maintenance lock refused or ignored (lock-and-health §2: nothing is forgotten)."""

import json
from typing import Any

import peewee

from heatlite.core.json import canonical, dump
from heatlite.store.database import Row
from heatlite.store.records import SuppressedRecord
from heatlite.store.sealing import Sealing
from heatlite.store.tables import Suppressed

_BODY = 8
LIMIT = 1000
"""Rows kept for one stack: a client that never gives up must not fill the disk."""


class SuppressedRequests:
    """The suppressed requests."""

    def __init__(self, sealing: Sealing) -> None:
        self._sealing = sealing
        self._database = sealing.database

    def add(self, record: SuppressedRecord, locked_at: float) -> bool:
        """Keep a request, once for each lock (`locked_at` tells them apart).

        False when it is there already or the stack has 1000 of them.
        """
        counted = Suppressed.select(peewee.fn.COUNT(Suppressed.id)).where(Suppressed.stack_id == record.stack_id)
        if self._database.select(counted)[0][0] >= LIMIT:
            return False
        same = (record.request, record.target, record.requested_by, record.method, record.path, record.body, locked_at)
        row: dict[str, Any] = {
            "stack_id": record.stack_id,
            "time": record.time,
            "request": record.request,
            "target": record.target,
            "requested_by": record.requested_by,
            "detail": record.detail,
            "method": record.method,
            "path": record.path,
            "body": None if record.body is None else self._sealing.close(dump(record.body)),
            "digest": self._sealing.digest(canonical(same)),
        }
        return self._database.change(Suppressed.insert(row).on_conflict_ignore()) == 1

    def get(self, stack_id: str, number: int) -> SuppressedRecord | None:
        """One of them."""
        found = self._select((Suppressed.stack_id == stack_id) & (Suppressed.id == number))
        return found[0] if found else None

    def delete(self, stack_id: str, number: int) -> bool:
        """Drop one; False when there is none."""
        query = Suppressed.delete().where((Suppressed.stack_id == stack_id) & (Suppressed.id == number))
        return self._database.change(query) == 1

    def clear(self, stack_id: str) -> None:
        """Drop all of a stack."""
        self._database.change(Suppressed.delete().where(Suppressed.stack_id == stack_id))

    def _select(self, condition: peewee.ColumnBase) -> list[SuppressedRecord]:
        rows = self._database.select(
            Suppressed.select(
                Suppressed.stack_id,
                Suppressed.time,
                Suppressed.request,
                Suppressed.target,
                Suppressed.requested_by,
                Suppressed.detail,
                Suppressed.method,
                Suppressed.path,
                Suppressed.body,
                Suppressed.id,
            )
            .where(condition)
            .order_by(Suppressed.id)
        )
        return [_record(self._sealing.opened(row, (_BODY,))) for row in rows]

    def list(self, stack_id: str) -> list[SuppressedRecord]:
        """The suppressed requests of a stack, oldest first."""
        return self._select(Suppressed.stack_id == stack_id)


def _record(row: Row) -> SuppressedRecord:
    stack_id, time, request, target, requested_by, detail, method, path, body, number = row
    return SuppressedRecord(
        stack_id,
        time,
        request,
        target,
        requested_by,
        detail,
        method,
        path,
        None if body is None else json.loads(body),
        number,
    )
