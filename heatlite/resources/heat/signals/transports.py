"""Transports of signals to a handle of a wait condition."""

from collections.abc import Iterator, Mapping
from typing import Final

from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Schema, Signalled
from heatlite.plugin.signing import NATIVE
from heatlite.resources.heat.signals.queues import Queue, agents_cloud
from heatlite.resources.heat.signals.temp_urls import (
    SIGNAL,
    home_cloud,
    open_for_signals,
    remove,
    signals_in,
    storable,
    temp_url,
)

SUCCESS, FAILURE = "SUCCESS", "FAILURE"

NO_SIGNAL = "NO_SIGNAL"
"""A transport, and the mailbox key of a handle that has it. Its value is null; all others are maps."""
TEMP_URL, ZAQAR = "TEMP_URL_SIGNAL", "ZAQAR_SIGNAL"
"""Transports by services that have to be polled."""
WITH_ACCOUNT = frozenset({"HEAT_SIGNAL", ZAQAR})
"""Transports for which a machine has an account."""

OBJECT, QUEUE = "object", "queue"
"""Keys of a handle's `data`: temporary URL of the object, and name of the queue, for its signals."""


class Transport:
    """Base of the transports: machines send signals to this server."""

    is_polled = False
    """True if the signals are in another service, from which `collect` brings them."""

    def __init__(self, handle: Signalled[Schema]) -> None:
        self.handle = handle

    def open(self) -> None:
        """Make the object or queue for signals. Raises CloudError."""

    def remove(self) -> bool:
        """Remove what `open` has made. False if the call must be repeated.

        Raises CloudError.
        """
        return True

    def collect(self, known: Mapping[str, JsonMap]) -> Iterator[JsonMap]:
        """Yield new signals of another service. Raises CloudError.

        `known` are the stored ones by id.
        """
        yield from ()

    def given(self) -> JsonMap:
        """Return what a machine needs to send a signal."""
        return {}

    def _credentials(self) -> JsonMap:
        """Return the account with which Keystone issues a token.

        With that a signal needs no signature.
        """
        account = self.handle.account
        if account is None:
            return {}
        return {
            "auth_url": account.auth_url,
            "username": account.username,
            "user_id": account.user_id,
            "password": account.password,
            "project_id": account.project_id,
            "region_name": account.region,
        }


class NoSignal(Transport):
    """No transport: no signal is awaited."""

    def open(self) -> None:
        self.handle.facts.services.mailbox.put(self.handle.mailbox_address, NO_SIGNAL, None)


class TokenSignal(Transport):
    """A POST with the token of the handle."""

    def given(self) -> JsonMap:
        return {"alarm_url": self.handle.url("signal"), "token": self.handle.token}


class CfnSignal(Transport):
    """A POST to a pre-signed URL in CloudFormation's format."""

    def given(self) -> JsonMap:
        return {"alarm_url": self.handle.signed_url("signal")}


class HeatSignal(Transport):
    """A POST to a pre-signed URL of the orchestration API."""

    def given(self) -> JsonMap:
        return {"alarm_url": self.handle.signed_url(NATIVE), **self._credentials()}


class TempUrlSignal(Transport):
    """A PUT to an object of the object store."""

    is_polled = True

    def open(self) -> None:
        name, key = self.handle.physical_name, self.handle.secret_access_key
        store = open_for_signals(home_cloud(self.handle.facts), name, key)
        self.handle.data[OBJECT] = temp_url(store, f"{name}/{SIGNAL}", key)

    def remove(self) -> bool:
        is_open = OBJECT in self.handle.data
        return not is_open or remove(home_cloud(self.handle.facts), self.handle.physical_name)

    def collect(self, known: Mapping[str, JsonMap]) -> Iterator[JsonMap]:
        for identifier, signal in signals_in(home_cloud(self.handle.facts), self.handle.physical_name).items():
            now = known.get(identifier, {})
            if (now.get("status"), now.get("data")) != (signal.get("status", SUCCESS), signal.get("data")):
                yield {"id": identifier, **signal}

    def given(self) -> JsonMap:
        return {"alarm_url": self.handle.data.get(OBJECT)}


class ZaqarSignal(Transport):
    """A message in a queue of the messaging service."""

    is_polled = True

    def _queue(self) -> Queue:
        return Queue(agents_cloud(self.handle, ZAQAR), str(self.handle.data[QUEUE]))

    def open(self) -> None:
        self.handle.data.setdefault(QUEUE, new_id())
        self._queue().open()

    def remove(self) -> bool:
        if QUEUE in self.handle.data:
            self._queue().remove()
        return True

    def collect(self, known: Mapping[str, JsonMap]) -> Iterator[JsonMap]:
        for message_id, body in self._queue().messages():
            given: Json
            try:
                given = storable(body)
            except ValueError as error:
                given = {"status": FAILURE, "reason": f"Signal {message_id} cannot be kept: {error}"}
            signal = given if isinstance(given, dict) else {"data": given}
            yield {"id": message_id, **signal}

    def given(self) -> JsonMap:
        return {**self._credentials(), "queue_id": self.handle.data.get(QUEUE)}


TRANSPORTS: Final[Mapping[str, type[Transport]]] = {
    "CFN_SIGNAL": CfnSignal,
    TEMP_URL: TempUrlSignal,
    "HEAT_SIGNAL": HeatSignal,
    NO_SIGNAL: NoSignal,
    ZAQAR: ZaqarSignal,
    "TOKEN_SIGNAL": TokenSignal,
}
"""Transports by their names in templates."""
