"""Rules of the operations, and the roles of which one suffices."""

from typing import Final

from heatlite.api.access.policy import MEMBERS

RULES: Final = {"actions:import": MEMBERS, "actions:detach": MEMBERS, "actions:move": MEMBERS}
