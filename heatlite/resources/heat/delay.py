"""OS::Heat::Delay."""

import secrets

from heatlite.core.json import Json
from heatlite.plugin import Change, Resource, Schema, SupportStatus, prop


def wait_until(moment: Json, now: float) -> bool | float:
    """Return the answer of a check that waits for a moment (seconds since the epoch).

    None never comes.
    """
    if not isinstance(moment, int | float):
        return False
    return True if now >= moment else moment - now


class DelayProps(Schema):
    min_wait: float = prop(0, between=(0, None), update=True, doc="Minimum seconds to wait.")
    max_jitter: float = prop(
        0, between=(0, None), update=True, doc="Maximum random addition, in units of jitter_multiplier."
    )
    jitter_multiplier: float = prop(1.0, between=(0, None), update=True, doc="Seconds in one unit of max_jitter.")
    actions: list[Json] = prop(
        ["CREATE"], one_of=("CREATE", "DELETE", "SUSPEND", "RESUME"), update=True, doc="The actions that wait."
    )


class Delay(Resource[DelayProps], type="OS::Heat::Delay"):
    """Waits for a given time plus a random one.

    It delays the resources that depend on it; in a large group it spreads the start of the members.
    """

    support_status = SupportStatus(version="11.0.0")

    def _start(self, action: str) -> Json:
        props = self.props
        if action not in props.actions:
            return self.facts.now()
        jitter = props.max_jitter * props.jitter_multiplier * secrets.SystemRandom().random()
        return self.facts.now() + props.min_wait + jitter

    def handle_create(self) -> Json:
        self.physical_id = self.physical_name
        return self._start("CREATE")

    def check_create_complete(self, token: Json) -> bool | float:
        return wait_until(token, self.facts.now())

    check_delete_complete = check_suspend_complete = check_resume_complete = check_create_complete

    def handle_update(self, change: Change) -> None:
        """Do nothing: the next wait reads the properties."""

    def handle_delete(self) -> Json:
        return self._start("DELETE")

    def handle_suspend(self) -> Json:
        return self._start("SUSPEND")

    def handle_resume(self) -> Json:
        return self._start("RESUME")
