"""Wait conditions and handles: a stack waits for signals, mostly of machines."""

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TypeVar, cast

from heatlite.core.errors import HeatliteError, InvalidValue, RequestLimitExceeded, Unavailable
from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap, as_map, dump, heat_text
from heatlite.plugin import Change, Resource, Schema, Signalled, SupportStatus, prop
from heatlite.plugin.signing import NATIVE, address_of
from heatlite.resources.heat.signals.queues import Queue, agents_cloud
from heatlite.resources.heat.signals.temp_urls import (
    AGAIN,
    SIGNAL,
    home_cloud,
    open_for_signals,
    remove,
    signals_in,
    signature_of,
    storable,
    temp_url,
)

SUCCESS, FAILURE = "SUCCESS", "FAILURE"

NO_SIGNAL = "NO_SIGNAL"
"""A transport, and the mailbox key of a handle that has it. Its value is null; all others are maps."""

SIGNALS = "signals"
"""Key of a recorded handle's `resource_data`: its signals by id, as in the mailbox."""

OBJECT, QUEUE = "object", "queue"
"""Keys of a handle's `data`: temporary URL of the object, and name of the queue, for its signals."""

MAX_ID = 255
"""Maximum characters of a signal's id."""
MAX_SIGNALS = 4000
MAX_STORED = 1024 * 1024
"""Limits of the stored signals of one handle: their number, and their total characters."""

TEMP_URL, ZAQAR = "TEMP_URL_SIGNAL", "ZAQAR_SIGNAL"
"""Transports by services that have to be polled."""
WITH_ACCOUNT = frozenset({"HEAT_SIGNAL", ZAQAR})
"""Transports for which a machine has an account."""


class WaitConditionFailure(HeatliteError):
    """A signal has reported a failure."""


class WaitConditionTimeout(HeatliteError):
    """Too few signals have arrived in time."""


# -- handles -----------------------------------------------------------------------------------------

HandleSchema = TypeVar("HandleSchema", bound=Schema, covariant=True)


class Handle(Signalled[HandleSchema]):
    """Base of the handles.

    The mailbox holds signals by id: ``{status, reason, data}``.

    The engine rejects signals to suspended resources, so handles need not check.
    """

    quick = True

    def handle_create(self) -> Json:
        self.draw_key()
        self.physical_id = self.physical_name
        return None

    def handle_adopt(self) -> None:
        """Keep the recorded signals.

        The id in the record may be that of another server, by which no condition here finds the handle.
        """
        super().handle_adopt()
        self.physical_id = self.physical_name
        for identifier, content in received(as_map(self.data.get(SIGNALS))).items():
            self.facts.services.mailbox.put(self.mailbox_address, identifier, content)
        self.data.pop(SIGNALS, None)  # a repetition after a failure needs them all

    def exported(self) -> JsonMap:
        found = self.received()
        return {SIGNALS: found} if found else {}

    def check_delete_complete(self, token: Json) -> bool | float:
        return self._cleared()

    def _cleared(self) -> bool:
        """Delete the signals in the mailbox. False if the call must be repeated."""
        try:
            self.facts.services.mailbox.clear(self.mailbox_address)
        except Unavailable:
            return False
        return True

    @property
    def is_polled(self) -> bool:
        """True if the signals are in another service, from which `collect` brings them."""
        return False

    def collect(self) -> None:
        """Put new signals of another service into the mailbox. Raises CloudError."""

    def forget_signals(self) -> bool:
        """Delete all signals, for the next condition.

        False if the call must be repeated.
        """
        return self._cleared()

    def handle_suspend(self) -> Json:
        return None

    def handle_resume(self) -> Json:
        return None

    def received(self) -> dict[str, JsonMap]:
        """Return the signals by their ids."""
        return received(self.facts.services.mailbox.read(self.mailbox_address))

    def keep(self, identifier: str, status: Json, reason: Json, data: Json) -> str:
        """Store a signal and replace an earlier one with its id.

        Return the text for the event.
        """
        if status not in (SUCCESS, FAILURE) or not isinstance(reason, str):
            raise InvalidValue(f"The status of a signal is {SUCCESS} or {FAILURE}, its reason is text.")
        content = {"status": status, "reason": reason, "data": data}
        mailbox = self.facts.services.mailbox
        count, stored = mailbox.size(self.mailbox_address, besides=identifier)
        if count >= MAX_SIGNALS or stored + len(dump(content)) > MAX_STORED:
            raise RequestLimitExceeded(
                f"The handle {self.name} has {count} signals of {stored} characters; it keeps {MAX_SIGNALS} signals of"
                f" {MAX_STORED} characters in all. A signal with an id of before takes the place of that one."
            )
        mailbox.put(self.mailbox_address, identifier, content)
        return f"status:{status} reason:{reason}"


def received(mail: Mapping[str, Json]) -> dict[str, JsonMap]:
    """Return the signals in a handle's mailbox."""
    return {key: cast(JsonMap, content) for key, content in mail.items() if isinstance(content, dict)}


def identified(value: Json) -> str:
    """Return the id in a signal. Raises InvalidValue."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidValue("The id of a signal is text or a whole number.")
    if len(str(value)) > MAX_ID:
        raise InvalidValue(f"The id of a signal has at most {MAX_ID} characters.")
    return str(value)


class WaitConditionHandleProps(Schema):
    signal_transport: str = prop(
        "TOKEN_SIGNAL",
        one_of=("CFN_SIGNAL", TEMP_URL, "HEAT_SIGNAL", NO_SIGNAL, ZAQAR, "TOKEN_SIGNAL"),
        doc="The transport of signals: a token, a pre-signed URL in the format of CloudFormation or of heatlite, the "
        "temporary URL of an object in the object store, a queue of Zaqar, or none: then no signal is awaited.",
    )


class WaitConditionHandle(Handle[WaitConditionHandleProps], type="OS::Heat::WaitConditionHandle"):
    """Receives the signals that an OS::Heat::WaitCondition waits for.

    A signal is a map with the optional keys status (SUCCESS or FAILURE), reason, data and id. A signal with the id of
    an earlier one replaces that. The attribute curl_cli has a command that sends a signal.
    """

    support_status = SupportStatus(version="2014.2")

    def handle_create(self) -> Json:
        if self.props.signal_transport == NO_SIGNAL:
            self.facts.services.mailbox.put(self.mailbox_address, NO_SIGNAL, None)
        made = super().handle_create()
        self._open()
        return made

    def handle_adopt(self) -> None:
        if self.props.signal_transport == NO_SIGNAL:
            self.facts.services.mailbox.put(self.mailbox_address, NO_SIGNAL, None)
        super().handle_adopt()
        self._open()

    def forget_signals(self) -> bool:
        if self._is(NO_SIGNAL):
            return True
        if not self._remove() or not self._cleared():
            return False
        self._open()
        return True

    def check_delete_complete(self, token: Json) -> bool | float:
        return self._cleared() if self._remove() else AGAIN

    # -- signals in other services -----------------------------------------------------------------

    @property
    def is_polled(self) -> bool:
        return self.props.signal_transport in (TEMP_URL, ZAQAR)

    @property
    def is_quick(self) -> bool:
        return not self.is_polled

    def _queue(self) -> Queue:
        return Queue(agents_cloud(self, ZAQAR), str(self.data[QUEUE]))

    def _open(self) -> None:
        """Make the container or the queue for signals."""
        if self._is(TEMP_URL):
            key = self.secret_access_key
            store = open_for_signals(home_cloud(self.facts), self.physical_name, key)
            self.data[OBJECT] = temp_url(store, f"{self.physical_name}/{SIGNAL}", key)
        elif self._is(ZAQAR):
            self.data.setdefault(QUEUE, new_id())
            self._queue().open()

    def _remove(self) -> bool:
        """Remove the container or the queue. False if the call must be repeated."""
        if OBJECT in self.data:
            return remove(home_cloud(self.facts), self.physical_name)
        if QUEUE in self.data:
            self._queue().remove()
        return True

    def collect(self) -> None:
        if self._is(TEMP_URL):
            known = self.received()
            for identifier, signal in signals_in(home_cloud(self.facts), self.physical_name).items():
                now = known.get(identifier, {})
                if (now.get("status"), now.get("data")) != (signal.get("status", SUCCESS), signal.get("data")):
                    self._take({"id": identifier, **signal})
        elif self._is(ZAQAR):
            for message_id, body in self._queue().messages():
                try:
                    given = storable(body)
                except ValueError as error:
                    given = {"status": FAILURE, "reason": f"Signal {message_id} cannot be kept: {error}"}
                signal = given if isinstance(given, dict) else {"data": given}
                self._take({"id": message_id, **signal})

    def _take(self, signal: JsonMap) -> None:
        """Store a signal; a failure in place of one that is not valid."""
        try:
            self.handle_signal(signal)
        except InvalidValue as error:
            self.keep(str(signal["id"])[:MAX_ID], FAILURE, str(error), None)

    def handle_signal(self, details: JsonMap | None) -> str:
        count, _ = self.facts.services.mailbox.size(self.mailbox_address, besides=NO_SIGNAL)
        given = {"id": count + 1, **(details or {})}
        unknown = given.keys() - {"id", "status", "reason", "data"}
        if unknown:
            raise InvalidValue(f"A signal has no {', '.join(sorted(unknown))}; it has status, reason, data and id.")
        identifier = identified(given["id"])
        reason = given.get("reason", f"Signal {identifier} received")
        return self.keep(identifier, given.get("status", SUCCESS), reason, given.get("data"))

    def simple_signal(self, success: bool, identifier: str) -> JsonMap | None:
        return {"status": SUCCESS if success else FAILURE, "id": identifier}

    def live_metadata(self) -> JsonMap:
        return {**self.metadata, **self.received()}

    def wants_account(self) -> bool:
        return self.facts.properties.get("signal_transport") in WITH_ACCOUNT

    def _credentials(self) -> JsonMap:
        """Return the account with which Keystone issues a token.

        With that a signal needs no signature.
        """
        account = self.account
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

    def secrets(self) -> list[Json]:
        account = self.account
        url = self.data.get(OBJECT)
        found = [*super().secrets(), None if account is None else account.password]
        return [*found, url, signature_of(url)] if isinstance(url, str) else found

    def _is(self, transport: str) -> bool:
        return self.props.signal_transport == transport

    def attr_token(self) -> str | None:
        """The value for the header X-Auth-Token.

        Null for transports other than TOKEN_SIGNAL.
        """
        return self.token if self._is("TOKEN_SIGNAL") else None

    def attr_endpoint(self) -> str | None:
        """The URL for signals with the token; null for transports other than TOKEN_SIGNAL."""
        return self.url("signal") if self._is("TOKEN_SIGNAL") else None

    def attr_curl_cli(self) -> str | None:
        """A command line that signals success.

        Null for transports other than TOKEN_SIGNAL.

        Add --data-binary '{"status": "FAILURE", "reason": "…"}' to send more.
        """
        if not self._is("TOKEN_SIGNAL"):
            return None
        kind = "-H 'Content-Type: application/json' -H 'Accept: application/json'"
        return f"curl -i -X POST -H 'X-Auth-Token: {self.token}' {kind} {self.url('signal')}"

    def attr_signal(self) -> str:
        """JSON text with the data for a signal: its URL or queue, and credentials."""
        match self.props.signal_transport:
            case "TOKEN_SIGNAL":
                return dump({"alarm_url": self.url("signal"), "token": self.token})
            case "CFN_SIGNAL":
                return dump({"alarm_url": self.signed_url("signal")})
            case "HEAT_SIGNAL":
                return dump({"alarm_url": self.signed_url(NATIVE), **self._credentials()})
            case "TEMP_URL_SIGNAL":
                return dump({"alarm_url": self.data.get(OBJECT)})
            case "ZAQAR_SIGNAL":
                return dump({**self._credentials(), "queue_id": self.data.get(QUEUE)})
            case _:
                return dump({})


class CfnHandle(Handle[Schema], type="AWS::CloudFormation::WaitConditionHandle"):
    """Receives the signals that an AWS::CloudFormation::WaitCondition waits for.

    Ref returns a pre-signed URL. A signal is a PUT to it with Status (SUCCESS or FAILURE), Reason, Data and UniqueId,
    all of them.
    """

    support_status = SupportStatus(version="2014.1")

    def handle_create(self) -> Json:
        super().handle_create()
        # Stored, so that a new address of the server does not change the resources that refer to it.
        self.data["url"] = self.signed_url("waitcondition")
        return None

    def handle_adopt(self) -> None:
        super().handle_adopt()
        self.data["url"] = self.signed_url("waitcondition")  # a recorded one is of another stack

    def handle_signal(self, details: JsonMap | None) -> str:
        given = details or {}
        if given.keys() != {"Status", "Reason", "Data", "UniqueId"}:
            raise InvalidValue("A signal has Status, Reason, Data and UniqueId, all of them and nothing else.")
        return self.keep(identified(given["UniqueId"]), given["Status"], given["Reason"], given["Data"])

    def simple_signal(self, success: bool, identifier: str) -> JsonMap | None:
        status = SUCCESS if success else FAILURE
        return {"Status": status, "Reason": f"Signal {identifier} received", "Data": "", "UniqueId": identifier}

    def live_metadata(self) -> JsonMap:
        shown = {
            key: {name.capitalize(): value for name, value in content.items()}
            for key, content in self.received().items()
        }
        return {**self.metadata, **shown}

    def renew_key(self) -> None:
        super().renew_key()
        if "url" in self.data:
            self.data["url"] = self.signed_url("waitcondition")

    def reference(self) -> Json:
        return self.data.get("url", self.name)


class UpdateHandle(CfnHandle, type="OS::Heat::UpdateWaitConditionHandle"):
    """An AWS::CloudFormation::WaitConditionHandle that each update replaces.

    New signals are needed after each update.
    """

    anew_with_update = True


# -- conditions --------------------------------------------------------------------------------------


class WaitConditionProps(Schema):
    handle: str = prop(doc="The handle that receives the signals, by get_resource.")
    timeout: float = prop(between=(1, 43200), doc="Maximum seconds to wait.")
    count: int = prop(1, between=(1, None), update=True, doc="The number of signals to wait for.")


class CfnWaitConditionProps(Schema):
    handle: str = prop(alias="Handle", doc="The handle that receives the signals, by Ref.")
    timeout: int = prop(alias="Timeout", between=(1, 43200), doc="Maximum seconds to wait.")
    count: int = prop(1, alias="Count", between=(1, None), update=True, doc="The number of signals to wait for.")


ConditionSchema = TypeVar("ConditionSchema", bound=WaitConditionProps | CfnWaitConditionProps, covariant=True)


class Condition(Resource[ConditionSchema]):
    """Base of the wait conditions."""

    quick = True

    @cached_property
    def _handle(self) -> Handle[Schema]:
        """The handle, from any stack of the tree: a nested stack may be given one.

        Raises InvalidValue.
        """
        address = address_of(self.props.handle)
        found = self.facts.relative(address)
        if not isinstance(found, Handle):
            raise InvalidValue(f"{address} is no wait condition handle of this stack, or of its tree of stacks.")
        return found

    def _mail(self) -> dict[str, Json]:
        return self.facts.services.mailbox.read(self._handle.mailbox_address)

    def _wait(self) -> Json:
        return {"until": self._time() + self.props.timeout}

    def _time(self) -> float:
        """Return the time in seconds without suspensions, so that none causes a timeout."""
        return self.facts.now() - self.facts.suspended()

    def check_create_complete(self, token: Json) -> bool | float:
        if not isinstance(token, dict):
            return True
        if self._handle.is_polled:
            self._handle.collect()
        try:
            mail = self._mail()
        except Unavailable:
            return False
        if NO_SIGNAL in mail and mail[NO_SIGNAL] is None:
            return True
        signals = received(mail).values()
        failures = [str(signal["reason"]) for signal in signals if signal["status"] != SUCCESS]
        if failures:
            raise WaitConditionFailure(";".join(failures))
        if len(signals) >= self.props.count:
            return True
        left = float(token["until"]) - self._time()
        if left <= 0:
            reasons = ";".join(str(signal["reason"]) for signal in signals)
            text = f"{len(signals)} of {self.props.count} received"
            raise WaitConditionTimeout(f"{text} - {reasons}" if reasons else text)
        return min(left, AGAIN) if self._handle.is_polled else left

    check_update_complete = check_create_complete

    @property
    def is_quick(self) -> bool:
        with suppress(InvalidValue):
            return not self._handle.is_polled
        return True

    def awaited_address(self) -> str | None:
        return self._handle.mailbox_address

    def handle_create(self) -> Json:
        self.physical_id = self.physical_name
        return self._wait()

    def handle_update(self, change: Change) -> Json:
        """Wait for a changed count, with a new timeout; existing signals count."""
        return self._wait() if change.changed else None

    def check_delete_complete(self, token: Json) -> bool | float:
        """Delete the signals of a handle, so that the next condition waits for new ones.

        The handle is in the same stack. That is Heat's behaviour.
        """
        address = address_of(self.props.handle)  # a new key changes the URL of the same handle
        for other in (self.facts.latter(), self.facts.former()):
            if isinstance(other, Condition) and address_of(other.props.handle) == address:
                return True  # the replacement uses the signals; in a rollback what was to be replaced does
        try:
            handle = self._handle
        except InvalidValue:
            return True
        return handle.facts.stack_id != self.facts.stack_id or handle.forget_signals()

    def _data(self) -> str:
        return heat_text({key: signal["data"] for key, signal in received(self._mail()).items()})


class WaitCondition(Condition[WaitConditionProps], type="OS::Heat::WaitCondition"):
    """Waits until its handle has received a number of signals.

    A signal with the status FAILURE fails it at once; so does the timeout.
    """

    support_status = SupportStatus(version="2014.2")

    def attr_data(self) -> str:
        """The data of the signals: a map from id to data, as JSON text."""
        return self._data()


class CfnWaitCondition(Condition[CfnWaitConditionProps], type="AWS::CloudFormation::WaitCondition"):
    """Waits until its handle has received a number of signals.

    A signal with the status FAILURE fails it at once; so does the timeout.
    """

    support_status = SupportStatus(version="2014.1")

    def attr_Data(self) -> str:  # noqa: N802
        """The data of the signals: a map from UniqueId to Data, as JSON text."""
        return self._data()
