"""Types of a cloud with its own ids and repeatable names, as most clouds have."""

import os
import time
from pathlib import Path
from uuid import uuid4

from heatlite.plugin import Change, Json, Resource, Schema, prop


class Props(Schema):
    before: bool = prop(False, doc="True if the call waits before it makes the object.")
    after: bool = prop(False, doc="True if the call waits once it has made the object.")


class Slow(Resource[Props], type="Faults::Slow"):
    """A file, named ``<physical name>.<id>``.

    Each call and each object makes a line in a journal. A call that waits goes on when there is a file ``open``.
    """

    @property
    def _folder(self) -> Path:
        return Path(os.environ["EXAMPLE_FILES"])

    def _tell(self, journal: str) -> None:
        with (self._folder / journal).open("a") as lines:
            lines.write(f"{self.physical_name}\n")

    def _wait(self) -> None:
        while not (self._folder / "open").exists():
            time.sleep(0.01)

    def find(self) -> str | None:
        found = sorted(self._folder.glob(f"{self.physical_name}.*"))
        return found[0].name if found else None

    def handle_create(self) -> None:
        self._tell("calls")
        if self.props.before:
            self._wait()
        path = self._folder / f"{self.physical_name}.{uuid4().hex}"
        path.touch()
        self._tell("made")
        if self.props.after:
            self._wait()
        self.physical_id = path.name

    def handle_delete(self) -> None:
        (self._folder / (self.physical_id or "")).unlink(missing_ok=True)


class VolumeProps(Schema):
    size: int = prop(1, update=True, doc="Size. A smaller one than before is refused.")
    wait_secs: float = prop(0.0, update=True, doc="Seconds until a new or resized volume is ready.")
    fail: bool = prop(False, doc="Whether a new volume ends in ERROR.")


class Volume(Resource[VolumeProps], type="Faults::Volume"):
    """A file with its size in it, named ``<physical name>.<id>``.

    It fails as volumes do: in ERROR once it is there, by a refused resize, and by a delete while it is attached.
    """

    @property
    def _path(self) -> Path:
        return Path(os.environ["EXAMPLE_FILES"]) / str(self.physical_id)

    def find(self) -> str | None:
        found = sorted(Path(os.environ["EXAMPLE_FILES"]).glob(f"{self.physical_name}.*"))
        return found[0].name if found else None

    def handle_create(self) -> Json:
        self.physical_id = f"{self.physical_name}.{uuid4().hex}"
        self._path.write_text(str(self.props.size))
        return self.facts.now() + self.props.wait_secs

    def check_create_complete(self, token: Json) -> bool | float:
        if self.props.fail:
            raise ValueError(f"volume {self.name} is in ERROR")
        return self._is_ready(token)

    def handle_update(self, change: Change) -> Json:
        if self.props.size < int(self._path.read_text()):
            raise ValueError(f"volume {self.name} cannot shrink")
        self._path.write_text(str(self.props.size))
        return self.facts.now() + self.props.wait_secs

    def check_update_complete(self, token: Json) -> bool | float:
        return self._is_ready(token)

    def handle_delete(self) -> None:
        if self.physical_id is None:
            return
        if (self._path.parent / f"{self.physical_name}-attached").exists():
            raise ValueError(f"volume {self.name} is attached")
        self._path.unlink(missing_ok=True)

    def _is_ready(self, token: Json) -> bool | float:
        left = (token if isinstance(token, int | float) else 0) - self.facts.now()
        return True if left <= 0 else left
