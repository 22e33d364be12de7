"""Runner: executes actions step by step, in the order of arrival."""

import errno
import shutil
import sqlite3
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from heatlite.agent import form
from heatlite.agent.actions import Action, Actions
from heatlite.agent.commands import Command
from heatlite.agent.kinds import Kind, Step
from heatlite.agent.log import log

_MIN_PAUSE, _MAX_PAUSE = 0.05, 1.0
"""Seconds between steps; the pause doubles while nothing changes."""
_NO_ROOM = 5.0
"""Seconds to wait if the disk cannot be written."""
_FOR_NOW = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Errors of the machine that may pass; they do not fail the action."""


class Runner:
    """Executes the actions of the queue."""

    def __init__(
        self, actions: Actions, kinds: Mapping[str, Kind], folder: Path, changed: Callable[[], object]
    ) -> None:
        """Create a runner. `folder` holds the folders of actions.

        `changed` is called after each state change. Raises sqlite3.Error.
        """
        self._actions = actions
        self._kinds = kinds
        self._all = folder
        self._folder = folder / actions.identity()[0]
        """One folder for each database, because actions of another database have the same numbers."""
        self._changed = changed
        self._awake = threading.Event()
        self._stopped = False

    def wake(self) -> None:
        """Wake the runner for a new action or a cancel."""
        self._awake.set()

    def stop(self) -> None:
        """Make run() return after the current step. Commands keep running."""
        self._stopped = True
        self._awake.set()

    def run(self) -> None:
        """Execute actions until stop()."""
        for folder in self._strangers():
            _is_ended(folder)
        pause: float | None = _MIN_PAUSE
        while not self._stopped:
            self._awake.clear()
            try:
                before = pause or _MIN_PAUSE
                pause = self._go_on(before)
            except (sqlite3.Error, OSError) as error:
                log("no-room", error=f"{type(error).__name__}: {error}")
                pause = _NO_ROOM
            if pause != 0:
                self._awake.wait(pause)

    def _go_on(self, pause: float) -> float | None:
        """Execute one step of the oldest action.

        Returns the seconds until the next step, None if the queue is empty.
        """
        action = self._actions.oldest()
        if action is None:
            self._tidy()
            return None
        if action.state == form.NEW:
            if self._actions.begin(action):
                log("begun", action=action.id, kind=action.kind)
                self._changed()
            return 0
        folder = self._folder / str(action.seq)
        step = self._step(action, folder)
        if step.state != form.RUNNING:
            self._actions.end(action, step.state, step.progress, step.outputs, step.error)
            log("ended", action=action.id, kind=action.kind, state=step.state)
            self._changed()
            _forget(folder)
            return 0
        if step.progress != action.progress:
            self._actions.go_on(action, step.progress)
            return _MIN_PAUSE
        return step.pause or min(_MAX_PAUSE, 2 * pause)

    def _step(self, action: Action, folder: Path) -> Step:
        kind = self._kinds.get(action.kind)
        if kind is None:
            state = form.FAILED if _is_ended(folder) else form.RUNNING
            return Step(state, action.progress, error=f"the kind {action.kind} is no longer configured")
        try:
            return kind.step(action, folder)
        except OSError as error:
            if error.errno in _FOR_NOW:
                raise
            return Step(form.FAILED, error=str(error))
        except Exception as error:  # noqa: BLE001 - one kind's fault must not keep all others waiting for ever
            log("fault", action=action.id, kind=action.kind, trace="".join(traceback.format_tb(error.__traceback__)))
            return Step(form.FAILED, error=f"a fault of the agent: {type(error).__name__}; its log tells where")

    def _tidy(self) -> None:
        """Remove the folders of ended actions that a killed agent has left.

        Call it when the queue is empty.
        """
        for folder in _folders(self._folder):
            _forget(folder)
        for folder in self._strangers():
            if _is_ended(folder):
                _forget(folder)

    def _strangers(self) -> list[Path]:
        """Return the folders of actions of lost databases."""
        databases = (database for database in _folders(self._all) if database != self._folder)
        return [folder for database in databases for folder in _folders(database)]


def _is_ended(folder: Path) -> bool:
    """True if no process of an action runs; running ones are asked to end."""
    return not [command for command in map(Command, _folders(folder)) if command.end()]


def _forget(folder: Path) -> None:
    for one in _folders(folder):
        Command(one).forget()
    shutil.rmtree(folder, ignore_errors=True)


def _folders(folder: Path) -> list[Path]:
    return [one for one in folder.iterdir() if one.is_dir()] if folder.is_dir() else []
