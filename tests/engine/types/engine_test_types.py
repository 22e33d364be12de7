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
