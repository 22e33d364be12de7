"""The simulated cloud has openstacksdk's verbs and names of attributes."""

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import pytest

from heatlite.clients.connection import _OTHERWISE
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.services import registry
from tests.resource_types import REST
from tests.tables import table


@pytest.fixture(scope="module", autouse=True)
def _sdk() -> None:
    """Import the library on first use: that takes a second in each process."""
    pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")


OF_REST = {verb for tables in REST for verb, _ in tables.verbs()}
MODULES = {
    "block_storage": "block_storage.v3", "compute": "compute.v2", "dns": "dns.v2", "identity": "identity.v3",
    "image": "image.v2", "key_manager": "key_manager.v1", "load_balancer": "load_balancer.v2", "network": "network.v2",
    "object_store": "object_store.v1",
}  # fmt: skip
"""Service → where the SDK has it, in the version that clouds offer."""
OF_COLLECTIONS = [collection for module in registry.MODULES for collection in module.COLLECTIONS]
COMPARED = {"network", "identity", "load_balancer", "dns", "key_manager"}
MODULE_OF = {  # where the SDK calls a kind otherwise than its verbs do
    "network.ip": "floating_ip",
}


def proxy(service: str) -> Any:
    return importlib.import_module(f"openstack.{MODULES[service]}._proxy").Proxy


@table("verb", sorted(registry.VERBS.keys() - _OTHERWISE.keys() - OF_REST))
def test_a_verb_is_the_sdks(verb: str) -> None:
    service, _, name = verb.partition(".")
    method = getattr(proxy(service), name, None)
    assert method is not None, f"openstacksdk has no {verb}"
    ours = inspect.signature(registry.VERBS[verb]).parameters.values()
    theirs = inspect.signature(method).parameters
    if any(one.kind is one.VAR_KEYWORD for one in theirs.values()):
        return
    named = {one.name for one in ours if one.kind is one.KEYWORD_ONLY}
    assert named <= theirs.keys(), f"{verb}: openstacksdk does not take {named - theirs.keys()}"


def known(collection: Collection) -> set[str] | None:
    """The SDK's names of a kind's attributes; None if it keeps all attributes."""
    noun = MODULE_OF.get(collection.kind, collection.noun)
    module = importlib.import_module(f"openstack.{MODULES[collection.service]}.{noun}")
    name = noun.replace("_", "")
    (cls,) = [one for key, one in vars(module).items() if key.lower() == name and inspect.isclass(one)]
    if cls._allow_unknown_attrs_in_body or cls._store_unknown_attrs_as_properties:
        return None
    found: set[str] = {"location"}
    for component in ("_body_mapping", "_uri_mapping", "_header_mapping", "_computed_mapping"):
        mapping: Mapping[str, str] = getattr(cls, component)()
        found |= set(mapping)
    return found


COMPARED = ("network", "compute", "block_storage", "image")


@table(
    "collection", [one for one in OF_COLLECTIONS if one.service in COMPARED]
)
def test_an_object_is_called_as_there(collection: Collection) -> None:
    names = known(collection)
    told = {name for name in (*collection.defaults, *collection.required) if not name.startswith("_")}
    assert names is None or told <= names, f"openstacksdk does not know {sorted(told - names)}"
