"""Values of outputs that other stacks read."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from heatlite.api.components import Components
from heatlite.core.context import Context
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json
from heatlite.core.status import Verb
from heatlite.engine.preview.redaction import CurrentLevel, Redaction
from heatlite.engine.types.resource_factory import Values
from heatlite.feature import is_active
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.expression import UNKNOWN, Bounded, requires

NOBODY = Context(project="", user="", roles=frozenset(), may=lambda _rule: False)
"""A caller from whom all is masked that a stack hides from some."""


class Basis(Struct, frozen=True):
    """The stored parts of an output's value: equal as long as no operation changes it."""

    stacks: Sequence[tuple[object, ...]]
    rows: Sequence[tuple[object, ...]]


class OutputValue(Struct, frozen=True):
    """The value of an output."""

    owner: StackRecord
    output: str
    value: Json
    basis: Basis | None = None
    """None: the value is only shown."""


def _by_stack(store: Store, root: StackRecord) -> Mapping[str, Sequence[ResourceRecord]]:
    """Return the rows of a tree by the ids of their stacks."""
    found: dict[str, list[ResourceRecord]] = {}
    for row in store.resources.of_tree(root.id):
        found.setdefault(row.stack_id, []).append(row)
    return found


class _Stored:
    """Values of a stack that need no cloud: UNKNOWN for attributes."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def reference(self, name: str) -> object:
        return self._values.reference(name)

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        return UNKNOWN


class Outputs:
    """Reads outputs of root stacks. It may ask the cloud for attributes."""

    def __init__(self, core: Components) -> None:
        self._reader = core.reader
        self._definitions = core.definitions
        self._store = core.store
        self._settings = core.settings

    def may_read(self, project: str, owner: StackRecord, output: str) -> bool:
        """Return whether stacks of a project may read an output.

        Those of another project need a grant.
        """
        if owner.project == project:
            return True
        if not is_active(self._settings, "change_policy"):
            return False
        from heatlite.features.change_policy.effective import effective

        grants = effective(self._store, self._settings, owner.project, owner.id).grants
        patterns = (pattern for one in grants if one.project == project for pattern in one.outputs)
        return any(fnmatchcase(output, pattern) for pattern in patterns)

    def value(self, owner: StackRecord, output: str) -> OutputValue:
        """Return the present value of an output.

        Raises HTTPBadRequest if there is none.
        """
        found = next((one for one in self._reader.outputs(owner) if one["output_key"] == output), None)
        if found is None:
            there_are = ", ".join(self._definitions.of(owner).outputs) or "none"
            raise HTTPBadRequest(f"Stack {owner.name} has no output {output}. There are: {there_are}.")
        if "output_error" in found:
            raise HTTPBadRequest(f"Output {output} of stack {owner.name} has an error: {found['output_error']}")
        if found["output_value"] is None:
            raise HTTPBadRequest(f"Output {output} of stack {owner.name} has no value.")
        return OutputValue(owner, output, found["output_value"])

    def read(self, owner: StackRecord, output: str) -> OutputValue:
        """Return the value of an output for a parameter. Raises as `value`."""
        basis = self.basis(owner, output)  # first, so that a change meanwhile is seen
        return replace(self.value(owner, output), basis=basis)

    def basis(self, owner: StackRecord, output: str) -> Basis:
        """Return what the value of an output is made of, without a look at the cloud."""
        names = self.needs(owner, output)
        stacks, rows = [owner], list(self._store.resources.by_name(owner.id, names)) if names else []
        if any(self._reader.nests(owner, row) for row in rows):
            below = {one.id: one for one in self._store.stacks.descendants(owner)}
            within = _by_stack(self._store, owner)
            for row in rows:  # also over those that are added
                if row.physical_id in below:
                    stacks.append(below[row.physical_id])
                    rows += within.get(row.physical_id, ())
        return Basis(
            [(one.id, one.template_id, one.environment, one.verb is Verb.DELETE) for one in stacks],
            [(one.id, one.physical_id, one.properties, one.data, one.verb is Verb.DELETE) for one in rows],
        )

    def needs(self, owner: StackRecord, output: str) -> Sequence[str]:
        """Return the names of the resources that an output needs."""
        found = self._definitions.of(owner).outputs.get(output)
        return () if found is None else sorted({*requires(found.value)})

    def stored(self, owner: StackRecord, output: str, rows: Mapping[str, ResourceRecord]) -> object:
        """Return the value of an output without a look at the cloud.

        It is UNKNOWN as far as it needs attributes; None: there is none. `rows` are the resources that it needs.
        """
        found = self._definitions.of(owner).outputs.get(output)
        if found is None or not found.condition:
            return None
        resources = self._reader.resources_of(owner)
        return Bounded(_Stored(Values(resources, rows)), resources.resource_data).resolved(found.value)

    def is_masked(self, found: OutputValue) -> bool:
        """Return whether the stack with the output masks its value, or what it is made of."""
        owner, definition = found.owner, self._definitions.of(found.owner)
        if owner.sealed:
            view = self._reader.resources_of(owner).nested(owner.id)
            if view is None or Redaction.of_root(CurrentLevel(view), owner).hides_output(found.output):
                return True
            if self._reader.mask(owner).json(found.value) != found.value:
                return True
        masks = (self._reader.mask_of(NOBODY, owner, name) for name in requires(definition.outputs[found.output].value))
        return any(mask.json(found.value) != found.value for mask in masks)
