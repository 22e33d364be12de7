"""Readers of outputs that an operation removes or changes."""

from collections.abc import Callable, Collection, Iterator, Sequence

from heatlite.api.components import Components
from heatlite.core.errors import HeatliteError
from heatlite.core.json import JsonMap, same
from heatlite.core.status import Status, Verb
from heatlite.core.wire.base import shown
from heatlite.engine.admission.claims import OF_NO_OBJECT, ChangeKind, Claim, Examiner, PreparedRequest
from heatlite.engine.preview.preview import StackPreview
from heatlite.feature import is_active
from heatlite.features.parameter_sources.errors import OutputInUse
from heatlite.features.parameter_sources.feature import FORCE
from heatlite.features.parameter_sources.outputs import Outputs
from heatlite.features.parameter_sources.readings import of_owner
from heatlite.features.parameter_sources.store.records import Reading
from heatlite.features.parameter_sources.store.store import ReadingStore
from heatlite.features.parameter_sources.wire import AffectedReader, OutputEffect
from heatlite.store.records import StackRecord
from heatlite.template.expression import has_unknown

EXAMINED = frozenset({ChangeKind.UPDATE, ChangeKind.DELETE, ChangeKind.REDEFINE})
"""Changes of the definition of a root stack. Others keep it, and with it the outputs."""


class ReaderExaminer(Examiner):
    """Lists readers in plans, and refuses as a change policy says (`claims.Examiner`).

    Get it by `Components.of`. Safe for threads.
    """

    def __init__(self, core: Components) -> None:
        self.store = core.store
        self._settings = core.settings
        self._has_policies = is_active(core.settings, "change_policy")
        self._definitions = core.definitions
        self._outputs = core.of(Outputs)

    def concerns(self, types: Collection[str]) -> bool:
        """Return False: repairs keep the outputs."""
        return False

    def examine(self, asked: PreparedRequest) -> "ReaderClaim | None":
        """Return the claim of a request that may remove what is read."""
        insists = asked.insists or asked.context.options.get(FORCE) == "true"
        return ReaderClaim(self, asked) if _may_remove(asked) and not insists else None

    def refuses(self, stack: StackRecord) -> bool:
        """Return whether the policy of a stack refuses to remove what is read."""
        if not self._has_policies:
            return False
        from heatlite.features.change_policy.effective import Reads, effective

        return effective(self.store, self._settings, stack.project, stack.id).policy.reads is Reads.REFUSE

    def require_unread(self, asked: PreparedRequest, preview: Callable[[], StackPreview]) -> None:
        """Raise OutputInUse if an operation removes an output that is read."""
        found = [*self._removed(asked, preview)]
        if found:
            readers = [(_affected(one, reader, OutputEffect.REMOVED), one.read_at) for one, reader in found]
            raise OutputInUse(asked.stack, readers)

    def _removed(
        self, asked: PreparedRequest, preview: Callable[[], StackPreview]
    ) -> Iterator[tuple[Reading, StackRecord]]:
        found = self._readers(asked.stack)
        before = self.store.stacks.get(asked.stack.id) if found else None
        if before is None:
            return
        stay = () if asked.change is ChangeKind.DELETE else preview().definition.outputs
        outputs = self._definitions.of(before).outputs
        yield from (pair for pair in found if pair[0].output in outputs and pair[0].output not in stay)

    def _readers(self, stack: StackRecord) -> list[tuple[Reading, StackRecord]]:
        """Return what live stacks have from a stack, as far as they may read it again."""
        found = of_owner(self.store, stack)
        return [pair for pair in found if self._outputs.may_read(pair[1].project, stack, pair[0].output)]

    def shown(self, asked: PreparedRequest, because: Sequence[str]) -> JsonMap:
        """Return the readers of what a plan removes or changes."""
        found = self._readers(asked.stack) if _may_remove(asked) else []
        before = self.store.stacks.get(asked.stack.id) if found else None
        if before is None:
            return {}
        removed = {one.id for one, _ in self._removed(asked, asked.preview)}
        readers = [_affected(one, reader, OutputEffect.REMOVED) for one, reader in found if one.id in removed]
        known = self._definitions.of(before).outputs
        others = {one.output for one, _ in found if one.id not in removed and one.output in known}
        changed = {output for output in others if self._changes(asked, before, output)}
        readers += [_affected(one, reader, OutputEffect.CHANGED) for one, reader in found if one.output in changed]
        return {"readers": readers} if readers else {}

    def _changes(self, asked: PreparedRequest, stack: StackRecord, output: str) -> bool:
        """Return whether an update may give an output another value."""
        preview = asked.preview()
        if output not in preview.definition.outputs:
            return False
        try:
            after, before = preview.output(output), self._outputs.value(stack, output)
        except HeatliteError:
            return True
        if has_unknown(after):
            return asked.change not in OF_NO_OBJECT  # an object that stays tells the same
        return not same(after, before.value)


class ReaderClaim(Claim):
    """Part of readers in the transaction of a request (`claims.Claim`)."""

    def __init__(self, examiner: ReaderExaminer, asked: PreparedRequest) -> None:
        self._examiner = examiner
        self._asked = asked

    def look(self, preview: Callable[[], StackPreview]) -> Sequence[str]:
        """Raise OutputInUse if the policy refuses to remove what is read."""
        store, stack = self._examiner.store, self._asked.stack
        if self._examiner.refuses(stack):
            store.of(ReadingStore).lock(store)
            self._examiner.require_unread(self._asked, preview)
        return ()


def _may_remove(asked: PreparedRequest) -> bool:
    """Return whether an operation is one that may remove outputs of a root stack."""
    stack = asked.stack
    is_going = stack.verb is Verb.DELETE and stack.status is Status.IN_PROGRESS
    return asked.change in EXAMINED and stack.root_id is None and not is_going


def _affected(one: Reading, reader: StackRecord, effect: OutputEffect) -> JsonMap:
    return shown(AffectedReader(reader.name, reader.id, reader.project, one.parameter, one.output, effect))
