"""Routes of schedules."""

from heatlite.api.components import Components
from heatlite.api.handlers.common import StackFinder
from heatlite.api.routes import P, Routes, S
from heatlite.features.schedules.api.expiry import StackExpiry
from heatlite.features.schedules.api.project_list import ProjectSchedules
from heatlite.features.schedules.api.schedules import StackSchedules
from heatlite.features.schedules.expiry.parts import Expiries
from heatlite.features.schedules.parts import Schedules


def add(routes: Routes, components: Components) -> None:
    """Add the routes."""
    store, operations = components.store, components.of(Schedules).operations

    finder = StackFinder(store)
    schedules = StackSchedules(finder, operations)
    routes.add(S + "/schedules", schedules, GET="stacks:show_schedule", POST="stacks:schedule")
    one = S + "/schedules/{schedule_id}"
    routes.add(one, schedules, "one", GET="stacks:show_schedule", PUT="stacks:schedule", DELETE="stacks:schedule")

    listed = ProjectSchedules(store)
    pages = {"GET": ("stack", "limit", "marker")}
    routes.add(P + "/schedules", listed, query=pages, GET="stacks:show_schedule")

    expiry = StackExpiry(finder, components.of(Expiries).operations)
    routes.add(S + "/expiry", expiry, GET="stacks:show_schedule", PUT="stacks:expire", DELETE="stacks:expire")
