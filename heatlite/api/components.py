"""The objects that the route table gives to handlers."""

from collections.abc import Callable
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, TypeVar, cast, overload

from msgspec import Struct

from heatlite.api.event_streams import Streams
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.meter import Meter
from heatlite.engine.admission.admission import Admission
from heatlite.engine.admission.offered_types import OfferedTypes
from heatlite.engine.admission.preparation import Preparation
from heatlite.engine.operations.health_marks import HealthMarks
from heatlite.engine.operations.maintenance_lock import MaintenanceLock
from heatlite.engine.operations.schedule import Schedule
from heatlite.engine.operations.software_configs import Software
from heatlite.engine.operations.stacks import Stacks
from heatlite.engine.outbound.self_auth import SelfAuth
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.types.agent_accounts import Accounts
from heatlite.engine.types.outputs import StackReader
from heatlite.engine.types.resource_factory import EngineServices
from heatlite.plugin.registry import Registry
from heatlite.store.store import Store

if TYPE_CHECKING:
    from heatlite.engine.operations.action_signals import ActionSignals
    from heatlite.engine.operations.export import Export
    from heatlite.engine.operations.groups import Groups
    from heatlite.engine.operations.protection import Protection
    from heatlite.engine.operations.repairs import Repairs
    from heatlite.engine.operations.signals import Signals
    from heatlite.engine.operations.snapshots import Snapshots

T = TypeVar("T")
F = TypeVar("F")

_FIRST_USE = RLock()
"""Lock of the creation of parts. A part may create others."""


class Part(cached_property[T]):
    """A cached property that threads create once.

    `cached_property` has no lock since Python 3.12.
    """

    @overload
    def __get__(self, instance: None, owner: type[object] | None = None) -> "Part[T]": ...
    @overload
    def __get__(self, instance: object, owner: type[object] | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type[object] | None = None) -> "Part[T] | T":
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
    schedule: Schedule
    stacks: Stacks
    software: Software
    streams: Streams
    self_auth: SelfAuth | None
    accounts: Accounts | None
    has_engine: Callable[[], bool]
    """Returns whether the engine of this server runs; True if this server has none of its own."""

    @Part
    def _of_features(self) -> dict[object, object]:
        return {}

    def of(self, kind: Callable[["Components"], F]) -> F:
        """Return the operations of a feature, created at their first use."""
        with _FIRST_USE:
            if kind not in self._of_features:
                self._of_features[kind] = kind(self)
            return cast(F, self._of_features[kind])

    @Part
    def maintenance(self) -> MaintenanceLock:
        return MaintenanceLock(self.store, self.clock, self.admission)

    @Part
    def health(self) -> HealthMarks:
        return HealthMarks(self.store, self.clock, self.definitions, self.admission, self.reader)

    @Part
    def exports(self) -> "Export":
        from heatlite.engine.operations.export import Export

        return Export(self.store, self.clock, self.settings, self.admission, self.engine_services)

    @Part
    def snapshots(self) -> "Snapshots":
        from heatlite.engine.operations.snapshots import Snapshots

        parts = (self.admission, self.preparation, self.definitions, self.engine_services)
        return Snapshots(self.store, self.clock, self.settings, *parts)

    @Part
    def protection(self) -> "Protection":
        from heatlite.engine.operations.protection import Protection

        return Protection(self.store, self.clock, self.admission)

    @Part
    def repairs(self) -> "Repairs":
        from heatlite.engine.operations.repairs import Repairs

        return Repairs(self.store, self.clock, self.definitions, self.admission, self.reader)

    @Part
    def groups(self) -> "Groups":
        from heatlite.engine.operations.groups import Groups

        parts = (self.definitions, self.admission, self.reader, self.repairs)
        return Groups(self.store, self.clock, self.settings, *parts)

    @Part
    def signals(self) -> "Signals":
        from heatlite.engine.operations.signals import Signals

        return Signals(self.store, self.clock, self.settings, self.definitions, self.admission, self.reader)

    @Part
    def controls(self) -> "ActionSignals":
        from heatlite.engine.operations.action_signals import ActionSignals

        return ActionSignals(self.store, self.clock)
