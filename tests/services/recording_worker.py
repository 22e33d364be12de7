"""A worker program that records the actions it is to take, and runs none.

Run by ``python -m tests.services.recording_worker FILE``, with settings of the environment. The file gets a line for
each action.
"""

import sys
from pathlib import Path

from heatlite.core.config import load
from heatlite.engine.dispatch.program import CelerySlots, WorkerProgram


class Recording:
    """In place of an engine."""

    def __init__(self, path: Path, slots: CelerySlots) -> None:
        self.worker = self
        self._path = path
        self._slots = slots

    def wake(self) -> None:
        """Do nothing: there is no table."""

    def take(self, action_id: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{action_id}\n")
        if action_id == "bad":
            raise RuntimeError("a fault of ours")

    def close(self) -> None:
        self._slots.close()


if __name__ == "__main__":
    settings = load()
    WorkerProgram(settings, settings.broker or "", lambda slots: Recording(Path(sys.argv[1]), slots)).run()
