"""Rules of the routes, and the roles of which one suffices."""

from typing import Final

from heatlite.api.access.policy import MEMBERS, READERS

LIST: Final = "approvals:list"
RULES: Final = {
    LIST: READERS,
    "stacks:approve": MEMBERS,
}
