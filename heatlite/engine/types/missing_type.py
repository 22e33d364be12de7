"""Placeholder for a resource type whose code is missing while rows of it exist."""

from typing import ClassVar, NoReturn

from heatlite.core.errors import EntityNotFound, HeatliteError
from heatlite.core.json import Json, JsonMap
from heatlite.plugin.resource import Resource, ResourceType
from heatlite.plugin.schema import Schema


class MissingType(Resource[Schema]):
    """Stands in for a missing type. Fails each call of type code with the reason."""

    reason: ClassVar[HeatliteError] = EntityNotFound(entity="Resource Type", name="")

    def _fail(self) -> NoReturn:
        raise self.reason

    def handle_delete(self) -> Json:
        self._fail()

    def handle_check(self) -> Json:
        self._fail()

    def handle_snapshot(self, name: str) -> Json:  # noqa: ARG002
        self._fail()

    def handle_delete_snapshot(self) -> None:
        self._fail()

    def handle_suspend(self) -> Json:
        self._fail()

    def handle_resume(self) -> Json:
        self._fail()

    def handle_lock(self) -> Json:
        self._fail()

    def handle_unlock(self) -> Json:
        self._fail()

    def reference(self) -> Json:
        self._fail()

    def attribute(self, name: str) -> Json:  # noqa: ARG002
        self._fail()

    def attributes(self) -> JsonMap:
        self._fail()


def missing_type(why: HeatliteError) -> ResourceType:
    """Return the stand-in for one type."""

    class GoneForAReason(MissingType):
        reason = why

    return GoneForAReason
