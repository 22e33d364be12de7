"""Which cloud a project's resources lie in, and by whose right they are made there (decision 0014)."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from heatlite.clients.cloud import Cloud, CloudError, NoCloud, other_cloud
from heatlite.clients.finders import Finders
from heatlite.core.clouds import CloudIdentity
from heatlite.core.context import Context
from heatlite.core.json import JsonMap

log = logging.getLogger(__name__)

MOST_KNOWN = 1000
"""Views of clouds that are kept for the next one who asks."""


class Delegation(Protocol):
    """How users let heatlite act for them after they have gone."""

    def by_token(self, context: Context) -> Cloud:
        """The cloud as the caller sees it, as long as his token holds. Raises CloudError."""

    def delegate(self, context: Context) -> JsonMap:
        """A credential with the caller's rights in the project, to be kept with a stack. Raises CloudError."""

    def by_credential(self, project: str, credential: JsonMap) -> Cloud:
        """The cloud as the one sees it who gave the credential. Raises CloudError."""

    def revoke(self, credential: JsonMap) -> None:
        """Make a credential worthless; one that is so already is well. Raises CloudError."""


class Clouds:
    """The clouds of an installation. Safe for threads."""

    def __init__(
        self,
        name: str | None,
        now: Callable[[], float],
        connect: Callable[[str], Cloud] | None = None,
        delegation: Delegation | None = None,
        credential_of: Callable[[str], JsonMap | None] = lambda _: None,
    ) -> None:
        """`name` is what the operator calls the cloud, None: there is none. `connect` gives a project's view of it by
        the operator's own right. With a `delegation`, that counts for stacks only that have no credential:
        `credential_of` is given a stack's id, and gives what belongs to its root."""
        self.name = name
        self._now = now
        self._connect = connect
        self._delegation = delegation
        self._credential_of = credential_of
        self._known: OrderedDict[tuple[str, str], Finders] = OrderedDict()
        self._lock = threading.Lock()

    def at_home(self, project: str, stack_id: str, stack_name: str, home: CloudIdentity | None) -> Finders:
        """As `of`, and it is the cloud in which the stack has its objects: what another one answers tells nothing about
        these. `home` None: none is recorded. Raises OtherCloud, NoCloud, CloudError."""
        found = self.of(project, stack_id)
        if home is not None:
            now = found.cloud.place
            if now.project_id is None and home.project_id is not None and home.is_same(now):
                now = found.cloud.identity
            if not home.is_same(now):
                raise other_cloud(f"Stack {stack_name}", home, now)
        return found

    def of(self, project: str, stack_id: str = "") -> Finders:
        """The cloud as a stack sees it, and what is found in it. Raises NoCloud, CloudError."""
        if self._connect is None:
            raise NoCloud
        key = (project, stack_id if self._delegation is not None else "")
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = Finders(self._view(*key), self._now)
                if len(self._known) > MOST_KNOWN:
                    self._known.popitem(last=False)
            return found

    def _view(self, project: str, stack_id: str) -> Cloud:
        credential = self._credential_of(stack_id) if self._delegation is not None and stack_id else None
        if self._delegation is not None and credential is not None:
            return self._delegation.by_credential(project, credential)
        assert self._connect is not None
        return self._connect(project)

    def delegates(self, context: Context) -> bool:
        """Whether a new stack acts for its caller, in the caller's own project of the cloud."""
        return self._delegation is not None and "token" in context.secrets

    def asked_by(self, context: Context) -> Finders:
        """The cloud as a caller sees it. Raises NoCloud, CloudError."""
        if self._delegation is None or not self.delegates(context):
            return self.of(context.project)
        return Finders(self._delegation.by_token(context), self._now)

    def delegate(self, context: Context) -> JsonMap | None:
        """What a new stack is to act with; None: the operator's own right. Raises CloudError."""
        if self._delegation is None or not self.delegates(context):
            return None
        return self._delegation.delegate(context)

    def revoke(self, credential: JsonMap | None) -> None:
        """Make what a stack acted with worthless: the stack is gone. Where the cloud does not, the log says so."""
        if self._delegation is None or credential is None:
            return
        try:
            self._delegation.revoke(credential)
        except CloudError as error:
            log.warning("The right to act for the owner of a deleted stack was not given back: %s", error)
