"""Wait conditions: they hold a stack until its handle has its signals."""

from contextlib import suppress
from functools import cached_property
from typing import TypeVar

from heatlite.core.errors import HeatliteError, InvalidValue, Unavailable
from heatlite.core.json import Json, heat_text
from heatlite.plugin import Change, Resource, Schema, SupportStatus, prop
from heatlite.plugin.signing import address_of
from heatlite.resources.heat.signals.handles import Handle, received
from heatlite.resources.heat.signals.temp_urls import AGAIN
from heatlite.resources.heat.signals.transports import NO_SIGNAL, SUCCESS


class WaitConditionFailure(HeatliteError):
    """A signal has reported a failure."""


class WaitConditionTimeout(HeatliteError):
    """Too few signals have arrived in time."""


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
