"""Handles: they receive the signals that wait conditions wait for."""

from collections.abc import Mapping
from typing import TypeVar, cast

from heatlite.core.errors import InvalidValue, RequestLimitExceeded, Unavailable
from heatlite.core.json import Json, JsonMap, as_map, dump
from heatlite.plugin import Schema, Signalled, SupportStatus, prop
from heatlite.resources.heat.signals.temp_urls import AGAIN, signature_of
from heatlite.resources.heat.signals.transports import (
    FAILURE,
    NO_SIGNAL,
    OBJECT,
    SUCCESS,
    TRANSPORTS,
    WITH_ACCOUNT,
    NoSignal,
    TokenSignal,
    Transport,
)

SIGNALS = "signals"
"""Key of a recorded handle's `resource_data`: its signals by id, as in the mailbox."""

MAX_ID = 255
"""Maximum characters of a signal's id."""
MAX_SIGNALS = 4000
MAX_STORED = 1024 * 1024
"""Limits of the stored signals of one handle: their number, and their total characters."""

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
        one_of=tuple(TRANSPORTS),
        doc="The transport of signals: a token, a pre-signed URL in the format of CloudFormation or of heatlite, the "
        "temporary URL of an object in the object store, a queue of Zaqar, or none: then no signal is awaited.",
    )


class WaitConditionHandle(Handle[WaitConditionHandleProps], type="OS::Heat::WaitConditionHandle"):
    """Receives the signals that an OS::Heat::WaitCondition waits for.

    A signal is a map with the optional keys status (SUCCESS or FAILURE), reason, data and id. A signal with the id of
    an earlier one replaces that. The attribute curl_cli has a command that sends a signal.
    """

    support_status = SupportStatus(version="2014.2")

    @property
    def transport(self) -> Transport:
        """The transport of its signals."""
        return TRANSPORTS[self.props.signal_transport](self)

    def handle_create(self) -> Json:
        made = super().handle_create()
        self.transport.open()
        return made

    def handle_adopt(self) -> None:
        super().handle_adopt()
        self.transport.open()

    def forget_signals(self) -> bool:
        transport = self.transport
        if isinstance(transport, NoSignal):
            return True
        if not transport.remove() or not self._cleared():
            return False
        transport.open()
        return True

    def check_delete_complete(self, token: Json) -> bool | float:
        return self._cleared() if self.transport.remove() else AGAIN

    @property
    def is_polled(self) -> bool:
        return self.transport.is_polled

    @property
    def is_quick(self) -> bool:
        return not self.is_polled

    def collect(self) -> None:
        for signal in self.transport.collect(self.received()):
            self._take(signal)

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

    def secrets(self) -> list[Json]:
        account = self.account
        url = self.data.get(OBJECT)
        found = [*super().secrets(), None if account is None else account.password]
        return [*found, url, signature_of(url)] if isinstance(url, str) else found

    def attr_token(self) -> str | None:
        """The value for the header X-Auth-Token.

        Null for transports other than TOKEN_SIGNAL.
        """
        return self.token if isinstance(self.transport, TokenSignal) else None

    def attr_endpoint(self) -> str | None:
        """The URL for signals with the token; null for transports other than TOKEN_SIGNAL."""
        return self.url("signal") if isinstance(self.transport, TokenSignal) else None

    def attr_curl_cli(self) -> str | None:
        """A command line that signals success.

        Null for transports other than TOKEN_SIGNAL.

        Add --data-binary '{"status": "FAILURE", "reason": "…"}' to send more.
        """
        if not isinstance(self.transport, TokenSignal):
            return None
        kind = "-H 'Content-Type: application/json' -H 'Accept: application/json'"
        return f"curl -i -X POST -H 'X-Auth-Token: {self.token}' {kind} {self.url('signal')}"

    def attr_signal(self) -> str:
        """JSON text with the data for a signal: its URL or queue, and credentials."""
        return dump(self.transport.given())


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
