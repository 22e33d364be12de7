"""Rules of the routes, and the roles of which one suffices."""

from typing import Final

from heatlite.api.access.policy import MEMBERS, READERS

RULES: Final = {
    "actions:accept_drift": MEMBERS,
    "actions:revert_drift": MEMBERS,
    "stacks:list_drift": READERS,
    "stacks:show_drift": READERS,
}
