"""A real cloud as the cloud of an installation."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from heatlite.clients.clouds import Clouds, DomainAdmin
from heatlite.clients.connection import Connections
from heatlite.clients.finders import Finder
from heatlite.clients.rest import RestTables
from heatlite.clients.trusts import Trusts
from heatlite.core.clock import Clock
from heatlite.core.config import Auth, Settings
from heatlite.core.json import JsonMap

if TYPE_CHECKING:
    from heatlite.clients.stack_domain import StackDomain


class OpenStackCloud:
    """A cloud of clouds.yaml (`clients.clouds.CloudProvider`)."""

    def __init__(self, cloud: str, settings: Settings, rest: Iterable[RestTables] = ()) -> None:
        """Use an entry of clouds.yaml. `rest` has further services."""
        self._name = cloud
        self._connections = Connections(cloud, settings.cloud_timeout, rest)
        self._has_tokens = settings.auth is Auth.KEYSTONE

    def open(self) -> None:
        self._connections.open()

    def clouds(
        self,
        clock: Clock,
        credential_of: Callable[[str], JsonMap | None],
        finders: Mapping[str, Finder | None],
    ) -> Clouds:
        # With Keystone tokens, stacks act on behalf of their users through trusts.
        trusts = Trusts(self._connections) if self._has_tokens else None
        return Clouds(self._name, clock.now, self._connections.of, trusts, credential_of, finders)

    def stack_domain(self, clouds: Clouds, admin: DomainAdmin) -> "StackDomain":  # noqa: ARG002 - others ask these
        from heatlite.clients.stack_domain import StackDomain, administered, as_agent

        connect = partial(administered, self._connections, admin.user, admin.password, {admin.key: admin.domain})
        log_in = partial(as_agent, self._connections)
        return StackDomain(connect, log_in, admin.domain, admin.auth_url, self._connections.region)

    def begin(self) -> None:
        """Do nothing: objects of a real cloud outlive engines."""
