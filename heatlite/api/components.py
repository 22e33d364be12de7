"""The objects that the route table gives to handlers."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from threading import RLock
from typing import TYPE_CHECKING, TypeVar, cast, overload

from msgspec import Struct

from heatlite.api.event_streams import Streams
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import Conflict
from heatlite.core.json import JsonMap
from heatlite.core.runtime.meter import Meter
from heatlite.core.wire.why import WayOut
from heatlite.engine.admission.admission import Admission
from heatlite.engine.admission.base import Parts
from heatlite.engine.admission.offered_types import OfferedTypes
from heatlite.engine.admission.preparation import Preparation
from heatlite.engine.operations.health_marks import HealthMarks
from heatlite.engine.operations.maintenance_lock import MaintenanceLock
from heatlite.engine.operations.scheduled_actions import ScheduledActions
from heatlite.engine.operations.software_configs import Software
from heatlite.engine.operations.stacks import Stacks
from heatlite.engine.outbound.self_auth import SelfAuth
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.requests import StackAction
from heatlite.engine.types.agent_accounts import Accounts
from heatlite.engine.types.outputs import StackReader
from heatlite.engine.types.resource_factory import EngineServices
from heatlite.plugin.registry import Registry
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

if TYPE_CHECKING:
    from heatlite.api.access.authentication import AccessControl
    from heatlite.engine.operations.action_signals import ActionSignals
    from heatlite.engine.operations.export import Export
    from heatlite.engine.operations.groups import Groups
    from heatlite.engine.operations.membership.joining import Joins
    from heatlite.engine.operations.membership.leaving import Leaving
    from heatlite.engine.operations.membership.member_moves import MemberMoves
    from heatlite.engine.operations.membership.next_plans import NextPlans
    from heatlite.engine.operations.membership.policies import GroupPolicies
    from heatlite.engine.operations.membership.writing import MembershipWriter
    from heatlite.engine.operations.protection import Protection
    from heatlite.engine.operations.redefining.changes import Redefining
    from heatlite.engine.operations.repairs import Repairs
    from heatlite.engine.operations.scheduled_requests import ScheduledRequests
    from heatlite.engine.operations.signals import Signals
    from heatlite.engine.operations.snapshots import Snapshots
    from heatlite.engine.why.reading import More, Reasons

T = TypeVar("T")
F = TypeVar("F")

_FIRST_USE = RLock()
"""Lock of the creation of parts. A part may create others."""


class LockedCachedProperty(cached_property[T]):
    """A cached property that threads create once.

    `cached_property` has no lock since Python 3.12.
    """

    @overload
    def __get__(self, instance: None, owner: type[object] | None = None) -> "LockedCachedProperty[T]": ...
    @overload
    def __get__(self, instance: object, owner: type[object] | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type[object] | None = None) -> "LockedCachedProperty[T] | T":
        if instance is None:
            return self
        with _FIRST_USE:
            return super().__get__(instance, owner)


class Components(Struct, frozen=True, dict=True):
    """The operations of the engine, the store, and the objects that both share.

    A part is created at its first use. Its import is local, since a single command uses few of them.
    """

    store: Store
    clock: Clock
    settings: Settings
    meter: Meter
    types: Registry
    definitions: Definitions
    admission: Admission
    preparation: Preparation
    offer: OfferedTypes
    engine_services: EngineServices
    reader: StackReader
    scheduled_actions: ScheduledActions
    stacks: Stacks
    software: Software
    streams: Streams
    self_auth: SelfAuth | None
    accounts: Accounts | None
    access: Callable[[], "AccessControl"]
    """Returns the access control. The first call raises BadSetting, MissingLibrary."""
    has_engine: Callable[[], bool]
    """Returns whether the engine of this server runs; True if this server has none of its own."""
    further: Sequence[type[Struct]]
    """The keys of features in the definition of a stack (`Feature.body`)."""
    facts: Callable[[], "Sequence[More]"]
    """Returns what adds the facts of features to those of a stack."""
    stack_actions: Callable[[], Mapping[str, StackAction]]
    """Returns the actions of features on stacks, by the key of the body."""
    member_moves: Callable[[], "MemberMoves | None"]
    """Returns the part of a feature in joins and leaves of members."""
    ways_out: Callable[[Conflict], Sequence[WayOut]]
    """Returns the steps out of a conflict that features add."""

    @LockedCachedProperty
    def _of_features(self) -> dict[object, object]:
        return {}

    def of(self, kind: Callable[["Components"], F]) -> F:
        """Return the operations of a feature, created at their first use."""
        with _FIRST_USE:
            if kind not in self._of_features:
                self._of_features[kind] = kind(self)
            return cast(F, self._of_features[kind])

    @LockedCachedProperty
    def _parts(self) -> Parts:
        return Parts(self.store, self.clock, self.settings, self.definitions, self.admission, self.reader)

    @LockedCachedProperty
    def maintenance(self) -> MaintenanceLock:
        return MaintenanceLock(self.store, self.clock, self.admission)

    @LockedCachedProperty
    def health(self) -> HealthMarks:
        return HealthMarks(self._parts)

    @LockedCachedProperty
    def exports(self) -> "Export":
        from heatlite.engine.operations.export import Export

        return Export(self._parts, self.engine_services)

    @LockedCachedProperty
    def snapshots(self) -> "Snapshots":
        from heatlite.engine.operations.snapshots import Snapshots

        return Snapshots(self._parts, self.preparation, self.engine_services)

    @LockedCachedProperty
    def protection(self) -> "Protection":
        from heatlite.engine.operations.protection import Protection

        return Protection(self.store, self.clock, self.admission)

    @LockedCachedProperty
    def repairs(self) -> "Repairs":
        from heatlite.engine.operations.repairs import Repairs

        return Repairs(self._parts)

    @LockedCachedProperty
    def redefining(self) -> "Redefining":
        from heatlite.engine.operations.redefining.changes import Redefining

        return Redefining(self._parts)

    @LockedCachedProperty
    def groups(self) -> "Groups":
        from heatlite.engine.operations.groups import Groups

        return Groups(self._parts, self.repairs)

    @LockedCachedProperty
    def _membership(self) -> "MembershipWriter":
        from heatlite.engine.operations.membership.writing import MembershipWriter

        return MembershipWriter(self._parts)

    @LockedCachedProperty
    def _next_plans(self) -> "NextPlans":
        from heatlite.engine.operations.membership.next_plans import NextPlans

        return NextPlans(self.store, self.engine_services)

    @LockedCachedProperty
    def joins(self) -> "Joins":
        from heatlite.engine.operations.membership.joining import Joins

        return Joins(self.store, self.admission, self.groups, self._membership, self._next_plans)

    @LockedCachedProperty
    def leaving(self) -> "Leaving":
        from heatlite.engine.operations.membership.leaving import Leaving

        return Leaving(self.store, self.admission, self.groups, self._membership, self._next_plans)

    @LockedCachedProperty
    def group_policies(self) -> "GroupPolicies":
        from heatlite.engine.operations.membership.policies import GroupPolicies

        return GroupPolicies(self._parts, self.groups, self.engine_services.services.clouds)

    @LockedCachedProperty
    def scheduled(self) -> "ScheduledRequests":
        from heatlite.engine.operations.scheduled_requests import Operations, ScheduledRequests

        return ScheduledRequests(
            self.store, self.scheduled_actions, self.admission, self.preparation, self.stacks, self.groups,
            Operations(
                lambda: self.snapshots, lambda: self.joins, lambda: self.leaving, lambda: self.group_policies,
                self.stack_actions,
            ),
            self.author_now,
        )  # fmt: skip

    def author_now(
        self, author: Context, stack: StackRecord, credential: Callable[[], JsonMap | None] | None = None
    ) -> Context:
        """Return the author of stored work on a stack, with the rights that are left.

        `credential` returns the one that the author has given for it; without it that of the stack counts. Raises
        NoCredential, CloudUnavailable.
        """
        clouds = self.engine_services.services.clouds
        of_work = credential or partial(self.store.credentials.of, stack.id)
        return self.access().author_now(author, lambda: clouds.confirm(author, of_work(), stack.name))

    @LockedCachedProperty
    def signals(self) -> "Signals":
        from heatlite.engine.operations.signals import Signals

        return Signals(self._parts)

    @LockedCachedProperty
    def reasons(self) -> "Reasons":
        from heatlite.engine.why.reading import Reasons

        off, clouds = self.types.installation.features_off, self.admission.clouds
        return Reasons(self.store, self.clock, self.definitions, self.facts, self.has_engine, clouds, off)

    @LockedCachedProperty
    def controls(self) -> "ActionSignals":
        from heatlite.engine.operations.action_signals import ActionSignals

        return ActionSignals(self.store, self.clock)
