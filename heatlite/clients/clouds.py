"""Cloud of a project's resources, and the rights to create them (decision 0014)."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from heatlite.clients.cloud import Cloud, CloudError, CloudUnavailable, NoCloud, other_cloud
from heatlite.clients.finders import FINDERS, Finder, Finders
from heatlite.core.clock import Clock
from heatlite.core.clouds import CloudIdentity
from heatlite.core.context import Context
from heatlite.core.errors import NoCredential
from heatlite.core.json import JsonMap
from heatlite.core.redaction.secret_fields import HidesSecrets

if TYPE_CHECKING:
    from heatlite.clients.stack_domain import StackDomain

log = logging.getLogger(__name__)

MAX_KNOWN = 1000
"""Maximum of cached views of clouds."""


class Delegation(Protocol):
    """Delegation of users' rights to heatlite beyond the lifetime of their tokens."""

    def by_token(self, context: Context) -> Cloud:
        """Return the cloud as the caller sees it, while the caller's token is valid.

        Raises CloudError.
        """

    def delegate(self, context: Context) -> JsonMap:
        """Create a credential with the caller's rights in the project.

        It is stored with a stack. Raises CloudError.
        """

    def by_credential(self, project: str, credential: JsonMap) -> Cloud:
        """Return the cloud with the rights of a credential. Raises CloudError."""

    def revoke(self, credential: JsonMap) -> None:
        """Revoke a credential. Succeeds if it is revoked already. Raises CloudError."""


class Clouds:
    """Clouds of an installation. Safe for threads."""

    def __init__(
        self,
        name: str | None,
        now: Callable[[], float],
        connect: Callable[[str], Cloud] | None = None,
        delegation: Delegation | None = None,
        credential_of: Callable[[str], JsonMap | None] = lambda _: None,
        finders: Mapping[str, Finder | None] = FINDERS,
    ) -> None:
        """Configure the clouds.

        `name` is the operator's name of the cloud, None without one. `connect` returns a project's view of it by the
        operator's own right. With a `delegation`, that right is used only for stacks without a credential:
        `credential_of` maps a stack's id to the credential of its root. `finders` has the finders of custom
        constraints.
        """
        self.name = name
        self._now = now
        self._connect = connect
        self._delegation = delegation
        self._credential_of = credential_of
        self._finders = finders
        self._known: OrderedDict[tuple[str, str], Finders] = OrderedDict()
        self._lock = threading.Lock()

    def at_home(self, project: str, stack_id: str, stack_name: str, home: CloudIdentity | None) -> Finders:
        """Like `of`, but require the cloud that holds the stack's objects.

        Another cloud's answers would say nothing about these. `home` None: no cloud is recorded. Raises OtherCloud,
        NoCloud, CloudError.
        """
        found = self.of(project, stack_id)
        if home is not None:
            now = found.cloud.place
            if now.project_id is None and home.project_id is not None and home.is_same(now):
                now = found.cloud.identity
            if not home.is_same(now):
                raise other_cloud(f"Stack {stack_name}", home, now)
        return found

    def of(self, project: str, stack_id: str = "") -> Finders:
        """Return the lookups in the cloud, with the rights of a stack.

        Raises NoCloud, CloudError.
        """
        if self._connect is None:
            raise NoCloud
        key = (project, stack_id if self._delegation is not None else "")
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = Finders(self._view(*key), self._now, self._finders)
                if len(self._known) > MAX_KNOWN:
                    self._known.popitem(last=False)
            return found

    def through(self, wrap: Callable[[Cloud], Cloud], stack_id: str) -> "Clouds":
        """Return these clouds for one stack, each view of which is wrapped."""
        return Clouds(
            self.name, self._now, lambda project: wrap(self.of(project, stack_id).cloud), finders=self._finders
        )

    def _view(self, project: str, stack_id: str) -> Cloud:
        credential = self._credential_of(stack_id) if self._delegation is not None and stack_id else None
        if self._delegation is not None and credential is not None:
            return self._delegation.by_credential(project, credential)
        assert self._connect is not None
        return self._connect(project)

    def delegates(self, context: Context) -> bool:
        """True if a new stack uses its caller's rights in the caller's own project."""
        return self._delegation is not None and bool(context.token)

    def asked_by(self, context: Context) -> Finders:
        """Return the lookups in the cloud, with the rights of a caller.

        Raises NoCloud, CloudError.
        """
        if self._delegation is None or not self.delegates(context):
            return self.of(context.project)
        return Finders(self._delegation.by_token(context), self._now, self._finders)

    def delegate(self, context: Context) -> JsonMap | None:
        """Return the credential for a new stack; None for the operator's own right.

        Raises CloudError.
        """
        if self._delegation is None or not self.delegates(context):
            return None
        return self._delegation.delegate(context)

    def confirm(self, author: Context, credential: JsonMap | None, stack_name: str) -> None:
        """Ask the identity service for the rights of a stored credential.

        Raises NoCredential if there is none, or it was withdrawn; CloudUnavailable.
        """
        if self._delegation is None or credential is None:
            raise NoCredential(stack_name=stack_name, user=author.user)
        try:
            assert self._delegation.by_credential("", credential).identity  # it asks for a token
        except CloudUnavailable:
            raise
        except CloudError as error:
            raise NoCredential(stack_name=stack_name, user=author.user) from error

    def revoke(self, credential: JsonMap | None) -> bool:
        """Revoke a credential that is no longer needed. Logs a failure of the cloud.

        Returns False if the cloud is away: a later call may succeed.
        """
        if self._delegation is None or credential is None:
            return True
        try:
            self._delegation.revoke(credential)
        except CloudError as error:
            log.warning("A right to act for its owner was not given back: %s", error)
            return not isinstance(error, CloudUnavailable)
        return True


class DomainAdmin(HidesSecrets, frozen=True):
    """The administrator of a Keystone domain."""

    secret_fields = frozenset({"password"})

    key: str
    """``id`` or ``name``: what `domain` is."""
    domain: str
    user: str
    password: str
    auth_url: str


class CloudProvider(Protocol):
    """The cloud that the setting `cloud` names."""

    def open(self) -> None:
        """Raise what would prevent its use: BadSetting or MissingLibrary.

        Asks no service.
        """

    def clouds(
        self,
        clock: Clock,
        credential_of: Callable[[str], JsonMap | None],
        finders: Mapping[str, Finder | None],
    ) -> Clouds:
        """Create the clouds for resources. `credential_of`: see `Clouds`."""

    def stack_domain(self, clouds: Clouds, admin: DomainAdmin) -> "StackDomain":
        """Return the domain with the accounts of servers' agents."""

    def begin(self) -> None:
        """Begin anew what lasts for one run of an engine."""
