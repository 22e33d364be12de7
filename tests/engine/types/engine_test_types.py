"""Resource types that show one peculiarity each.

Their package stands beside the tests, as any other plugin would.
"""

import json
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

import heatlite
from heatlite.core.errors import InvalidValue
from heatlite.plugin import (
    Change,
    ChildStack,
    Json,
    JsonMap,
    NoActionNeeded,
    Resize,
    Resource,
    ResourceInError,
    Schema,
    ServiceConflict,
    StackResource,
    Unhealthy,
    prop,
)
from heatlite.plugin.handlers import ReplaceResource


class Props(Schema):
    value: str = prop("", update=True, doc="Some text.")
    fail: bool = prop(False, update=True, doc="Whether handlers fail.")


class Plain(Resource[Props]):
    """Keeps a text."""

    def handle_create(self) -> None:
        self.physical_id = self.physical_name
        self._fail_if_told()

    def handle_update(self, change: Change) -> None:
        self._fail_if_told()

    def attr_value(self) -> str:
        """The text."""
        return self.props.value

    def _fail_if_told(self) -> None:
        if self.props.fail:
            raise RuntimeError("told to fail")


class Robust(Plain, type="Test::Robust"):
    """Finds its object healthy after any failure, so it is kept."""

    def needs_replace_failed(self) -> bool:
        return False


class Traced(Plain, type="Test::Traced"):
    """Records the functions of heatlite that lead to its handlers."""

    def handle_create(self) -> None:
        super().handle_create()
        self.data["handler"] = [*frames()]

    def check_create_complete(self, token: Json) -> bool:
        self.data["check"] = [*frames()]
        return True


def frames() -> list[str]:
    """The functions of heatlite that this thread is in, outermost first."""
    package = Path(heatlite.__file__).parent
    return [frame.name for frame in traceback.extract_stack() if package in Path(frame.filename).parents]


class Choosy(Plain, type="Test::Choosy"):
    """Only its update handler finds out that the object must be replaced."""

    def handle_update(self, change: Change) -> None:
        raise ReplaceResource


class FixedProps(Schema):
    value: str = prop("", update=True, doc="Some text.")
    fixed: str = prop("", immutable=True, doc="Never changes.")


class Fixed(Resource[FixedProps], type="Test::Fixed"):
    """Has a property that no update may change."""

    def handle_create(self) -> None:
        self.physical_id = self.physical_name

    def handle_update(self, change: Change) -> None:
        """Nothing to do."""


class Suspicious(Plain, type="Test::Suspicious"):
    """Its check fails as told."""

    def handle_check(self) -> Json:
        try:
            self._fail_if_told()
        except RuntimeError as error:
            raise Unhealthy(str(error)) from error
        return None


class OddProps(Schema):
    value: str = prop("", update=True, doc="Some text.")
    fail: bool = prop(False, update=True, doc="Whether a create fails.")
    raise_in: str = prop("", update=True, doc="Where to raise: handle_create, check_lock, reference …")
    data: str = prop("", doc="Which of object, token, id and message cannot be stored; exit: ends the process.")
    answers: list[Json] = prop([], doc="What the check of a create answers, one after the other.")


class Odd(Resource[OddProps], type="Test::Odd"):
    """Raises where it is told to, and answers what it is told."""

    def _odd(self, where: str) -> None:
        if self.props.raise_in == where:
            raise ZeroDivisionError(where)

    def handle_create(self) -> Json:
        self._odd("handle_create")
        if self.props.fail:
            raise RuntimeError("told to fail")
        if self.props.data == "exit":
            raise SystemExit("told to exit")
        if self.props.data == "message":
            raise OSError("no such file: \udcff \x00")
        self.physical_id = object() if self.props.data == "id" else self.physical_name  # type: ignore[assignment]
        if self.props.data == "object":
            self.data["odd"] = object()  # type: ignore[assignment]
        return object() if self.props.data == "token" else None  # type: ignore[return-value]

    def check_create_complete(self, token: Json) -> bool | float:
        self._odd("check_create")
        asked = self.data.get("asked", 0)
        assert isinstance(asked, int)
        self.data["asked"] = asked + 1
        return self.props.answers[asked] if self.props.answers else True  # type: ignore[return-value]

    def handle_update(self, change: Change) -> None:
        if "value" in change.changed or self.props.raise_in.endswith("_update"):
            self._odd("handle_update")

    def check_update_complete(self, token: Json) -> bool:
        self._odd("check_update")
        return True

    def handle_delete(self) -> None:
        self._odd("handle_delete")

    def check_delete_complete(self, token: Json) -> bool:
        self._odd("check_delete")
        return True

    def handle_check(self) -> None:
        self._odd("handle_check")

    def check_check_complete(self, token: Json) -> bool:
        self._odd("check_check")
        return True

    def handle_lock(self) -> None:
        self._odd("handle_lock")

    def check_lock_complete(self, token: Json) -> bool:
        self._odd("check_lock")
        return True

    def handle_unlock(self) -> None:
        self._odd("handle_unlock")

    def check_unlock_complete(self, token: Json) -> bool:
        self._odd("check_unlock")
        return True

    def reference(self) -> Json:
        self._odd("reference")
        return self.physical_id

    def needs_replace(self, change: Change) -> bool:
        self._odd("needs_replace")
        return False

    def needs_replace_failed(self) -> bool:
        self._odd("needs_replace_failed")
        return True

    def attr_odd(self) -> str:
        """Nothing much."""
        self._odd("attribute")
        return ""


class Ear(Plain, type="Test::Ear"):
    """Keeps what it is told, counts it, and says so."""

    def handle_signal(self, details: JsonMap | None) -> str | None:
        wanted = details or {}
        if wanted.get("nothing"):
            raise NoActionNeeded
        if wanted.get("wrong"):
            raise InvalidValue("The details are wrong.")
        heard = len(self.facts.services.mailbox.read(self.mailbox_address)) + 1
        self.facts.services.mailbox.put(self.mailbox_address, str(heard), details)
        self.data["lost"] = True
        return str(wanted["answer"]) if "answer" in wanted else None

    def live_metadata(self) -> JsonMap:
        return {**self.metadata, **self.facts.services.mailbox.read(self.mailbox_address)}


class Unwavering(Ear, type="Test::Unwavering"):
    """Takes signals whatever is done to it."""

    no_signal_during = frozenset()


class PolicyProps(Schema):
    group: str = prop(doc="The group to change.")


class Policy(Resource[PolicyProps], type="Test::Policy"):
    """Passes each signal on to a group."""

    def handle_create(self) -> None:
        self.physical_id = self.physical_name

    def handle_signal(self, details: JsonMap | None) -> Resize:
        self.data["passed_on"] = True
        return Resize(self.props.group, details or {})


class Group(StackResource[Props], type="Test::Group"):
    """A nested stack whose size follows signals; a member takes five seconds."""

    def goal(self) -> ChildStack:
        number = self.data.get("size", 1)
        assert isinstance(number, int)
        member: JsonMap = {"type": "OS::Heat::TestResource", "properties": {"wait_secs": 5}}
        members = {f"m{index}": member for index in range(number)}
        return ChildStack({"heat_template_version": "2021-04-16", "resources": members})

    def resized(self, wanted: Mapping[str, Json]) -> ChildStack:
        if "size" not in wanted:
            raise NoActionNeeded
        self.data["size"] = wanted["size"]
        return self.goal()


class SeenProps(Schema):
    place: str = prop(doc="The JSON file that stands for the object.")
    value: str = prop("", update=True, doc="Some text.")
    kind: str = prop("", doc="Some text that needs a new object.")


class Seen(Resource[SeenProps], type="Test::Seen"):
    """Is looked at; has no check of its own."""

    def _write(self) -> None:
        Path(self.props.place).write_text(json.dumps({"value": self.props.value, "kind": self.props.kind}))

    def handle_create(self) -> None:
        self.physical_id = self.physical_name
        self._write()

    def handle_update(self, change: Change) -> None:
        self._write()

    def live_properties(self) -> dict[str, Json] | None:
        place = Path(self.props.place)
        return json.loads(place.read_text()) if place.exists() else None


class PhoenixProps(Schema):
    value: str = prop("", doc="Whatever it says, a change needs a new object, or the object made anew.")
    seconds: float = prop(0, update=True, doc="How long it takes to make it anew.")
    fail: bool = prop(False, update=True, doc="Whether making it anew fails.")


class Phoenix(Resource[PhoenixProps], type="Test::Phoenix"):
    """Can be made anew in place, and counts how often it was."""

    def handle_create(self) -> None:
        self.physical_id = self.physical_name
        self.data["rebuilt"] = 0

    def handle_rebuild(self, change: Change) -> Json:
        return self.facts.now() + self.props.seconds

    def check_rebuild_complete(self, token: Json) -> bool | float:
        left = float(token or 0) - self.facts.now()  # type: ignore[arg-type]
        if left > 0:
            return left
        if self.props.fail:
            raise RuntimeError("told to fail")
        self.data["rebuilt"] = int(self.data["rebuilt"] or 0) + 1  # type: ignore[call-overload]
        return True

    def handle_reboot(self) -> Json:
        self.data["rebooted"] = int(self.data.get("rebooted") or 0) + 1  # type: ignore[call-overload]
        return self.facts.now() + self.props.seconds

    def check_reboot_complete(self, token: Json) -> bool | float:
        left = float(token or 0) - self.facts.now()  # type: ignore[arg-type]
        if left > 0:
            return left
        if self.props.fail:
            raise RuntimeError("told to fail")
        return True

    def attr_rebuilt(self) -> Json:
        """Count of its new starts."""
        return self.data["rebuilt"]


class BusyProps(Schema):
    refused: int = prop(0, doc="How many creates the service refuses.")
    broken: int = prop(0, doc="How many objects go to an error state after that.")
    kept: int = prop(0, doc="How many deletes the service refuses, of each object.")
    stuck: bool = prop(False, doc="Whether no delete ever succeeds, for a reason that does not pass.")


class Busy(Resource[BusyProps], type="Test::Busy"):
    """Its service is busy at first.

    What has been asked of it is in the mailbox, as a service would know it.
    """

    def _asked(self, what: str) -> int:
        """Count of the requests so far, this one included for the next."""
        mailbox = self.facts.services.mailbox
        asked = len([key for key in mailbox.read(self.mailbox_address) if key.startswith(what)])
        mailbox.put(self.mailbox_address, f"{what} {asked}", self.facts.now())
        return asked

    def handle_create(self) -> Json:
        made = self._asked("create")
        if made < self.props.refused:
            raise ServiceConflict("busy")
        self.physical_id = f"{self.physical_name}-{made}"
        return made

    def check_create_complete(self, token: Json) -> bool:
        assert isinstance(token, int)
        if token < self.props.refused + self.props.broken:
            raise ResourceInError("went to ERROR")
        return True

    def handle_delete(self) -> None:
        if self.props.stuck:
            raise RuntimeError("stuck")
        if self.physical_id is not None and self._asked(f"delete {self.physical_id}") < self.props.kept:
            raise ServiceConflict("in use")


class SavedProps(Schema):
    folder: str = prop(doc="Where its objects lie, one file each.")
    value: str = prop("", update=True, doc="What the object says.")
    image: str | None = prop(doc="The saved object that it is made of, in place of the value.")
    fail: str = prop("", update=True, doc="Which handler fails: snapshot, delete_snapshot or snapshot_delete.")


class Saved(Resource[SavedProps], type="Test::Saved"):
    """Can be saved: an image is a copy of its file."""

    snapshot_on_delete = True

    def _path(self, name: str) -> Path:
        return Path(self.props.folder) / name

    def _fail(self, where: str) -> None:
        if self.props.fail == where:
            raise RuntimeError(f"told to fail in {where}")

    def _save(self, name: str) -> str:
        image = f"{name}.image"
        self._path(image).write_text(self._path(self.physical_name).read_text())
        return image

    def handle_create(self) -> None:
        image = self.props.image
        self._path(self.physical_name).write_text(self._path(image).read_text() if image else self.props.value)
        self.physical_id = self.physical_name

    def handle_update(self, change: Change) -> None:
        self._path(self.physical_name).write_text(self.props.value)

    def handle_delete(self) -> None:
        self._path(self.physical_name).unlink(missing_ok=True)

    def handle_snapshot(self, name: str) -> None:
        self._fail("snapshot")
        self.data["image"] = self._save(name)
        self.data["folder"] = self.props.folder

    def handle_snapshot_delete(self) -> None:
        self._fail("snapshot_delete")
        self._save(self.physical_name)
        self.handle_delete()

    def handle_delete_snapshot(self) -> None:
        image = Path(str(self.data["folder"])) / str(self.data["image"])
        if image.with_suffix(".locked").exists():
            raise RuntimeError("the image is in use")
        image.unlink(missing_ok=True)

    @classmethod
    def restored(cls, properties: dict[str, Json], saved: dict[str, Json]) -> dict[str, Json]:
        return {**properties, "image": saved["image"]}

    def attr_content(self) -> str:
        """The object's answer."""
        return self._path(self.physical_name).read_text()


class SlowSaved(Plain, type="Test::SlowSaved"):
    """Takes for ever to be saved."""

    def handle_snapshot(self, name: str) -> Json:
        return {"name": name}

    def check_snapshot_complete(self, token: Json) -> bool:
        return False


class EndlessProps(Schema):
    verb: str = prop(update=True, doc="Which of its operations never ends: create, update …")


class Endless(Resource[EndlessProps], type="Test::Endless"):
    """An object of which one operation never ends."""

    def _ends(self, verb: str) -> bool:
        return self.props.verb != verb

    def handle_create(self) -> None:
        self.physical_id = self.physical_name

    def check_create_complete(self, token: Json) -> bool:
        return self._ends("create")

    def handle_update(self, change: Change) -> None:
        """Nothing to begin."""

    def check_update_complete(self, token: Json) -> bool:
        return self._ends("update")

    def check_delete_complete(self, token: Json) -> bool:
        return self._ends("delete")

    def check_check_complete(self, token: Json) -> bool:
        return self._ends("check")

    def check_suspend_complete(self, token: Json) -> bool:
        return self._ends("suspend")

    def check_resume_complete(self, token: Json) -> bool:
        return self._ends("resume")

    def check_snapshot_complete(self, token: Json) -> bool:
        return self._ends("snapshot")

    def check_lock_complete(self, token: Json) -> bool:
        return self._ends("lock")

    def check_unlock_complete(self, token: Json) -> bool:
        return self._ends("unlock")


class Prompt(Plain, type="Test::Prompt"):
    """Is quick, and asked whether it is done all the same."""

    quick = True

    def check_create_complete(self, token: Json) -> bool:
        return True


class PacedProps(Schema):
    folder: str = prop(doc="Where its objects lie, one file each; while there is a file `hang`, slow handlers hang.")
    slow: str = prop("", update=True, doc="Which of its operations takes a minute: create, update …")
    value: str = prop("", update=True, doc="What the object says.")


class Paced(Resource[PacedProps], type="Test::Paced"):
    """Takes a minute in one operation, or hangs in it until the test ends it."""

    @property
    def _file(self) -> Path:
        return Path(self.props.folder) / self.physical_name

    def _begin(self, verb: str) -> Json:
        if self.props.slow != verb:
            return 0.0
        hang = Path(self.props.folder) / "hang"
        if hang.exists():
            (Path(self.props.folder) / "hangs").touch()
            while hang.exists():
                time.sleep(0.002)
            return 0.0
        return self.facts.now() + 60

    def _left(self, token: Json) -> bool | float:
        left = float(token or 0) - self.facts.now()  # type: ignore[arg-type]
        return left if left > 0 else True

    def find(self) -> str | None:
        return self.physical_name if self._file.exists() else None

    def handle_create(self) -> Json:
        self._file.write_text(self.props.value)
        token = self._begin("create")
        self.physical_id = self.physical_name
        return token

    def handle_update(self, change: Change) -> Json:
        self._file.write_text(self.props.value)
        return self._begin("update")

    def handle_delete(self) -> Json:
        self._file.unlink(missing_ok=True)
        return self._begin("delete")

    def handle_check(self) -> Json:
        return self._begin("check")

    def handle_suspend(self) -> Json:
        return self._begin("suspend")

    def handle_resume(self) -> Json:
        return self._begin("resume")

    def handle_snapshot(self, name: str) -> Json:
        return self._begin("snapshot")

    def handle_lock(self) -> Json:
        return self._begin("lock")

    def handle_unlock(self) -> Json:
        return self._begin("unlock")

    check_create_complete = check_update_complete = check_delete_complete = check_check_complete = _left
    check_suspend_complete = check_resume_complete = check_snapshot_complete = _left
    check_lock_complete = check_unlock_complete = _left
