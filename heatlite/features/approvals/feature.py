"""Statement of the feature approvals."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from heatlite.core.status import ENDED_ACTIONS, ActionStatus, Verb
from heatlite.feature import Feature, is_active

if TYPE_CHECKING:
    from heatlite.api.components import Components
    from heatlite.cli.client import Client, Object, Stack
    from heatlite.cli.session import PlanFacts
    from heatlite.core.actions.decisions import Decision
    from heatlite.engine.admission.claims import Examiner
    from heatlite.engine.why.tree import ExplainedTree, Told
    from heatlite.store.records import ActionRecord

OPTION, REFUSE, WAIT = "approval", "refuse", "wait"


class ApprovalsFeature(Feature):
    """Decisions of people that operations wait for."""

    name = "approvals"
    routes = "heatlite.features.approvals.api.routes"
    rows = ("heatlite.features.approvals.store.store:ApprovalStore",)
    commands = {"Health, locks and protection": {"heatlite.features.approvals.commands.approvals": ("approval",)}}
    pages = "heatlite.features.approvals.pages"
    create_options = {OPTION: (REFUSE,)}  # there is no stack to wait in
    change_options = {OPTION: (REFUSE, WAIT)}

    def sweeps(self, components: "Components", one_command: bool) -> Sequence[Callable[[], None]]:
        from heatlite.features.approvals.store.store import ApprovalStore

        rows, clock = components.store.of(ApprovalStore), components.clock
        is_new = not one_command

        def sweep() -> None:
            nonlocal is_new
            # Most commands need no more of it.
            if is_new or rows.due(clock.now()):
                from heatlite.features.approvals.parts import operations

                if is_new:
                    components.of(operations).settle()
                    is_new = False
                components.of(operations).expire()

        return (sweep,)

    def examiner(self, components: "Components") -> "Examiner | None":
        if not is_active(components.settings, "change_policy"):
            return None  # no policy asks for an approval
        from heatlite.features.approvals.parts import examiner

        return components.of(examiner)

    def action_moves(
        self, components: "Components", action: "ActionRecord", after: ActionStatus, reason: str
    ) -> None:
        if action.status is ActionStatus.INIT and action.data.approval is not None and after in ENDED_ACTIONS:
            from heatlite.features.approvals.parts import operations

            components.of(operations).cancelled(action)
        if action.verb is Verb.DELETE and after is ActionStatus.SUCCEEDED and action.parent_id is None:
            from heatlite.features.approvals.parts import operations

            components.of(operations).stack_deleted(action.stack_id)

    def decided(self, components: "Components", decision: "Decision") -> None:
        from heatlite.features.approvals.parts import operations

        components.of(operations).follow(decision)

    def why(self, components: "Components", tree: "ExplainedTree", told: "Sequence[Told]") -> "Sequence[Told]":
        from heatlite.features.approvals.store.store import ApprovalStore
        from heatlite.features.approvals.why import facts

        waiting = [action.data.approval.id for action in tree.actions if action.data.approval is not None]
        return [*told, *facts(tree, components.store.of(ApprovalStore).open_of_stack(tree.root.id, waiting))]

    def planned(self, client: "Client", stack: "Stack | None", facts: "Object") -> "PlanFacts":
        from heatlite.cli.session import PlanFacts
        from heatlite.features.approvals.commands.lines import planned

        return PlanFacts(planned(facts))


feature = ApprovalsFeature()
