"""Operations on the expiry of a stack."""

from msgspec import Struct

from heatlite.core.clock import Clock, to_text
from heatlite.core.context import Context
from heatlite.core.errors import EntityNotFound, HTTPBadRequest, StackNotFound
from heatlite.core.status import Verb
from heatlite.engine.admission.admission import audit
from heatlite.engine.admission.caller_context import context_to_json
from heatlite.features.schedules.delegations import Delegations
from heatlite.features.schedules.expiry.state import LEAST_AHEAD, ExpiryRecord, Then, scheduled
from heatlite.features.schedules.store.expiries import ExpiryStore
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

RULES = {
    Then.DELETE: ("stacks:expire", "stacks:delete"),
    Then.SUSPEND: ("stacks:expire", "actions:action", "actions:suspend"),
}
"""Rules that the author needs, at the request and at its time."""


class WantedExpiry(Struct, frozen=True):
    """An expiry as a caller wants it."""

    expires_at: float
    then: Then
    warn_before: tuple[int, ...]


class ExpiryOperations:
    """Reads and changes expiries."""

    def __init__(self, store: Store, clock: Clock, delegations: Delegations) -> None:
        self._store = store
        self._rows = store.of(ExpiryStore)
        self._clock = clock
        self._delegations = delegations

    def get(self, stack: StackRecord) -> ExpiryRecord:
        """Return the expiry of a stack. Raises EntityNotFound."""
        found = self._rows.of([stack.id]).get(stack.id)
        if found is None:
            raise EntityNotFound(f"Stack {stack.name} has no expiry.")
        return found

    def put(self, context: Context, stack: StackRecord, wanted: WantedExpiry) -> ExpiryRecord:
        """Set the expiry of a root stack, in place of any former one.

        The caller is its author.

        Raises HTTPBadRequest for a nested stack or a time that is too near, Forbidden for a caller who may not do it at
        once, NoCredential, StackNotFound.
        """
        if stack.root_id is not None:
            raise HTTPBadRequest(f"Stack {stack.name} is nested: only its root expires, stack {stack.root_id}.")
        check_rights(context, wanted.then)
        now = self._clock.now()
        if wanted.expires_at < now + LEAST_AHEAD:
            earliest = to_text(now + LEAST_AHEAD)
            raise HTTPBadRequest(f"expires_at: is {to_text(wanted.expires_at)}, and has to be {earliest} or later.")
        author = context_to_json(context)
        parts = (wanted.expires_at, wanted.then, wanted.warn_before, context.user, author)
        record = scheduled(ExpiryRecord(stack.id, stack.project, *parts), now)
        with self._delegations.delegated(context, stack) as credential:
            check_rights(self._delegations.caller_now(context, stack, credential), wanted.then)
            with self._store.transaction():
                self._lock(stack)
                self._rows.put(record)
                self._delegations.put(stack.id, stack.id, credential)
        audit.info("expiry stack=%s request=put at=%s by=%s", stack.id, to_text(record.expires_at), context.user)
        return record

    def delete(self, context: Context, stack: StackRecord) -> None:
        """Remove the expiry of a stack. Raises EntityNotFound, StackNotFound."""
        with self._store.transaction():
            self._lock(stack)
            self._rows.delete(self.get(stack).stack_id)
            self._delegations.release(stack.id)
        audit.info("expiry stack=%s request=delete by=%s", stack.id, context.user)

    def _lock(self, stack: StackRecord) -> None:
        held = self._store.stacks.lock(stack.id)
        if held is None or held.deleted_at is not None or held.verb is Verb.DELETE:
            raise StackNotFound(name=stack.name)


def check_rights(caller: Context, then: Then) -> None:
    """Raise Forbidden unless the caller may let a stack expire, and do it at once."""
    for rule in RULES[then]:
        caller.require(rule)
