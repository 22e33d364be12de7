"""Resources and events: lists, details, health marks, signals."""

import re
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.api.handlers import events as event_routes
from heatlite.cli.client import _with_paths
from heatlite.core.ids import new_id
from heatlite.core.status import Status, Verb
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Parameters, Row
from heatlite.store.records import EventRecord
from heatlite.store.store import Store
from tests.tables import few

from .conftest import Heat, template, value

ITEM = {
    "resource_name", "logical_resource_id", "physical_resource_id", "resource_type", "resource_status",
    "resource_status_reason", "creation_time", "updated_time", "required_by", "links", "protection", "deletion_policy",
    "drift",
}  # fmt: skip
EVENT = {
    "id", "links", "event_time", "resource_name", "logical_resource_id", "resource_status", "resource_status_reason",
    "physical_resource_id",
}  # fmt: skip
PAIR = template(
    a=value("x", metadata={"m": [1]}, description="First."),
    b={"type": "OS::Heat::TestResource", "properties": {"value": {"get_attr": ["a", "value"]}}},
)


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["resource_name"] for item in items]


class TestResources:
    def test_list(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        body = heat.get(f"{path}/resources")
        assert body.keys() == {"resources"}
        items = {item["resource_name"]: item for item in body["resources"]}
        assert items.keys() == {"a", "b"}
        for name, item in items.items():
            assert item.keys() == ITEM
            assert item["logical_resource_id"] == name
            assert item["resource_status"] == "CREATE_COMPLETE"
            assert re.fullmatch(rf"s-{name}-[0-9a-z]{{12}}", item["physical_resource_id"])
            assert item["links"] == [
                {"rel": "self", "href": f"http://localhost:80{heat.root}{path}/resources/{name}"},
                {"rel": "stack", "href": f"http://localhost:80{heat.root}{path}"},
            ]
            assert item["updated_time"] >= item["creation_time"]
        assert items["a"]["required_by"] == ["b"]
        assert items["b"]["required_by"] == []
        assert items["a"]["resource_type"] == "OS::Heat::Value"

    def test_an_old_object_that_waits_for_its_deletion(self, heat: Heat, store: Store) -> None:
        """It is no second resource: clients of Heat know resources by their names."""
        path = heat.create(PAIR)
        (row,) = store.resources.by_name(path.rpartition("/")[2], ["a"])
        old = replace(row, id=new_id(), physical_id="gone", verb=Verb.DELETE, status=Status.FAILED)
        with store.transaction():
            store.resources.insert_many([replace(old, status_reason="in use")])
        listed = heat.get(f"{path}/resources")["resources"]
        assert sorted(names(listed)) == ["a", "b"]
        a = next(item for item in listed if item["resource_name"] == "a")
        assert (a["physical_resource_id"], a["resource_status"]) == (row.physical_id, "CREATE_COMPLETE")
        (shown,) = a["left_over"]
        assert heat.get(f"{path}/resources?limit=1")["resources"] == [a]
        assert (shown["physical_resource_id"], shown["resource_status"], shown["resource_status_reason"]) == (
            "gone", "DELETE_FAILED", "in use",
        )  # fmt: skip
        for query in ("name=a", "limit=1", "status=COMPLETE", f"physical_resource_id={row.physical_id}"):
            of_a = [one for one in heat.get(f"{path}/resources?{query}")["resources"] if one["resource_name"] == "a"]
            assert [one["left_over"] for one in of_a] == [[shown]], query
        for name in ("a", row.physical_id):
            assert heat.get(f"{path}/resources/{name}")["resource"]["left_over"] == [shown]
        asked = heat.get(f"{path}/resources/gone")["resource"]
        assert (asked["resource_status"], "left_over" in asked) == ("DELETE_FAILED", False)

    def test_a_stack_lists_what_a_failed_operation_has_left(self, heat: Heat, store: Store) -> None:
        """Law G9. The command that lists resources has it, too."""
        path = heat.create(PAIR)
        assert "leftovers" not in heat.get(path)["stack"]
        stack = store.stacks.get(path.rpartition("/")[2])
        assert stack is not None
        (row,) = store.resources.by_name(stack.id, ["a"])
        old = replace(row, id=new_id(), physical_id="gone", verb=Verb.DELETE, status=Status.FAILED)
        with store.transaction():
            store.resources.insert_many([replace(old, status_reason="in use")])
            store.stacks.save(replace(stack, verb=Verb.UPDATE, status=Status.FAILED))
        assert heat.get(path)["stack"]["leftovers"] == [
            {
                "resource_name": "a",
                "resource_type": "OS::Heat::Value",
                "physical_resource_id": "gone",
                "resource_status": "DELETE_FAILED",
                "resource_status_reason": "in use",
            }
        ]
        listed = _with_paths(heat.get(f"{path}/resources")["resources"])
        assert sorted(str(one["path"]) for one in listed) == ["a", "a (old)", "b"]

    def test_details_and_filters(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        for item in heat.get(f"{path}/resources?with_detail=True&nested_depth=2")["resources"]:
            assert item.keys() == ITEM | {"description", "attributes"}
        physical_id = heat.get(f"{path}/resources/b")["resource"]["physical_resource_id"]
        for query, expected in (
            ("type=OS::Heat::Value", ["a"]),
            ("type=Test", ["b"]),
            ("name=a", ["a"]),
            ("name=a&name=b", ["a", "b"]),
            ("status=COMPLETE", ["a", "b"]),
            ("status=CREATE_COMPLETE", ["a", "b"]),
            ("status=FAILED", []),
            ("action=CREATE", ["a", "b"]),
            ("action=UPDATE", []),
            (f"physical_resource_id={physical_id}", ["b"]),
        ):
            assert sorted(names(heat.get(f"{path}/resources?{query}")["resources"])) == expected, query

    def test_bad_queries(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        assert heat.fault("GET", f"{path}/resources?nested_depth=abc") == (
            "HTTPBadRequest",
            "Only integer is acceptable by 'nested_depth'.",
        )
        assert heat.fault("GET", f"{path}/resources?zz=1&name=a") == (
            "HTTPBadRequest",
            "Unknown query key zz; there are: type, status, name, action, id, physical_resource_id, health,"
            " nested_depth, with_detail, limit, marker.",
        )
        assert heat.fault("GET", f"{path}/resources?with_detail=1")[0] == "HTTPBadRequest"

    def test_show(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        body = heat.get(f"{path}/resources/a")
        assert body.keys() == {"resource"}
        resource = body["resource"]
        assert resource.keys() == ITEM | {"description", "attributes"}
        assert resource["description"] == "First."
        assert resource["attributes"]["value"] == "x"
        assert resource["required_by"] == ["b"]
        asked = heat.get(f"{path}/resources/a?with_attr=zz&with_attr=value")["resource"]
        assert asked["attributes"]["zz"] is None
        assert asked["attributes"]["value"] == "x"
        assert heat.fault("GET", f"{path}/resources/zz", code=404) == (
            "ResourceNotFound",
            "The Resource (zz) could not be found in Stack s.",
        )

    def test_metadata(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        assert heat.get(f"{path}/resources/a/metadata") == {"metadata": {"m": [1]}}
        assert heat.get(f"{path}/resources/b/metadata") == {"metadata": {}}
        assert heat.fault("GET", f"{path}/resources/zz/metadata", code=404)[0] == "ResourceNotFound"

    def test_signal(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        for body in ({}, {"x": 1}, None):
            assert heat.fault("POST", f"{path}/resources/a/signal", body) == (
                "ResourceActionNotSupported",
                "signal is not supported for resource.",
            )
        assert heat.fault("POST", f"{path}/resources/a/signal", {"unset_hook": "zz"})[0] == "InvalidBreakPointHook"
        assert heat.fault("POST", f"{path}/resources/a/signal", [])[0] == "HTTPBadRequest"
        assert heat.fault("POST", f"{path}/resources/zz/signal", code=404)[0] == "ResourceNotFound"

    def test_odd_names(self, heat: Heat) -> None:
        path = heat.create(template(**{"ä b?": value()}))
        (item,) = heat.get(f"{path}/resources")["resources"]
        url = item["links"][0]["href"].partition(heat.root)[2]
        assert url.endswith("/resources/%C3%A4%20b%3F")
        assert heat.get(url)["resource"]["resource_name"] == "ä b?"
        assert names(heat.get(f"{url}/events")["events"]) == ["ä b?", "ä b?"]


NESTED = template(
    a=value(),
    g={
        "type": "OS::Heat::ResourceGroup",
        "properties": {
            "count": 3,
            "resource_def": {
                "type": "OS::Heat::ResourceGroup",
                "properties": {"count": 2, "resource_def": {"type": "OS::Heat::TestResource"}},
            },
        },
    },
    z=value(),
)
"""``a``, ``g``, ``z``; three groups in ``g``, two resources in each."""


class TestPages:
    """`limit` and `marker` of a list of resources."""

    @staticmethod
    def pages(heat: Heat, path: str, asked: str) -> list[list[dict[str, Any]]]:
        """The pages, as their links lead on."""
        found, url = [], f"{path}/resources?{asked}"
        while url:
            body = heat.get(url)
            found.append(body["resources"])
            url = "".join(link["href"].partition(heat.root)[2] for link in body.get("links", ()))
        return found

    @pytest.mark.parametrize(
        "more",
        few(["", "&name=0&name=g", "&type=Group", "&status=COMPLETE", "&with_detail=True"]),
    )
    @pytest.mark.parametrize("limit", few([1, 2, 4, 100]))
    def test_pages_have_each_resource_once(self, heat: Heat, limit: int, more: str) -> None:
        path = heat.create(NESTED)
        whole = heat.get(f"{path}/resources?nested_depth=5{more}")["resources"]
        pages = self.pages(heat, path, f"nested_depth=5&limit={limit}{more}")
        assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
        assert 0 < len(pages[-1]) <= limit
        found = [item for page in pages for item in page]
        assert len(found) == len(whole) > 2
        assert all(item in whole for item in found)

    def test_the_order_is_by_name_in_each_stack(self, heat: Heat) -> None:
        path = heat.create(template(**{f"r{n}": value() for n in (10, 9, 8, 1)}))
        first = heat.get(f"{path}/resources?limit=3")
        assert names(first["resources"]) == ["r1", "r10", "r8"]
        assert [link["rel"] for link in first["links"]] == ["next"]
        last = heat.get(f"{path}/resources?limit=3&marker=r8")
        assert names(last["resources"]) == ["r9"]
        assert "links" not in last
        assert names(heat.get(f"{path}/resources?marker=r10")["resources"]) == ["r8", "r9"]
        assert heat.get(f"{path}/resources?marker=r9&limit=1") == {"resources": []}
        assert heat.get(f"{path}/resources?limit=0") == {"resources": []}

    def test_a_marker_in_a_nested_stack_is_a_path(self, heat: Heat) -> None:
        path = heat.create(NESTED)
        (one,) = heat.get(f"{path}/resources?nested_depth=5&marker=g/1/0&limit=1")["resources"]
        assert one["links"][0] == heat.get(f"{path}/resources/g/1/1")["resource"]["links"][0]

    def test_unknown_markers(self, heat: Heat) -> None:
        path = heat.create(NESTED)
        (row,) = self.pages(heat, path, "name=a&limit=2")
        for asked in ("marker=zz", "marker=g/1/0", "marker=g/7&nested_depth=5", f"marker={new_id()}", "marker=a/b"):
            assert "is no resource of this list" in heat.fault("GET", f"{path}/resources?{asked}")[1]
        assert names(row) == ["a"]

    def test_only_resources_of_a_health(self, heat: Heat) -> None:
        path = heat.create(NESTED)
        assert heat.get(f"{path}/resources?health=unhealthy&nested_depth=5") == {"resources": []}
        for marked in ("a", "g/0/1", "g/2/0"):
            heat.call("PATCH", f"{path}/resources/{marked}", {"mark_unhealthy": True}, code=200)
        assert names(heat.get(f"{path}/resources?health=unhealthy,unknown")["resources"]) == ["a"]
        pages = self.pages(heat, path, "health=unhealthy&nested_depth=5&limit=1")
        assert sorted(item["resource_name"] for page in pages for item in page) == ["0", "1", "a"]
        assert heat.get(f"{path}/resources?health=suspected&nested_depth=5") == {"resources": []}
        assert heat.fault("GET", f"{path}/resources?health=well")[0] == "HTTPBadRequest"


class TestPaths:
    """A path into nested stacks, or the physical id of a member, as the name."""

    def test_reads(self, heat: Heat) -> None:
        path = heat.create(NESTED)
        member = heat.get(f"{path}/resources/g/1/0")["resource"]
        url = member["links"][0]["href"].partition(heat.root)[2]
        assert heat.get(url)["resource"] == member
        assert heat.get(f"{path}/resources/{member['physical_resource_id']}")["resource"] == member
        for below in ("", "/metadata", "/events", f"/events/{heat.get(f'{url}/events')['events'][0]['id']}"):
            assert heat.get(f"{path}/resources/g/1/0{below}") == heat.get(f"{url}{below}")

    def test_marks(self, heat: Heat) -> None:
        path = heat.create(NESTED)
        mark = {"mark_unhealthy": True, "resource_status_reason": "smoke"}
        members = ("g/0/0", "g/0/1")
        ids = {name: heat.get(f"{path}/resources/{name}")["resource"]["physical_resource_id"] for name in members}
        heat.call("PATCH", f"{path}/resources/g/1/0", mark, code=200)
        heat.call("PATCH", f"{path}/resources/{ids['g/0/0']}", mark, code=200)
        body = {"marks": [{"resource": ids["g/0/1"], **mark}, {"resource": "g/2/0", **mark}]}
        heat.call("PATCH", f"{path}/resources", body, code=200)
        marked = heat.get(f"{path}/resources?nested_depth=5&health=unhealthy")["resources"]
        places = sorted(f"g/{one['parent_resource']}/{one['resource_name']}" for one in marked)
        assert places == ["g/0/0", "g/0/1", "g/1/0", "g/2/0"]
        assert {one["resource_status_reason"] for one in marked} == {"smoke"}

    @pytest.mark.slow
    def test_a_locked_stack_keeps_a_mark_for_its_end(self, heat: Heat) -> None:
        path = heat.create(NESTED)
        heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks"}}, code=200)
        heat.settle(path)
        heat.call("PATCH", f"{path}/resources/g/1/0", {"mark_unhealthy": True}, code=409)
        (entry,) = heat.get(f"{path}/lock")["suppressed"]
        heat.call("POST", f"{path}/actions", {"unlock": None}, code=200)
        heat.settle(path)
        heat.call("POST", f"{path}/lock/suppressed/{entry['id']}/replay", code=200)
        assert heat.get(f"{path}/resources/g/1/0")["resource"]["resource_status"] == "CHECK_FAILED"

    @pytest.mark.parametrize("name", few(["g/7", "g/1/zz", "a/0", "zz/0"]))
    def test_unknown(self, heat: Heat, name: str) -> None:
        path = heat.create(NESTED)
        for method, body in (("GET", None), ("PATCH", {"mark_unhealthy": True})):
            kind, message = heat.fault(method, f"{path}/resources/{name}", body, code=404)
            assert kind == "ResourceNotFound"
            assert message.startswith("The Resource (")
        assert heat.call("DELETE", f"{path}/resources/{name}", code=405).headers["Allow"] == "GET, PATCH"

    @pytest.mark.slow
    def test_another_project_finds_no_member(self, own_heat: Heat) -> None:
        path = own_heat.create(NESTED)
        member = own_heat.get(f"{path}/resources/g/1/0")["resource"]["physical_resource_id"]
        other = own_heat.other
        mine = other.create(template(a=value()))
        assert other.fault("GET", f"{path}/resources/g/1/0", code=404)[0] == "EntityNotFound"
        assert other.fault("GET", f"{mine}/resources/{member}", code=404)[0] == "ResourceNotFound"
        beside = own_heat.create(template(a=value()), name="beside")
        assert own_heat.fault("GET", f"{beside}/resources/{member}", code=404)[0] == "ResourceNotFound"


class TestObjects:
    """Resources of a project by the ids of their objects."""

    def test_paths(self, heat: Heat) -> None:
        paths = [heat.create(NESTED, name=name) for name in ("one", "two")]
        asked = (f"{paths[0]}/resources/g/1", f"{paths[0]}/resources/g/1/0", f"{paths[1]}/resources/a")
        shown = [heat.get(path)["resource"] for path in asked]
        query = "&".join(f"physical_resource_id={one['physical_resource_id']}" for one in shown)
        found = heat.get(f"/resources?{query}&physical_resource_id=none")["resources"]
        assert [(one["root_stack_name"], one["path"]) for one in found] == [
            ("one", "g/1"),
            ("one", "g/1/0"),
            ("two", "a"),
        ]
        assert [one["links"] for one in found] == [one["links"] for one in shown]

    def test_an_object_that_waits_for_its_deletion_is_not_found(self, heat: Heat, store: Store) -> None:
        path = heat.create(template(a=value()))
        row = store.resources.of(path.rpartition("/")[2])[0]
        with store.transaction():
            old = replace(row, id=new_id(), physical_id="old", verb=Verb.DELETE, status=Status.FAILED)
            store.resources.insert_many([old])
        query = f"physical_resource_id=old&physical_resource_id={row.physical_id}"
        (found,) = heat.get(f"/resources?{query}")["resources"]
        assert found["physical_resource_id"] == row.physical_id

    @pytest.mark.parametrize("query", ["", "?physical_resource_id=x&more=1", "?" + "&physical_resource_id=x" * 51])
    def test_a_look_up_names_objects(self, heat: Heat, query: str) -> None:
        heat.fault("GET", f"/resources{query}", code=400)


class TestMark:
    URL = "/resources/a"

    def test_unhealthy_and_well_again(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        url = path + self.URL

        def state() -> tuple[str, str]:
            resource = heat.get(url)["resource"]
            return resource["resource_status"], resource["resource_status_reason"]

        for mark, expected in (
            ({"mark_unhealthy": False}, "CREATE_COMPLETE"),
            ({"mark_unhealthy": True, "resource_status_reason": "broken"}, "CHECK_FAILED"),
            ({"mark_unhealthy": True}, "CHECK_FAILED"),
            ({"mark_unhealthy": "False", "resource_status_reason": "mended"}, "CHECK_COMPLETE"),
            ({"mark_unhealthy": "true", "resource_status_reason": "r" * 300}, "CHECK_FAILED"),
            ({"mark_unhealthy": "FALSE", "resource_status_reason": None}, "CHECK_COMPLETE"),
        ):
            response = heat.call("PATCH", url, mark, code=200)
            assert response.json is None
            assert response.text == "null"
            status, reason = state()
            assert status == expected
            if expected != "CREATE_COMPLETE":
                assert reason == (mark.get("resource_status_reason") or reason)
                assert reason
        assert heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"

    def test_an_update_replaces_it(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        before = heat.get(path + self.URL)["resource"]["physical_resource_id"]
        heat.call("PATCH", f"{path}/resources/{before}", {"mark_unhealthy": True}, code=200)
        heat.call("PATCH", path, {}, code=202)
        heat.settle(path, "UPDATE_COMPLETE")
        after = heat.get(path + self.URL)["resource"]
        assert after["resource_status"] == "CREATE_COMPLETE"
        assert after["physical_resource_id"] != before
        assert sorted(names(heat.get(f"{path}/resources")["resources"])) == ["a", "b"]

    @pytest.mark.parametrize(
        ("body", "message"),
        few(
            [
                ({}, "Missing mandatory (mark_unhealthy) key from mark unhealthy request"),
                (
                    {"resource_status_reason": "r"},
                    "Missing mandatory (mark_unhealthy) key from mark unhealthy request",
                ),
                ({"mark_unhealthy": True, "zz": 1}, "Invalid keys in resource mark unhealthy {'zz'}"),
                (
                    {"mark_unhealthy": "maybe"},
                    'Unrecognized value "maybe" for "mark_unhealthy", acceptable values are: true, false.',
                ),
                (
                    {"mark_unhealthy": 1},
                    'Unrecognized value "1" for "mark_unhealthy", acceptable values are: true, false.',
                ),
                (
                    {"mark_unhealthy": None},
                    'Unrecognized value "None" for "mark_unhealthy", acceptable values are: true, false.',
                ),
                (
                    {"mark_unhealthy": True, "resource_status_reason": 5},
                    "resource_status_reason: must be text or null, not a number.",
                ),
                (
                    [],
                    "The server could not comply with the request since it is either malformed or otherwise incorrect.",
                ),
                (
                    None,
                    "The server could not comply with the request since it is either malformed or otherwise incorrect.",
                ),
            ]
        ),
    )
    def test_bad_bodies(self, heat: Heat, body: object, message: str) -> None:
        path = heat.create(PAIR)
        assert heat.fault("PATCH", path + self.URL, body) == ("HTTPBadRequest", message)
        assert heat.get(path + self.URL)["resource"]["resource_status"] == "CREATE_COMPLETE"

    def test_unknown(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        mark = {"mark_unhealthy": True}
        assert heat.fault("PATCH", f"{path}/resources/zz", mark, code=404) == (
            "ResourceNotFound",
            "The Resource (zz) could not be found in Stack s.",
        )
        assert heat.fault("PATCH", f"/stacks/s/none{self.URL}", mark, code=404)[0] == "EntityNotFound"

    def test_while_an_action_is_in_progress(self, heat: Heat) -> None:
        slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": -1}}}
        path = heat.create(template(a=slow), wait=False)
        response = heat.call("PATCH", path + self.URL, {"mark_unhealthy": True}, code=409)
        assert response.json["error"]["type"] == "ActionInProgress"
        assert response.json["error"]["message"].startswith("Stack s already has an action (CREATE) in progress. Next:")
        assert response.json["explanation"] == "There was a conflict when trying to complete your request."
        assert int(response.headers["Retry-After"]) > 0
        heat.call("DELETE", path, code=204)


class TestEvents:
    def test_list(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        body = heat.get(f"{path}/events")
        assert body.keys() == {"events"}
        for event in body["events"]:
            assert event.keys() == EVENT
            url = f"http://localhost:80{heat.root}{path}"
            resource = f"{url}/resources/{event['resource_name']}"
            assert event["links"] == [
                {"rel": "self", "href": f"{resource}/events/{event['id']}"},
                {"rel": "resource", "href": resource},
                {"rel": "stack", "href": url},
            ]
        told = [(event["resource_name"], event["resource_status"]) for event in body["events"]]
        assert told == [
            ("s", "CREATE_COMPLETE"),
            ("b", "CREATE_COMPLETE"),
            ("b", "CREATE_IN_PROGRESS"),
            ("a", "CREATE_COMPLETE"),
            ("a", "CREATE_IN_PROGRESS"),
            ("s", "CREATE_IN_PROGRESS"),
        ]
        stack_event = body["events"][0]
        assert stack_event["physical_resource_id"] == path.rpartition("/")[2]

    def test_with_nested_depth_each_tells_the_root(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        for event in heat.get(f"{path}/events?nested_depth=1")["events"]:
            root = {"rel": "root_stack", "href": f"http://localhost:80{heat.root}{path}"}
            assert event["links"][-1] == root
        assert heat.fault("GET", f"{path}/events?nested_depth=abc")[0] == "HTTPBadRequest"

    def test_events_of_nested_stacks_lead_to_their_own_stack(self, heat: Heat, store: Store) -> None:
        path = heat.create(template(a=value()))
        root = store.stacks.get(path.rpartition("/")[2])
        assert root is not None
        child = replace(
            root, id=new_id(), name="s-a-x", parent_id=root.id, root_id=root.id, depth=1, parent_resource="a"
        )
        event = EventRecord(child.id, "b", "OS::Heat::Value", "p", "CREATE", "COMPLETE", "state changed", 1.0)
        with store.transaction():
            store.stacks.insert(child)
            store.events.append_many([event])
        assert len(heat.get(f"{path}/events")["events"]) == 4
        newest, *others = heat.get(f"{path}/events?nested_depth=1")["events"]
        assert len(others) == 4
        at = f"http://localhost:80{heat.root}/stacks/s-a-x/{child.id}"
        assert newest["links"] == [
            {"rel": "self", "href": f"{at}/resources/b/events/{newest['id']}"},
            {"rel": "resource", "href": f"{at}/resources/b"},
            {"rel": "stack", "href": at},
            {"rel": "root_stack", "href": f"http://localhost:80{heat.root}{path}"},
        ]
        page = heat.get(f"{path}/events?nested_depth=1&limit=2&marker={others[0]['id']}")["events"]
        assert page == others[1:3]

    def test_pages_as_clients_follow_them(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        forward = [event["id"] for event in heat.get(f"{path}/events?sort_dir=asc")["events"]]
        backward = [event["id"] for event in heat.get(f"{path}/events")["events"]]
        assert forward == backward[::-1]
        seen: list[str] = []
        marker = ""
        while page := heat.get(f"{path}/events?sort_dir=asc&limit=2{marker}")["events"]:
            seen += [event["id"] for event in page]
            marker = f"&marker={seen[-1]}"
        assert seen == forward

    def test_a_list_has_a_limit(self, heat: Heat, monkeypatch: pytest.MonkeyPatch) -> None:
        path = heat.create(PAIR)
        every = [event["id"] for event in heat.get(f"{path}/events")["events"]]
        monkeypatch.setattr(event_routes, "MAX_EVENTS", 2)
        for query in ("", "?limit=100", "?nested_depth=1"):
            assert [event["id"] for event in heat.get(f"{path}/events{query}")["events"]] == every[:2]
        assert len(heat.get(f"{path}/events?limit=1")["events"]) == 1

    def test_filters(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        assert len(heat.get(f"{path}/events?resource_status=COMPLETE")["events"]) == 3
        assert names(heat.get(f"{path}/events?resource_name=a")["events"]) == ["a", "a"]
        assert names(heat.get(f"{path}/events?resource_type=OS::Heat::TestResource")["events"]) == ["b", "b"]
        assert heat.get(f"{path}/events?resource_action=DELETE")["events"] == []
        assert heat.get(f"{path}/events?limit=0")["events"] == []
        assert heat.fault("GET", f"{path}/events?sort_dir=up")[0] == "ValueError"

    def test_of_one_resource(self, heat: Heat) -> None:
        path = heat.create(PAIR)
        events = heat.get(f"{path}/resources/a/events")["events"]
        assert names(events) == ["a", "a"]
        shown = heat.get(f"{path}/resources/a/events/{events[0]['id']}")
        assert shown.keys() == {"event"}
        assert shown["event"].keys() == EVENT | {"resource_type", "resource_properties"}
        assert shown["event"]["resource_type"] == "OS::Heat::Value"
        assert shown["event"]["resource_properties"] == {"value": "x"}
        assert heat.get(f"{path}/resources/a/events?marker={events[-1]['id']}") == {"events": []}
        for wrong in (f"b/events/{events[0]['id']}", "a/events/0", "a/events/zz"):
            event_id = wrong.rpartition("/")[2]
            expected = "HTTPNotFound", f"No event {event_id} found"
            assert heat.fault("GET", f"{path}/resources/{wrong}", code=404) == expected
        expected = "HTTPNotFound", "No events found for resource zz"
        assert heat.fault("GET", f"{path}/resources/zz/events", code=404) == expected


def test_an_old_object_that_waits_for_its_clean_up_is_not_counted(heat: Heat) -> None:
    def made(text: str, fail: bool) -> dict[str, object]:
        a = {"type": "OS::Heat::TestResource", "depends_on": "b", "properties": {"fail": fail}}
        b = {"type": "OS::Heat::TestResource", "depends_on": "c", "properties": {"update_replace_value": text}}
        return template(a=a, b=b, c=value())

    path = heat.create(made("1", fail=False))
    heat.call("PUT", path, {"template": made("2", fail=True)}, code=202)
    heat.settle(path, "UPDATE_FAILED")  # there are two rows of b now
    assert heat.get(f"{path}/resources/c")["resource"]["required_by"] == ["b"]


@pytest.mark.parametrize("path", ["", "/metadata"])
def test_one_resource_reads_no_row_of_the_others(heat: Heat, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    others = {f"v{number}": value() for number in range(40)}
    stack = heat.create(template(a=value(), b=value({"get_attr": ["a", "value"]}), **others))
    heat.get(f"{stack}/resources/a{path}")  # reads the template
    read, rows = Database.read, []

    def counted(database: Database, sql: str, parameters: Parameters = ()) -> Sequence[Row]:
        found = read(database, sql, parameters)
        if threading.current_thread() is threading.main_thread():
            rows.append(len(found))
        return found

    monkeypatch.setattr(Database, "read", counted)
    shown = heat.get(f"{stack}/resources/a{path}")
    assert path or shown["resource"]["required_by"] == ["b"]
    assert rows
    assert max(rows) <= 2


def test_a_failure_is_told(heat: Heat) -> None:
    boom = {"type": "OS::Heat::TestResource", "properties": {"fail": True}}
    path = heat.create(template(boom=boom))
    stack = heat.settle(path, "CREATE_FAILED")
    reason = "Resource CREATE failed: ValueError: resources.boom: Test Resource failed boom"
    assert stack["stack_status_reason"] == reason
    (resource,) = heat.get(f"{path}/resources")["resources"]
    assert resource["resource_status"] == "CREATE_FAILED"


def test_with_rollback_the_stack_stays_without_resources(heat: Heat) -> None:
    boom = {"type": "OS::Heat::TestResource", "properties": {"fail": True}}
    path = heat.create(template(boom=boom), disable_rollback=False)
    heat.settle(path, "ROLLBACK_COMPLETE")
    assert heat.get(f"{path}/resources") == {"resources": []}
