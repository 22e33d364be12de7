"""Database of the agent: the queue, the finished actions, and a revision counter."""

import json
import os
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from heatlite.agent import form
from heatlite.agent.form import Fault, JsonMap, Line, Record, ReportedAction

MAX_PRUNED_IDS = 10_000
"""Maximum of kept ids of pruned actions, which prevent that a late repeat is executed again."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS agent (instance TEXT NOT NULL, revision INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS actions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, args TEXT NOT NULL,
    requester TEXT NOT NULL, created_at TEXT NOT NULL, scheduled_at TEXT NOT NULL, started_at TEXT, finished_at TEXT,
    state TEXT NOT NULL, progress TEXT NOT NULL, outputs TEXT NOT NULL, error TEXT NOT NULL, revision INTEGER NOT NULL,
    cancel_asked INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS actions_state ON actions (state, seq);
CREATE INDEX IF NOT EXISTS actions_revision ON actions (revision);
CREATE TABLE IF NOT EXISTS history (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, action INTEGER NOT NULL REFERENCES actions (seq) ON DELETE CASCADE,
    time TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS history_action ON history (action);
CREATE TABLE IF NOT EXISTS pruned (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE);
"""


class Changes(TypedDict, total=False):
    """Changes since a revision; if `unchanged`, only with `instance` and `revision`."""

    instance: str
    revision: int
    unchanged: bool
    more: bool
    known: list[str]
    actions: list[ReportedAction]


@dataclass(frozen=True, slots=True)
class Action:
    """Row of the actions table."""

    seq: int
    """Position in the order of arrival."""
    id: str
    kind: str
    args: JsonMap
    requester: str
    created_at: str
    scheduled_at: str
    started_at: str | None
    finished_at: str | None
    state: str
    progress: JsonMap
    outputs: JsonMap
    error: str
    revision: int
    cancel_asked: bool

    @property
    def has_ended(self) -> bool:
        """True if the action is in a final state."""
        return self.state in form.FINISHED

    def record(self) -> Record:
        """Return the action as sent to the server."""
        return {
            "id": self.id,
            "kind": self.kind,
            "args": self.args,
            "requester": self.requester,
            "created_at": self.created_at,
            "scheduled_at": self.scheduled_at,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "state": self.state,
            "progress": self.progress,
            "outputs": self.outputs,
            "error": self.error,
            "revision": self.revision,
        }


class Actions:
    """Repository of the actions. Safe for threads; each method is one transaction.

    Raises sqlite3.Error if the disk is full, read-only or broken; then nothing has changed.
    """

    def __init__(self, file: Path) -> None:
        """Open or create the database, readable for its owner only."""
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        file.chmod(0o600)
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None, timeout=10)
        self._connection.execute("PRAGMA foreign_keys = ON")
        # A commit lasts through a loss of power: FULL, the default, may lose the last one.
        self._connection.execute("PRAGMA synchronous = EXTRA")
        self._connection.executescript(_SCHEMA)
        with self._transaction():
            if self._connection.execute("SELECT 1 FROM agent").fetchone() is None:
                self._connection.execute("INSERT INTO agent VALUES (?, 0)", (str(uuid.uuid4()),))

    def close(self) -> None:
        """Close the database. Call it after the last other call has returned."""
        with self._lock:
            self._connection.close()

    def identity(self) -> tuple[str, int]:
        """Return the id of the database and its revision, which counts its changes."""
        with self._lock:
            instance, revision = self._connection.execute("SELECT instance, revision FROM agent").fetchone()
        return instance, revision

    def schedule(self, action_id: str, kind: str, args: JsonMap, requester: str, created_at: str) -> bool:
        """Append an action to the queue. Repeating it with the same id is idempotent.

        Returns True if the action is new. Raises Fault: ActionExists if the id is, or was, another action's; QueueFull.
        """
        with self._transaction():
            found = self._select("WHERE id = ?", (action_id,))
            if found:
                if (found[0].kind, found[0].args) == (kind, args):
                    return False
                raise Fault("ActionExists", f"There is another action {action_id} here. Take another id.")
            if self._connection.execute("SELECT 1 FROM pruned WHERE id = ?", (action_id,)).fetchone():
                raise Fault("ActionExists", f"Action {action_id} has ended long ago. Take another id to do it again.")
            (unfinished,) = self._connection.execute(
                "SELECT count(*) FROM actions WHERE state IN (?, ?)", form.UNFINISHED
            ).fetchone()
            if unfinished >= form.MAX_UNFINISHED:
                raise Fault("QueueFull", f"{unfinished} actions are waiting here. Try again when some have ended.")
            time = form.now()
            cursor = self._connection.execute(
                "INSERT INTO actions (id, kind, args, requester, created_at, scheduled_at, state, progress, outputs,"
                " error, revision, cancel_asked) VALUES (?, ?, ?, ?, ?, ?, ?, '{}', '{}', '', ?, 0)",
                (action_id, kind, form.dump(args), requester, created_at, time, form.NEW, self._count()),
            )
            assert cursor.lastrowid is not None
            self._note(cursor.lastrowid, time, form.NEW, "")
        return True

    def get(self, action_id: str) -> ReportedAction:
        """Return an action with its history. Raises Fault: UnknownAction."""
        with self._lock:
            return self._reported([self._known(action_id)])[0]

    def unfinished(self) -> list[Action]:
        """Return the waiting and running actions, oldest first."""
        with self._lock:
            return self._select("WHERE state IN (?, ?) ORDER BY seq", form.UNFINISHED)

    def finished(self) -> list[Action]:
        """Return the finished actions, newest first."""
        with self._lock:
            return self._select("WHERE state NOT IN (?, ?) ORDER BY revision DESC", form.UNFINISHED)

    def oldest(self) -> Action | None:
        """Return the oldest unfinished action, which is the next to run, or None."""
        with self._lock:
            found = self._select("WHERE state IN (?, ?) ORDER BY seq LIMIT 1", form.UNFINISHED)
        return found[0] if found else None

    def begin(self, action: Action) -> bool:
        """Set a NEW action to RUNNING. Returns False if it was no longer NEW."""
        with self._transaction():
            time = form.now()
            begun = self._connection.execute(
                "UPDATE actions SET state = ?, started_at = ?, revision = ? WHERE seq = ? AND state = ?",
                (form.RUNNING, time, self._count(), action.seq, form.NEW),
            ).rowcount
            if begun:
                self._note(action.seq, time, form.RUNNING, "")
        return bool(begun)

    def go_on(self, action: Action, progress: JsonMap) -> None:
        """Save the progress of a RUNNING action."""
        with self._transaction():
            self._connection.execute(
                "UPDATE actions SET progress = ?, revision = ? WHERE seq = ?",
                (form.dump(progress), self._count(), action.seq),
            )

    def end(self, action: Action, state: str, progress: JsonMap, outputs: JsonMap, error: str) -> None:
        """Set a RUNNING action to a final state and prune old finished actions."""
        with self._transaction():
            time = form.now()
            self._connection.execute(
                "UPDATE actions SET state = ?, finished_at = ?, progress = ?, outputs = ?, error = ?, revision = ?"
                " WHERE seq = ?",
                (state, time, form.dump(progress), form.dump(outputs), error, self._count(), action.seq),
            )
            self._note(action.seq, time, state, error)
            self._prune()

    def cancel(self, action_id: str) -> tuple[Action, bool]:
        """Cancel an action: at once if NEW, otherwise by a flag for the runner.

        Returns the action, and True if its state has changed. Raises Fault: UnknownAction.
        """
        with self._transaction():
            action = self._known(action_id)
            if action.state == form.NEW:
                time = form.now()
                self._connection.execute(
                    "UPDATE actions SET state = ?, finished_at = ?, revision = ? WHERE seq = ?",
                    (form.CANCELLED, time, self._count(), action.seq),
                )
                self._note(action.seq, time, form.CANCELLED, "cancelled before it began")
                self._prune()
            elif action.state == form.RUNNING and not action.cancel_asked:
                self._connection.execute("UPDATE actions SET cancel_asked = 1 WHERE seq = ?", (action.seq,))
            return self._select("WHERE seq = ?", (action.seq,))[0], action.state == form.NEW

    def changes(self, instance: str | None, revision: int | None) -> Changes:
        """Return the changes since `revision` of database `instance`.

        Returns all actions if `instance` is another database or if the revision is unknown. An answer that would be too
        large has `more`: it holds the earliest changes, up to the revision in the answer.
        """
        with self._lock:
            own, last = self._connection.execute("SELECT instance, revision FROM agent").fetchone()
            since = revision if instance == own and revision is not None and 0 <= revision <= last else None
            if since == last:
                return {"instance": own, "revision": last, "unchanged": True}
            known = [row[0] for row in self._connection.execute("SELECT id FROM actions ORDER BY seq")]
            told: list[ReportedAction] = []
            size = 0
            for action in self._select("WHERE revision > ? ORDER BY revision", (-1 if since is None else since,)):
                one = self._reported([action])[0]
                size += len(form.dump(one).encode())
                if told and size > form.MAX_REPORTED:
                    return {
                        "instance": own, "revision": told[-1]["action"]["revision"], "known": known, "actions": told,
                        "more": True,
                    }  # fmt: skip
                told.append(one)
            told.sort(key=lambda one: known.index(one["action"]["id"]))
            return {"instance": own, "revision": last, "known": known, "actions": told}

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite may have rolled back by itself on a full disk.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _count(self) -> int:
        (revision,) = self._connection.execute(
            "UPDATE agent SET revision = revision + 1 RETURNING revision"
        ).fetchone()
        return int(revision)

    def _note(self, seq: int, time: str, state: str, reason: str) -> None:
        self._connection.execute(
            "INSERT INTO history (action, time, state, reason) VALUES (?, ?, ?, ?)", (seq, time, state, reason)
        )

    def _prune(self) -> None:
        old = self._connection.execute(
            "SELECT seq, id FROM actions WHERE state NOT IN (?, ?) ORDER BY revision DESC LIMIT -1 OFFSET ?",
            (*form.UNFINISHED, form.MAX_FINISHED),
        ).fetchall()
        for seq, action_id in old:
            self._connection.execute("DELETE FROM actions WHERE seq = ?", (seq,))
            self._connection.execute("INSERT OR IGNORE INTO pruned (id) VALUES (?)", (action_id,))
        if old:
            self._connection.execute(
                "DELETE FROM pruned WHERE seq <= (SELECT max(seq) FROM pruned) - ?", (MAX_PRUNED_IDS,)
            )

    def _known(self, action_id: str) -> Action:
        found = self._select("WHERE id = ?", (action_id,))
        if not found:
            raise Fault("UnknownAction", f"There is no action {action_id} here.")
        return found[0]

    def _reported(self, actions: Sequence[Action]) -> list[ReportedAction]:
        return [{"action": action.record(), "history": self._history(action.seq)} for action in actions]

    def _history(self, seq: int) -> list[Line]:
        rows = self._connection.execute(
            "SELECT time, state, reason FROM history WHERE action = ? ORDER BY seq DESC", (seq,)
        )
        return [{"time": time, "state": state, "reason": reason} for time, state, reason in rows]

    def _select(self, where: str, values: Sequence[str | int] = ()) -> list[Action]:
        rows = self._connection.execute(
            "SELECT seq, id, kind, args, requester, created_at, scheduled_at, started_at, finished_at, state, progress,"
            f" outputs, error, revision, cancel_asked FROM actions {where}",
            values,
        )
        return [_action(row) for row in rows]


def _action(row: Sequence[Any]) -> Action:
    seq, action_id, kind, args, requester, created_at, scheduled_at, started_at, finished_at, state, *rest = row
    progress, outputs, error, revision, cancel_asked = rest
    return Action(
        seq, action_id, kind, json.loads(args), requester, created_at, scheduled_at, started_at, finished_at, state,
        json.loads(progress), json.loads(outputs), error, revision, bool(cancel_asked),
    )  # fmt: skip
