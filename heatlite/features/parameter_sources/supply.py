"""Turns keys of a request into values of other stacks' outputs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from heatlite.api.components import Components
from heatlite.core.errors import HTTPBadRequest, StackNotFound
from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap, same
from heatlite.core.redaction.masking import MASK
from heatlite.core.validation import convert
from heatlite.core.wire.base import shown
from heatlite.engine.admission.inputs import Inputs
from heatlite.features.parameter_sources.bodies import OutputSource, SourceKeys
from heatlite.features.parameter_sources.errors import SourceChanged
from heatlite.features.parameter_sources.outputs import Basis, Outputs, OutputValue
from heatlite.features.parameter_sources.readings import of_stack, refuse_cycle, require_root
from heatlite.features.parameter_sources.store.records import Reading
from heatlite.features.parameter_sources.store.store import ReadingStore
from heatlite.features.parameter_sources.wire import SourceChange
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store

SECTION = "parameter_sources"
"""Key of bodies, and section of environments."""
KEPT = 20
"""Readings of a parameter that are kept: an undo may bring back their values."""


class SourceSupplier:
    """Reads outputs for parameters (`inputs.Supplier`).

    Get it by `Components.of`. Safe for threads.
    """

    def __init__(self, core: Components) -> None:
        self._store = core.store
        self._clock = core.clock
        self._reader = core.reader
        self._outputs = core.of(Outputs)

    def supply(self, inputs: Inputs) -> "Supplied | None":
        """Return the values that a request reads, and what it keeps.

        Raises HTTPBadRequest, CircularDependencyException, StackNotFound.
        """
        if inputs.request.action is not None:
            return None  # such as an undo, whose values are those of an earlier definition
        self._check_kept(inputs)
        if not (inputs.request.further or inputs.environment.supplied or inputs.environment.parameters):
            return None  # neither reads values nor gives any
        keys = convert(inputs.request.further, SourceKeys)
        section = convert(
            inputs.environment.supplied.get(SECTION, {}), dict[str, OutputSource], f"environment.{SECTION}"
        )
        sources, given = {**section, **(keys.parameter_sources or {})}, [*inputs.environment.parameters]
        if not (sources or given or keys.refresh):
            return None
        _check(inputs, sources)
        before = of_stack(self._store, inputs.stack) if _is_stored(inputs.stack) else []
        again = _refreshed(inputs, keys.refresh, sources, before)
        if not sources and not again and not before:
            return None
        found = self._read(inputs, sources, again, before)
        refuse_cycle(self._store, inputs.stack, [one.owner for one in found.values()])
        may_read = partial(self._is_there, inputs.stack)
        changes = [*self._changes(inputs, found)]
        return Supplied(self._store, self._clock.now(), found, given, changes, may_read, self._outputs.basis)

    def _read(
        self, inputs: Inputs, sources: Mapping[str, OutputSource], again: set[str], before: Sequence[Reading]
    ) -> dict[str, OutputValue]:
        """Return the values to read, by parameter. Raises as `supply`."""
        known = {one.parameter: one for one in before}
        found: dict[str, OutputValue] = {}
        for name, source in sources.items():
            if name in again or not self._stays(inputs, source, known.get(name)):
                found[name] = self._outputs.read(self._owner(inputs.stack, source), source.output)
        for name in again - sources.keys():
            owner = self._store.stacks.get(known[name].owner_id)
            if owner is None or not self._is_there(inputs.stack, owner, known[name].output):
                raise HTTPBadRequest(_gone(known[name]))
            found[name] = self._outputs.read(owner, known[name].output)
        for name, value in found.items():
            if not inputs.schemas[name].hidden and self._outputs.is_masked(value):
                raise HTTPBadRequest(
                    f"Output {value.output} of stack {value.owner.name} has a hidden value. Make parameter {name}"
                    " hidden (hidden: true), so that it stays so."
                )
        return found

    def _check_kept(self, inputs: Inputs) -> None:
        """Raise HTTPBadRequest if a kept value of another stack would be hidden no more."""
        kept = (inputs.kept or {}).keys() - inputs.environment.parameters.keys()
        if not kept or not inputs.stack.sealed:
            return
        bare = {name for name in kept if name in inputs.schemas and not inputs.schemas[name].hidden}
        shown = bare & self._reader.hidden(inputs.stack)
        for one in of_stack(self._store, inputs.stack) if shown else ():
            if one.parameter in shown:
                raise HTTPBadRequest(
                    f"Parameter {one.parameter} keeps a hidden value of stack {one.owner_name}. Keep it hidden"
                    " (hidden: true), or give it another value."
                )

    def _owner(self, reader: StackRecord, source: OutputSource) -> StackRecord:
        """Return the stack that a source names. Raises HTTPBadRequest, StackNotFound."""
        project = source.project or reader.project
        found = self._store.stacks.by_name(project, source.stack) or self._store.stacks.get(source.stack)
        if found is not None and found.project == project and self._is_there(reader, found, source.output):
            return require_root(self._store, found)
        if project != reader.project:
            raise StackNotFound(name=source.stack)
        raise HTTPBadRequest(f"{SECTION}: there is no stack {source.stack} in the project.")

    def _is_there(self, reader: StackRecord, owner: StackRecord, output: str) -> bool:
        """Return whether a reader may know of an owner."""
        return owner.deleted_at is None and self._outputs.may_read(reader.project, owner, output)

    def _stays(self, inputs: Inputs, source: OutputSource, before: Reading | None) -> bool:
        """Return whether the stack keeps the value that it has from a source."""
        if before is None or inputs.kept is None or before.parameter not in inputs.kept:
            return False
        if source.output != before.output or source.stack not in (before.owner_name, before.owner_id):
            return False
        owner = self._store.stacks.get(before.owner_id)
        return owner is None or owner.project == (source.project or inputs.stack.project)

    def _changes(self, inputs: Inputs, found: Mapping[str, OutputValue]) -> Iterator[JsonMap]:
        """Yield what a plan shows of the values that change. Hidden ones are masked."""
        stored = inputs.stack.environment.get("parameters")
        old = stored if isinstance(stored, dict) else {}
        hidden = self._reader.hidden(inputs.stack) if _is_stored(inputs.stack) else frozenset[str]()
        mask = self._reader.mask(inputs.stack)
        for name, one in found.items():
            if name in old and same(old[name], one.value):
                continue
            is_hidden = inputs.schemas[name].hidden or name in hidden
            values: dict[str, Json] = {"old": old.get(name), "new": one.value}
            for key, value in values.items():
                values[key] = None if value is None else MASK if is_hidden else mask.json(value)
            owner = one.owner
            yield shown(SourceChange(name, owner.name, owner.id, one.output, values["old"], values["new"]))


class Supplied(Struct, frozen=True):
    """Values that a request reads (`inputs.Supply`)."""

    store: Store
    read_at: float
    found: Mapping[str, OutputValue]
    """The values that are read, by parameter."""
    given: Sequence[str]
    """Names of the parameters to which the request gives values of its own."""
    changes: Sequence[JsonMap]
    may_read: Callable[[StackRecord, str], bool]
    basis: Callable[[StackRecord, str], Basis]

    @property
    def values(self) -> JsonMap:
        return {name: one.value for name, one in self.found.items()}

    def take(self, action: ActionRecord, stack: StackRecord) -> None:
        """Write what was read, in the transaction that stores the values.

        Raises SourceChanged if an owner may have got another value since, or takes back its grant, and
        CircularDependencyException.
        """
        readings = self.store.of(ReadingStore)
        if self.found:
            readings.lock(self.store)
        refuse_cycle(self.store, stack, [one.owner for one in self.found.values()])
        for name, one in self.found.items():
            self._check_owner(name, one, self.store.stacks.get(one.owner.id))
        kept = readings.of_readers([stack.id])
        old = [one.id for one in kept if one.parameter in self.given]
        for name in self.found:
            old += [one.id for one in kept if one.parameter == name][KEPT - 1 :]
        readings.delete(old)
        readings.insert([self._reading(name, one, action) for name, one in self.found.items()])

    def _check_owner(self, name: str, one: OutputValue, now: StackRecord | None) -> None:
        """Raise SourceChanged if the output may be another one by now."""
        if now is None or self.basis(now, one.output) != one.basis or not self.may_read(now, one.output):
            raise SourceChanged(one.owner, one.output, name)

    def _reading(self, name: str, one: OutputValue, action: ActionRecord) -> Reading:
        return Reading(
            id=new_id(),
            project=action.project,
            reader_id=action.stack_id,
            parameter=name,
            owner_id=one.owner.id,
            owner_name=one.owner.name,
            output=one.output,
            value=one.value,
            read_at=self.read_at,
            action_id=action.id,
        )

    def shown(self) -> JsonMap:
        return {"sources": [*self.changes]} if self.changes else {}


def _is_stored(stack: StackRecord) -> bool:
    """Return False for a new stack."""
    return bool(stack.template_id)


def _check(inputs: Inputs, sources: Mapping[str, OutputSource]) -> None:
    """Raise HTTPBadRequest for a source of a parameter with a value.

    Also for that of one which does not exist.
    """
    both = [name for name in sources if name in inputs.environment.parameters]
    if both:
        raise HTTPBadRequest(f"{SECTION}: {both[0]} also has a value in parameters. Give one of both.")
    unknown = [name for name in sources if name not in inputs.schemas]
    if unknown:
        raise HTTPBadRequest(f"{SECTION}: the template has no parameter {unknown[0]}.")


def _refreshed(
    inputs: Inputs, asked: bool | Sequence[str] | None, sources: Mapping[str, OutputSource], before: Sequence[Reading]
) -> set[str]:
    """Return the parameters to read again.

    Raises HTTPBadRequest for one that was not read.
    """
    if not asked:
        return set()
    if inputs.kept is None:
        raise HTTPBadRequest("refresh is valid in a PATCH only: others read all outputs that they name.")
    own = inputs.environment.parameters
    known = [one.parameter for one in before if one.parameter in inputs.schemas and one.parameter not in own]
    if asked is True:
        return {*known}
    unknown = [name for name in asked if name not in known and name not in sources]
    if unknown:
        there_are = ", ".join(known) or "none"
        raise HTTPBadRequest(f"refresh: {unknown[0]} has no value from another stack. There are: {there_are}.")
    return {*asked}


def _gone(reading: Reading) -> str:
    return (
        f"refresh: stack {reading.owner_name} ({reading.owner_id}), from which {reading.parameter} has its value, is"
        f" gone, or no longer lets this project read. Name another source ({SECTION}), or give a value."
    )
