"""Keystone trusts: the creator of a stack delegates rights to heatlite's user.

Uses OS-TRUST of the identity API.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from heatlite.clients.cloud import CloudNotFound
from heatlite.clients.connection import Connections, RealCloud
from heatlite.core.context import Context
from heatlite.core.json import JsonMap

if TYPE_CHECKING:
    from keystoneauth1.identity.v3 import Auth

NOT_TRUSTED = frozenset({"heat_stack_user"})
"""Roles of machines, which are never delegated."""


class Trusts:
    """Delegation by trusts to the user of the configured cloud's entry."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def by_token(self, context: Context) -> RealCloud:
        """See `clouds.Delegation`."""

        def auth(own: Mapping[str, str]) -> "Auth":
            from keystoneauth1.identity import v3

            return v3.Token(own["auth_url"], context.token, project_id=context.project)

        return self._connections.by(auth)

    def delegate(self, context: Context) -> JsonMap:
        """See `clouds.Delegation`."""
        roles = context.roles if context.granted is None else context.roles & context.granted
        made = self.by_token(context).call(
            "identity.create_trust",
            trustor_user_id=context.user_id,
            trustee_user_id=self._connections.open().user_id,
            project_id=context.project,
            impersonation=True,
            roles=[{"name": role} for role in sorted(roles - NOT_TRUSTED)],
        )
        assert isinstance(made, dict)
        return {"trust_id": made["id"]}

    def by_credential(self, project: str, credential: JsonMap) -> RealCloud:
        """See `clouds.Delegation`."""

        def auth(own: Mapping[str, str]) -> "Auth":
            from keystoneauth1.identity import v3

            return v3.Password(
                own["auth_url"],
                password=own.get("password", ""),
                username=own.get("username"),
                user_id=own.get("user_id"),
                user_domain_id=own.get("user_domain_id"),
                user_domain_name=own.get("user_domain_name"),
                trust_id=str(credential["trust_id"]),
            )

        return self._connections.by(auth, project or None)

    def revoke(self, credential: JsonMap) -> None:
        """See `clouds.Delegation`."""
        with suppress(CloudNotFound):
            self.by_credential("", credential).call("identity.delete_trust", str(credential["trust_id"]))
