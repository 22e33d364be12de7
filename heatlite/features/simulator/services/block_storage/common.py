"""Kinds of block storage, and checks that its verbs share."""

from typing import Final, cast

from heatlite.clients.cloud import CloudError
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.simulation import SimulatedProject

VOLUME: Final = "block_storage.volume"
SNAPSHOT: Final = "block_storage.snapshot"
BACKUP: Final = "block_storage.backup"
TYPE: Final = "block_storage.type"
QOS: Final = "block_storage.qos_spec"
QUOTA: Final = "block_storage.quota_set"


def in_state(verb: str, thing: JsonMap, noun: str, allowed: tuple[str, ...]) -> None:
    if thing["status"] not in allowed:
        text = f"{noun.capitalize()} {thing['id']} status must be {' or '.join(allowed)}, but current status is"
        raise CloudError(verb, f"Invalid {noun}: {text}: {thing['status']}.", 400)


def busy(view: SimulatedProject, thing: JsonMap, status: str, **then: Json) -> Json:
    """Keep a volume busy for a while, then restore its status and apply `then`."""
    view.simulation.later(thing, {"status": "in-use" if thing["attachments"] else "available", **then})
    thing["status"] = status
    view.put(VOLUME, thing)
    return None


def texts(verb: str, values: Json) -> JsonMap:
    found = dict(cast(JsonMap, values or {}))
    for key, value in found.items():
        if not isinstance(value, str):
            raise CloudError(verb, f"Invalid input for field/attribute {key}. Value: {value}. It is not text.", 400)
    return found
