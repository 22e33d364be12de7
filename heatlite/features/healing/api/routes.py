"""Routes of reports, incidents and policies."""

from heatlite.api.components import Components
from heatlite.api.handlers.common import StackFinder
from heatlite.api.routes import P, Routes, S
from heatlite.features.healing.api.policies import KEYS, HealingPolicies, Incidents, ProjectPolicies
from heatlite.features.healing.api.rules import REPORT
from heatlite.features.healing.api.sources import IntakeTokens, Sources
from heatlite.features.healing.parts import Healing


def add(routes: Routes, components: Components) -> None:
    """Add the routes."""
    store, finder, made = components.store, StackFinder(components.store), components.of(Healing)

    routes.trail.leave_out(REPORT)  # one comes every few seconds; incidents tell what became of them

    policies = HealingPolicies(finder, made.operations)
    routes.add(S + "/healing", policies, GET="stacks:show_healing", PUT="stacks:healing", DELETE="stacks:healing")
    routes.add(S + "/healing/acknowledge", policies, "acknowledge", POST="health:operate")

    pages = {"GET": ("limit", "marker")}
    routes.add(P + "/healing", ProjectPolicies(store), query=pages, GET="stacks:list_healing")

    sources = Sources(made.intake)
    one = P + "/health/{source}"
    routes.add(one, sources, GET="health:show", POST=REPORT, PUT=REPORT)
    routes.add(one + "/config", sources, "config", PUT="health:configure", DELETE="health:configure")
    routes.add(one + "/acknowledge", sources, "acknowledge", POST="health:configure")
    tokens = IntakeTokens(store, components.clock)
    routes.add(P + "/health_tokens", tokens, GET="health:tokens", POST="health:tokens")
    routes.add(P + "/health_tokens/{token_id}", tokens, "one", DELETE="health:tokens")

    incidents = Incidents(store, made.operations)
    routes.add(P + "/incidents", incidents, query={"GET": KEYS}, GET="health:show")
    one = P + "/incidents/{incident_id}"
    routes.add(one, incidents, "one", GET="health:show")
    routes.add(one + "/close", incidents, "close", POST="health:operate")
    routes.add(one + "/approve", incidents, "approve", POST="health:operate")
