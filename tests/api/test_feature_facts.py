"""Keys and filters that features add to stacks and resources."""

from collections.abc import Mapping, Sequence

import pytest

from heatlite import wiring
from heatlite.core.json import JsonMap
from heatlite.store.feature_store import FeatureStore, RootRows, StackFilter
from tests.api.conftest import Heat, template, value

NEVER = "SELECT id FROM stack WHERE 1 = 0"


class Notes(FeatureStore):
    """A feature that has a note on each stack and resource."""

    stack_filters = {
        "with_note": StackFilter(NEVER),
        "noted_before": StackFilter("SELECT id FROM stack WHERE created_at < ?", takes_time=True),
    }

    def stack_facts(self, root_ids: Sequence[str], noted: Sequence[str]) -> Mapping[str, JsonMap]:
        return {one: {"note": f"on {one}"} for one in root_ids}

    def resource_facts(self, resource_ids: Sequence[str]) -> Mapping[str, JsonMap]:
        return {key: {"note": "on a resource"} for key in resource_ids}


class Marks(FeatureStore):
    """A feature beside it."""

    stack_rows = RootRows("resource", "stack_id")

    def stack_facts(self, root_ids: Sequence[str], noted: Sequence[str]) -> Mapping[str, JsonMap]:
        return {key: {"mark": key in noted} for key in root_ids}


@pytest.fixture
def noted(own_server: wiring.Embedded) -> Heat:
    """A server with these features and one stack."""
    own_server.store.of(Notes)
    own_server.store.of(Marks)
    heat = Heat(own_server.app)
    heat.create(template(a=value()))
    return heat


def test_keys_of_stacks(noted: Heat) -> None:
    (listed,), (detailed,) = noted.get("/stacks")["stacks"], noted.get("/stacks/detail")["stacks"]
    shown = noted.get(f"/stacks/s/{listed['id']}")["stack"]
    for one in (listed, detailed, shown):
        assert (one["note"], one["mark"]) == (f"on {listed['id']}", True)


def test_keys_of_resources(noted: Heat) -> None:
    path = f"/stacks/s/{noted.get('/stacks')['stacks'][0]['id']}/resources"
    (listed,), shown = noted.get(path)["resources"], noted.get(f"{path}/a")["resource"]
    (found,) = noted.get(f"/resources?physical_resource_id={shown['physical_resource_id']}")["resources"]
    assert [one["note"] for one in (listed, shown, found)] == ["on a resource"] * 3


def test_filters_of_stacks(noted: Heat) -> None:
    for query, count in {
        "with_note=true": 0,
        "with_note=false": 1,
        "noted_before=2020-01-01T00:00:00Z": 0,
        "noted_before=2222-01-01T00:00:00Z": 1,
        "noted_before=2222-01-01T00:00:00Z&with_note=true": 0,
    }.items():
        found = noted.get(f"/stacks?{query}&with_count=true")
        assert (len(found["stacks"]), found["count"]) == (count, count), query
    for query in ("with_note=perhaps", "noted_before=soon"):
        noted.fault("GET", f"/stacks?{query}")


def test_keys_of_features_that_are_not_there(own_heat: Heat) -> None:
    assert "Unknown query key with_note" in own_heat.fault("GET", "/stacks?with_note=true")[1]
