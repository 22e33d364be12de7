"""Limits and usage of a project, as its cloud's services tell them.

Services are asked in threads, all at once. One that does not answer in time is left alone for a while.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct

from heatlite.clients.finders import Finders
from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, JsonMap, as_map, as_maps
from heatlite.core.runtime.bulkhead import check_may_wait
from heatlite.plugin.needs import Find

T = TypeVar("T")

MOST_SECONDS: Final = 5.0
"""Longest time that a request waits for limits, and for what else it asks about its plan."""
AT_ONCE: Final[dict[str, threading.BoundedSemaphore]] = {}
"""Threads of the process that ask a service at once. One that hangs keeps them until its own timeout."""
NO_ANSWER: Final = f"no answer within {MOST_SECONDS:g} s"
UNLIMITED: Final = -1


class QuotaLimit(Struct, frozen=True):
    """Limit and usage of one kind."""

    limit: int
    """-1: unlimited."""
    used: int


Limits: TypeAlias = Mapping[str, QuotaLimit]
"""By kind."""


Made: TypeAlias = Mapping[str, frozenset[str]]
"""By id of actions, the paths of their parts that have an object."""


class Before(Struct, frozen=True):
    """State of reservations before services are asked."""

    made: Made = {}
    """Parts that were made: the usage has these objects."""
    mark: int = 0
    """Number of the last release: the usage has all objects of earlier ones."""


class LimitsReading(Struct, frozen=True):
    """Limits of a project at one time."""

    read_at: float
    limits: Limits = {}
    causes: Mapping[str, str] = {}
    """By service, the reason why its limits are not known."""
    left_out: frozenset[str] = frozenset()
    """Services that the cloud does not have."""
    is_fresh: bool = True
    """False: a service was read for an earlier request."""
    before: Before = Before()
    """State before the first service was asked."""


class Deadline:
    """End of the time that one request has to ask services."""

    def __init__(self, seconds: float = MOST_SECONDS) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def run(self, asks: Mapping[str, Callable[[], T]]) -> dict[str, T | str]:
        """Call functions in threads, all at once.

        Returns their results, or the reason why there is none.
        """
        check_may_wait()
        found: dict[str, T | str] = {}
        threads = list[threading.Thread]()
        for name, ask in asks.items():
            found[name] = NO_ANSWER
            words = (name, ask, found, self.left)
            threads.append(threading.Thread(target=_answer, args=words, name=f"quota {name}", daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join(self.left)
        return dict(found)


def _answer(name: str, ask: Callable[[], T], found: dict[str, T | str], seconds: float) -> None:
    turn = AT_ONCE.setdefault(name, threading.BoundedSemaphore(8))
    if not turn.acquire(timeout=seconds):
        return
    try:
        found[name] = ask()
    except HeatliteError as error:
        found[name] = error.message
    finally:
        turn.release()


# -- answers of services -------------------------------------------------------------------------------

_COMPUTE: Final = {
    "instances": ("maxTotalInstances", "totalInstancesUsed"),
    "cores": ("maxTotalCores", "totalCoresUsed"),
    "ram": ("maxTotalRAMSize", "totalRAMUsed"),
    "server_groups": ("maxServerGroups", "totalServerGroupsUsed"),
}
"""Kind → Nova's names of its limit and its usage. Some microversions tell nothing about server groups."""
_LISTS: Final = {
    "loadbalancer": "load_balancers", "listener": "listeners", "pool": "pools", "healthmonitor": "health_monitors",
}  # fmt: skip
"""Kind → Octavia's verb that lists. Members are counted by their pools."""
_OLD_NAMES: Final = {"loadbalancer": "load_balancer", "healthmonitor": "health_monitor"}
"""Kind → Octavia's older name."""


def _number(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _compute(finders: Finders, _project: str) -> Iterator[tuple[str, QuotaLimit]]:
    absolute = as_map(as_map(finders.cloud.call("compute.get_limits")).get("absolute"))
    for kind, names in _COMPUTE.items():
        limit, used = (_number(absolute.get(name)) for name in names)
        if limit is not None and used is not None:
            yield kind, QuotaLimit(limit, used)
    keys = _number(absolute.get("maxTotalKeypairs"))
    if keys is not None:
        used = len(as_maps(finders.cloud.call("compute.keypairs"))) if keys >= 0 else 0
        yield "key_pairs", QuotaLimit(keys, used)


def _block_storage(finders: Finders, project: str) -> Iterator[tuple[str, QuotaLimit]]:
    told = as_map(finders.cloud.call("block_storage.get_quota_set", project, usage=True))
    used, reserved = as_map(told.get("usage")), as_map(told.get("reservation"))
    for kind, value in told.items():
        limit = _number(value)
        if limit is not None:
            yield kind, QuotaLimit(limit, (_number(used.get(kind)) or 0) + (_number(reserved.get(kind)) or 0))


def _network(finders: Finders, project: str) -> Iterator[tuple[str, QuotaLimit]]:
    for kind, value in as_map(finders.cloud.call("network.get_quota", project, details=True)).items():
        one = as_map(value)
        limit = _number(one.get("limit"))
        if limit is not None:
            yield kind, QuotaLimit(limit, (_number(one.get("used")) or 0) + (_number(one.get("reserved")) or 0))


def _load_balancer(finders: Finders, project: str) -> Iterator[tuple[str, QuotaLimit]]:
    told = as_map(finders.cloud.call("load_balancer.get_quota", project))
    lists: dict[str, list[JsonMap]] = {}

    def listed(kind: str) -> list[JsonMap]:
        if kind not in lists:
            lists[kind] = as_maps(finders.cloud.call(f"load_balancer.{_LISTS[kind]}", project_id=project))
        return lists[kind]

    for kind in (*_LISTS, "member"):
        limit = _number(told.get(kind, told.get(_OLD_NAMES.get(kind, ""))))
        if limit is None or limit < 0:
            yield kind, QuotaLimit(UNLIMITED, 0)
        elif kind == "member":
            yield kind, QuotaLimit(limit, sum(len(as_maps(pool.get("members"))) for pool in listed("pool")))
        else:
            yield kind, QuotaLimit(limit, len(listed(kind)))


SERVICES: Final[Mapping[str, Callable[[Finders, str], Iterator[tuple[str, QuotaLimit]]]]] = {
    "compute": _compute,
    "block_storage": _block_storage,
    "network": _network,
    "load_balancer": _load_balancer,
}
"""Services with quotas, and what reads them."""


def read(finders: Finders, project: str, service: str) -> dict[str, QuotaLimit] | None:
    """Return the limits of a service by kind. Raises CloudError.

    None: the cloud does not have it.
    """
    if not finders.has(service):
        return None
    return {f"{service}.{kind}": limit for kind, limit in SERVICES[service](finders, project)}


class QuotaAccount(Struct, frozen=True):
    """A project of a cloud."""

    place: str
    """Text that identifies both."""
    project: str
    """Id of the project."""


# -- the cache -----------------------------------------------------------------------------------------

Answer: TypeAlias = dict[str, QuotaLimit] | None | str


class _Known(Struct, frozen=True):
    """Answer of a service about a project."""

    at: float
    answer: Answer
    before: Before


class LimitReader:
    """Reads limits, and remembers them for a while. Safe for threads."""

    def __init__(self, now: Callable[[], float], seconds: float) -> None:
        self._now = now
        self._seconds = seconds
        self._known: dict[tuple[str, str], _Known] = {}
        self._things: dict[tuple[str, str, str], tuple[float, JsonMap | None]] = {}
        self._lock = threading.Lock()

    def read(
        self,
        finders: Finders,
        account: QuotaAccount,
        services: Collection[str],
        deadline: Deadline,
        look: Callable[[], Before],
        fresh: bool = False,
    ) -> LimitsReading:
        """Return the limits of services for a project of the cloud.

        With `fresh` what is remembered counts only for services that did not answer. `look` is called before services
        are asked.
        """
        now, known = self._now(), dict[str, _Known]()
        with self._lock:
            for service in services:
                one = self._known.get((account.place, service))
                if one is not None and 0 <= now - one.at < self._seconds and (not fresh or one.answer == NO_ANSWER):
                    known[service] = one
        is_fresh = all(isinstance(one.answer, str) for one in known.values())
        asks = {one: _reader(finders, account.project, one) for one in services if one not in known}
        if asks:
            before = look()
            told = deadline.run(asks)
            with self._lock:
                for service, answer in told.items():
                    known[service] = _Known(now, answer, before)
                    others = self._known.get((account.place, service))
                    if answer != NO_ANSWER or others is None or others.at < now:  # another request may have got one
                        self._known[account.place, service] = known[service]
        limits: dict[str, QuotaLimit] = {}
        for one in known.values():
            if isinstance(one.answer, dict):
                limits |= one.answer
        return LimitsReading(
            read_at=min((one.at for one in known.values()), default=now),
            limits=limits,
            causes={service: one.answer for service, one in sorted(known.items()) if isinstance(one.answer, str)},
            left_out=frozenset(service for service, one in known.items() if one.answer is None),
            is_fresh=is_fresh,
            before=_earliest([one.before for one in known.values()]),
        )

    def find(self, finders: Finders, place: str, deadline: Deadline) -> Find:
        """Return a function that finds objects of the cloud, see `plugin.needs.Find`."""

        def find(finder: str, name: str) -> JsonMap | None:
            key, now = (place, finder, name), self._now()
            with self._lock:
                known = self._things.get(key)
            if known is None or not 0 <= now - known[0] < self._seconds:
                told = deadline.run({finder: lambda: finders.thing(finder, name)})[finder]
                known = (now, None if isinstance(told, str) else told)
                with self._lock:
                    self._things[key] = known
                    if len(self._things) > MAX_THINGS:
                        self._things.pop(next(iter(self._things)))
            return known[1]

        return find

    def now(self) -> float:
        """Return the present time."""
        return self._now()

    def forget(self) -> None:
        """Forget the limits that were read."""
        with self._lock:
            self._known.clear()


MAX_THINGS: Final = 10_000
"""Maximum of remembered objects of clouds."""


def _reader(finders: Finders, project: str, service: str) -> Callable[[], Answer]:
    return lambda: read(finders, project, service)


def _earliest(found: list[Before]) -> Before:
    """Return what was known before each of the readings."""
    if not found:
        return Before()
    first, *others = (one.made for one in found)
    every = {key: paths.intersection(*(one.get(key, frozenset()) for one in others)) for key, paths in first.items()}
    return Before(every, min(one.mark for one in found))


def identify(finders: Finders, deadline: Deadline) -> QuotaAccount | str:
    """Return the project of the cloud, or the reason why it is not known."""
    cloud = finders.cloud
    identity = cloud.place
    if identity.project_id is None:
        told = deadline.run({"identity": lambda: cloud.identity})["identity"]
        if isinstance(told, str):
            return told
        identity = told
    if identity.project_id is None:
        return "the project in the cloud is not known"
    return QuotaAccount(" ".join(part or "" for part in identity.account), identity.project_id)
