"""Routes of revisions."""

from heatlite.api.components import Components
from heatlite.api.handlers.common import StackFinder
from heatlite.api.routes import Routes, S
from heatlite.features.revisions.api.handlers import StackRevisions


def add(routes: Routes, components: Components) -> None:
    """Add the routes."""
    shown = StackRevisions(components, StackFinder(components.store))
    routes.add(S + "/revisions", shown, GET="stacks:template")
    routes.add(S + "/revisions/{number}", shown, "one", GET="stacks:template")
    routes.add(S + "/revisions/{number}/diff", shown, "diff", query={"GET": ("with",)}, GET="stacks:template")
