"""Rules of the routes, and the roles of which one suffices."""

from typing import Final

from heatlite.api.access.policy import ADMINS, MEMBERS, READERS

PUT: Final = "change_policy:put"
RULES: Final = {
    PUT: ADMINS,
    "change_policy:show": READERS,
    "stacks:change_policy": MEMBERS,
}
