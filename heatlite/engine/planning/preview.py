"""What an operation would do: the same plan and the same decisions, with what is not known yet left open."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from heatlite.core.errors import DeletionProtected, HeatliteError, RequestLimitExceeded
from heatlite.core.json import Json, JsonMap, canonical
from heatlite.core.masking import MASK, Mask
from heatlite.core.status import Status, Verb
from heatlite.engine.planning.child_definition import check_immutable, foreseen
from heatlite.engine.planning.collect import PlannedValues, converge, evaluate
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.plan import Outcome, waiting
from heatlite.engine.planning.planner import ordered, plan_cleanup, unremovable
from heatlite.engine.planning.redaction import Level, Present, Veil, secrets, shown
from heatlite.engine.state.requests import Changes, Difference, PlannedResource, PreviewResource, PreviewTree, ShownPlan
from heatlite.engine.state.template_types import TemplateResource
from heatlite.engine.state.values import NestedView, Resources, bounded, without_unknown
from heatlite.plugin.nested import StackResource
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.document import Definition
from heatlite.template.expression import fields, has_unknown, requires, select
from heatlite.template.replacement import CREATE_FIRST, DELETE_FIRST, REBUILD

_SAME = {Outcome.CONTINUE: Outcome.CREATE, Outcome.REBUILD: Outcome.REPLACE}
"""What is one thing to whoever reads a plan."""

_FAILS = {Outcome.PROTECT: Outcome.REFUSE}
"""What is one thing to whoever reads a plan, but not here."""

_LISTS = {
    Outcome.KEEP: "unchanged",
    Outcome.CREATE: "added",
    Outcome.REPLACE: "replaced",
    Outcome.DELETE: "deleted",
}
"""Heat's lists; everything else is in `updated`."""


@dataclass(frozen=True, slots=True)
class _Fate:
    """What would become of one resource. `level` None: its whole stack shares its fate, and nothing of it differs."""

    stack: StackRecord
    path: tuple[str, ...]
    outcome: Outcome
    row: ResourceRecord
    level: "Foresight | None" = None
    cause: str = ""
    after: tuple[str, ...] = ()
    is_leftover: bool = False
    """An older row of the name, which goes while another one stands for it."""

    @property
    def name(self) -> str:
        return self.path[-1]


class _Values(PlannedValues):
    """Those of a plan; what does not change of a nested stack that is updated is known."""

    def __init__(self, level: "Foresight", resources: Resources) -> None:
        super().__init__(resources)
        self._level = level

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        """An output is computed from what the nested stack will be."""
        if name in self.to_change and attribute is not None:
            child = self._level.child(name)
            if child is not None and attribute in child.outputs:
                return select(child.output(attribute), path, None)
            if child is not None and self._level.is_still(name):
                return super(PlannedValues, self).attribute(name, attribute, path)
        return super().attribute(name, attribute, path)


class Foresight:
    """The plan of one stack of a tree: from what it is to `definition`.

    `resources` are of the stack as it becomes, `standing` is the stack as it is. With `anew` it does not become the new
    one, but makes way for it. `converges`: the plan starts from what the real objects look like.
    """

    def __init__(
        self,
        definition: Definition,
        resources: Resources,
        standing: NestedView | None,
        converges: bool = False,
        parent: "Foresight | None" = None,
        name: str = "",
        anew: bool = False,
    ) -> None:
        self.definition = definition
        self._resources = resources
        self._standing = standing
        self._converges = converges
        self._parent = parent
        self._name = name
        self._anew = anew
        self._path: tuple[str, ...] = () if parent is None else (*parent._path, name)
        self._rows = [] if standing is None or anew else standing.rows
        self._left = {row.name: row for row in standing.values.rows.values()} if standing is not None and anew else {}
        self._wanted: dict[str, Wanted] = {}
        self._children: dict[str, Foresight | None] = {}
        self._faults: dict[str, str] = {}
        self._still: dict[str, bool] = {}
        self._veils: tuple[Veil, Veil | None] | None = None
        self._size = 0
        """How much the values of the tree are; the root counts."""
        self.values = _Values(self, resources)
        if converges:
            resources.observe(self._rows)
        self._plan = converge(definition, self._rows, self.values)
        self._required_by: dict[str, list[str]] = {}
        for wanted in definition.resources.values():
            for required in wanted.requires:
                self._required_by.setdefault(required, []).append(wanted.name)

    # -- what is asked of it -------------------------------------------------------------------------

    def changes(self, nested: bool = False, plan: bool = False) -> Changes:
        """Heat's five lists, with `nested` of the whole tree."""
        found: dict[str, list[PreviewResource]] = {}
        for fate in self._fates(nested):
            if not fate.is_leftover:
                found.setdefault(_LISTS.get(fate.outcome, "updated"), []).append(_preview(fate))
        lists = {kind: tuple(found.get(kind, ())) for kind in (*_LISTS.values(), "updated")}
        return Changes(**lists, plan=self.plan() if plan else None)

    def tree(self) -> tuple[PreviewTree, ...]:
        """What a create makes: the resources, in place of a nested stack's those that are in it."""
        return tuple(self._branch(name) for name in ordered(self.definition.resources))

    def _branch(self, name: str) -> PreviewTree:
        child = self.child(name)
        return _preview(self._fate(name)) if child is None else child.tree()

    def protected(self) -> list[str]:
        """Why it may not begin: each protected object of the tree that would be deleted or replaced."""
        fates = (fate for fate in self._fates(nested=True) if fate.outcome is Outcome.PROTECT)
        return [f"resources.{'.resources.'.join(fate.path)}: {fate.cause}" for fate in fates]

    def plan(self) -> ShownPlan:
        """All that would happen, with its digest; secrets are masked."""
        resources = tuple(_planned(fate) for fate in self._fates(nested=True))
        done = [asdict(replace(item, health=None)) for item in resources]
        digest = hashlib.sha256(canonical(done).encode()).hexdigest()
        return ShownPlan(resources, digest)

    def refused(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """What cannot be replaced as it would have to be, at any depth: its path, and why."""
        for name, cause in self._plan.refused.items():
            yield (*self._path, name), cause
        for name in self.values.to_change:
            child = self.child(name)
            if child is not None:
                yield from child.refused()

    # -- the fates of its resources, in the order in which things happen --------------------------------

    def _fates(self, nested: bool) -> Iterator[_Fate]:
        for name in ordered(self.definition.resources):
            fate = self._fate(name)
            yield fate
            if nested:
                yield from self._within(fate)
        for fate in self._cleanup():
            yield fate
            if nested:
                yield from self._gone(fate)

    def _gone(self, fate: _Fate) -> Iterator[_Fate]:
        """The fates of what is in a stack whose resource goes."""
        stays = fate.outcome is Outcome.PROTECT or _is_retained(fate.row)
        outcome, cause = (Outcome.KEEP, "") if stays else (Outcome.DELETE, "its stack is deleted")
        yield from _whole(self._nested_view(fate.row), fate.path, outcome, cause)

    def _fate(self, name: str) -> _Fate:
        stack, path = self._resources.stack, (*self._path, name)
        step = self._plan.steps.get(name)
        if step is None:
            return _Fate(stack, path, Outcome.KEEP, self._plan.kept[name], self)
        outcome, cause, row = _SAME.get(step.outcome, step.outcome), step.cause, step.row
        if name in self._left:
            outcome, cause, row = Outcome.REPLACE, "its stack is replaced", self._left[name]
        elif row is not None and row.verb is Verb.INIT and outcome is Outcome.UPDATE:
            outcome = Outcome.CREATE  # it was never made, and fails to be
        return _Fate(stack, path, outcome, row or self.row(name), self, cause)

    def _within(self, fate: _Fate) -> Iterator[_Fate]:
        """The fates of what is in the resource's nested stack."""
        child = self.child(fate.name)
        if child is not None:
            yield from child._fates(nested=True)
        elif fate.outcome is Outcome.REPLACE:
            yield from self._gone(fate)
        else:
            yield from _whole(self._nested_view(fate.row), fate.path, Outcome.KEEP, "")

    def _cleanup(self) -> Iterator[_Fate]:
        """What goes in the end, dependents first."""
        kept = [row.id for row in self.values.rows.values()]
        # An old object whose replacement is told of already, and a row whose object is yet to be made.
        kept += [step.row.id for step in self._plan.steps.values() if step.row is not None]
        rows = [row for name, row in self._left.items() if name not in self.definition.resources] or self._rows
        steps = plan_cleanup(rows, kept).steps
        open_count, dependents = waiting(steps.values())
        ready = [key for key, count in open_count.items() if count == 0]
        while ready:
            key = ready.pop(0)
            row = steps[key].row
            assert row is not None
            leftover = row.name in self.definition.resources
            cause = "left over from an earlier update" if leftover else "the template does not have it"
            if _is_retained(row):
                cause += "; its object is retained"
            after = tuple(sorted({steps[need].name for need in steps[key].requires}))
            path, keeps = (*self._path, row.name), self._resources.protected(row)
            outcome, cause = (Outcome.DELETE, cause) if keeps is None else (Outcome.PROTECT, unremovable(keeps))
            yield _Fate(self._resources.stack, path, outcome, row, None, cause, after, leftover)
            for follower in dependents.get(key, ()):
                open_count[follower] -= 1
                if open_count[follower] == 0:
                    ready.append(follower)

    def _nested_view(self, row: ResourceRecord) -> NestedView | None:
        makes_stack = issubclass(self._resources.type_of(row), StackResource)
        return self._resources.nested(row.physical_id) if makes_stack else None

    # -- nested stacks -------------------------------------------------------------------------------

    def child(self, name: str) -> "Foresight | None":
        """The plan of the nested stack of a resource; None where there is none, or it stays as it is."""
        if name not in self._children:
            self._children[name] = None
            try:
                self._children[name] = self._nested(name)
            except HeatliteError as error:
                self._faults[name] = error.message
        return self._children[name]

    def _nested(self, name: str) -> "Foresight | None":
        stays = self.values.rows.get(name)
        if stays is not None and name not in self.values.to_change:
            return None
        wanted = self._filled(name)
        if not issubclass(wanted.kind, StackResource):
            return None
        if stays is not None:
            view = self._resources.nested(stays.physical_id)
            before = None if view is None else view.stack
        else:
            step = self._plan.steps[name]
            old = self._left.get(name, step.row)
            view, before = None if old is None or _is_retained(old) else self._nested_view(old), None
            if view is not None and step.outcome is Outcome.CONTINUE:
                before = view.stack
        row = stays or self.row(name)
        stack, definition = foreseen(self.definition, self._resources, row, wanted, before)
        if view is not None and before is not None:
            check_immutable(view.definition, definition)
        within = self._resources.within(stack)
        return Foresight(definition, within, view, self._converges, self, name, anew=before is None)

    @property
    def outputs(self) -> Sequence[str]:
        """Names of the outputs that are a template's own; of other types' stacks only the type knows."""
        assert self._parent is not None
        kind = self._parent._filled(self._name).kind
        return list(self.definition.outputs) if issubclass(kind, TemplateResource) else []

    def output(self, name: str) -> object:
        """An output as it will be, as far as that is known."""
        found = self.definition.outputs[name]
        try:
            return bounded(self.values).resolved(found.value) if found.condition else None
        except HeatliteError:
            return None

    def is_still(self, name: str) -> bool:
        """Whether a resource stays as it is, and all that is in it."""
        if name not in self._still:
            self._still[name] = self._stays(name)
        return self._still[name]

    def _stays(self, name: str) -> bool:
        if name not in self.values.rows or name in self.values.to_make:
            return False
        if name not in self.values.to_change:
            step = self._plan.steps.get(name)
            return step is None or step.outcome is Outcome.KEEP
        child, row = self.child(name), self.values.rows[name]
        if child is None:
            return False
        wanted = self._filled(name)
        same = row.metadata == wanted.metadata and not wanted.kind.schema.diff(row.properties, wanted.properties)
        return same and all(map(child.is_still, child.definition.resources)) and not any(child._cleanup())

    # -- what the veil asks (`veil.Level`) --------------------------------------------------------------

    def _filled(self, name: str) -> Wanted:
        if name not in self._wanted:
            self._wanted[name] = wanted = evaluate(self.definition, name, self._resources, self.values)
            self._count(wanted.size)
        return self._wanted[name]

    def _count(self, size: int) -> None:
        """Count values of so many characters for the whole tree. Raises RequestLimitExceeded."""
        if self._parent is not None:
            self._parent._count(size)
            return
        self._size += size
        if self._size > self._resources.stack_data:
            raise RequestLimitExceeded(
                message=f"the values of the resources come to more than {self._resources.stack_data} characters of JSON"
                " (max_stack_data). Have less in them, or divide the stack."
            )

    def full(self, name: str) -> tuple[JsonMap, JsonMap]:
        """A resource's properties and metadata. Raises what is wrong with them."""
        wanted = self._filled(name)
        return wanted.properties, wanted.metadata

    def row(self, name: str) -> ResourceRecord:
        """The row that stays, or one that would be made."""
        stays, wanted, stack = self.values.rows.get(name), self.definition.resources[name], self._resources.stack
        return stays or ResourceRecord(
            id="",
            stack_id=stack.id,
            name=wanted.name,
            type=wanted.type,
            mapped_type=wanted.mapped_type,
            verb=Verb.INIT,
            status=Status.COMPLETE,
            status_reason="",
            created_at=stack.created_at,
            deletion_policy=wanted.deletion_policy,
            description=wanted.description,
        )

    def veils(self) -> tuple[Veil | None, Veil | None]:
        """What may be shown of the stack as it will be, and of it as it is."""
        if self._parent is not None:
            new, old = self._parent.veils()
            return None if new is None else new.child(self._name), None if old is None else old.child(self._name)
        if self._veils is None:
            old = None if self._standing is None else Veil.over(Present(self._standing), self._standing.stack)
            self._veils = Veil.over(self, self._resources.stack), old
        return self._veils

    # -- what there is to show ---------------------------------------------------------------------------

    def preview(self, fate: _Fate) -> PreviewResource:
        """One item of Heat's lists."""
        wanted, row = self.definition.resources[fate.name], fate.row
        properties, metadata = self._foreseen(wanted.properties), self._foreseen(wanted.metadata)
        row = replace(row, properties=properties, metadata=metadata)
        if fate.outcome in (Outcome.RESTRICT, Outcome.PROTECT):
            row = replace(row, status_reason=fate.cause)
        kind = self._resources.kind(self.definition, fate.name)
        row = replace(row, properties=kind.schema.masked(row.properties))
        attributes: dict[str, Json] = dict.fromkeys(kind.attribute_names - {"show"})
        nested = row.physical_id if issubclass(kind, StackResource) else None
        return PreviewResource(fate.stack, row, tuple(self._required_by.get(fate.name, ())), attributes, nested)

    def _foreseen(self, section: object) -> JsonMap:
        budget = bounded(self.values)
        try:
            value = without_unknown(budget.resolved(section))
        except HeatliteError:
            # What a function makes of values that are still open is told when they are known.
            return {}
        self._count(budget.size)
        covered = self._mask.json(value)
        return covered if isinstance(covered, dict) else {}

    @cached_property
    def _mask(self) -> Mask:
        """What must not be said here: what is hidden at this level, and at those above."""
        return Mask(self._secrets)

    def _secrets(self) -> list[object]:
        above = self._resources.passwords() if self._parent is None else self._parent._secrets()
        return [*above, *self.definition.secrets()]

    def _secret(self, name: str) -> Mask:
        """What must not be said of one resource because types hold it secret: as it is, and as it will be."""
        levels: list[Level] = [self, *([] if self._standing is None else [Present(self._standing)])]
        return Mask(lambda: [value for level in levels for value in secrets(level, name)])

    def planned(self, fate: _Fate) -> PlannedResource:
        """One item of a plan."""
        name, outcome, cause, row = fate.name, fate.outcome, fate.cause, fate.row
        order: str | None = None
        differences: tuple[Difference, ...] = ()
        metadata_differs = False
        if outcome is Outcome.KEEP or outcome is Outcome.UPDATE and self.is_still(name):
            outcome, cause = Outcome.KEEP, ""
        else:
            if outcome in (Outcome.REFUSE, Outcome.PROTECT):
                cause = self._mask.text(cause)
            try:
                wanted = self._filled(name)
            except HeatliteError as error:
                cause = self._told(name, error.message)
            else:
                self.child(name)
                if name in self._faults:
                    cause = self._told(name, self._faults[name])
                is_new = outcome is Outcome.CREATE or not issubclass(wanted.kind, self._resources.type_of(row))
                differences = self._new(wanted, name) if is_new else self._differences(wanted, row)
                metadata_differs = outcome is not Outcome.CREATE and row.metadata != wanted.metadata
                if outcome is Outcome.REPLACE and not self._left:
                    order = self._order(row)
        if differences:
            mask = self._secret(name)
            differences = tuple(replace(one, old=mask.json(one.old), new=mask.json(one.new)) for one in differences)
        step = self._plan.steps.get(name)
        needed = [] if step is None else [key for key in step.requires if key in self.definition.resources]
        after = tuple(sorted(key for key in needed if not self.is_still(key)))
        return PlannedResource(
            path=fate.path,
            type=self.definition.resources[name].type,
            physical_id=row.physical_id,
            action=_FAILS.get(outcome, outcome).value,
            cause=cause,
            order=order,
            after=after,
            differences=differences,
            metadata_differs=metadata_differs,
            is_protected=row.protection is not None,
            health=row.health,
        )

    def _order(self, row: ResourceRecord) -> str:
        """How a resource is replaced, as the walk does it."""
        if self._plan.steps[row.name].outcome is Outcome.REBUILD:
            return REBUILD
        return DELETE_FIRST if self._plan.steps[row.name].deletes_first else CREATE_FIRST

    def _told(self, name: str, error: str) -> str:
        veil = self.veils()[0]
        return "" if veil is None else self._secret(name).text(veil.told(name, error))

    def _new(self, wanted: Wanted, name: str) -> tuple[Difference, ...]:
        """Of a new object: the properties that are given."""
        given: JsonMap = {key: value for key, value in sorted(wanted.properties.items()) if value is not None}
        covered = _covered(self.veils()[0], name, wanted.kind.schema.masked(given))
        return tuple(
            Difference(key, None, covered[key], has_unknown(value), False, self._changing(name, key))
            for key, value in given.items()
        )

    def _differences(self, wanted: Wanted, row: ResourceRecord) -> tuple[Difference, ...]:
        """The properties that would have other values."""
        try:
            before = self._resources.before(row)
        except HeatliteError:
            before = None
        if before is None:
            before = row.properties
        schema = wanted.kind.schema
        names = sorted(schema.diff(before, wanted.properties))
        new_veil, old_veil = self.veils()
        new: JsonMap = {key: wanted.properties.get(key) for key in names}
        stored = schema.masked({key: row.properties.get(key) for key in names})
        covered, old = _covered(new_veil, row.name, schema.masked(new)), _covered(old_veil, row.name, stored)
        if before is not row.properties:
            # What a look at the object has found is as secret as what is stored.
            seen = schema.masked({key: before.get(key) for key in names})
            old = {key: shown(seen[key]) if old[key] == shown(stored[key]) else MASK for key in names}
        return tuple(
            Difference(
                key, old[key], covered[key], has_unknown(new[key]), key not in schema.updatable,
                self._changing(row.name, key),
            )
            for key in names
        )  # fmt: skip

    def _changing(self, name: str, key: str) -> tuple[str, ...]:
        """The resources that a property refers to and that do not stay as they are."""
        written = self.definition.resources[name].properties
        given = fields(written)
        used = requires(written if given is None else given.get(key))
        return tuple(sorted({other for other in used if not self.is_still(other)}))


def check_protected(definition: Definition, resources: Resources) -> None:
    """Raise DeletionProtected where a change of the stack to `definition` would delete or replace what is protected.

    `resources` are of the stack as it becomes. A value that only the change will bring counts as another one.
    """
    if resources.any_protected:
        found = Foresight(definition, resources, resources.nested(resources.stack.id)).protected()
        if found:
            name = resources.stack.name
            raise DeletionProtected(f"Stack {name} is left as it is, because of what is protected: {' '.join(found)}")


def _is_retained(row: ResourceRecord) -> bool:
    """Whether its object stays where the resource goes."""
    return row.deletion_policy.lower() == "retain"


def _covered(veil: Veil | None, name: str, properties: JsonMap) -> JsonMap:
    return dict.fromkeys(properties, MASK) if veil is None else veil.shown(name, properties)


def _preview(fate: _Fate) -> PreviewResource:
    if fate.level is not None:
        return fate.level.preview(fate)
    row = fate.row
    if fate.outcome is Outcome.PROTECT:
        row = replace(row, status_reason=fate.cause)
    if fate.stack.sealed:
        row = replace(row, metadata=dict.fromkeys(row.metadata, MASK))  # nobody looks what of it is hidden
    return PreviewResource(fate.stack, row, (), {})


def _planned(fate: _Fate) -> PlannedResource:
    if fate.level is not None:
        return fate.level.planned(fate)
    row = fate.row
    return PlannedResource(
        fate.path,
        row.type,
        row.physical_id,
        _FAILS.get(fate.outcome, fate.outcome).value,
        fate.cause,
        None,
        fate.after,
        (),
        False,
        row.protection is not None,
        row.health,
    )


def _whole(view: NestedView | None, path: tuple[str, ...], outcome: Outcome, cause: str) -> Iterator[_Fate]:
    """The fates of what is in a stack that nothing but one thing happens to."""
    for row in () if view is None else view.values.rows.values():
        assert view is not None
        resources, here = view.values.resources, (*path, row.name)
        yield _Fate(view.stack, here, outcome, row, cause=cause)
        if issubclass(resources.type_of(row), StackResource):
            yield from _whole(resources.nested(row.physical_id), here, outcome, cause)
