"""Rules of the routes, and the roles of which one suffices."""

from typing import Final

from heatlite.api.access.policy import READERS

SHOW: Final = "stacks:sources"
RULES: Final = {SHOW: READERS}
