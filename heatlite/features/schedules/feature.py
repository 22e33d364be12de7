"""Statement of the feature schedules."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from heatlite.core.status import ActionStatus, Verb
from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.components import Components
    from heatlite.cli.client import Client, Object, Stack
    from heatlite.cli.session import PlanFacts
    from heatlite.engine.why.tree import ExplainedTree, Told
    from heatlite.store.records import ActionRecord


class SchedulesFeature(Feature):
    """Operations on stacks at set times."""

    name = "schedules"
    routes = "heatlite.features.schedules.api.routes"
    rows = (
        "heatlite.features.schedules.store.store:SchedulesStore",
        "heatlite.features.schedules.store.expiries:ExpiryStore",
        "heatlite.features.schedules.store.delegations:DelegationStore",
    )
    commands = {
        "Actions and nodes": {
            "heatlite.features.schedules.commands.schedules": ("schedule",),
            "heatlite.features.schedules.commands.expiry": ("expire",),
        }
    }
    extends = {"up": ("heatlite.features.schedules.commands.expiry",)}
    pages = "heatlite.features.schedules.pages"

    def sweeps(self, components: "Components", one_command: bool) -> Sequence[Callable[[], None]]:
        from heatlite.features.schedules.store.store import SchedulesStore

        rows, clock = components.store.of(SchedulesStore), components.clock
        is_new = not one_command

        def sweep() -> None:
            nonlocal is_new
            if is_new:
                from heatlite.features.schedules.parts import Schedules

                components.of(Schedules).sweep.recompute()
                is_new = False
            due = rows.due(clock.now())
            # Most commands need no more of it.
            if due:
                from heatlite.features.schedules.parts import Schedules

                components.of(Schedules).sweep.run(due)

        return (sweep, partial(_sweep_expiries, components), partial(_revoke, components))

    def action_moves(
        self, components: "Components", action: "ActionRecord", after: ActionStatus, reason: str
    ) -> None:
        if action.verb is Verb.DELETE and after is ActionStatus.SUCCEEDED:
            from heatlite.features.schedules.store.delegations import DelegationStore
            from heatlite.features.schedules.store.expiries import ExpiryStore
            from heatlite.features.schedules.store.store import SchedulesStore

            components.store.of(SchedulesStore).stacks_removed([action.stack_id])
            components.store.of(ExpiryStore).stacks_removed([action.stack_id])
            components.store.of(DelegationStore).stacks_removed([action.stack_id])

    def why(self, components: "Components", tree: "ExplainedTree", told: "Sequence[Told]") -> "Sequence[Told]":
        from heatlite.features.schedules.store.expiries import ExpiryStore
        from heatlite.features.schedules.store.store import SchedulesStore
        from heatlite.features.schedules.why import facts

        rows = components.store
        return [*told, *facts(rows.of(SchedulesStore), rows.of(ExpiryStore), tree)]

    def planned(self, client: "Client", stack: "Stack | None", facts: "Object") -> "PlanFacts":
        from heatlite.cli.session import PlanFacts
        from heatlite.features.schedules.commands import schedules

        return PlanFacts([] if stack is None else schedules.planned(client, stack))


def _sweep_expiries(components: "Components") -> None:
    from heatlite.features.schedules.store.expiries import ExpiryStore

    due = components.store.of(ExpiryStore).due(components.clock.now())
    # Most commands need no more of it.
    if due:
        from heatlite.features.schedules.expiry.parts import Expiries

        components.of(Expiries).sweep.run(due)


def _revoke(components: "Components") -> None:
    from heatlite.core.config import Auth

    # Without Keystone there are no delegations.
    if components.settings.auth is Auth.KEYSTONE:
        from heatlite.features.schedules.delegations import Delegations

        components.of(Delegations).sweep(components.clock.now())


feature = SchedulesFeature()
