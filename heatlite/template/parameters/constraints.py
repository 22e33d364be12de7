"""Named ("custom") constraints: built in, of a cloud, and of plugins."""

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, timezone
from functools import cache, partial
from typing import Final

from msgspec import Struct

from heatlite.core.json import parse

_HEX: Final = "[0-9a-fA-F]"
_MAC: Final = re.compile(
    f"{_HEX}{{1,2}}([:-]){_HEX}{{1,2}}(\\1{_HEX}{{1,2}}){{4}}|{_HEX}{{1,4}}([:.-]){_HEX}{{1,4}}\\3{_HEX}{{1,4}}"
    f"|{_HEX}{{5,6}}[:-]{_HEX}{{5,6}}|{_HEX}{{12}}"
)
_ISO_8601: Final = re.compile(
    r"""
    (?P<year>\d{4}) (?:
        (?P<month>-\d\d?|\d\d(?!$)) (?:
            (?P<day>-\d\d?|\d\d) (?:
                [ T] (?P<hour>\d\d) (?::?(?P<minute>\d\d))? (?::?(?P<second>\d\d?)(?:[.,]\d+)?)?
                (?:Z|(?P<sign>[-+])(?P<offset_hours>\d\d):?(?P<offset_minutes>\d\d)?)?
            )?
        )?
    )?
    """,
    re.ASCII | re.VERBOSE,
)
MAX_NAME: Final = 255
"""Characters of a DNS name."""
_LABEL: Final = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_CRON_FIELDS: Final = (
    (0, 59, ()), (0, 23, ()), (1, 31, ("l",)), (1, 12, _MONTHS), (0, 7, _DAYS), (0, 59, ()), (1970, 2099, ()),
)  # fmt: skip
"""Minute, hour, day ("l": the last one), month, day of the week; then perhaps second and year."""
_CRON_NAMES: Final = frozenset({"@annually", "@daily", "@hourly", "@midnight", "@monthly", "@weekly", "@yearly"})
_WORKDAY: Final = re.compile(r"(?<=\d)w(?=,|$)")
_WEEK: Final = re.compile(r"(?<![^,])l(?=\d)|(?<=\w)#[1-5](?=,|$)")
"""Marks of a day of the week: its last one of a month (``l5``), or its second one (``5#2``)."""


def _or_empty(check: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return the check for a value that may be left empty, as templates do by default."""
    return lambda value: not value or check(value)


def _ip_addr(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _net_cidr(value: str) -> bool:
    if "/" not in value or value != value.strip():
        return False
    try:
        ipaddress.ip_interface(value)
    except ValueError:
        return False
    return True


def _dns_name(value: str) -> bool:
    labels = value.removesuffix(".").split(".")
    return len(value) <= MAX_NAME and all(_LABEL.fullmatch(label) for label in labels)


def _moment(text: str) -> datetime:
    """Parse a time in one of the forms that Heat takes; without a zone it is UTC.

    Raises ValueError.
    """
    found = _ISO_8601.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year, month, day = (int((part or "1").lstrip("-")) for part in found.group("year", "month", "day"))
    hour, minute, second, away, more = (
        int(part or 0) for part in found.group("hour", "minute", "second", "offset_hours", "offset_minutes")
    )
    offset = timedelta(hours=away, minutes=more) * (-1 if found["sign"] == "-" else 1)
    return datetime(year, month, day, hour, minute, second, tzinfo=timezone(offset))


def _iso_8601(value: str) -> bool:
    try:
        _moment(value)
    except ValueError:
        return False
    return True


def _expiration(value: str) -> bool:
    """Return True for a time to come."""
    try:
        return _moment(value.strip()) > datetime.now(UTC)
    except ValueError:
        return False


@cache
def _timezones() -> frozenset[str]:
    import zoneinfo

    return frozenset(zoneinfo.available_timezones())


def _timezone(value: str) -> bool:
    return value in _timezones()


def _json_string(value: str) -> bool:
    try:
        parse(value)
    except (ValueError, RecursionError):
        return False
    return True


def _cron_expression(value: str) -> bool:
    parts = value.lower().split()
    if not 5 <= len(parts) <= len(_CRON_FIELDS):
        return value in _CRON_NAMES
    parts[2], parts[4] = _WORKDAY.sub("", parts[2]), _WEEK.sub("", parts[4])
    return all(map(_cron_field, parts, _CRON_FIELDS))


def _cron_field(text: str, field: tuple[int, int, tuple[str, ...]]) -> bool:
    low, high, names = field

    def number(part: str) -> int | None:
        if part in names:
            return names.index(part) + low
        return int(part) if part.isascii() and part.isdecimal() and len(part) < 5 else None

    for item in text.split(","):
        span, slash, step = item.partition("/")
        if slash and not number(step):
            return False
        if span in ("*", "?"):
            continue
        bounds = [number(part) for part in span.split("-")]
        if len(bounds) > 2 or any(bound is None or not low <= bound <= high for bound in bounds):
            return False
    return True


NAMED: Final[Mapping[str, Callable[[str], bool]]] = {
    "cron_expression": _or_empty(_cron_expression),
    "dns_domain": _or_empty(lambda value: value.endswith(".") and _dns_name(value)),
    "dns_name": _or_empty(_dns_name),
    "expiration": _or_empty(_expiration),
    "ip_addr": _ip_addr,
    "ip_or_cidr": lambda value: _ip_addr(value) or _net_cidr(value),
    "iso_8601": _iso_8601,
    "json_string": _or_empty(_json_string),
    "mac_addr": lambda value: _MAC.fullmatch(value) is not None,
    "net_cidr": _net_cidr,
    "rel_dns_name": _or_empty(lambda value: not value.endswith(".") and _dns_name(value)),
    "test_constr": lambda _: True,
    "timezone": _or_empty(_timezone),
}
"""Name of the constraint → whether a value satisfies it."""

# fmt: off
CLOUD: Final = frozenset({
    "cinder.backup", "cinder.qos_specs", "cinder.snapshot", "cinder.volume", "cinder.vtype", "glance.image",
    "keystone.domain", "keystone.group", "keystone.project", "keystone.region", "keystone.role",
    "keystone.service", "keystone.user", "neutron.address_scope", "neutron.network", "neutron.port",
    "neutron.qos_policy", "neutron.router", "neutron.security_group", "neutron.segment", "neutron.subnet",
    "neutron.subnetpool", "nova.flavor", "nova.host", "nova.keypair", "nova.network", "nova.server",
    "octavia.availabilityzone", "octavia.availabilityzoneprofile", "octavia.flavor", "octavia.flavorprofile",
    "octavia.l7policy", "octavia.listener", "octavia.loadbalancer", "octavia.pool",
})
# fmt: on
"""Constraints that only a cloud can check; features add theirs (`add_cloud_constraints`).
Without one (`looked_up`) they accept every value."""

Check = Callable[[object], str | None]
"""Given a value, what is wrong with it; None if nothing is."""

_added: dict[str, Check] = {}
_hint: list[str] = []

Lookup = Callable[[str, object], str]
"""Function from a constraint that only a cloud can check, and a value, to an error text or ""."""

_lookup: ContextVar[Lookup | None] = ContextVar("lookup", default=None)


class RemoteTemplate(Struct, frozen=True):
    """A template for a stack in another region."""

    region: str
    text: str
    ca_cert: str | None
    """The certificates to trust there, as text (PEM)."""
    insecure: bool


Judge = Callable[[RemoteTemplate], str]
"""Function from a template to the reason why its region refuses it, or ""."""

_judge: ContextVar[Judge | None] = ContextVar("judge", default=None)


@contextmanager
def looked_up(lookup: Lookup, judge: Judge | None = None) -> Iterator[None]:
    """Ask a cloud for the objects that templates name, and regions about templates.

    A context of this thread and no argument: the many functions that check a template need not know the services.
    """
    tokens = _lookup.set(lookup), _judge.set(judge)
    try:
        yield
    finally:
        _lookup.reset(tokens[0])
        _judge.reset(tokens[1])


def remote_fault(template: RemoteTemplate) -> str:
    """Return why the region refuses the template, "" if it does not or is not asked."""
    judge = _judge.get()
    return "" if judge is None else judge(template)


def add_constraint(name: str, check: Check) -> None:
    """Register a check by name, for parameters and properties alike."""
    _added[name] = check


def add_cloud_constraints(names: Iterable[str]) -> None:
    """Register constraints that only a cloud can check."""
    for name in names:
        add_constraint(name, partial(_cloud_fault, name))


def hint_at_unknown(text: str) -> None:
    """Add a text to the errors for unknown constraints; "" for none."""
    _hint[:] = [text] if text else []


def _cloud_fault(name: str, value: object) -> str:
    lookup = _lookup.get()
    return lookup(name, value) if lookup is not None else ""


def constraint_fault(name: str, value: object) -> str:
    """Return an error text for a single value under a constraint, or ""."""
    if name in _added:
        text = _added[name](value)
        return f"Error validating value '{value}': {text}" if text else ""
    if name in NAMED:
        return "" if NAMED[name](str(value)) else f'"{value}" does not validate {name}'
    return ". ".join([f'"{value}" does not validate {name} (constraint not found)', *_hint])


add_cloud_constraints(CLOUD)
