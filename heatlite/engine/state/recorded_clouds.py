"""Recorded clouds of stacks against the configured one (docs/decisions/0023)."""

import logging
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from heatlite.clients.cloud import CloudError, OtherCloud, other_cloud
from heatlite.clients.clouds import Clouds
from heatlite.clients.finders import Finders
from heatlite.core.clouds import CloudIdentity
from heatlite.core.context import Context
from heatlite.core.status import Verb
from heatlite.engine.state.definitions import Definitions
from heatlite.plugin.registry import Registry
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)


class StackClouds:
    """Records the clouds of stacks, and refuses operations against another cloud."""

    def __init__(self, store: Store, types: Registry, clouds: Clouds, definitions: Definitions) -> None:
        self._definitions = definitions
        self._store = store
        self._types = types
        self._clouds = clouds

    def new(
        self, context: Context, stack: StackRecord, types: Iterable[str], recorded: CloudIdentity | None, adopts: bool
    ) -> CloudIdentity | None:
        """Return the cloud to record for a new stack; None if it needs no cloud.

        `recorded` is the cloud in the document that the stack is adopted from. Raises OtherCloud unless it `adopts` the
        configured cloud.
        """
        if not self._need(types):
            return None
        now = self._now(lambda: self._clouds.of(context.project), has_to=adopts)
        if now is not None and self._clouds.delegates(context):
            now = replace(now, project_id=context.project)
        if recorded is not None and not adopts and (now is None or not recorded.is_same(now)):
            raise other_cloud(f"Stack {stack.name}", recorded, now)
        return now

    def first(
        self, stack: StackRecord, types: Iterable[str], source: StackRecord | None = None
    ) -> CloudIdentity | None:
        """Return the cloud to record before a stack gets resources of these types.

        They may come from another stack, the `source`. None if no cloud is needed, or if one is recorded.
        """
        if self._store.stacks.cloud_of(stack) is not None or not self._need(types):
            return None
        if source is not None:
            return self._store.stacks.cloud_of(source)
        return self._now(lambda: self._clouds.of(stack.project, stack.id))

    def record(self, stack: StackRecord, cloud: CloudIdentity | None) -> None:
        """Record the cloud of a stack, in a transaction. None: there is none to record."""
        if cloud is not None:
            with self._store.transaction():
                self._store.stacks.record_cloud(stack.root_id or stack.id, cloud)

    def admitted(self, stack: StackRecord, adopts: bool = False) -> CloudIdentity | None:
        """Return the cloud to record before an operation.

        None if it is recorded or not needed.

        Raises OtherCloud if the configured cloud is missing or differs from the recorded one, unless the operation
        `adopts` it; CloudError if the configured cloud cannot be identified.
        """
        home = self._store.stacks.cloud_of(stack)
        if home is None and (self._clouds.name is None or not self._needs(stack)):
            return None  # without a cloud, a resource that needs one fails with that reason
        now = self._now(lambda: self._clouds.of(stack.project, stack.id), has_to=adopts)
        if now is not None and (home is None or adopts or home.is_same(now)):
            is_known = home is not None and home.is_same(now) and (home.project_id or not now.project_id)
            return None if is_known else now
        assert home is not None
        if not self._needs(stack):
            return None
        raise other_cloud(f"Stack {stack.name}", home, now)

    def objection(self, stack: StackRecord) -> str:
        """Return the reason why a worker must not start on a stack; "" if it may.

        Asks no cloud, unless the stack is the first of its tree that needs one. Then that is recorded.

        The settings of a worker may differ from those of the API process that accepted the request.
        """
        if stack.verb is not Verb.DELETE and self._store.stacks.cloud_of(stack) is None:
            types = {one.mapped_type for one in self._definitions.of(stack).resources.values()}
            self.record(stack, self.first(stack, types))
            return ""
        error = self.refusal(stack)
        return "" if error is None else error.message

    def refusal(self, stack: StackRecord) -> OtherCloud | None:
        """Return the error of operations on a stack whose objects are in another cloud.

        Asks no cloud. Raises CloudError if the settings of the cloud cannot be read.
        """
        home = self._store.stacks.cloud_of(stack)
        if home is None:
            return None
        now = None if self._clouds.name is None else self._clouds.of(stack.project, stack.id).cloud.place
        if now is not None and home.is_same(now) or not self._needs(stack):
            return None
        return other_cloud(f"Stack {stack.name}", home, now)

    def _now(self, view: Callable[[], Finders], has_to: bool = False) -> CloudIdentity | None:
        """Return the configured cloud; None without one.

        If the cloud cannot be asked, the project is left out, unless the result `has_to` be complete.
        """
        if self._clouds.name is None:
            return None
        cloud = view().cloud
        try:
            return cloud.identity
        except CloudError as error:
            if has_to:
                raise
            log.warning("the project in the cloud %s is not known: %s", self._clouds.name, error)
            return cloud.place

    def _needs(self, stack: StackRecord) -> bool:
        """True if a stack or a nested one has a resource that needs a cloud."""
        return self._need(self._store.resources.types(stack.root_id or stack.id))

    def _need(self, types: Iterable[str]) -> bool:
        """True if a resource of one of the types has its object in a cloud."""
        return any(self._types.service_of(name) for name in types)
