"""Example::Local::File: real files in a directory, which stands for a cloud.

`Spare` is a policy of groups. The type shows every part of one: search after a crash, asynchronous work, update in
place, check, observation, suspend, snapshot, and a lock that restores its object.
"""

import logging
import os
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from heatlite.plugin import Absent, Change, Json, Resource, Schema, prop
from heatlite.plugin.groups import Decisions, GroupPolicy

log = logging.getLogger(__name__)  # its lines say for which request, action, stack and resource they were written

DIRECTORY_VARIABLE = "EXAMPLE_FILES"
JOURNAL = "journal"


class FileProps(Schema):
    directory: str | None = prop(doc=f"Where the file lies; without it, the directory that {DIRECTORY_VARIABLE} names.")
    part_of: str | None = prop(doc="The path of a file that is not deleted, to be made anew, before this one.")
    content: str = prop("", update=True, doc="What the file says.")
    slow_secs: float = prop(0, between=(0, None), update=True, doc="Seconds until a new file counts as ready.")
    fail: bool = prop(False, update=True, doc="Whether a new or changed file turns out to be bad.")

    def fault(self) -> str | None:
        if self.directory is None and DIRECTORY_VARIABLE not in os.environ:
            return f"Give directory, or set {DIRECTORY_VARIABLE} where the engine runs"
        return None


class File(Resource[FileProps], type="Example::Local::File"):
    """A file in a directory. Each creation adds a line to the directory's journal."""

    blocks = frozenset({"Example::Local::File"})

    @property
    def path(self) -> Path:
        """The file. Its name is fixed before it is made, so that it can be found again."""
        if self.physical_id is not None:
            return Path(self.physical_id)
        return Path(self.props.directory or os.environ[DIRECTORY_VARIABLE]) / self.physical_name

    @property
    def flag(self) -> Path:
        """The file beside it that says that it is locked."""
        return self.path.with_name(f"{self.physical_name}.lock")

    def find(self) -> str | None:
        return str(self.path) if self.path.exists() else None

    def handle_create(self) -> Json:
        # The file appears whole: a crash must not leave one that is found again without its content.
        with os.fdopen(os.open(self.path.parent, os.O_TMPFILE | os.O_RDWR, 0o600), "w") as file:
            file.write(self.props.content)
            file.flush()
            number = file.fileno()
            os.link(f"/proc/self/fd/{number}", self.path, src_dir_fd=number)  # with it the link is followed
        with self.path.with_name(JOURNAL).open("a") as journal:
            journal.write(f"{self.physical_name}\n")
        log.info("made %s", self.path)
        self.physical_id = str(self.path)
        return self.facts.now() + self.props.slow_secs

    def check_create_complete(self, token: Json) -> bool | float:
        ready_at = token if isinstance(token, int | float) else 0
        if self.facts.now() < ready_at:
            return ready_at - self.facts.now()
        self._fail_if_told()
        return True

    def handle_update(self, change: Change) -> None:
        self.path.write_text(self.props.content)
        self._fail_if_told()

    def handle_delete(self) -> None:
        self.path.unlink(missing_ok=True)
        self.flag.unlink(missing_ok=True)

    def handle_check(self) -> None:
        if not self.path.exists():
            raise Absent(f"{self.path} is gone")

    def live_properties(self) -> dict[str, Json] | None:
        return {"content": self.path.read_text()} if self.path.exists() else None

    def handle_suspend(self) -> None:
        self.path.chmod(0o400)

    def handle_resume(self) -> None:
        self.path.chmod(0o600)

    def handle_snapshot(self, name: str) -> None:
        saved = self.path.with_name(f"{name}.saved")
        saved.write_text(self.path.read_text())
        self.data["saved"] = str(saved)

    def handle_delete_snapshot(self) -> None:
        if "saved" in self.data:  # else its snapshot has failed
            Path(str(self.data["saved"])).unlink(missing_ok=True)

    def handle_lock(self) -> None:
        self.data.setdefault("was_locked", self.flag.exists())

    def check_lock_complete(self, token: Json) -> bool:
        self.flag.touch()
        return True

    def handle_unlock(self) -> None:
        if self.data.get("was_locked") is False:
            self.flag.unlink(missing_ok=True)

    def check_unlock_complete(self, token: Json) -> bool:
        self.data.pop("was_locked", None)
        return True

    def attr_path(self) -> str:
        """The path of the file."""
        return str(self.path)

    def attr_content(self) -> str:
        """The content of the file."""
        return self.path.read_text()

    def _fail_if_told(self) -> None:
        if self.props.fail:
            raise ValueError(f"Example file failed {self.name}")


class SpareOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `spare`."""

    member: str


class Spare(GroupPolicy):
    """Lets a member leave after all others, and says so after the change."""

    type_name = "spare"
    priority = 350
    options = SpareOptions

    def __init__(self, options: Struct) -> None:
        assert isinstance(options, SpareOptions)
        self._member = options.member

    def pre_op(self, decided: Decisions) -> Decisions:
        members = sorted(decided.members, key=lambda one: one.name == self._member)
        return replace(decided, members=members, further={**decided.further, "spare": {"member": self._member}})

    def post_op(self, data: dict[str, Json], result: str) -> dict[str, Json]:
        if self._member == "nobody":
            raise ValueError("there is no such member")
        return {"spared": self._member, "result": result}
