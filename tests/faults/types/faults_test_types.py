"""A type of a cloud that gives ids of its own and lets two objects have one name, as most do."""

import os
import time
from pathlib import Path
from uuid import uuid4

from heatlite.plugin import Resource, Schema, prop


class Props(Schema):
    before: float = prop(0.0, doc="Seconds within the call until the object is there.")
    after: float = prop(0.0, doc="Seconds within the call once it is there.")


class Slow(Resource[Props], type="Faults::Slow"):
    """A file, named ``<physical name>.<id>``. Each call and each object makes a line in a journal."""

    @property
    def _folder(self) -> Path:
        return Path(os.environ["EXAMPLE_FILES"])

    def _tell(self, journal: str) -> None:
        with (self._folder / journal).open("a") as lines:
            lines.write(f"{self.physical_name}\n")

    def find(self) -> str | None:
        found = sorted(self._folder.glob(f"{self.physical_name}.*"))
        return found[0].name if found else None

    def handle_create(self) -> None:
        self._tell("calls")
        time.sleep(self.props.before)
        path = self._folder / f"{self.physical_name}.{uuid4().hex}"
        path.touch()
        self._tell("made")
        time.sleep(self.props.after)
        self.physical_id = path.name

    def handle_delete(self) -> None:
        (self._folder / (self.physical_id or "")).unlink(missing_ok=True)
