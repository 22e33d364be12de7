"""Resource types that show one peculiarity each. Their package stands beside the tests, as any other plugin would."""

from heatlite.plugin import Change, Json, Resource, Schema, prop
from heatlite.plugin.resource import ReplaceResource


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


class Choosy(Plain, type="Test::Choosy"):
    """Only its update handler finds out that the object has to be replaced."""

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
        self._fail_if_told()
        return None


class OddProps(Schema):
    value: str = prop("", update=True, doc="Some text.")
    fail: bool = prop(False, update=True, doc="Whether a create fails.")
    raise_in: str = prop("", update=True, doc="Where to raise: handle_create, check_lock, reference …")
    data: str = prop("", doc="Which of object, token, id and message cannot be stored.")
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
