"""The domain of Keystone in which the agents of servers have accounts (Heat's stack domain): nothing there opens what
is in the domains of people."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from heatlite.clients.cloud import Cloud, CloudConflict, CloudError, CloudNotFound
from heatlite.clients.connection import Connections, RealCloud
from heatlite.core.json import Json, JsonMap

if TYPE_CHECKING:
    from keystoneauth1.identity.v3 import Auth

ROLE: Final = "heat_stack_user"
"""What an agent has in the project of its stack."""


def administered(connections: Connections, admin: str, password: str, domain: Mapping[str, str]) -> RealCloud:
    """Keystone as the administrator of a domain sees it; `domain` has its ``id`` or its ``name``."""

    def auth(own: Mapping[str, str]) -> "Auth":
        from keystoneauth1.identity import v3

        return v3.Password(
            own["auth_url"],
            username=admin,
            password=password,
            user_domain_id=domain.get("id"),
            user_domain_name=domain.get("name"),
            domain_id=domain.get("id"),
            domain_name=domain.get("name"),
        )

    return connections.by(auth)


class StackDomain:
    """Makes projects and users in the domain. What is there already is taken, and what is gone already is well."""

    def __init__(self, connect: Callable[[], Cloud], domain: str, auth_url: str, region: str | None) -> None:
        """`connect` gives Keystone as the domain's administrator sees it, when it is first needed; `domain` is the
        domain's id or name, `auth_url` and `region` where agents find Keystone and this server."""
        self._connect = connect
        self.domain = domain
        self.auth_url = auth_url
        self.region = region
        self._cloud: Cloud | None = None
        self._ids: dict[str, str] = {}

    def project(self, name: str, description: str) -> str:
        """The id of the project of that name. Raises CloudError."""
        return self._made("project", name, description=description)

    def user(self, name: str, password: str, project_id: str, description: str) -> str:
        """The id of the user of that name, with that password, and the role in the project. Raises CloudError."""
        user_id = self._made("user", name, password=password, default_project_id=project_id, description=description)
        self._call("identity.assign_project_role_to_user", project_id, user_id, self._id("role", ROLE))
        return user_id

    def remove(self, noun: str, name: str, known_id: str | None) -> None:
        """Remove a ``user`` or ``project``, by its name where the id is not known. Raises CloudError."""
        if known_id is None:
            found = self._find(noun, name)
            known_id = None if found is None else str(found["id"])
        if known_id is not None:
            with suppress(CloudNotFound):
                self._call(f"identity.delete_{noun}", known_id)

    def _made(self, noun: str, name: str, **attributes: Json) -> str:
        """What is there has been made by an attempt that was cut off: names have something random in them."""
        domain_id = self._id("domain", self.domain)
        try:
            made = self._call(f"identity.create_{noun}", name=name, domain_id=domain_id, **attributes)
        except CloudConflict:
            found = self._find(noun, name)
            if found is None:
                raise
            made = self._call(f"identity.update_{noun}", found["id"], **attributes)
        assert isinstance(made, dict)
        return str(made["id"])

    def _find(self, noun: str, name: str) -> JsonMap | None:
        found = self._call(f"identity.find_{noun}", name, domain_id=self._id("domain", self.domain))
        return found if isinstance(found, dict) else None

    def _id(self, noun: str, name: str) -> str:
        """Of what the operator has made."""
        if name not in self._ids:
            found = self._call(f"identity.find_{noun}", name)
            if not isinstance(found, dict):
                raise CloudError(f"identity.find_{noun}", f"Keystone has no {noun} {name}: it has to be made first")
            self._ids[name] = str(found["id"])
        return self._ids[name]

    def _call(self, verb: str, *arguments: Json, **attributes: Json) -> Json:
        if self._cloud is None:
            self._cloud = self._connect()
        return self._cloud.call(verb, *arguments, **attributes)
