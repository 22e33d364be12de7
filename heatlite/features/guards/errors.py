"""Refusals of guards."""

from urllib.parse import quote

from heatlite.core.errors import Conflict
from heatlite.core.wire.why import Holder, WayOut, words
from heatlite.features.guards.store.records import StandingAlert


class GuardFiring(Conflict):
    """An alert stands that would take the update back."""

    text = (
        "{source} reports what the guard looks for: {summary}. Nobody could tell whether the update of stack"
        " {stack_name} did it. Nothing was done. Update again when it is over, or without that alert in the guard."
    )

    def __init__(self, alert: StandingAlert, stack_name: str) -> None:
        look = WayOut(
            text="looks whether it is over",
            command=f"heatlite health source show {words(alert.source)}",
            method="GET",
            path=f"/v1/{alert.project}/health/{quote(alert.source, safe='')}",
        )
        held = Holder(kind="alert", id=alert.key, by=alert.source)
        fields = {"source": alert.source, "summary": alert.summary, "stack_name": stack_name}
        super().__init__(holder=held, way_out=[look], **fields)
