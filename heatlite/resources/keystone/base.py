"""Base of the identity service types: domains and role assignments."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import ClassVar, TypeVar, cast

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudResource, Schema, prop

P_co = TypeVar("P_co", bound=Schema, covariant=True)

Grant = tuple[str, str, str]
"""A role assignment: its scope (``project`` or ``domain``), the id of that, the id of the role."""


class KeystoneResource(CloudResource[P_co]):
    """Base of the types.

    Only administrators may create such objects (`api.access.policy`).
    """

    kept_when_well = True

    def needs_replace(self, change: Change) -> bool:
        """True if the domain is replaced: objects cannot move to another domain."""
        return "domain" in change.followed

    def identity(self) -> JsonMap:
        """Return the name with the domain: names are unique within a domain only."""
        mark = super().identity()
        if "domain" in self.schema.fields:
            mark.update({key: value for key, value in self.sent(frozenset({"domain"})).items() if value is not None})
        return mark

    def asked(self, mark: JsonMap) -> JsonMap:
        return {key: value for key, value in mark.items() if key != "description"}


class RoleGiven(Schema):
    role: str = prop(find="keystone.role", doc="The role, by name or id.")
    project: str | None = prop(find="keystone.project", doc="The project in which it is assigned, by name or id.")
    domain: str | None = prop(find="keystone.domain", doc="The domain in which it is assigned, by name or id.")

    def fault(self) -> str | None:
        if (self.project is None) == (self.domain is None):
            return "The role must be given in a project or in a domain, and not in both."
        return None


class RolesGiven(Schema):
    """Properties of types that assign roles."""

    roles: list[RoleGiven] | None = prop(update=True, api="", doc="Role assignments, each in a project or in a domain.")


class RoleGiver(KeystoneResource[P_co]):
    """Base of the types that assign roles to a user or a group."""

    grantee: ClassVar[str] = ""
    """``user`` or ``group``."""

    def grants(self, properties: Mapping[str, Json]) -> set[Grant]:
        """Return the role assignments in properties, except those of deleted objects."""
        found: set[Grant] = set()
        for given in cast(list[JsonMap], properties.get("roles") or []):
            where = "project" if given.get("project") is not None else "domain"
            with suppress(CloudNotFound):
                target = self._finders.id_of(f"keystone.{where}", str(given[where]))
                found.add((where, target, self._finders.id_of("keystone.role", str(given["role"]))))
        return found

    def give(self, who: str, grants: Iterable[Grant]) -> None:
        """Assign roles; idempotent. Raises CloudError."""
        for where, target, role in sorted(grants):
            self.service(f"assign_{where}_role_to_{self.grantee}", target, who, role)

    def take(self, who: str, grants: Iterable[Grant]) -> None:
        """Remove role assignments; those that are gone already are skipped.

        Raises CloudError.
        """
        for where, target, role in sorted(grants):
            with suppress(CloudNotFound):
                self.service(f"unassign_{where}_role_from_{self.grantee}", target, who, role)

    def needs_replace_failed(self) -> bool:
        """True also if some of its roles are missing."""
        wanted = self.grants(self.facts.properties)
        return super().needs_replace_failed() or not wanted <= self.given_to(str(self.physical_id))

    def given_to(self, who: str) -> set[Grant]:
        """Return the direct role assignments of a user or a group. Raises CloudError."""
        found: set[Grant] = set()
        for one in cast(list[JsonMap], self.service("role_assignments", **{f"{self.grantee}_id": who})):
            scope = cast(dict[str, JsonMap], one["scope"])
            role = str(cast(JsonMap, one["role"])["id"])
            found |= {(where, str(scope[where]["id"]), role) for where in ("project", "domain") if where in scope}
        return found

    def check_create_complete(self, token: Json) -> bool | float:
        """Assign the roles.

        This step, unlike the creation of the object, is repeated after a crash.
        """
        self.give(str(self.physical_id), self._wanted())
        return True

    def handle_update(self, change: Change) -> Json:
        token = super().handle_update(change)
        self._change_roles(change)
        return token

    def _change_roles(self, change: Change) -> None:
        if "roles" in change.changed:
            before, wanted = self.grants(cast(JsonMap, change.before)), self._wanted()
            self.give(str(self.physical_id), wanted - before)
            self.take(str(self.physical_id), before - wanted)

    def _wanted(self) -> set[Grant]:
        """Return the roles to assign. Raises CloudNotFound for an unknown one."""
        roles = cast(list[JsonMap], self.resolved({"roles": self.facts.properties.get("roles") or []})["roles"])
        return {
            (where, str(given[where]), str(given["role"]))
            for given in roles
            for where in ("project", "domain")
            if given.get(where) is not None
        }

    def live_properties(self) -> Mapping[str, Json] | None:
        """Return the live properties, with the roles that are still assigned."""
        live = super().live_properties()
        roles = cast(list[JsonMap], self.facts.properties.get("roles") or [])
        if live is None or not roles:
            return live
        given = self.given_to(str(self.physical_id))
        grants = [(one, self.grants({"roles": [one]})) for one in roles]
        # Of a role or a project that is gone nothing is expected.
        return {**live, "roles": [one for one, grant in grants if not grant or grant & given]}
