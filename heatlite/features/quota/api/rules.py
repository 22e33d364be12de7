"""Rules of the routes, and the roles of which one suffices."""

from typing import Final

from heatlite.api.access.policy import READERS

RULES: Final = {"quota:show": READERS}
