"""Facts on values that are behind their outputs."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from heatlite.core.clock import to_text
from heatlite.core.errors import HeatliteError
from heatlite.core.json import same
from heatlite.core.wire.why import Fact, words
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.why.tree import ExplainedTree, Told
from heatlite.engine.why.ways import Ways
from heatlite.features.parameter_sources.outputs import Outputs
from heatlite.features.parameter_sources.readings import of_stack
from heatlite.features.parameter_sources.store.records import Reading
from heatlite.features.parameter_sources.wire import SourceState
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.stacks.resource_query import ResourceQuery
from heatlite.store.store import Store
from heatlite.template.expression import has_unknown


def facts(store: Store, outputs: Outputs, tree: ExplainedTree) -> list[Told]:
    """Return a fact for each value that is behind its output, or whose stack is gone.

    Asks no cloud: an output that needs an attribute of a resource counts as current.
    """
    found = of_stack(store, tree.root)
    if not found:
        return []
    owners = store.stacks.of_ids(sorted({one.owner_id for one in found}))
    live = {one.id: one for one in owners.values() if one.deleted_at is None}
    rows = _rows(store, outputs, live, found)
    told = ((one, _state(outputs, one, live.get(one.owner_id), rows)) for one in found)
    return [_told(tree, one, state) for one, state in told if state is not SourceState.CURRENT]


def _rows(
    store: Store, outputs: Outputs, owners: Mapping[str, StackRecord], found: Sequence[Reading]
) -> Mapping[str, dict[str, ResourceRecord]]:
    """Read the resources that the outputs need, by the ids of stacks and by name."""
    names = {name for one in found if one.owner_id in owners for name in _needs(outputs, owners[one.owner_id], one)}
    rows: dict[str, dict[str, ResourceRecord]] = {}
    listed = store.resources.listed(sorted(owners), ResourceQuery(name=sorted(names))) if names else []
    for row in listed:
        rows.setdefault(row.stack_id, {})[row.name] = row
    return rows


def _needs(outputs: Outputs, owner: StackRecord, one: Reading) -> Iterator[str]:
    try:
        yield from outputs.needs(owner, one.output)
    except HeatliteError:
        return  # its definition cannot be read any more


def _state(
    outputs: Outputs,
    one: Reading,
    owner: StackRecord | None,
    rows: Mapping[str, Mapping[str, ResourceRecord]],
) -> SourceState:
    if owner is None or not outputs.may_read(one.project, owner, one.output):
        return SourceState.GONE
    try:
        now = outputs.stored(owner, one.output, rows.get(owner.id, {}))
    except HeatliteError:
        return SourceState.BEHIND
    return SourceState.CURRENT if has_unknown(now) or same(now, one.value) else SourceState.BEHIND


def _told(tree: ExplainedTree, one: Reading, state: SourceState) -> Told:
    root, name, ways = tree.root, one.parameter, Ways(tree)
    if state is SourceState.GONE:
        text = f"{name} keeps the value of output {one.output} of stack {one.owner_name}, which is gone"
        option = shlex.quote(f"--parameter={name}=VALUE")
        ways.tell("gives it another value", f"heatlite up FILE -n {root.name} {option}")
    else:
        text = f"{name} is behind: output {one.output} of stack {one.owner_name} has another value by now, or none"
        command = f"heatlite refresh {root.name} {words(name)}"
        ways.planned(Operation.UPDATE, root, "reads it again", command, {"refresh": [name]}, is_update=True)
    since = to_text(one.read_at)
    fact = Fact(code="behind", what="stack", id=root.id, since=since, text=text, way_out=ways.steps)
    return Told(fact, root.id)
