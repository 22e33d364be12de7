"""Access keys of machines: they open the resource that they were made for."""

from collections.abc import Callable, Iterator
from typing import Final

from heatlite.core.config import Settings
from heatlite.core.redaction.secret_fields import HidesSecrets
from heatlite.core.status import Verb
from heatlite.engine.types.outputs import StackReader
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.signing import ACCESS_KEY_TYPE, KeyHolder, machine_of
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store

CLOSED: Final = frozenset({Verb.INIT, Verb.DELETE, Verb.SUSPEND})
"""States of a resource in which its key opens nothing."""


class Machine(HidesSecrets, frozen=True):
    """A machine by its access key."""

    secret_fields = frozenset({"secret"})

    stack: StackRecord
    physical_name: str
    """Of the resource that has the key."""
    secret: str
    opens: Callable[[str], bool]
    """Test whether the key opens the resource of the stack with this name."""


class MachineKeys:
    """Finds machines by their access keys.

    A server has one in the configuration of its agent, an AWS::IAM::AccessKey is one.
    """

    def __init__(self, store: Store, settings: Settings, reader: StackReader) -> None:
        self._store = store
        self._settings = settings
        self._reader = reader

    def find(self, access_key: str) -> Iterator[Machine]:
        """Yield the machines with the key; none for an unknown or expired one.

        Several rows may have the key of an AWS::IAM::AccessKey: its id is in stack documents.
        """
        for row in self._rows(access_key):
            stack = self._store.stacks.get(row.stack_id)
            if stack is None or stack.deleted_at is not None:
                continue
            holder = self._reader.resources_of(stack).make(row)
            if not isinstance(holder, KeyHolder):
                continue
            with type_code():
                secret = holder.secret_of(access_key, self._settings.signal_url_lifetime)
            if secret:
                yield Machine(stack, row.physical_name, secret, holder.opens)

    def _rows(self, access_key: str) -> list[ResourceRecord]:
        place = machine_of(access_key)
        if place is not None:
            stack_id, name = place
            return self._store.resources.by_name(stack_id, [name])
        rows = self._store.resources.of_type_with_object(ACCESS_KEY_TYPE, access_key)
        return [row for row in rows if row.verb not in CLOSED]
