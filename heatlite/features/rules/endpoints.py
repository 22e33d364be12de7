"""Endpoints of rules: services of others that judge plans over HTTP.

An endpoint has a deadline and a limit of bytes, and is at a host that the operator lists. Whatever else it does is an
error of its rule.
"""

import http.client
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType

from heatlite.core.clock import Clock
from heatlite.core.errors import Unavailable
from heatlite.core.json import JsonMap, dump
from heatlite.core.runtime.bulkhead import Bulkhead, for_requests
from heatlite.core.wire.base import Body
from heatlite.engine.outbound.egress import RefusedHost, connection, exchange, failure, path_of, remaining
from heatlite.engine.outbound.webhooks import SIGNATURE, TIMESTAMP, signature
from heatlite.features.change_policy.effective import PlacedRule, PlanRule
from heatlite.features.rules.addresses import fault_of, hosts_of
from heatlite.features.rules.feature import RulesSettings

MOST_BYTES: Final = 65_536
"""Bytes of an answer."""
MOST_SECONDS: Final = 20.0
"""Seconds for all endpoints of a plan."""
CALLS: Final = 8
"""Endpoints of a plan that are asked at once."""
AT_ONCE, IN_LINE, IN_LINE_SECONDS = 3, 2, 1.0
"""Requests that ask endpoints at once, of the eight that a process handles; those that may wait, and how long."""

Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500)]


class EndpointVerdict(StrEnum):
    """Judgement of an endpoint."""

    PASS = "pass"
    WARN = "warn"
    APPROVE = "approve"
    DENY = "deny"


class Remark(Body, frozen=True):
    """Finding of an endpoint at a resource."""

    path: Text
    message: Text


class EndpointAnswer(Body, frozen=True):
    """Answer of an endpoint."""

    result: EndpointVerdict
    message: Text | UnsetType = UNSET
    findings: tuple[Remark, ...] = ()


Answers: TypeAlias = Mapping[PlacedRule, EndpointAnswer | str]
"""Answers by rule, or the errors."""


class Endpoints:
    """Asks endpoints. Safe for threads."""

    def __init__(self, settings: RulesSettings, clock: Clock) -> None:
        self._hosts = hosts_of(settings)
        self._secret = settings.rule_secret
        self._clock = clock
        self._turns = Bulkhead(AT_ONCE, IN_LINE, IN_LINE_SECONDS, _busy)

    @property
    def are_open(self) -> bool:
        """True if the operator lists any host. Without, `ask` connects to none."""
        return bool(self._hosts.listed)

    def ask(self, rules: Sequence[PlacedRule], told: JsonMap) -> Answers:
        """Ask the endpoints of some rules about a plan. Call it in no transaction.

        Raises Unavailable while too many requests ask.
        """
        body = dump(told).encode()
        with for_requests(self._turns), ThreadPoolExecutor(min(CALLS, len(rules)), "rules") as calls:
            end = time.monotonic() + MOST_SECONDS
            return dict(zip(rules, calls.map(lambda one: self._ask(one.rule, body, end), rules), strict=True))

    def fault(self, rule: PlanRule) -> str | None:
        """Return why an endpoint is not asked."""
        return fault_of(rule.endpoint, self._hosts)

    def _ask(self, rule: PlanRule, body: bytes, end: float) -> EndpointAnswer | str:
        fault = self.fault(rule)
        if fault is not None:
            return fault
        end = min(end, time.monotonic() + rule.seconds)
        parts = urlsplit(rule.endpoint)
        headers = {
            "Host": parts.netloc,
            "Connection": "close",
            "Content-Type": "application/json",
            "User-Agent": "heatlite",
            TIMESTAMP: str(int(self._clock.now())),
        }
        if self._secret is not None:
            headers[SIGNATURE] = signature(self._secret, body)
        try:
            address = self._hosts.address(parts, end)
            with connection(parts, address, end) as connected:
                answer = exchange(connected, "POST", path_of(parts), headers, MOST_BYTES, body)
            remaining(end)  # what was cut off may look complete
        except RefusedHost as error:
            return str(error)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return printable(failure(error, end, rule.seconds))
        return _read(answer.status, answer.body)


def _read(status: int, body: bytes) -> EndpointAnswer | str:
    if status != HTTPStatus.OK:
        return f"the endpoint answers {status}"
    if len(body) > MOST_BYTES:
        return f"its answer has more than {MOST_BYTES} bytes"
    try:
        return msgspec.json.decode(body, type=EndpointAnswer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return f"its answer has another form: {printable(str(error))}"


def printable(text: str) -> str:
    """Return a text of others in one line, for a terminal."""
    return "".join(one if one.isprintable() else " " for one in text)


def _busy() -> Unavailable:
    return Unavailable(service="The endpoints of rules", reason="too many requests wait for them; try again later")
