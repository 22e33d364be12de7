"""Placeholder for a resource type whose code is missing while rows of it exist."""

from typing import ClassVar, NoReturn

from heatlite.core.errors import EntityNotFound, HeatliteError
from heatlite.core.json import Json, JsonMap
from heatlite.plugin.resource import Resource, ResourceType
from heatlite.plugin.schema import Schema


class Gone(Resource[Schema]):
    """Fails every call of the type's code with the reason; everything else works."""

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


def gone(why: HeatliteError) -> ResourceType:
    """The stand-in for one type."""

    class GoneForAReason(Gone):
        reason = why

    return GoneForAReason
