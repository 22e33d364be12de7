"""A worker program that records the actions it is to take, and runs none.

Run by ``python -m tests.services.recording_worker FILE``, with settings of the environment. The file gets a line for
each action.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from heatlite.core.config import load
from heatlite.engine.dispatch.program import WorkerProgram
from heatlite.engine.dispatch.slots import Slots
from heatlite.feature import installed
from heatlite.store.records import ActionRecord


class Recording:
    """In place of an engine."""

    def __init__(self, path: Path, slots: Slots) -> None:
        self._path = path
        self._slots = slots

    def take(self, action_id: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{action_id}\n")
        if action_id == "bad":
            raise RuntimeError("a fault of ours")

    def active(self) -> list[ActionRecord]:
        return []

    def stack_name(self, stack_id: str) -> str | None:
        return None

    def revoke(self, action_ids: Iterable[str]) -> None:
        """Do nothing: there is no table."""

    def close(self) -> None:
        self._slots.close()


if __name__ == "__main__":
    settings = load(installed)
    WorkerProgram(settings, settings.broker or "", lambda slots: Recording(Path(sys.argv[1]), slots)).run()
