"""Placeholder for a resource type whose code is missing while rows of it exist."""

from typing import ClassVar, NoReturn

from heatlite.core.errors import EntityNotFound, HeatliteError
from heatlite.core.json import Json
from heatlite.plugin.resource import Resource, ResourceType
from heatlite.plugin.schema import Schema


class MissingType(Resource[Schema]):
    """Stands in for a missing type. Fails each call of type code with the reason."""

    reason: ClassVar[HeatliteError] = EntityNotFound(entity="Resource Type", name="")

    def secrets(self) -> list[Json]:
        return [*self.data.values()]  # which of it is secret only the type knows

    def _fail(self, *_: object, **__: object) -> NoReturn:
        raise self.reason

    handle_delete = handle_check = handle_snapshot = handle_delete_snapshot = _fail
    handle_suspend = handle_resume = handle_lock = handle_unlock = _fail
    reference = attribute = attributes = _fail


def missing_type(why: HeatliteError) -> ResourceType:
    """Return the stand-in for one type."""

    class GoneForAReason(MissingType):
        reason = why

    return GoneForAReason
