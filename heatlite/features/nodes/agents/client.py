"""Requests to agents: signed in both directions, bounded in time and size.

An agent's answer is untrusted input: an invalid one is a fault of that node only (docs/decisions/0015-node-actions.md).
"""

import http.client
import math
import re
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, Final, Literal, TypeAlias, TypeVar
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import replace

from heatlite.agent import signature
from heatlite.core.clock import from_text
from heatlite.core.config import Auth, BadSetting, Settings
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import MAX_DEPTH, AnyMap, JsonMap, dump, is_deeper, parse_finite, without_nul
from heatlite.core.redaction.masking import origin
from heatlite.engine.outbound.egress import EgressHosts, RefusedHost, connection, exchange, path_of
from heatlite.features.nodes.agents.sync import AgentReport, ReportedAction, ReportedStep
from heatlite.features.nodes.feature import NodeSettings
from heatlite.features.nodes.states import NodeActionState
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord

Kind = TypeVar("Kind")

SECONDS = 10.0
"""Time limit of a connection to an agent, in seconds."""
REACH = 3.0
"""Connect timeout in seconds: a machine that is down delays the other nodes of its orchestration."""
MAX_BYTES = 4 * 2**20
"""Maximum size of an answer."""
MAX_LEVELS = MAX_DEPTH + 10
"""Maximum of levels of an answer: those of the body that has asked for an action, and some around its record."""
MAX_PAGES = 4
"""Maximum of pages per poll; the next poll continues."""
MAX_REASON = 500
"""Maximum length of a stored fault, in characters."""
LOOPBACK: Final = ("localhost", "127.0.0.0/8", "::1/128")

ID: Final = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,35}$(?!\n)"
"""Valid ids of node actions."""
Word: TypeAlias = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]+$(?!\n)", max_length=255)]
ShortWord: TypeAlias = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]+$(?!\n)", max_length=64)]
Kinds: TypeAlias = Annotated[tuple[Word, ...], Meta(max_length=1000)]
_State: TypeAlias = Literal["NEW", "RUNNING", "DONE", "FAILED", "CANCELLED"]
_Time: TypeAlias = Annotated[str, Meta(max_length=40)]


class _Record(Struct, frozen=True):
    """An action in an agent's answer."""

    id: Annotated[str, Meta(pattern=ID)]
    kind: Word
    args: AnyMap
    requester: Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)", max_length=255)]
    created_at: _Time
    scheduled_at: _Time | None
    started_at: _Time | None
    finished_at: _Time | None
    state: _State
    progress: AnyMap
    outputs: AnyMap
    error: str


class _Line(Struct, frozen=True):
    """A line of an action's history."""

    time: _Time
    state: _State
    reason: str


class _Action(Struct, frozen=True):
    """An action with its history, newest first."""

    action: _Record
    history: Annotated[list[_Line], Meta(max_length=1000)]


class _Changes(Struct, frozen=True):
    """The answer of an agent that is asked for changes: all of it, or `unchanged`."""

    instance: ShortWord
    revision: Annotated[int, Meta(ge=0, le=2**62)]
    unchanged: bool = False
    more: bool = False
    kinds: Kinds | None = None
    known: Annotated[list[Annotated[str, Meta(max_length=128)]], Meta(max_length=1000)] | None = None
    actions: Annotated[list[_Action], Meta(max_length=1000)] | None = None


class _Refusal(Struct, frozen=True):
    """A refusal by an agent."""

    error: Annotated[str, Meta(max_length=64)]
    message: str


_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class NodeFault(Exception):
    """Fault of a node's agent, as text for operators."""

    def __init__(self, reason: str) -> None:
        super().__init__(_UNPRINTABLE.sub("?", reason)[:MAX_REASON])

    @property
    def brief(self) -> str:
        """The fault without the agent's own words, which may contain secrets."""
        return str(self)


class Declined(NodeFault):
    """The agent has refused the request."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"the agent answers {status} {code}: {message}")
        self.code = code
        self._status = status

    @property
    def is_final(self) -> bool:
        """True if the fault is in the action itself, so that a retry would fail again."""
        return self.code in ("InvalidRequest", "UnknownKind", "TooLarge")

    @property
    def is_known(self) -> bool:
        """True if the agent has, or had, another action with the id, or this one."""
        return self.code == "ActionExists"

    @property
    def brief(self) -> str:
        return str(NodeFault(f"the agent answers {self._status} {self.code}"))


class Line:
    """A connection to one agent."""

    def __init__(self, connected: http.client.HTTPConnection, parts: SplitResult, secret: str) -> None:
        self._connected = connected
        self._parts = parts
        self._secret = secret

    def changes(self, instance: str, revision: int) -> AgentReport:
        """Return the changes since a revision of the agent's database.

        All of another database. Raises NodeFault.
        """
        answer = self._page(instance, revision)
        for _ in range(MAX_PAGES - 1):
            if not answer.more:
                break
            page = self._page(answer.instance, answer.revision)
            if page.known is None or page.revision <= answer.revision:
                break
            answer = replace(page, actions=(*answer.actions, *page.actions))
        return answer

    def _page(self, instance: str, revision: int) -> AgentReport:
        since = urlencode({"instance": instance, "revision": revision})
        return _answer(self._ask("GET", f"/v1/changes?{since}", None))

    def send(self, action: NodeActionRecord, created_at: str) -> None:
        """Send an action to the agent.

        Idempotent for an action that it already has. Raises NodeFault, Declined.
        """
        body: JsonMap = {
            "id": action.id,
            "kind": action.kind,
            "args": action.args,
            "created_at": created_at,
            "requester": f"{action.requester.value}: {action.requested_by}"[:255],
        }
        self._ask("POST", "/v1/actions", body)

    def cancel(self, action_id: str) -> bool:
        """Have the agent end an action; False if the agent does not know it.

        Raises NodeFault, Declined.
        """
        try:
            self._ask("POST", f"/v1/actions/{quote(action_id, safe='')}/cancel", {})
        except Declined as error:
            if error.code != "UnknownAction":
                raise
            return False
        return True

    def _ask(self, method: str, path: str, body: JsonMap | None) -> JsonMap:
        path = path_of(self._parts).rstrip("/") + path
        raw, nonce = b"" if body is None else dump(body).encode(), signature.new_nonce()
        headers = {
            "Host": self._parts.netloc,
            "User-Agent": "heatlite",
            signature.NONCE: nonce,
            signature.SIGNATURE: signature.of_request(self._secret, method, path, nonce, raw),
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        response = exchange(self._connected, method, path, headers, MAX_BYTES, raw or None)
        status, answer, proof = response.status, response.body, response.headers[signature.SIGNATURE]
        if len(answer) > MAX_BYTES:
            raise NodeFault(f"its answer has more than {MAX_BYTES} bytes")
        if status == http.HTTPStatus.UNAUTHORIZED:
            raise NodeFault("the agent does not know the server's signature (401): it must register again")
        if not signature.is_right(proof, signature.of_answer(self._secret, status, nonce, answer)):
            raise NodeFault(f"its answer ({status}) is not signed by the agent that has registered")
        value = _read(answer)
        if status >= 300:
            refusal = _as(_Refusal, value)
            raise Declined(status, refusal.error, refusal.message)
        return value


class Agents:
    """Opens connections to agents. Any thread may use it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.of(NodeSettings)
        at_home = LOOPBACK if settings.auth is Auth.NONE else ()
        self._hosts = EgressHosts("node_hosts", (*at_home, *self._settings.node_hosts))

    def check(self) -> None:
        """Raise BadSetting if the server's key or the trusted authority cannot be read."""
        if self._settings.node_certificate or self._settings.node_authority:
            _ = self._trust

    def vet(self, url: str) -> str:
        """Return the URL of an agent in normal form.

        Raises HTTPBadRequest for a URL that egress rules refuse.
        """
        try:
            parts = urlsplit(url)
            self._hosts.address(parts, time.monotonic() + SECONDS)
        except (RefusedHost, ValueError) as error:
            raise HTTPBadRequest(f"url: the server does not connect to {origin(url)}: {error}.") from None
        except TimeoutError:
            raise HTTPBadRequest(f"url: the host name of {origin(url)} could not be resolved in time.") from None
        if parts.query or parts.fragment:
            raise HTTPBadRequest("url: must be the agent's address, without a query and a fragment.")
        return url.rstrip("/")

    @contextmanager
    def line(self, node: NodeRecord) -> Iterator[Line]:
        """Open a connection to a node's agent, for `SECONDS` at most.

        All failures inside become NodeFault.
        """
        end = time.monotonic() + SECONDS
        try:
            parts = urlsplit(node.url)
            trust = self._trust if parts.scheme == "https" else None
            with connection(parts, self._hosts.address(parts, end), end, trust, REACH) as connected:
                yield Line(connected, parts, node.secret)
        except RefusedHost as error:
            raise NodeFault(f"the server does not connect to it: {error}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            if time.monotonic() >= end:
                raise NodeFault(f"it has not answered within {SECONDS:g} s") from None
            if isinstance(error, TimeoutError):
                raise NodeFault(f"its machine has not taken a connection within {REACH:g} s") from None
            if isinstance(error, ConnectionRefusedError):
                raise NodeFault(f"nothing listens at {origin(node.url)}: is the agent running there?") from None
            raise NodeFault(getattr(error, "strerror", None) or str(error) or type(error).__name__) from None

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        settings = self._settings
        try:
            context = ssl.create_default_context(cafile=settings.node_authority or None)
            if settings.node_certificate:
                context.load_cert_chain(settings.node_certificate, settings.node_key or None)
        except OSError as error:  # SSLError, too
            raise BadSetting(f"node_certificate, node_key, node_authority: cannot be used: {error}.") from None
        return context


def _read(answer: bytes) -> JsonMap:
    """Return the answer as storable JSON. Raises NodeFault."""
    try:
        # Databases cannot store NUL, and the output of scripts may have some.
        value = parse_finite(without_nul(answer.decode(), "\\ufffd"))
        dump(value).encode()  # half of a surrogate pair
    except (ValueError, RecursionError):
        raise NodeFault("its answer is no JSON that could be kept") from None
    if not isinstance(value, dict):
        raise NodeFault("its answer is no JSON object")
    if is_deeper(value, MAX_LEVELS):
        raise NodeFault(f"its answer is nested deeper than {MAX_LEVELS} levels")
    return value


def _as(kind: type[Kind], value: JsonMap) -> Kind:
    """Return a part of an answer as a struct.

    Raises NodeFault, which does not repeat what the agent says.
    """
    try:
        return convert(value, kind)
    except ValidationError as error:
        where = str(error).rpartition(" - at ")[2]
        raise NodeFault(f"its answer is not in the form that was agreed on: {where}") from None


def _answer(value: JsonMap) -> AgentReport:
    """Return an answer as a record. Raises NodeFault for an invalid one."""
    found = _as(_Changes, value)
    if found.unchanged:
        return AgentReport(found.instance, found.revision)
    if found.kinds is None or found.known is None or found.actions is None:
        raise NodeFault("its answer is not in the form that was agreed on: kinds, known or actions are missing")
    actions = tuple(map(_reported_action, found.actions))
    return AgentReport(found.instance, found.revision, found.kinds, frozenset(found.known), actions, found.more)


def _reported_action(found: _Action) -> ReportedAction:
    action = found.action
    return ReportedAction(
        id=action.id,
        kind=action.kind,
        args=action.args,
        requester=action.requester,
        created_at=_moment(action.created_at),
        scheduled_at=_perhaps(action.scheduled_at),
        started_at=_perhaps(action.started_at),
        finished_at=_perhaps(action.finished_at),
        state=NodeActionState(action.state),
        progress=action.progress,
        outputs=action.outputs,
        error=action.error,
        history=tuple(
            ReportedStep(
                _moment(line.time), NodeActionState(line.state), line.reason
            ) for line in reversed(found.history)
        ),
    )


def _moment(text: str) -> float:
    try:
        moment = from_text(text)
        if math.isfinite(moment):
            return moment
    except (ValueError, OverflowError):
        pass
    raise NodeFault("its answer has a time that is none")


def _perhaps(text: str | None) -> float | None:
    return None if text is None else _moment(text)
