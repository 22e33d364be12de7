"""Routes of drift."""

from heatlite.api.components import Components
from heatlite.api.handlers.common import StackFinder
from heatlite.api.routes import P, Routes, S
from heatlite.features.drift.api.handlers import KEYS, PROJECT_KEYS, DriftList


def add(routes: Routes, components: Components) -> None:
    """Add the routes."""
    lists = DriftList(components.store, components.reader, StackFinder(components.store))
    routes.add(S + "/drift", lists, query={"GET": KEYS}, GET="stacks:show_drift")
    routes.add(P + "/drift", lists, "project", query={"GET": PROJECT_KEYS}, GET="stacks:list_drift")
