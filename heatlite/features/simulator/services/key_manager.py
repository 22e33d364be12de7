"""Simulated key manager service (Barbican)."""

import base64
import binascii
from typing import Final, cast

from heatlite.clients.cloud import CloudError, CloudNotFound
from heatlite.core.clock import to_text
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.simulation import SimulatedProject, Verb

SECRET: Final = "key_manager.secret"
ORDER: Final = "key_manager.order"
CONTAINER: Final = "key_manager.container"

URL: Final = "http://key-manager.simulated/v1"


class Referred(Collection, frozen=True):
    """Kind of object that is identified by a URL, and requested by the id in it."""

    def _ref(self, key: Json) -> str:
        return f"{URL}/{self.noun}s/{key}"

    def create(self, view: SimulatedProject, *whole: Json, **attributes: Json) -> Json:
        attributes["id"] = attributes[f"{self.noun}_ref"] = self._ref(view.simulation.new_id(self.kind))
        made = cast(JsonMap, super().create(view, *whole, **attributes))
        made["created"] = made["updated"] = to_text(view.simulation.clock.now())
        return view.put(self.kind, made)

    def get(self, view: SimulatedProject, key: Json, /, *whole: Json, **_: Json) -> Json:
        return _with_payload(cast(JsonMap, super().get(view, self._ref(key), *whole)))

    def find(
        self, view: SimulatedProject, name_or_id: Json, *whole: Json, ignore_missing: bool = True, **query: Json
    ) -> Json:
        found = super().find(view, self._ref(name_or_id), *whole)
        return found or super().find(view, name_or_id, *whole, ignore_missing=ignore_missing, **query)

    def delete(self, view: SimulatedProject, key: Json, /, *whole: Json, **_: Json) -> Json:
        return super().delete(view, self._ref(key), *whole)


def _with_payload(thing: JsonMap) -> JsonMap:
    """Return a secret with its payload, which only this verb returns."""
    if thing.get("_payload") is None:
        return thing
    return {**thing, "payload": base64.b64decode(str(thing["_payload"])).decode(errors="replace")}


def _secret_made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "key_manager.create_secret"
    payload, kind = thing.pop("payload", None), thing.pop("payload_content_type", None)
    encoding = thing.pop("payload_content_encoding", None)
    expires = thing.get("expiration")
    if expires is not None and str(expires) < str(to_text(view.simulation.clock.now())):
        raise CloudError(
            verb, "Provided object does not match schema 'Secret': 'expiration' is before current time", 400
        )
    thing["status"], thing["content_types"] = "ACTIVE", None
    if payload is None:
        return
    if kind is None:
        raise CloudError(verb, "If 'payload' is supplied, 'payload_content_type' must also be supplied.", 400)
    if encoding is None and kind != "text/plain":
        raise CloudError(verb, "payload_content_encoding must be specified when payload_content_type is binary", 400)
    content = str(payload).encode()
    if encoding == "base64":
        try:
            content = base64.b64decode(content, validate=True)
        except binascii.Error as error:
            raise CloudError(verb, "Invalid payload for payload_content_encoding", 400) from error
    thing["_payload"] = base64.b64encode(content).decode()
    thing["content_types"] = {"default": kind}


def _order_made(view: SimulatedProject, thing: JsonMap) -> None:
    meta = cast(JsonMap, thing.get("meta") or {})
    if thing["type"] != "certificate" and (meta.get("algorithm") is None or not meta.get("bit_length")):
        raise CloudError("key_manager.create_order", "Provided object does not match schema 'Order'", 400)
    thing["status"], thing["sub_status"], thing["container_ref"] = "PENDING", "Unknown", None
    view.simulation.later(thing, {"status": "ACTIVE"})


def _fulfilled(view: SimulatedProject, thing: JsonMap) -> JsonMap:
    """Return an order. Once it is ACTIVE, the ordered objects exist."""
    fault = cast(JsonMap | None, thing.get("fault"))
    if fault is not None:
        return {**thing, "sub_status_message": fault["message"]}
    if thing["status"] != "ACTIVE" or thing.get("secret_ref") or thing.get("container_ref"):
        return thing
    meta = cast(JsonMap, thing["meta"])
    if thing["type"] == "key":
        thing["secret_ref"] = _stored(view, meta, "symmetric")
    else:
        parts = ("certificate", "intermediates") if thing["type"] == "certificate" else ("private_key", "public_key")
        refs: list[Json] = [
            {"name": part, "secret_ref": _stored(view, meta, part.removesuffix("_key"), f"SIMULATED {part}")}
            for part in parts
        ]
        kind = "certificate" if thing["type"] == "certificate" else "rsa"
        container = CONTAINERS.create(view, type=kind, name=meta.get("name"), secret_refs=refs)
        thing["container_ref"] = cast(JsonMap, container)["container_ref"]
    return view.put(ORDER, thing)


def _stored(view: SimulatedProject, meta: JsonMap, kind: str, payload: str = "SIMULATED key") -> Json:
    known = {key: meta[key] for key in ("name", "algorithm", "bit_length", "mode", "expiration") if key in meta}
    made = SECRETS.create(view, secret_type=kind, payload=payload, payload_content_type="text/plain", **known)
    return cast(JsonMap, made)["secret_ref"]


def _get_order(view: SimulatedProject, key: Json) -> Json:
    return _fulfilled(view, cast(JsonMap, ORDERS.get(view, key)))


def _container_made(view: SimulatedProject, thing: JsonMap) -> None:
    for one in cast(list[JsonMap], thing["secret_refs"]):
        if str(one["secret_ref"]) not in view.simulation.all(SECRET):
            verb = "key_manager.create_container"
            raise CloudNotFound(verb, f"Secret reference {one['secret_ref']} was not found.")
    thing["status"], thing["consumers"] = "ACTIVE", []


SECRETS: Final = Referred(
    SECRET,
    {
        "name": None, "algorithm": None, "bit_length": None, "mode": None, "expiration": None,
        "secret_type": "opaque",
    },
    made=_secret_made,
)  # fmt: skip
ORDERS: Final = Referred(ORDER, {"secret_ref": None}, required=("type",), made=_order_made)
CONTAINERS: Final = Referred(CONTAINER, {"name": None, "secret_refs": []}, required=("type",), made=_container_made)

COLLECTIONS: list[Collection] = [SECRETS, ORDERS, CONTAINERS]

VERBS: dict[str, Verb] = {"key_manager.get_order": _get_order}


def furnish(view: SimulatedProject) -> None:
    """Create nothing: there are no secrets at first."""
