"""Rules of the routes, and the roles of which one suffices."""

from typing import Final

from heatlite.api.access.policy import MEMBERS, READERS

RULES: Final = {
    "stacks:expire": MEMBERS,
    "stacks:schedule": MEMBERS,
    "stacks:show_schedule": READERS,
}
