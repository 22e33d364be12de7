"""Base of the quotas of a project. For administrators."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import ClassVar, TypeVar

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json
from heatlite.plugin import Change, CloudResource, Schema, prop
from heatlite.plugin.needs import Find, Need


class QuotaProps(Schema):
    """Properties of all quotas; a subclass adds the limits."""

    project: str = prop(find="keystone.project", api="", doc="The project, by name or id.")

    def fault(self) -> str | None:
        limits = [name for name in self.fields if name != "project"]
        if all(getattr(self, name) is None for name in limits):
            return f"At least one of these must be given: {', '.join(limits)}"
        return None


P_co = TypeVar("P_co", bound=QuotaProps, covariant=True)


class ProjectQuota(CloudResource[P_co]):
    """Base of the types. The physical id is the project's id."""

    shares_object = True
    searched = False  # setting the quotas is idempotent
    reverting: ClassVar[str] = "delete_quota"
    """Verb that restores the default quotas."""

    def __init_subclass__(cls, type: str = "", kind: str = "") -> None:  # noqa: A002
        super().__init_subclass__(type=type, kind=kind)
        service = cls.kind.partition(".")[0]
        cls.counts = tuple(f"{service}.{name}" for name in cls.schema.fields if name != "project")

    @classmethod
    def needs(cls, given: Mapping[str, object], find: Find) -> Iterable[Need]:  # noqa: ARG003
        """Return that limits of the project change, if it is that of the request."""
        service = cls.kind.partition(".")[0]
        project = given.get("project")
        limits = [name for name in cls.schema.fields if name != "project" and given.get(name) is not None]
        return [Need(f"{service}.{name}", 0, False, str(project)) for name in limits]

    @property
    def address(self) -> tuple[Json, ...]:
        return (self.props.project if self.physical_id is None else self.physical_id,)

    def handle_create(self) -> Json:
        self.set_limits()
        self.physical_id = self.props.project
        return None

    def set_limits(self) -> None:
        """Set the given limits. Raises CloudError."""
        self.service(f"update_{self.noun}", self.address[0], **self.sent())

    def handle_update(self, change: Change) -> Json:
        """Set the quotas.

        If one is no longer given, all return to their defaults for a moment first.
        """
        if any(change.after.get(name) is None for name in change.changed):
            self._revert()
        self.set_limits()
        return None

    def handle_delete(self) -> Json:
        if self.physical_id is not None and not self.is_passed_on:
            self._revert()
        return None

    def _revert(self) -> None:
        """Restore the default quotas, unless the project has no others. Raises CloudError."""
        with suppress(CloudNotFound):
            self.service(self.reverting, *self.address)
