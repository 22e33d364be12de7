"""Simulated alarm service (Aodh). Alarms are stored; none is evaluated."""

from heatlite.clients.cloud import CloudError
from heatlite.core.json import JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.simulation import SimulatedProject, Verb

ALARM = "alarming.alarm"


def _made(_view: SimulatedProject, thing: JsonMap) -> None:
    rule = f"{thing['type']}_rule"
    if rule not in thing:
        raise CloudError("alarming.create_alarm", f"{rule} must be set for {thing['type']} type alarm", 400)
    thing["alarm_id"] = thing["id"]


COLLECTIONS: list[Collection] = [
    Collection(
        ALARM,
        {
            "description": "", "enabled": True, "severity": "low", "state": "insufficient data",
            "repeat_actions": False, "time_constraints": [], "alarm_actions": [], "ok_actions": [],
            "insufficient_data_actions": [],
        },
        required=("name", "type"),
        unique=True,
        made=_made,
    )
]  # fmt: skip

VERBS: dict[str, Verb] = {}


def furnish(view: SimulatedProject) -> None:
    """Create nothing: there are no alarms at first."""
