"""The plan of one update, and what refuses the update before it begins."""

from msgspec.structs import replace

from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.core.context import Context
from heatlite.core.errors import PlanChanged, Problem, StackValidationFailed
from heatlite.engine.planning.planner import by_name
from heatlite.engine.preview import preview_views
from heatlite.engine.preview.locked_children import LockedChildren
from heatlite.engine.preview.preview import StackPreview, check_protected
from heatlite.engine.preview.preview_views import ChosenPart
from heatlite.engine.preview.selecting import choose, require_replaced
from heatlite.engine.preview.update_checks import check_changes, check_external, may_object
from heatlite.engine.state.conflict_rules import Operation, locked_error
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.requests import Reach, ResourceChanges, ShownPlan
from heatlite.engine.types.outputs import StackReader
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.store.records import StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition


class UpdatePlan:
    """The plan of an update of a stack, as far as the request reaches.

    `begun` in its methods is the stack at the start of the update.
    """

    def __init__(
        self,
        store: Store,
        definitions: Definitions,
        reader: StackReader,
        stack: StackRecord,
        definition: Definition,
        reach: Reach,
        converges: bool,
    ) -> None:
        self._store = store
        self._definitions = definitions
        self._reader = reader
        self._stack = stack
        self._definition = definition
        self._reach = reach
        self._converges = converges
        self._resources = reader.resources_of(stack)
        self.chosen: ChosenPart | None = None
        """The part of the plan that the update does; None: all."""

    @property
    def selection(self) -> Selection | None:
        """The selection of the action; None: all is done."""
        return None if self.chosen is None else self.chosen.selection

    @property
    def any_protected(self) -> bool:
        """True if anything in the tree is protected."""
        return self._resources.any_protected

    def choose(self, begun: StackRecord) -> None:
        """Find out what the update touches, by the stored properties.

        Raises as `selecting.choose`.
        """
        if not self._reach:
            return
        steps = dict.fromkeys(self._reach.replace, RepairStep.REPLACE)
        resources = self._reader.resources_of(begun)
        resources.selection = Selection(steps, outside=()) if steps else None
        self.chosen = choose(StackPreview(self._definition, resources, resources.nested(begun.id)), self._reach)

    def preview(self, begun: StackRecord, observes: bool = True) -> StackPreview:
        """Return the preview of the update.

        With `observes` it reads the real objects, if the update does. Without, it knows those that were read before.
        """
        standing = self._resources.nested(begun.id)
        return StackPreview(self._definition, self._within(begun), standing, observes and self._converges)

    def shown(self, begun: StackRecord, observes: bool) -> ShownPlan:
        """Return the plan and its digest. `observes` as in `preview`."""
        return self.shown_as(self.preview(begun, observes))

    def shown_as(self, preview: StackPreview) -> ShownPlan:
        """Return a preview as the plan, with its digest."""
        return preview_views.shown_plan(preview, self.chosen)

    def changes(self, preview: StackPreview, nested: bool, plan: bool) -> ResourceChanges:
        """Return Heat's lists of a preview, as `preview_views.changes`.

        Raises StackValidationFailed if the update cannot replace what it is asked to.
        """
        require_replaced(preview, self._reach)
        return preview_views.changes(preview, nested, plan, self.chosen)

    def _within(self, stack: StackRecord) -> ResourceFactory:
        within = self._resources.within(stack)
        within.selection = self.selection
        return within

    # -- what refuses it -----------------------------------------------------------------------------

    def check(self, begun: StackRecord) -> None:
        """Raise StackValidationFailed if a part of the update must fail."""
        resources = self._reader.resources_of(self._stack)
        resources.selection = self.selection
        check_external(self._definition, resources)
        names = may_object(self._definition, resources)
        if names:
            check_changes(self._definition, by_name(self._store.resources.by_name(self._stack.id, names)), resources)
        self._check_replacements(begun)

    def _check_replacements(self, begun: StackRecord) -> None:
        """Raise StackValidationFailed if the update would replace what cannot be replaced.

        Only failed resources, and those that are asked for, are certain to be replaced.
        """
        if self.chosen is None and not self._store.resources.any_failed_in_tree(begun.root_id or begun.id):
            return
        resources = self._reader.resources_of(begun)
        resources.selection = self.selection
        preview = StackPreview(self._definition, resources, resources.nested(begun.id))
        problems = tuple(
            Problem(("resources", *path), f"resources.{'.'.join(path)}: {why}") for path, why in preview.refused()
        )
        if problems:
            raise StackValidationFailed("; ".join(problem.text for problem in problems), problems=problems)

    def check_objects(self, begun: StackRecord, digest: str | None) -> None:
        """Raise the error if objects may not go, or the plan has another digest.

        Raises DeletionProtected, StackValidationFailed, PlanChanged.
        """
        check_protected(self._definition, self._within(begun))
        if self._reach.replace:
            require_replaced(self.preview(begun, False), self._reach)
        if digest is not None and self.shown(begun, False).digest != digest:
            raise PlanChanged(stack_name=begun.name)

    def spare_locked(self, context: Context, begun: StackRecord) -> None:
        """Raise StackLocked if the update or its rollback would touch a locked child."""
        children = LockedChildren(self._store, self._definitions, self._reader, self._stack)
        # Convergence of all reads every object, so it touches every nested stack.
        reads_all = self._converges and self.chosen is None
        touched = children.locked() if reads_all else children.touched(begun, self._definition, self.selection)
        template_id, environment = begun.previous_template_id, begun.previous_environment
        if touched is None and not begun.disable_rollback and children.locked() is not None:
            assert template_id is not None and environment is not None
            back = replace(begun, template_id=template_id, environment=environment)
            undone = None if self.selection is None else self.selection.undone
            touched = children.touched(back, self._definitions.of(back), undone)
        if touched is not None:
            error = locked_error(Operation.UPDATE, touched, context)
            error.message += _changed_files(self._definitions.of(self._stack), self._definition)
            raise error


def _changed_files(before: Definition, after: Definition) -> str:
    """Return a sentence that names the files an update changes; "" without any."""
    old, new = before.template.files, after.template.files
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return f" The update changes these files: {', '.join(names)}." if names else ""
