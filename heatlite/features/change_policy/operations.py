"""Operations on change policies."""

from msgspec import UNSET, Struct, convert, to_builtins

from heatlite.core.clock import Clock
from heatlite.core.config import Auth, Settings
from heatlite.core.context import Context
from heatlite.core.errors import Forbidden, HTTPBadRequest, StackNotFound
from heatlite.core.json import JsonMap
from heatlite.engine.admission.admission import audit
from heatlite.features.change_policy.api.rules import PUT
from heatlite.features.change_policy.checks import faults_of
from heatlite.features.change_policy.document import (
    VERSION,
    ChangePolicyDocument,
    Effective,
    PolicyKeys,
    StackDocument,
    loosened,
)
from heatlite.features.change_policy.effective import effective
from heatlite.features.change_policy.errors import PolicyChanged
from heatlite.features.change_policy.store.records import ChangePolicyRecord
from heatlite.features.change_policy.store.store import ChangePolicyStore
from heatlite.store.records import StackRecord
from heatlite.store.store import Store


class ShownPolicy(Struct, frozen=True):
    """A policy, and what counts where it is."""

    record: ChangePolicyRecord
    effective: Effective


class ChangePolicies:
    """Reads and changes the policies of projects and root stacks."""

    def __init__(self, store: Store, clock: Clock, settings: Settings) -> None:
        self._store = store
        self._rows = store.of(ChangePolicyStore)
        self._clock = clock
        self._settings = settings

    def get(self, project: str, stack: StackRecord | None = None) -> ShownPolicy:
        """Return the policy of a root stack, or of the project.

        Raises HTTPBadRequest for a nested stack.
        """
        root_id = "" if stack is None else _root(stack)
        return ShownPolicy(self._record(project, root_id), effective(self._store, self._settings, project, root_id))

    def put(self, context: Context, document: ChangePolicyDocument, stack: StackRecord | None = None) -> None:
        """Replace the policy of a root stack, or of the project. Starts nothing.

        Raises HTTPBadRequest for a nested stack and for `four_eyes` without authentication, PolicyChanged, Forbidden
        for a caller who loosens a stack's policy without the right to, StackNotFound.
        """
        if document.four_eyes is True and self._settings.auth is Auth.NONE:
            raise HTTPBadRequest("four_eyes: it needs authentication, and this server has none (setting `auth`).")
        given = None if document.version is UNSET else document.version
        faults = faults_of(self._settings, document)
        if faults:
            raise HTTPBadRequest(f"The change policy is not valid. {' '.join(faults)}")
        keys: JsonMap = to_builtins(document)
        keys.pop("version", None)
        self._change(context, keys, stack, given)

    def delete(self, context: Context, stack: StackRecord | None = None) -> None:
        """Remove the policy of a root stack, or of the project. Raises as `put`."""
        self._change(context, None, stack, None)

    def _change(
        self, context: Context, document: JsonMap | None, stack: StackRecord | None, given: int | None
    ) -> None:
        project, root_id = context.project, "" if stack is None else _root(stack)
        with self._store.transaction():
            self._rows.lock(self._store, project)
            if stack is not None:
                held = self._store.stacks.lock(stack.id)
                if held is None or held.deleted_at is not None:
                    raise StackNotFound(name=stack.name)
            before = self._record(project, root_id)
            if given is not None and given != before.version:
                raise PolicyChanged(before, given, None if stack is None else stack.name)
            now, was = self._clock.now(), effective(self._store, self._settings, project, root_id)
            self._rows.put(
                ChangePolicyRecord(project, root_id, document, before.version + 1, context.user, now)
            )
            if stack is not None and not context.may(PUT):
                is_now = effective(self._store, self._settings, project, root_id)
                found = {*loosened(_keys(before.document), _keys(document)), *loosened(was.policy, is_now.policy)}
                if found:
                    raise Forbidden(
                        f"You may only tighten the change policy of stack {stack.name}, and this loosens"
                        f" {', '.join(sorted(found))}. Ask somebody with the right {PUT}."
                    )
        text = "change policy project=%s stack=%s version=%s by=%s"
        audit.info(text, project, root_id, before.version + 1, context.user)

    def _record(self, project: str, root_id: str) -> ChangePolicyRecord:
        found = {one.stack_id: one for one in self._rows.of(project, root_id)}
        return found.get(root_id) or ChangePolicyRecord(project, root_id)


def _keys(document: JsonMap | None) -> PolicyKeys:
    return convert(document or {"change_policy": VERSION}, StackDocument)


def _root(stack: StackRecord) -> str:
    """Return the id of a root stack. Raises HTTPBadRequest."""
    if stack.root_id is not None:
        raise HTTPBadRequest(f"Stack {stack.name} is nested: its root has the change policy, stack {stack.root_id}.")
    return stack.id
