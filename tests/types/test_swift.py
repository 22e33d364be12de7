"""OS::Swift::Container on a simulated cloud."""

from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.json import JsonMap
from heatlite.core.status import Status
from tests.engine.conftest import attr, resource, template
from tests.tables import few
from tests.types.conftest import Cloudy
from tests.types.nova.test_drift_of_servers import places

CONTAINER = "object_store.container"


def container(**properties: object) -> Any:
    return resource("OS::Swift::Container", **properties)


def fill(cloudy: Cloudy, name: str, count: int) -> None:
    for number in range(count):
        cloudy.view().call("object_store.create_object", name, f"o{number}", data="abc")


def test_made_with_its_headers_and_deleted(cloudy: Cloudy) -> None:
    stack = cloudy.made({
        "c": container(**{
            "name": "mine", "X-Container-Read": ".r:*", "X-Container-Meta": {"colour": "red"},
            "X-Account-Meta": {"owner": "me"},
        }),
    })  # fmt: skip
    assert cloudy.row(stack, "c").physical_id == "mine"
    seen: Any = cloudy.view().call("object_store.get_container_metadata", "mine")
    assert (seen["x-container-read"], seen["x-container-meta-colour"]) == (".r:*", "red")
    assert cloudy.admin.simulation.all("object_store.account")["demo"]["owner"] == "me"
    cloudy.delete(stack)
    assert cloudy.count(CONTAINER) == 0


def test_attributes(cloudy: Cloudy) -> None:
    names = ("DomainName", "WebsiteURL", "RootURL", "ObjectCount", "BytesUsed", "HeadContainer")
    stack = cloudy.create(template(outputs={name: attr("c", name) for name in names}, c=container(name="mine")))
    fill(cloudy, "mine", 2)
    root = "https://object-store.simulated/v1/AUTH_demo"
    assert cloudy.outputs(stack) == {
        "DomainName": "object-store.simulated", "WebsiteURL": f"{root}/mine", "RootURL": root, "ObjectCount": 2,
        "BytesUsed": 6, "HeadContainer": {"x-container-object-count": "2", "x-container-bytes-used": "6"},
    }  # fmt: skip


@pytest.mark.slow
def test_a_full_one_stays_unless_it_is_purged(cloudy: Cloudy) -> None:
    stack = cloudy.made({"c": container(name="mine")})
    fill(cloudy, "mine", 1)
    stack = cloudy.delete(stack)
    assert stack.status is Status.FAILED
    assert "empty it, or set PurgeOnDelete" in cloudy.row(stack, "c").status_reason
    cloudy.view().call("object_store.delete_object", "o0", container="mine")
    assert cloudy.delete(stack).status is Status.COMPLETE


@pytest.mark.slow
def test_purging_takes_as_many_rounds_as_it_needs(cloudy: Cloudy) -> None:
    stack = cloudy.made({"c": container(name="mine", PurgeOnDelete=True)})
    fill(cloudy, "mine", 250)
    assert cloudy.delete(stack).status is Status.COMPLETE
    assert cloudy.count(CONTAINER) == 0


def test_any_change_is_another_container(cloudy: Cloudy) -> None:
    stack = cloudy.made({"c": container()})
    before = cloudy.row(stack, "c").physical_id
    cloudy.changed(stack, {"c": container(**{"X-Container-Read": "me"})})
    assert cloudy.row(stack, "c").physical_id != before
    assert cloudy.count(CONTAINER) == 1


def test_gone_is_found_by_a_check_and_no_hindrance_to_a_delete(cloudy: Cloudy) -> None:
    stack = cloudy.made({"c": container(name="mine")})
    assert cloudy.check(stack).status is Status.COMPLETE
    cloudy.view().call("object_store.delete_container", "mine")
    assert cloudy.check(stack).status is Status.FAILED
    assert cloudy.delete(stack).status is Status.COMPLETE


def test_a_container_of_others_is_not_taken_for_ours(cloudy: Cloudy) -> None:
    cloudy.view().call("object_store.create_container", "mine")
    fill(cloudy, "mine", 1)
    stack = cloudy.create(template(c=container(name="mine", PurgeOnDelete=True)))
    assert "there is a container mine already" in cloudy.row(stack, "c").status_reason
    cloudy.delete(stack)
    assert cloudy.count(CONTAINER) == 1
    assert cloudy.view().call("object_store.objects", "mine") != []


@pytest.mark.parametrize("properties", few([{}, {"name": "mine"}]))
def test_an_answer_that_is_lost(troubled: Callable[..., Cloudy], properties: dict[str, str]) -> None:
    cloudy = troubled(faults=[{"verb": "object_store.create_container", "number": 1, "raises": "lost"}])
    stack = cloudy.made({"c": container(**properties)})
    cloudy.delete(stack)
    assert cloudy.count(CONTAINER) == 0


def test_a_change_of_one_that_has_a_name_keeps_what_is_in_it(cloudy: Cloudy) -> None:
    stack = cloudy.made({"c": container(name="mine", PurgeOnDelete=True)})
    fill(cloudy, "mine", 1)
    stack = cloudy.changed(stack, {"c": container(**{"name": "mine", "PurgeOnDelete": True, "X-Container-Read": "me"})})
    assert cloudy.view().call("object_store.objects", "mine") != []
    seen: Any = cloudy.view().call("object_store.get_container_metadata", "mine")
    assert seen["x-container-read"] == "me"
    assert cloudy.delete(stack).status is Status.COMPLETE


HEADERS: JsonMap = {
    "X-Container-Read": ".referrer:*, .rlistings", "X-Container-Write": "demo:*", "X-Container-Meta": {"Colour": 1},
}  # fmt: skip
CHANGES = {
    "/X-Container-Read": {"X-Container-Read": ".r:*"},
    "/X-Container-Write": {"X-Container-Write": ""},
    "/X-Container-Meta/Colour": {"X-Container-Meta-Colour": "2"},
}
"""Paths that differ, and what has changed from outside."""


@pytest.mark.slow
@pytest.mark.parametrize("path", few(CHANGES))
def test_drift_is_put_back_in_place(cloudy: Cloudy, path: str) -> None:
    stack = cloudy.made({"c": container(name="mine", **HEADERS)})
    as_swift_tells = {"X-Container-Read": ".r:*,.rlistings"}
    cloudy.view().call("object_store.create_container", "mine", **as_swift_tells)
    assert places(cloudy, cloudy.check(stack), "c") == []
    cloudy.view().call("object_store.create_container", "mine", **CHANGES[path])
    stack, ids = cloudy.check(stack), cloudy.ids(stack)
    assert places(cloudy, stack, "c") == [path]
    cloudy.components.repairs.revert(cloudy.who, cloudy.get(stack), ["c"], None, {})
    stack = cloudy.settle(cloudy.get(stack))
    assert (stack.status, cloudy.ids(stack)) == (Status.COMPLETE, ids), cloudy.why(stack)
    assert places(cloudy, cloudy.check(stack), "c") == []
