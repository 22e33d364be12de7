"""Admission by quota: compares plans with quotas, and reserves room."""

import hashlib
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from functools import cache, cached_property

from msgspec import to_builtins
from msgspec.structs import replace

from heatlite.clients.cloud import CloudError, NoCloud
from heatlite.clients.clouds import Clouds
from heatlite.clients.finders import Finders
from heatlite.core.clock import Clock, to_text
from heatlite.core.context import Context
from heatlite.core.errors import ActionConflict, HeatliteError, InsufficientRoom
from heatlite.core.json import JsonMap, as_map
from heatlite.core.runtime.meter import Meter
from heatlite.engine.admission.claims import OF_NO_OBJECT, ChangeKind, Claim, Examiner, PreparedRequest
from heatlite.engine.preview.preview import StackPreview
from heatlite.engine.state.unit_of_work import stack_event
from heatlite.features.quota.assessment import Assessment, HeldRoom, QuotaState, assess, still_taken
from heatlite.features.quota.limits import (
    SERVICES,
    Before,
    Deadline,
    LimitReader,
    LimitsReading,
    QuotaAccount,
    identify,
)
from heatlite.features.quota.metrics import EXAMINED
from heatlite.features.quota.needs import PlanNeeds, needs_of
from heatlite.features.quota.sentences import shortage_text
from heatlite.features.quota.store.records import Reservation
from heatlite.features.quota.store.store import QuotaStore, lock_place
from heatlite.plugin.needs import Find
from heatlite.plugin.registry import Registry
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store

OPTION = "quota_check"
"""Query key of requests."""


MAKE_NOTHING = OF_NO_OBJECT | {ChangeKind.DELETE}
"""Changes that need no room."""


class ShortageMode(StrEnum):
    """Effect of a shortage."""

    REFUSE = "refuse"
    WARN = "warn"
    OFF = "off"
    """Nothing is read."""


class QuotaExceeded(InsufficientRoom):
    """An operation would exceed a quota of the cloud's project."""

    ignored_as = "quota"

    def __init__(self, stack: str, found: Assessment, needs: PlanNeeds) -> None:
        way = "Raise the quota, free room or ask for less."
        if all(needs.freed.get(one.kind, 0) >= one.short for one in found.shortages):
            way = "What it deletes at its end makes room too late: do it in two updates, the first of which deletes."
        super().__init__(
            f"Stack {stack} is left as it is, since the quota of its project in the cloud does not suffice:"
            f" {shortage_text(found)}. {way} To try it nevertheless: {OPTION}=warn."
        )
        self.facts = {"shortages": [to_builtins(one) for one in found.shortages]}


class QuotaExaminer(Examiner):
    """Compares plans with quotas (`claims.Examiner`). Safe for threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        types: Registry,
        clouds: Clouds,
        reader: LimitReader,
        meter: Meter,
        mode: ShortageMode,
    ) -> None:
        self._meter = meter
        self._store = store
        self._rows = store.of(QuotaStore)
        self._clock = clock
        self._types = types
        self._clouds = clouds
        self._reader = reader
        self._mode = mode

    def mode(self, context: Context) -> ShortageMode:
        """Return what a shortage does for a request."""
        return ShortageMode(context.options.get(OPTION, self._mode))

    def examine(self, asked: PreparedRequest) -> "QuotaClaim | None":
        """Return the claim of a request for an operation; None if it needs nothing.

        Raises QuotaExceeded.
        """
        mode = self.mode(asked.context)
        if mode is ShortageMode.OFF or asked.change in MAKE_NOTHING or not self.concerns(asked.types):
            return None
        if mode is ShortageMode.REFUSE and asked.insists:
            mode = ShortageMode.WARN
        look = self._look(asked.context, asked.stack)
        if look is None:
            return None
        try:
            needs = needs_of(asked.preview(), look.find)
        except HeatliteError:
            return None  # the operation meets the same error, after what else refuses it
        if not needs.amounts:
            nothing = QuotaClaim(self._store, self._clock, look, needs, NOTHING_READ, mode)
            return nothing if needs.limits_changed else None
        reading = look.read(needs.kinds)
        found = look.assess(needs, reading)
        if not reading.is_fresh and (found.state is QuotaState.SHORT or look.is_outdated(reading)):
            reading = look.read(needs.kinds, fresh=True)
            found = look.assess(needs, reading)
        self._meter.count(EXAMINED, found.state.value)
        if found.state is QuotaState.SHORT and mode is ShortageMode.REFUSE:
            raise QuotaExceeded(asked.stack.name, found, needs)
        return QuotaClaim(self._store, self._clock, look, needs, reading, mode)

    def shown(self, asked: PreparedRequest, because: Sequence[str]) -> JsonMap:
        """Return what a plan shows of quotas."""
        if self.mode(asked.context) is ShortageMode.OFF or asked.change in OF_NO_OBJECT:
            return {}
        if not self.concerns(asked.types):
            return {"quota": shown(Assessment(QuotaState.FITS, (), {}, None))}
        look = self._look(asked.context, asked.stack)
        if look is None:
            return {"quota": shown(Assessment(QuotaState.UNKNOWN, (), {"cloud": NoCloud().message}, None))}
        needs = needs_of(asked.preview(), look.find)
        reading = look.read(needs.kinds)
        if not reading.is_fresh and look.is_outdated(reading):
            reading = look.read(needs.kinds, fresh=True)
        return {"quota": shown(look.assess(needs, reading))}

    def of_project(self, context: Context) -> Assessment:
        """Return limits, usage and reservations of the project of a request."""
        deadline = Deadline()
        try:
            finders = self._clouds.asked_by(context)
        except (NoCloud, CloudError) as error:
            return Assessment(QuotaState.UNKNOWN, (), {"cloud": error.message}, None)
        look = QuotaLook(self._rows, self._reader, finders, identify(finders, deadline), deadline, context.project)
        reading = look.read_all()
        needs = PlanNeeds(dict.fromkeys(reading.limits, 0))
        return look.assess(needs, reading)

    def concerns(self, types: Collection[str]) -> bool:
        """Return whether objects of some of the types may count in quotas."""
        return not types or any(self._types.get(name).counts for name in types if self._types.find(name) is not None)

    def _look(self, context: Context, stack: StackRecord) -> "QuotaLook | None":
        """Return the view of the cloud for a request; None without a cloud."""
        deadline = Deadline()
        try:
            if self._store.stacks.get(stack.id) is None:
                finders = self._clouds.asked_by(context)
            else:
                finders = self._clouds.of(stack.project, stack.id)
        except (NoCloud, CloudError):
            return None  # the operation meets the same error
        return QuotaLook(self._rows, self._reader, finders, identify(finders, deadline), deadline, context.project)


class QuotaLook:
    """View that one request has of its project in the cloud."""

    def __init__(
        self,
        rows: QuotaStore,
        reader: LimitReader,
        finders: Finders,
        account: QuotaAccount | str,
        deadline: Deadline,
        project: str,
    ) -> None:
        """`project` is that of the request.

        `account` may be the reason why it is not known.
        """
        self._project = project
        self._rows = rows
        self._reader = reader
        self._finders = finders
        self._account = account
        self._deadline = deadline
        self._own: dict[str, bool] = {}

    @property
    def place(self) -> str:
        """The key of reservations; empty if the project is not known."""
        if isinstance(self._account, str):
            return ""
        return hashlib.sha256(self._account.place.encode()).hexdigest()

    @cached_property
    def find(self) -> Find:
        """Finds objects of the cloud."""
        if isinstance(self._account, str):
            return lambda _finder, _name: None
        find = self._reader.find(self._finders, self._account.place, self._deadline)
        return cache(find)

    def read(self, kinds: Collection[str], fresh: bool = False) -> LimitsReading:
        """Return the limits of the services of some kinds."""
        return self._read(sorted({kind.partition(".")[0] for kind in kinds}), fresh)

    def read_all(self) -> LimitsReading:
        """Return the limits of all services."""
        return self._read(list(SERVICES), fresh=False)

    def _read(self, services: Sequence[str], fresh: bool) -> LimitsReading:
        if isinstance(self._account, str):
            return LimitsReading(self._reader.now(), causes=dict.fromkeys(services, self._account))
        return self._reader.read(self._finders, self._account, services, self._deadline, self._before, fresh)

    def _before(self) -> Before:
        place = self.place
        mark = self._rows.last_release(place)
        return Before(self._rows.made(self._rows.open(place)), mark)

    def is_outdated(self, reading: LimitsReading) -> bool:
        """Return whether an action has changed limits, or met one, since they were read."""
        place = self.place
        return bool(place) and not all(self._rows.released(place, reading.before.mark))

    def assess(self, needs: PlanNeeds, reading: LimitsReading) -> Assessment:
        """Compare needs with a reading and the present reservations."""
        own = {kind for kind, projects in needs.limits_changed.items() if any(map(self._is_own, projects))}
        place = self.place
        found = self._rows.open(place) if place else ()
        held = [
            HeldRoom(one.holder if one.project == self._project else "another project", still_taken(one, reading))
            for one in found
        ]
        if place:
            held += [HeldRoom("what has just ended", one) for one in self._rows.released(place, reading.before.mark)]
        return assess(needs, reading, held, frozenset(own))

    def _is_own(self, project: str) -> bool:
        """Return whether a project, by name or id, is that of the request."""
        if isinstance(self._account, str):
            return False
        if project not in self._own:
            found = as_map(self.find("keystone.project", project))
            self._own[project] = self._account.project in (project, found.get("id"))
        return self._own[project]


NOTHING_READ = LimitsReading(0.0)


class QuotaClaim(Claim):
    """Room that an operation asks for (`claims.Claim`)."""

    def __init__(
        self, store: Store, clock: Clock, look: QuotaLook, needs: PlanNeeds, reading: LimitsReading, mode: ShortageMode
    ) -> None:
        self._store = store
        self._clock = clock
        self._look = look
        self._needs = needs
        self._reading = reading
        self._mode = mode

    def take(self, action: ActionRecord, stack: StackRecord, preview: Callable[[], StackPreview] | None = None) -> None:
        """Reserve the room, in the transaction that queues the action.

        `preview` is given where the plan may have changed since it was examined. Raises QuotaExceeded, and
        ActionConflict if others have taken room since a reading that was not new.
        """
        needs = self._needs if preview is None else needs_of(preview(), self._look.find)
        place = self._look.place
        if not (needs.amounts or needs.limits_changed) or not place:
            return
        lock_place(self._store, place)
        found = self._look.assess(needs, self._reading)
        if found.state is QuotaState.SHORT and self._mode is ShortageMode.REFUSE:
            if self._reading.is_fresh:
                raise QuotaExceeded(stack.name, found, needs)
            raise ActionConflict(
                f"Other operations have taken room in the quota that stack {stack.name} needs. Send the request again."
            )
        if found.state is QuotaState.SHORT:
            reason = f"{stack.status_reason}; the quota does not suffice: {shortage_text(found)}"
            self._store.events.append_many([stack_event(replace(stack, status_reason=reason), self._clock.now())])
        self._store.of(QuotaStore).insert(
            Reservation(
                action_id=action.id,
                place=place,
                project=action.project,
                stack_id=stack.id,
                root_id=stack.root_id or stack.id,
                holder=f"{action.name} of {stack.name}",
                amounts=needs.amounts,
                parts=needs.parts,
                read_at=self._reading.read_at,
            )
        )


def shown(found: Assessment) -> JsonMap:
    """Return an assessment as plans have it."""
    return {
        "state": found.state.value,
        "read_at": None if found.read_at is None else to_text(found.read_at),
        "causes": dict(found.causes),
        "kinds": [to_builtins(one) for one in found.kinds],
    }
