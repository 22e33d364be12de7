"""Webhooks: events of stacks, delivered by HTTP in order and at least once (Heat's event sinks).

The event rows are the outbox. The engine stores the last delivered event of each webhook, so nothing is lost when it
ends. No operation waits for a delivery or fails because of one.
"""

import hashlib
import hmac
import http.client
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import SplitResult, urlsplit

from heatlite.core.clock import Clock, to_text
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.json import Json, JsonMap, dump
from heatlite.core.masking import origin
from heatlite.engine.outbound.egress import Hosts, Refused, Unknown, connection, deadline, path_of
from heatlite.engine.state.hooks import PRE_DELETE, lifecycle_token, reached_text
from heatlite.engine.state.unit_of_work import stack_event
from heatlite.store.records import EventRecord, StackRecord, WebhookRecord
from heatlite.store.stacks.webhooks import webhook_digest
from heatlite.store.store import Store

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two looks for what is to be told."""
SENDERS = 16
"""Sinks that are told something at once."""
SENDERS_EACH = 2
"""Limit of them per project and per host, so that a hanging host delays no other."""
DUE_EACH = 8
"""Sinks of one project that one look considers."""
BATCH = 100
"""Events that a sink is told over one connection."""
REACH = 3.0
"""Seconds in which a host has to take a connection."""
ANSWER = 3.0
"""Seconds in which it has to answer each request."""
WHOLE = 10.0
"""Seconds that a batch may take; after half of them nothing more is begun."""
LEASE = 60.0
"""Seconds for which a sink is claimed: longer than a batch takes."""
MAX_PAUSE = 300.0
MAX_KNOWN = 10_000
"""Sinks whose hosts are remembered."""
GIVE_UP = 86_400.0
"""Seconds for which a sink that has no ``ttl`` is tried."""


class Failed(Exception):
    """An attempt that may go better another time."""


class Sinks:
    """Delivers events to the webhooks of all stacks.

    `installed` are the operator's, for every stack.
    """

    def __init__(self, store: Store, clock: Clock, hosts: Sequence[str], installed: Sequence[Json]) -> None:
        self._store = store
        self._clock = clock
        self._hosts = Hosts("webhook_hosts", tuple(hosts), anybody=True)
        self._installed = _by_digest(installed)
        self._senders = ThreadPoolExecutor(SENDERS, "sink")
        self._busy: dict[tuple[str, str], tuple[str, str]] = {}
        """(stack, digest) of each webhook that this engine delivers to → (project, host).

        Keeps the engine from claiming its own delivery after the lease has expired.
        """
        self._hosts_of: dict[str, str] = {}
        """Digest → host."""
        self._called = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sinks", daemon=True)

    def start(self) -> None:
        """Begin to look for what is to be told."""
        self._thread.start()

    def wake(self) -> None:
        """Look at once (from any thread)."""
        self._called.set()

    def stop(self) -> None:
        """End after the events that there are and that can be told at once.

        The rest waits for the next start.
        """
        self._stopping.set()
        self._called.set()
        self._thread.join()
        self._senders.shutdown(wait=True)
        self._look_safely(self._tell)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._called.clear()
            self._look_safely(lambda record, until: self._senders.submit(self._tell, record, until))
            self._called.wait(LOOK)
        self._store.close()

    def _look_safely(self, tell: Callable[[WebhookRecord, float], object]) -> None:
        try:
            self._look(tell)
        except DatabaseUnavailable as error:
            log.warning("cannot look for what sinks are to be told: %s", error)
        except Exception:
            # Any failure must leave this thread running, or no event would be delivered any more.
            log.exception("cannot look for what sinks are to be told")

    def _look(self, tell: Callable[[WebhookRecord, float], object]) -> None:
        """Claim due deliveries, as far as threads are free."""
        for digest in self._installed:
            lacking = self._store.webhooks.stacks_without(digest)
            if lacking:
                with self._store.transaction():
                    self._store.webhooks.add_global(digest, lacking)
        now = self._clock.now()
        full = {project for project, count in self._at_work(0).items() if count >= SENDERS_EACH}
        for record in self._store.webhooks.due(now, DUE_EACH, full):
            if len(self._busy) == SENDERS:
                break
            key = record.stack_id, record.digest
            if key in self._busy or self._at_work(0)[record.project] >= SENDERS_EACH:
                continue
            host = self._host(record)
            if host and self._at_work(1)[host] >= SENDERS_EACH:
                continue
            until = now + LEASE
            with self._store.transaction():
                mine = self._store.webhooks.claim(record, now, until)
            if mine:
                self._busy[key] = record.project, host
                tell(record, until)

    def _at_work(self, what: int) -> Counter[str]:
        """Count the senders at work for each project (0), or host (1)."""
        return Counter(busy[what] for busy in [*self._busy.values()])

    def _host(self, record: WebhookRecord) -> str:
        """The host and port of a sink; "" where its stack does not have it any more."""
        known = self._hosts_of.get(record.digest)
        if known is None:
            stack = self._store.stacks.get(record.stack_id)
            sink = None if stack is None else self._sinks_of(stack).get(record.digest)
            if sink is None:
                return ""
            if len(self._hosts_of) >= MAX_KNOWN:
                self._hosts_of.clear()
            known = self._hosts_of[record.digest] = origin(str(sink["target"]))
        return known

    # -- telling one sink --------------------------------------------------------------------------

    def _tell(self, record: WebhookRecord, until: float) -> None:
        try:
            self._tell_stack(record, until)
        except DatabaseUnavailable as error:
            log.warning("stack %s: a sink is told again what it has been told: %s", record.stack_id, error)
        except Exception:
            log.exception("stack %s: cannot tell a sink", record.stack_id)
        finally:
            del self._busy[record.stack_id, record.digest]
            self._called.set()

    def _tell_stack(self, record: WebhookRecord, until: float) -> None:
        stack = self._store.stacks.get(record.stack_id)
        sink = None if stack is None else self._sinks_of(stack).get(record.digest)
        if stack is None or sink is None:
            with self._store.transaction():
                self._store.webhooks.remove(record)
            return
        events = self._store.events.after(stack.id, record.position, BATCH)
        messages = [(event, self._message(stack, event)) for event in events]
        told, failure = self._send(sink, record.digest, messages)
        if told:
            record = replace(record, position=told[-1].id, failures=0, failing_since=None, given_up_at=None, retry_at=0)
        if failure is None:
            with self._store.transaction():
                self._store.webhooks.save(record, until)
            return
        now = self._clock.now()
        since = now if record.failing_since is None else record.failing_since
        ttl = sink.get("ttl")
        if isinstance(failure, Failed) and now - since < (ttl if isinstance(ttl, int) else GIVE_UP):
            pause = min(2.0**record.failures, MAX_PAUSE)
            record = replace(record, failures=record.failures + 1, failing_since=since, retry_at=now + pause)
            with self._store.transaction():
                self._store.webhooks.save(record, until)
        else:
            record = replace(record, failures=0, failing_since=None, retry_at=0, given_up_at=now)
            self._give_up(record, until, sink, failure)

    def _sinks_of(self, stack: StackRecord) -> Mapping[str, JsonMap]:
        own = stack.environment.get("event_sinks")
        return {**self._installed, **_by_digest(own if isinstance(own, list) else ())}

    def _give_up(self, record: WebhookRecord, until: float, sink: JsonMap, failure: Exception) -> None:
        """Until the stack's next update. Its owner finds that among the events."""
        text = f"Event sink {origin(str(sink['target']))} was given up: {failure}"
        log.warning("stack %s: %s", record.stack_id, text)
        with self._store.transaction():
            stack = self._store.stacks.lock(record.stack_id)
            if stack is not None and record.digest not in self._installed:
                noted = replace(stack, status_reason=text)
                self._store.events.append_many([stack_event(noted, self._clock.now())])
            self._store.webhooks.save(record, until)

    def _message(self, stack: StackRecord, event: EventRecord) -> JsonMap:
        """Return Heat's form of an event, with the lifecycle token of a resource that waits before its deletion.

        The token comes from the row, not from the event: a later reader of events must not be able to use it.
        """
        payload: JsonMap = {
            "version": "0.1",
            "stack_id": event.stack_id,
            "resource_name": event.resource_name,
            "resource_type": event.resource_type,
            "physical_resource_id": event.physical_id,
            "resource_action": event.verb,
            "resource_status": event.status,
            "resource_status_reason": event.status_reason,
            "resource_properties": event.properties,
        }
        if event.status_reason == reached_text(PRE_DELETE):
            for row in self._store.resources.by_name(stack.id, [event.resource_name]):
                token = lifecycle_token(row)
                if token is not None and row.physical_id == event.physical_id:
                    payload |= {
                        "lifecycle_action_token": token,
                        "lifecycle_transition_type": "termination",
                        "node_id": row.name,
                        "resource_id": row.physical_id,
                        "stack_name": stack.name,
                    }
        return {
            "timestamp": to_text(event.created_at),
            "version": "0.1",
            "type": "os.heat.event",
            "id": str(event.id),
            "payload": payload,
        }

    def _send(
        self, sink: JsonMap, digest: str, messages: Sequence[tuple[EventRecord, JsonMap]]
    ) -> tuple[Sequence[EventRecord], Exception | None]:
        """Return the accepted events, and the reason why the next one was not."""
        end = time.monotonic() + WHOLE
        told: list[EventRecord] = []
        try:
            parts = urlsplit(str(sink["target"]))
            address = self._hosts.address(parts, time.monotonic() + REACH)
            with connection(parts, address, end, reach=REACH) as connected:
                for event, message in messages:
                    began = time.monotonic()
                    try:
                        with deadline(connected, ANSWER):
                            self._post(connected, parts, sink, f"{digest[:16]}-{event.id}", message)
                    except (OSError, http.client.HTTPException):
                        if time.monotonic() - began >= ANSWER:
                            raise Failed(f"it has not answered within {ANSWER:g} s") from None
                        raise
                    told.append(event)
                    if connected.sock is None or time.monotonic() > end - WHOLE / 2:
                        break  # the rest over another connection
        except Unknown as error:
            return told, Failed(str(error))
        except (Failed, Refused) as error:
            return told, error
        except (OSError, http.client.HTTPException, ValueError) as error:
            return told, Failed(str(error) or type(error).__name__)
        return told, None

    def _post(
        self,
        connected: http.client.HTTPConnection,
        parts: SplitResult,
        sink: JsonMap,
        delivery: str,
        message: JsonMap,
    ) -> None:
        body = dump(message).encode()
        headers = {
            "Host": parts.netloc,
            "Content-Type": "application/json",
            "User-Agent": "heatlite",
            "X-Heatlite-Delivery": delivery,
            "X-Heatlite-Timestamp": str(int(self._clock.now())),
        }
        secret = sink.get("secret")
        if isinstance(secret, str):
            headers["X-Heatlite-Signature"] = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
        connected.request("POST", path_of(parts), body, headers)
        with connected.getresponse() as response:
            response.read(65_536)
            if not 200 <= response.status < 300:
                raise Failed(f"the answer is {response.status}")
            if response.length:
                connected.close()  # the rest of the answer is not needed


def _by_digest(sinks: Sequence[Json]) -> dict[str, JsonMap]:
    """Return the webhooks by their digest."""
    found = {webhook_digest(sink): sink for sink in sinks}
    return {digest: dict(sink) for digest, sink in found.items() if digest is not None and isinstance(sink, Mapping)}
