"""Keystone domain with the accounts of servers' agents (Heat's stack domain).

Its accounts give no access to the domains of human users.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from heatlite.clients.cloud import Cloud, CloudConflict, CloudError, CloudNotFound
from heatlite.clients.connection import Connections, RealCloud
from heatlite.core.context import STACK_USER
from heatlite.core.json import Json, JsonMap

if TYPE_CHECKING:
    from keystoneauth1.identity.v3 import Auth

MAX_AGENTS: Final = 1000
"""Maximum number of agents whose logins are kept."""


def administered(connections: Connections, admin: str, password: str, domain: Mapping[str, str]) -> RealCloud:
    """Return Keystone as the administrator of a domain sees it.

    `domain` has its ``id`` or ``name``.
    """

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


def as_agent(connections: Connections, user_id: str, password: str, project_id: str) -> RealCloud:
    """Return the cloud as an account of the domain sees it."""

    def auth(own: Mapping[str, str]) -> "Auth":
        from keystoneauth1.identity import v3

        return v3.Password(own["auth_url"], user_id=user_id, password=password, project_id=project_id)

    return connections.by(auth, project_id)


class StackDomain:
    """Creates and removes projects and users in the domain.

    All operations are idempotent.
    """

    def __init__(
        self,
        connect: Callable[[], Cloud],
        log_in: Callable[[str, str, str], Cloud],
        domain: str,
        auth_url: str,
        region: str | None,
    ) -> None:
        """Configure the domain.

        `connect` returns Keystone as the domain's administrator sees it, and is called on first use. `log_in` returns
        the cloud as a user sees it, by the user's id, password and project. `domain` is the domain's id or name.
        `auth_url` and `region` are where agents find Keystone and this server.
        """
        self._connect = connect
        self._log_in = lru_cache(MAX_AGENTS)(log_in)
        self.domain = domain
        self.auth_url = auth_url
        self.region = region
        self._cloud: Cloud | None = None
        self._ids: dict[str, str] = {}

    def agent(self, user_id: str, password: str, project_id: str) -> Cloud:
        """Return the cloud as an agent sees it. Raises CloudError."""
        return self._log_in(user_id, password, project_id)

    def project(self, name: str, description: str) -> str:
        """Create or update the project. Returns its id. Raises CloudError."""
        return self._made("project", name, description=description)

    def user(self, name: str, password: str, project_id: str, description: str) -> str:
        """Create or update the user, with the password and its role in the project.

        Returns its id. Raises CloudError.
        """
        user_id = self._made("user", name, password=password, default_project_id=project_id, description=description)
        self._call("identity.assign_project_role_to_user", project_id, user_id, self._id("role", STACK_USER))
        return user_id

    def remove(self, noun: str, name: str, known_id: str | None) -> None:
        """Remove a ``user`` or ``project``, by name if the id is unknown.

        Raises CloudError.
        """
        if known_id is None:
            found = self._find(noun, name)
            known_id = None if found is None else str(found["id"])
        if known_id is not None:
            with suppress(CloudNotFound):
                self._call(f"identity.delete_{noun}", known_id)

    def _made(self, noun: str, name: str, **attributes: Json) -> str:
        """Create an object, or update the existing one of that name.

        Names contain a random part, so an existing object was created by an interrupted attempt.
        """
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
        """Return the id of an object that the operator has created."""
        if name not in self._ids:
            found = self._call(f"identity.find_{noun}", name)
            if not isinstance(found, dict):
                raise CloudError(f"identity.find_{noun}", f"Keystone has no {noun} {name}: it must be made first")
            self._ids[name] = str(found["id"])
        return self._ids[name]

    def _call(self, verb: str, *arguments: Json, **attributes: Json) -> Json:
        if self._cloud is None:
            self._cloud = self._connect()
        return self._cloud.call(verb, *arguments, **attributes)
