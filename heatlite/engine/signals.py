"""Signals: what somebody tells a resource."""

from heatlite.core.errors import (
    InvalidBreakPointHook,
    NotSupported,
    ResourceActionNotSupported,
    ResourceNotAvailable,
)
from heatlite.core.json import JsonMap
from heatlite.core.status import Verb
from heatlite.engine.reading import Reading
from heatlite.store.records import StackRecord


class Signals:
    """Delivers signals."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def signal(self, stack: StackRecord, resource: str, details: JsonMap | None) -> None:
        """Deliver a signal to a resource. No type of this installation takes one that changes the topology.

        Raises ResourceActionNotSupported for a type without a handler, ResourceNotAvailable, InvalidBreakPointHook.
        """
        row = self._reading.resource(stack, resource)
        if details and "unset_hook" in details:
            raise InvalidBreakPointHook(f"The hook {details['unset_hook']!r} is not set on resource {row.name}.")
        if not self._reading.resources_of(stack).type_of(row).has("signal"):
            raise ResourceActionNotSupported(action="signal")
        if row.verb is Verb.INIT:
            raise ResourceNotAvailable(resource_name=row.name)
        raise NotSupported("Signals are not supported yet.")
