"""Previews of an operation: the plan of each stack of a tree.

Values that only the operation brings are UNKNOWN. The walk plans and decides with the same functions, so its result is
that of the preview (docs/decisions/0007-plans.md).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from heatlite.core.actions.repairs import Selection
from heatlite.core.errors import DeletionProtected, HeatliteError, RequestLimitExceeded, TemplateOutputError
from heatlite.core.json import JsonMap
from heatlite.core.redaction.masking import NOTHING, Mask
from heatlite.core.status import Status, Verb
from heatlite.engine.planning.child_definition import check_immutable, follows, made_anew, planned_child
from heatlite.engine.planning.collect import PlannedValues, converge, evaluate
from heatlite.engine.planning.decide import is_retained
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.group_members import asked_place
from heatlite.engine.planning.plan import Outcome, Step, in_order
from heatlite.engine.planning.planner import ordered, plan_deletions, removable, unremovable
from heatlite.engine.preview.blocking import telling
from heatlite.engine.preview.redaction import CurrentLevel, Level, Redaction, secrets
from heatlite.engine.types.resource_factory import NestedView, ResourceFactory, bounded
from heatlite.engine.types.template_types import TemplateResource
from heatlite.plugin.groups import LOADBALANCERS
from heatlite.plugin.nested import StackResource
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.definitions.definitions import ResourceDefinition
from heatlite.template.document import Definition
from heatlite.template.expression import select

_SHOWN_AS = {Outcome.CONTINUE: Outcome.CREATE, Outcome.REBUILD: Outcome.REPLACE, Outcome.REBOOT: Outcome.UPDATE}
"""Outcomes that a preview shows alike."""


class PreviewItem(Struct, frozen=True):
    """The outcome for one resource of a tree."""

    stack: StackRecord
    path: tuple[str, ...]
    """Resource names from the top, its own last."""
    outcome: Outcome
    row: ResourceRecord
    level: "StackPreview | None" = None
    """The preview of its stack; None: it has the outcome of its whole stack, without differences."""
    cause: str = ""
    after: tuple[str, ...] = ()
    """Of a deletion in the clean-up: names of the resources deleted before."""
    is_leftover: bool = False
    """True for an older row of a name whose current row has an item of its own."""
    blocks: tuple[str, ...] = ()
    """Paths of resources whose old objects it keeps in use."""

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def leaves_object(self) -> bool:
        """True if the resource goes and its object stays."""
        return self.outcome is Outcome.DELETE and (is_retained(self.row) or self.row.external_id is not None)


class _LevelValues(PlannedValues):
    """Planned values that know the outputs of nested stacks which an update keeps."""

    def __init__(self, level: "StackPreview", resources: ResourceFactory) -> None:
        super().__init__(resources)
        self._level = level

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        """Compute an output from the definition that the nested stack gets."""
        if name in self.to_change and attribute is not None:
            child = self._level.child(name)
            if child is not None and attribute in child.outputs:
                return select(child.output(attribute), path, None)
            if child is not None and self._level.is_unchanged(name):
                return super(PlannedValues, self).attribute(name, attribute, path)
        return super().attribute(name, attribute, path)


class StackPreview:
    """Preview of one stack of a tree that becomes `definition`.

    `resources` are of the stack as it becomes, `current` is the stack as it is. With `replaces` the current stack is
    deleted, and a new one takes its place. With `observes` the plan starts from the real objects.
    """

    def __init__(
        self,
        definition: Definition,
        resources: ResourceFactory,
        current: NestedView | None,
        observes: bool = False,
        parent: "StackPreview | None" = None,
        name: str = "",
        replaces: bool = False,
    ) -> None:
        self.definition = definition
        self.resources = resources
        self.current = current
        self.replaced_rows: dict[str, ResourceRecord] = {}
        """By name, the rows of a stack that is replaced."""
        if current is not None and replaces:
            self.replaced_rows = {row.name: row for row in current.values.rows.values()}
        self.errors: dict[str, str] = {}
        """By resource name, the errors of nested stacks."""
        self._observes = observes
        self._parent = parent
        self._name = name
        self._path: tuple[str, ...] = () if parent is None else (*parent._path, name)
        self._rows = [] if current is None or replaces else current.rows
        self._known: dict[str, PreviewItem] = {}
        self._wanted: dict[str, Wanted] = {}
        self._children: dict[str, StackPreview | None] = {}
        self._unchanged: dict[str, bool] = {}
        self._redactions: tuple[Redaction, Redaction | None] | None = None
        self._size = 0
        """Characters of the values of the tree; counted by the root."""
        self.values = _LevelValues(self, resources)
        if observes:
            resources.observe(self._rows)
        self._plan = converge(definition, self._rows, self.values)

    @cached_property
    def required_by(self) -> Mapping[str, Sequence[str]]:
        """By name, the resources of the definition that require it."""
        found: dict[str, list[str]] = {}
        for wanted in self.definition.resources.values():
            for required in wanted.requires:
                found.setdefault(required, []).append(wanted.name)
        return found

    def protected(self) -> list[str]:
        """Explain each protected object of the tree that would be deleted or replaced."""
        items = (item for item in self.items(nested=True) if item.outcome is Outcome.PROTECT)
        return [f"resources.{'.resources.'.join(item.path)}: {item.cause}" for item in items]

    def refused(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the path and the explanation of each impossible replacement, at any depth."""
        for name, cause in self._plan.refused.items():
            yield (*self._path, name), cause
        for name in self.values.to_change:
            child = self.child(name)
            if child is not None:
                yield from child.refused()

    # -- items, in the order of the operation --------------------------------------------------------

    def items(self, nested: bool) -> Iterator[PreviewItem]:
        """Yield the items of the stack.

        With `nested` also those of nested stacks, each after its resource.
        """
        return telling([*self._items(nested, kept=True)], self.resources.type_of)

    def changes(self) -> Iterator[PreviewItem]:
        """Yield the items of the tree without those of resources that stay."""
        return (item for item in self._items(nested=True, kept=False) if item.outcome is not Outcome.KEEP)

    def _items(self, nested: bool, kept: bool) -> Iterator[PreviewItem]:
        resources, steps = self.definition.resources, self._plan.steps
        for name in ordered(resources) if kept else filter(resources.__contains__, steps):
            item = self.item(name)
            yield item
            if nested:
                yield from self._nested_items(item, kept)
        for item in self._cleanup():
            yield item
            if nested:
                yield from self._removed(item)

    def item(self, name: str) -> PreviewItem:
        """Return the item of a resource of the definition."""
        if name not in self._known:
            self._known[name] = self._item(name)
        return self._known[name]

    def _item(self, name: str) -> PreviewItem:
        stack, path = self.resources.stack, (*self._path, name)
        step = self.step(name)
        if step is None:
            return PreviewItem(stack, path, Outcome.KEEP, self._plan.kept.get(name) or self.row(name), self)
        outcome, cause, row = _SHOWN_AS.get(step.outcome, step.outcome), step.cause, step.row
        if name in self.replaced_rows:
            outcome, cause, row = Outcome.REPLACE, "its stack is replaced", self.replaced_rows[name]
        elif row is not None and row.verb is Verb.INIT and outcome is Outcome.UPDATE:
            outcome = Outcome.CREATE  # It was never made, and its values cannot be evaluated.
        row = row or self.row(name)
        if outcome is Outcome.CREATE and not cause and asked_place(row, self.resources) is not None:
            cause = "it enters a pool then"
        return PreviewItem(stack, path, outcome, row, self, cause)

    def step(self, name: str) -> Step | None:
        """Return the step of a resource; None: it needs none."""
        return self._plan.steps.get(name)

    def _nested_items(self, item: PreviewItem, kept: bool) -> Iterator[PreviewItem]:
        child = self.child(item.name)
        if child is not None:
            yield from child._items(nested=True, kept=kept)
        elif item.outcome is Outcome.REPLACE:
            yield from self._removed(item)
        elif item.row.physical_id is not None:
            yield from _uniform(self.resources.nested_of(item.row), item.path, Outcome.KEEP, "")

    def _removed(self, item: PreviewItem) -> Iterator[PreviewItem]:
        """Yield the items of a nested stack whose resource is deleted or replaced."""
        stays = item.outcome is Outcome.PROTECT or is_retained(item.row)
        outcome, cause = (Outcome.KEEP, "") if stays else (Outcome.DELETE, "its stack is deleted")
        yield from _uniform(self.resources.nested_of(item.row), item.path, outcome, cause)

    def _cleanup(self) -> Iterator[PreviewItem]:
        """Yield the deletions of the clean-up, dependents first."""
        kept = [row.id for row in self.values.rows.values()]
        # Rows of steps have items of their own: replaced objects, and rows whose object is not made yet.
        kept += [step.row.id for step in self._plan.steps.values() if step.row is not None]
        replaced = [row for name, row in self.replaced_rows.items() if name not in self.definition.resources]
        selection, chosen = self.resources.selection, self.values.rows
        rows = removable(replaced or self._rows, selection, self._plan, chosen, self.resources.phase)
        steps = plan_deletions(rows, kept).steps
        for step in in_order(steps.values()):
            assert step.row is not None
            yield self._deletion(step.row, tuple(sorted({steps[need].name for need in step.requires})))

    def _deletion(self, row: ResourceRecord, after: tuple[str, ...]) -> PreviewItem:
        leftover = row.name in self.definition.resources
        cause = "left over from an earlier update" if leftover else "the template does not have it"
        if is_retained(row):
            cause += "; its object is retained"
        if LOADBALANCERS in row.data:
            cause += "; it leaves its pool before"
        path, protection = (*self._path, row.name), self.resources.protected(row)
        outcome = Outcome.DELETE
        if protection is not None:
            outcome, cause = Outcome.PROTECT, unremovable(protection)
        return PreviewItem(self.resources.stack, path, outcome, row, None, cause, after, leftover)

    # -- nested stacks -------------------------------------------------------------------------------

    def child(self, name: str) -> "StackPreview | None":
        """Return the preview of a resource's nested stack.

        None: there is none, or it stays as it is.
        """
        if name not in self._children:
            self._children[name] = None
            try:
                self._children[name] = self._nested(name)
            except HeatliteError as error:
                self.errors[name] = error.message
        return self._children[name]

    def _nested(self, name: str) -> "StackPreview | None":
        stays = self.values.rows.get(name)
        if name not in (self._plan.steps if stays is None else self.values.to_change):
            return None
        wanted = self.wanted(name)
        if not issubclass(wanted.kind, StackResource):
            return None
        if stays is not None:
            view = self.resources.nested(stays.physical_id)
            before = None if view is None else view.stack
        else:
            step = self._plan.steps[name]
            old = self.replaced_rows.get(name, step.row)
            view, before = None if old is None or is_retained(old) else self.resources.nested_of(old), None
            if view is not None and step.outcome is Outcome.CONTINUE:
                before = view.stack
        row = stays or self.row(name)
        anew = made_anew(row, self.definition, self.values.rows, self.resources.stack)
        stack, definition = planned_child(self.definition, self.resources, row, wanted, before, anew=anew)
        if view is not None and before is not None:
            check_immutable(view.definition, definition)
        within = self.resources.within(stack)
        within.selection = self._below(name, before is not None, lambda: follows(row, wanted))
        return StackPreview(definition, within, view, self._observes, self, name, replaces=before is None)

    def _below(self, name: str, stands: bool, compares: Callable[[], bool]) -> Selection | None:
        """Return the selection in a nested stack. A repair has one in those that stand."""
        selection = self.resources.selection
        if selection is None or selection.is_repair and not stands:
            return None
        return selection.below(name, stands and compares())

    @property
    def outputs(self) -> Sequence[str]:
        """Names of the outputs of a template resource.

        Other types have outputs that only their code knows.
        """
        assert self._parent is not None
        kind = self._parent.wanted(self._name).kind
        return list(self.definition.outputs) if issubclass(kind, TemplateResource) else []

    def output(self, name: str) -> object:
        """Return the future value of an output; UNKNOWN as far as it is not known yet.

        Raises TemplateOutputError if it fails.
        """
        found = self.definition.outputs[name]
        try:
            return bounded(self.values).resolved(found.value) if found.condition else None
        except HeatliteError as error:
            raise TemplateOutputError(resource=self._name, attribute=name, reason=error.message) from error

    @property
    def is_deleted_first(self) -> bool:
        """True if the stack takes the place of another one that is deleted before."""
        if self._parent is None:
            return False
        step = self._parent.step(self._name)
        is_first = bool(self.replaced_rows) and step is not None and step.deletes_first
        return is_first or self._parent.is_deleted_first

    def is_unchanged(self, name: str) -> bool:
        """Return True if a resource stays as it is, with everything in it."""
        if name not in self._unchanged:
            self._unchanged[name] = self._stays(name)
        return self._unchanged[name]

    def _stays(self, name: str) -> bool:
        if name not in self.values.rows or name in self.values.to_make:
            return False
        if name not in self.values.to_change:
            step = self.step(name)
            return step is None or step.outcome is Outcome.KEEP
        child, row = self.child(name), self.values.rows[name]
        if child is None:
            return False
        wanted = self.wanted(name)
        same = row.metadata == wanted.metadata and not wanted.kind.schema.diff(row.properties, wanted.properties)
        return same and all(map(child.is_unchanged, child.definition.resources)) and not any(child._cleanup())

    # -- values and their redaction (`redaction.Level`) ----------------------------------------------

    def wanted(self, name: str) -> Wanted:
        """Return the evaluated definition of a resource.

        Raises its errors, and RequestLimitExceeded.
        """
        if name not in self._wanted:
            self._wanted[name] = wanted = evaluate(self.definition, name, self.resources, self.values)
            self.count(wanted.size)
        return self._wanted[name]

    def count(self, size: int) -> None:
        """Add `size` characters of values to those of the whole tree.

        Raises RequestLimitExceeded.
        """
        if self._parent is not None:
            self._parent.count(size)
            return
        self._size += size
        if self._size > self.resources.stack_data:
            raise RequestLimitExceeded(
                message=f"the values of the resources come to more than {self.resources.stack_data} characters of JSON"
                " (max_stack_data). Reduce their values, or divide the stack."
            )

    def full(self, name: str) -> tuple[JsonMap, JsonMap]:
        """Return a resource's properties and metadata. Raises their errors."""
        wanted = self.wanted(name)
        return wanted.properties, wanted.metadata

    def row(self, name: str) -> ResourceRecord:
        """Return the row that stays, or a new one."""
        return self.values.rows.get(name) or stand_in(self.definition.resources[name], self.resources.stack)

    def redactions(self) -> tuple[Redaction | None, Redaction | None]:
        """Return the redactions of the stack as it becomes, and as it is.

        None redacts everything.
        """
        if self._parent is not None:
            new, old = self._parent.redactions()
            name = self._name
            return None if new is None else new.child(name), None if old is None else old.child(name)
        if self._redactions is None:
            current = self.current
            old = None if current is None else Redaction.of_root(CurrentLevel(current), current.stack)
            self._redactions = Redaction.of_root(self, self.resources.stack), old
        return self._redactions

    @cached_property
    def mask(self) -> Mask:
        """The mask of hidden parameters of this stack and of those above."""
        return Mask(self._hidden)

    def _hidden(self) -> list[object]:
        above = self.resources.passwords() if self._parent is None else self._parent._hidden()
        return [*above, *self.definition.secrets()]

    def secret_mask(self, name: str) -> Mask:
        """Return the mask of the secrets that a resource's type declares, old and new."""
        levels: list[Level] = [self, *([] if self.current is None else [CurrentLevel(self.current)])]
        values = [value for level in levels for value in secrets(level, name)]
        return Mask(lambda: values) if values else NOTHING


def stand_in(wanted: ResourceDefinition, stack: StackRecord, physical_id: str | None = None) -> ResourceRecord:
    """Return a row for a resource that has none yet. It is not stored."""
    return ResourceRecord(
        id="",
        stack_id=stack.id,
        name=wanted.name,
        type=wanted.type,
        mapped_type=wanted.mapped_type,
        verb=Verb.INIT,
        status=Status.COMPLETE,
        status_reason="",
        created_at=stack.created_at,
        physical_id=physical_id,
        deletion_policy=wanted.deletion_policy,
        description=wanted.description,
    )


def check_protected(definition: Definition, resources: ResourceFactory) -> None:
    """Raise DeletionProtected if a change would remove a protected object.

    `resources` are of the stack as it becomes `definition`. An unknown value counts as a changed one.
    """
    if resources.any_protected:
        found = StackPreview(definition, resources, resources.nested(resources.stack.id)).protected()
        if found:
            name = resources.stack.name
            raise DeletionProtected(f"Stack {name} is left as it is, because of what is protected: {' '.join(found)}")


def _uniform(view: NestedView | None, path: tuple[str, ...], outcome: Outcome, cause: str) -> Iterator[PreviewItem]:
    """Yield items with the same outcome for everything in a nested stack."""
    for row in () if view is None else view.values.rows.values():
        assert view is not None
        here = (*path, row.name)
        yield PreviewItem(view.stack, here, outcome, row, cause=cause)
        yield from _uniform(view.values.resources.nested_of(row), here, outcome, cause)
