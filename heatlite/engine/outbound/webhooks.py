"""Webhooks: events of stacks, delivered by HTTP (Heat's event sinks).

Delivery is in order and at least once. The event rows are the outbox. The engine stores the last delivered event of
each webhook, so nothing is lost when it ends. No operation waits for a delivery or fails because of one.
"""

import hashlib
import hmac
import http.client
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import SplitResult, urlsplit

from msgspec.structs import replace

from heatlite.core.clock import Clock, to_text
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.json import Json, JsonMap, dump
from heatlite.core.redaction.masking import origin
from heatlite.core.runtime.logs import logged
from heatlite.core.runtime.timer import Timer
from heatlite.engine.outbound.egress import EgressHosts, RefusedHost, UnknownHost, connection, deadline, path_of
from heatlite.engine.state.hooks import PRE_DELETE, lifecycle_token, reached_text
from heatlite.engine.state.unit_of_work import stack_event
from heatlite.store.records import EventRecord, StackRecord, WebhookRecord
from heatlite.store.stacks.webhooks import webhook_digest
from heatlite.store.store import Store

log = logging.getLogger(__name__)

POLL_INTERVAL = 1.0
"""Seconds between two polls for due deliveries."""
SENDERS = 16
"""Maximum of concurrent deliveries."""
SENDERS_EACH = 2
"""Limit of them per project and per host, so that a hanging host delays no other."""
DUE_EACH = 8
"""Maximum of webhooks of one project per poll."""
BATCH = 100
"""Maximum of events delivered over one connection."""
CONNECT_TIMEOUT = 3.0
"""Connect timeout in seconds."""
ANSWER_TIMEOUT = 3.0
"""Timeout for the answer to each request, in seconds."""
BATCH_TIMEOUT = 10.0
"""Time limit of a batch in seconds; after half of it no further request begins."""
LEASE = 60.0
"""Lease of a webhook in seconds, longer than a batch takes."""
MAX_RETRY_DELAY = 300.0
"""Maximum pause between two attempts, in seconds."""
MAX_CACHED_HOSTS = 10_000
"""Maximum of webhooks in the cache of hosts."""
DEFAULT_TTL = 86_400.0
"""Seconds until deliveries to a webhook without ``ttl`` are given up."""
SIGNATURE, TIMESTAMP = "X-Heatlite-Signature", "X-Heatlite-Timestamp"
"""Headers of deliveries. The signature covers the body only."""


class DeliveryFailed(Exception):
    """A failed attempt; a retry may succeed."""


class WebhookDelivery:
    """Delivers events to the webhooks of all stacks.

    `installed` are the operator's, for every stack.
    """

    def __init__(
        self, store: Store, clock: Clock, hosts: Sequence[str], installed: Sequence[Json], timer: Timer
    ) -> None:
        self._store = store
        self._clock = clock
        self._hosts = EgressHosts("webhook_hosts", tuple(hosts), allows_public=True)
        self._installed = _by_digest(installed)
        self._senders = ThreadPoolExecutor(SENDERS, "sink")
        self._busy: dict[tuple[str, str], tuple[str, str]] = {}
        """(stack, digest) of each webhook that this engine delivers to → (project, host).

        Keeps the engine from claiming its own delivery after the lease has expired.
        """
        self._hosts_of: dict[str, str] = {}
        """Digest → host."""
        self._start: Callable[[WebhookRecord, float], object]
        """Starts a claimed delivery: in a sender, or in this thread at the end."""
        self._start = lambda record, until: self._senders.submit(self._deliver, record, until)
        self._job = timer.job("sinks", self._claim_due)

    def start(self) -> None:
        """Start polling for due deliveries."""
        self._job.start()

    def wake(self) -> None:
        """Poll now (from any thread)."""
        self._job.wake()

    def stop(self) -> None:
        """Stop after one last attempt at the due deliveries. The next start continues."""
        self._job.stop()
        self._senders.shutdown(wait=True)
        self._start = self._deliver
        self._job.call()

    def _claim_due(self) -> float:
        """Claim due deliveries, as far as threads are free.

        Returns the pause until the next poll.
        """
        for digest in self._installed:
            lacking = self._store.webhooks.stacks_without(digest)
            if lacking:
                with self._store.transaction():
                    self._store.webhooks.add_global(digest, lacking)
        now = self._clock.now()
        full = {project for project, count in self._busy_senders(0).items() if count >= SENDERS_EACH}
        for record in self._store.webhooks.due(now, DUE_EACH, full):
            if len(self._busy) == SENDERS:
                break
            key = record.stack_id, record.digest
            if key in self._busy or self._busy_senders(0)[record.project] >= SENDERS_EACH:
                continue
            host = self._host(record)
            if host and self._busy_senders(1)[host] >= SENDERS_EACH:
                continue
            until = now + LEASE
            with self._store.transaction():
                mine = self._store.webhooks.claim(record, now, until)
            if mine:
                self._busy[key] = record.project, host
                self._start(record, until)
        return POLL_INTERVAL

    def _busy_senders(self, what: int) -> Counter[str]:
        """Count the senders at work for each project (0), or host (1)."""
        return Counter(busy[what] for busy in [*self._busy.values()])

    def _host(self, record: WebhookRecord) -> str:
        """Return host and port of a webhook; "" if its stack no longer has it."""
        known = self._hosts_of.get(record.digest)
        if known is None:
            stack = self._store.stacks.get(record.stack_id)
            sink = None if stack is None else self._sinks_of(stack).get(record.digest)
            if sink is None:
                return ""
            if len(self._hosts_of) >= MAX_CACHED_HOSTS:
                self._hosts_of.clear()
            known = self._hosts_of[record.digest] = origin(str(sink["target"]))
        return known

    # -- delivery --------------------------------------------------------------------------

    def _deliver(self, record: WebhookRecord, until: float) -> None:
        try:
            with logged(log, "stack %s: cannot deliver events to a webhook", record.stack_id):
                self._deliver_batch(record, until)
        except DatabaseUnavailable as error:
            log.warning("stack %s: events may be delivered twice to a webhook: %s", record.stack_id, error)
        finally:
            del self._busy[record.stack_id, record.digest]
            self._job.wake()

    def _deliver_batch(self, record: WebhookRecord, until: float) -> None:
        stack = self._store.stacks.get(record.stack_id)
        sink = None if stack is None else self._sinks_of(stack).get(record.digest)
        if stack is None or sink is None:
            self._remove(record, until)
            return
        events = self._store.events.after(stack.id, record.position, BATCH)
        messages = [(event, self._message(stack, event)) for event in events]
        delivered, failure = self._send(sink, record.digest, messages)
        if delivered:
            position = delivered[-1].id
            record = replace(record, position=position, failures=0, failing_since=None, given_up_at=None, retry_at=0)
        if failure is None:
            with self._store.transaction():
                self._store.webhooks.save(record, until)
            return
        now = self._clock.now()
        since = now if record.failing_since is None else record.failing_since
        ttl = sink.get("ttl")
        if isinstance(failure, DeliveryFailed) and now - since < (ttl if isinstance(ttl, int) else DEFAULT_TTL):
            pause = min(2.0**record.failures, MAX_RETRY_DELAY)
            record = replace(record, failures=record.failures + 1, failing_since=since, retry_at=now + pause)
            with self._store.transaction():
                self._store.webhooks.save(record, until)
        else:
            record = replace(record, failures=0, failing_since=None, retry_at=0, given_up_at=now)
            self._give_up(record, until, sink, failure)

    def _remove(self, record: WebhookRecord, until: float) -> None:
        """Remove a webhook that its stack lacks, unless an update has it again."""
        with self._store.transaction():
            stack = self._store.stacks.lock(record.stack_id)
            if stack is None or record.digest not in self._sinks_of(stack):
                self._store.webhooks.remove(record)
            else:
                self._store.webhooks.save(record, until)

    def _sinks_of(self, stack: StackRecord) -> Mapping[str, JsonMap]:
        own = stack.environment.get("event_sinks")
        return {**self._installed, **_by_digest(own if isinstance(own, list) else ())}

    def _give_up(self, record: WebhookRecord, until: float, sink: JsonMap, failure: Exception) -> None:
        """Stop deliveries to a webhook until the stack's next update, with an event."""
        text = f"Event sink {origin(str(sink['target']))} was given up: {failure}"
        log.warning("stack %s: %s", record.stack_id, text)
        with self._store.transaction():
            stack = self._store.stacks.lock(record.stack_id)
            if stack is not None and record.digest not in self._installed:
                noted = replace(stack, status_reason=text)
                self._store.events.append_many([stack_event(noted, self._clock.now())])
            self._store.webhooks.save(record, until)

    def _message(self, stack: StackRecord, event: EventRecord) -> JsonMap:
        """Return Heat's form of an event, with the lifecycle token of a waiting resource.

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
        end = time.monotonic() + BATCH_TIMEOUT
        delivered: list[EventRecord] = []
        try:
            parts = urlsplit(str(sink["target"]))
            address = self._hosts.address(parts, time.monotonic() + CONNECT_TIMEOUT)
            with connection(parts, address, end, reach=CONNECT_TIMEOUT) as connected:
                for event, message in messages:
                    began = time.monotonic()
                    try:
                        with deadline(connected, ANSWER_TIMEOUT):
                            self._post(connected, parts, sink, f"{digest[:16]}-{event.id}", message)
                    except (OSError, http.client.HTTPException):
                        if time.monotonic() - began >= ANSWER_TIMEOUT:
                            raise DeliveryFailed(f"it has not answered within {ANSWER_TIMEOUT:g} s") from None
                        raise
                    delivered.append(event)
                    if connected.sock is None or time.monotonic() > end - BATCH_TIMEOUT / 2:
                        break  # the next batch gets a new connection
        except UnknownHost as error:
            return delivered, DeliveryFailed(str(error))
        except (DeliveryFailed, RefusedHost) as error:
            return delivered, error
        except (OSError, http.client.HTTPException, ValueError) as error:
            return delivered, DeliveryFailed(str(error) or type(error).__name__)
        return delivered, None

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
            TIMESTAMP: str(int(self._clock.now())),
        }
        secret = sink.get("secret")
        if isinstance(secret, str):
            headers[SIGNATURE] = signature(secret, body)
        connected.request("POST", path_of(parts), body, headers)
        with connected.getresponse() as response:
            response.read(65_536)
            if not 200 <= response.status < 300:
                raise DeliveryFailed(f"the answer is {response.status}")
            if response.length:
                connected.close()  # the rest of the answer is not needed


def signature(secret: str, body: bytes) -> str:
    """Return the value of the header by which a receiver knows who sent a body."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


def _by_digest(sinks: Sequence[Json]) -> dict[str, JsonMap]:
    """Return the webhooks by their digest."""
    found = {webhook_digest(sink): sink for sink in sinks}
    return {digest: dict(sink) for digest, sink in found.items() if digest is not None and isinstance(sink, Mapping)}
