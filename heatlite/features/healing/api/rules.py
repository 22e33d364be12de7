"""Rules of the routes, and the roles of which one suffices."""

from typing import Final

from heatlite.api.access.policy import MEMBERS, READERS

REPORT: Final = "health:report"
RULES: Final = {
    "actions:heal": MEMBERS,
    "health:configure": MEMBERS,
    "health:operate": MEMBERS,
    REPORT: MEMBERS,
    "health:show": READERS,
    "health:tokens": MEMBERS,
    "stacks:healing": MEMBERS,
    "stacks:list_healing": READERS,
    "stacks:show_healing": READERS,
}
