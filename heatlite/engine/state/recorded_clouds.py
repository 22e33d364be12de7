"""The cloud that a stack has its objects in, against the one that is set (docs/decisions/0023-recorded-cloud.md)."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from heatlite.clients.cloud import CloudError, other_cloud
from heatlite.clients.clouds import Clouds
from heatlite.clients.finders import Finders
from heatlite.core.clouds import CloudIdentity
from heatlite.core.context import Context
from heatlite.plugin.registry import Registry
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)


class StackClouds:
    """Records the clouds of stacks, and refuses what would run against another one."""

    def __init__(self, store: Store, types: Registry, clouds: Clouds) -> None:
        self._store = store
        self._types = types
        self._clouds = clouds

    def new(
        self, context: Context, stack: StackRecord, types: Iterable[str], recorded: CloudIdentity | None, adopts: bool
    ) -> CloudIdentity | None:
        """What a new stack records; None: it needs no cloud.

        `recorded`: where the record that it is adopted from says that its objects are. Raises OtherCloud, unless it
        `adopts` the cloud that is set.
        """
        if not self._need(types):
            return None
        now = self._now(lambda: self._clouds.of(context.project), has_to=adopts)
        if now is not None and self._clouds.delegates(context):
            now = replace(now, project_id=context.project)
        if recorded is not None and not adopts and (now is None or not recorded.is_same(now)):
            raise other_cloud(f"Stack {stack.name}", recorded, now)
        return now

    def first(self, stack: StackRecord, types: Iterable[str]) -> CloudIdentity | None:
        """What a stack without a record records before it gets resources of these types; None: it needs no cloud, or
        has a record."""
        if self._store.stacks.cloud_of(stack) is not None or not self._need(types):
            return None
        return self._now(lambda: self._clouds.of(stack.project, stack.id))

    def admitted(self, stack: StackRecord, adopts: bool = False) -> CloudIdentity | None:
        """What a stack is to record before an operation begins; None: it is recorded, or no cloud is needed.

        Raises OtherCloud where the stack has its objects in another cloud than the one that is set, or none is set,
        unless it `adopts` that one; then CloudError where that cannot be asked.
        """
        home = self._store.stacks.cloud_of(stack)
        if home is None and not self._needs(stack):
            return None
        now = self._now(lambda: self._clouds.of(stack.project, stack.id), has_to=adopts)
        if now is None and home is None:
            return None  # nothing tells where its objects are; whoever needs the cloud says that there is none
        if now is not None and (home is None or adopts or home.is_same(now)):
            is_known = home is not None and home.is_same(now) and (home.project_id or not now.project_id)
            return None if is_known else now
        assert home is not None
        if not self._needs(stack):
            return None
        raise other_cloud(f"Stack {stack.name}", home, now)

    def objection(self, stack: StackRecord) -> str:
        """Why a worker must not begin with a stack, as far as that is known without asking the cloud; "": it may.

        The settings of a worker may be others than those of who has taken the request.
        """
        home = self._store.stacks.cloud_of(stack)
        if home is None:
            return ""
        now = None if self._clouds.name is None else self._clouds.of(stack.project, stack.id).cloud.place
        if now is not None and home.is_same(now) or not self._needs(stack):
            return ""
        return other_cloud(f"Stack {stack.name}", home, now).message

    def _now(self, view: Callable[[], Finders], has_to: bool = False) -> CloudIdentity | None:
        """The cloud that is set; without its project where it cannot be asked, unless it `has_to` be. None: none is
        set."""
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
        """Whether a stack, or one of its tree, has a resource that needs a cloud."""
        return self._need(self._store.resources.types(stack.root_id or stack.id))

    def _need(self, types: Iterable[str]) -> bool:
        """Whether a resource of one of the types has its object in a cloud."""
        return any(self._types.service_of(name) for name in types)
