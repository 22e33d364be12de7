"""Stacks from create to delete: shapes, codes, headers."""

import json
import re

import pytest

from heatlite.store.store import Store

from .conftest import Heat, template, value

SHOW = {
    "id", "links", "stack_name", "description", "template_description", "creation_time", "updated_time",
    "deletion_time", "parameters", "outputs", "stack_status", "stack_status_reason", "disable_rollback",
    "timeout_mins", "stack_owner", "parent", "stack_user_project_id", "tags", "notification_topics", "capabilities",
    "locked", "protection", "health", "cloud", "drift", "expiry",
}  # fmt: skip
LISTED = {
    "id", "links", "stack_name", "description", "stack_status", "stack_status_reason", "creation_time",
    "updated_time", "deletion_time", "stack_owner", "parent", "stack_user_project_id", "tags", "locked",
    "protected", "health", "drift", "expiry",
}  # fmt: skip
PLANNED = {
    "resource_name", "physical_resource_id", "resource_action", "resource_status", "resource_status_reason",
    "resource_type", "resource_identity", "stack_identity", "stack_name", "required_by", "creation_time",
    "updated_time", "description", "metadata", "attributes",
}  # fmt: skip
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

FULL = {
    "heat_template_version": "2021-04-16",
    "description": "Two.",
    "parameters": {
        "text": {"type": "string", "default": "hello"},
        "count": {"type": "number", "default": 3},
        "flag": {"type": "boolean", "default": True},
        "list": {"type": "comma_delimited_list", "default": "a,b"},
        "map": {"type": "json", "default": {"k": [1]}},
        "secret": {"type": "string", "default": "pssst", "hidden": True},
    },
    "resources": {
        "a": value({"get_param": "text"}),
        "b": {**value({"get_attr": ["a", "value"]}), "metadata": {"m": 1}},
    },
    "outputs": {
        "o": {"value": {"get_attr": ["b", "value"]}, "description": "The text."},
        "plain": {"value": 1},
    },
}


class TestCreate:
    def test_answer(self, heat: Heat) -> None:
        response = heat.call("POST", "/stacks", {"stack_name": "s", "template": template(a=value())}, code=201)
        assert response.json.keys() == {"stack"}
        assert response.json["stack"].keys() == {"id", "links"}
        url = f"http://localhost:80{heat.root}/stacks/s/{response.json['stack']['id']}"
        assert response.json["stack"]["links"] == [{"href": url, "rel": "self"}]
        assert response.location == url
        assert response.content_type == "application/json"

    def test_it_is_in_progress_right_away(self, heat: Heat) -> None:
        slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": -1}}}
        path = heat.create(template(a=slow), wait=False)
        stack = heat.get(path)["stack"]
        assert stack["stack_status"] == "CREATE_IN_PROGRESS"
        assert stack["stack_status_reason"] == "Stack CREATE started"
        heat.call("DELETE", path, code=204)

    def test_a_name_is_taken_until_its_stack_is_deleted(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        again = {"stack_name": "s", "template": template(a=value())}
        taken = "StackExists", (
            "The Stack (s) already exists. Next: heatlite up FILE -n s (updates the stack that has the name)."
        )
        assert heat.fault("POST", "/stacks", again, code=409) == taken
        assert heat.fault("POST", "/stacks/preview", again, code=409) == taken
        heat.other.call("POST", "/stacks", again, code=201)
        heat.call("DELETE", path, code=204)
        heat.settle(path)
        heat.call("POST", "/stacks", again, code=201)

    def test_what_clients_send(self, heat: Heat) -> None:
        """heatclient sends maps and texts, the SDK nulls, lists and native numbers."""
        body = {
            "stack_name": "s",
            "template": "heat_template_version: 2018-08-31\nparameters: {n: {type: number}}\nresources: {}\n",
            "parameters": {"n": 5},
            "tags": ["x", "y"],
            "environment": None,
            "environment_files": None,
            "files": None,
            "timeout_mins": None,
            "disable_rollback": None,
            "template_url": None,
            "files_container": None,
            "adopt_stack_data": None,
            "timeout": None,
        }
        answer = heat.call("POST", "/stacks", body, code=201)
        stack = heat.settle(f"/stacks/s/{answer.json['stack']['id']}", "CREATE_COMPLETE")
        assert stack["tags"] == ["x", "y"]
        assert stack["parameters"]["n"] == "5"
        for name, tags in (("t1", None), ("t2", ""), ("t3", "a,b"), ("t4", [])):
            path = heat.create(template(a=value()), name=name, tags=tags, disable_rollback="False", timeout_mins="7")
            stack = heat.get(path)["stack"]
            assert stack["tags"] == (["a", "b"] if tags == "a,b" else [])
            assert stack["disable_rollback"] is False
            assert stack["timeout_mins"] == 7

    @pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "text/plain", None])
    def test_content_types(self, heat: Heat, content_type: str | None) -> None:
        environ = {} if content_type is None else {"CONTENT_TYPE": content_type}
        body = b'{"stack_name": "s", "template": {"heat_template_version": "2018-08-31"}}'
        request = heat.app.RequestClass.blank(f"{heat.root}/stacks", environ, method="POST", body=body)
        assert heat.app.do_request(request, status=201).json["stack"]["id"]


class TestShow:
    def test_shape(self, heat: Heat) -> None:
        path = heat.create(FULL, tags="t,u")
        stack = heat.get(path)["stack"]
        assert stack.keys() == SHOW
        assert stack["stack_name"] == "s"
        assert stack["description"] == stack["template_description"] == "Two."
        assert TIME.fullmatch(stack["creation_time"])
        assert stack["updated_time"] is None
        assert stack["deletion_time"] is None
        assert stack["parameters"] == {
            "OS::project_id": heat.project,
            "OS::stack_id": stack["id"],
            "OS::stack_name": "s",
            "text": "hello",
            "count": "3",
            "flag": "True",
            "list": "a,b",
            "map": '{"k": [1]}',
            "secret": "******",
        }
        assert stack["outputs"] == [
            {"output_key": "o", "description": "The text.", "output_value": "hello"},
            {"output_key": "plain", "description": "No description given", "output_value": 1},
        ]
        assert stack["stack_status"] == "CREATE_COMPLETE"
        assert stack["stack_status_reason"] == "Stack CREATE completed successfully"
        assert stack["disable_rollback"] is True
        assert stack["timeout_mins"] is None
        assert stack["parent"] is None
        assert stack["stack_user_project_id"] is None
        assert stack["tags"] == ["t", "u"]
        assert stack["notification_topics"] == []
        assert stack["capabilities"] == []
        assert stack["locked"] is False
        actions = f"http://localhost:80{heat.root}/actions?target={stack['id']}"
        assert stack["links"] == [
            {"href": f"http://localhost:80{heat.root}{path}", "rel": "self"},
            {"href": actions, "rel": "actions"},
        ]

    @pytest.mark.slow
    def test_without_outputs(self, heat: Heat) -> None:
        path = heat.create(FULL)
        for text in ("False", "false"):
            assert heat.get(f"{path}?resolve_outputs={text}")["stack"].keys() == SHOW - {"outputs"}
        assert heat.get(f"{path}?resolve_outputs=True")["stack"].keys() == SHOW
        assert heat.fault("GET", f"{path}?resolve_outputs=1") == (
            "HTTPBadRequest",
            'Unrecognized value "1" for "resolve_outputs", acceptable values are: true, false.',
        )

    def test_no_description(self, heat: Heat) -> None:
        stack = heat.get(heat.create(template(a=value())))["stack"]
        assert stack["description"] == "No description"

    def test_name_and_id_belong_together(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        other = heat.create(template(a=value()), name="other")
        stack_id = path.rpartition("/")[2]
        for wrong in (f"/stacks/other/{stack_id}", f"/stacks/s/{other.rpartition('/')[2]}", "/stacks/s/none"):
            name = wrong.split("/")[2]
            expected = "EntityNotFound", f"The Stack ({name}) could not be found."
            assert heat.fault("GET", wrong, code=404) == expected

    def test_deleted(self, heat: Heat) -> None:
        path = heat.create(FULL)
        heat.call("DELETE", path, code=204)
        stack = heat.settle(path, "DELETE_COMPLETE")
        assert stack.keys() == SHOW - {"outputs"}
        assert TIME.fullmatch(stack["deletion_time"])
        for part in ("template", "environment", "files", "resources", "events"):
            heat.get(f"{path}/{part}")
        for method, below, body in (
            ("DELETE", "", None),
            ("PATCH", "", {}),
            ("PUT", "", {"template": template(a=value())}),
            ("PATCH", "/preview", {}),
            ("POST", "/actions", {"check": None}),
            ("GET", "/outputs", None),
            ("GET", "/outputs/o", None),
            ("PATCH", "/resources/a", {"mark_unhealthy": True}),
        ):
            expected = "EntityNotFound", "The Stack (s) could not be found."
            assert heat.fault(method, path + below, body, code=404) == expected, (method, below)

    def test_parts(self, heat: Heat) -> None:
        path = heat.create(FULL, parameters={"secret": "mine", "text": "x"}, files={"f": "content"})
        assert heat.get(f"{path}/template") == FULL
        assert heat.get(f"{path}/files") == {"f": "content"}
        assert heat.get(f"{path}/environment") == {
            "parameters": {"secret": "******", "text": "x"},
            "parameter_defaults": {},
            "resource_registry": {"resources": {}},
            "event_sinks": [],
            "encrypted_param_names": [],
        }

    def test_secrets_of_sinks_are_kept_and_not_shown(self, heat: Heat, store: Store) -> None:
        sink = {"type": "webhook", "target": "https://192.0.2.1/x", "secret": "hush"}
        path = heat.create(FULL, environment={"event_sinks": [sink]}, parameters={"secret": "mine"})
        assert heat.get(f"{path}/environment")["event_sinks"] == [{**sink, "secret": "******"}]
        heat.call("PATCH", path, {"parameters": {"text": "y"}}, code=202)
        heat.settle(path, "UPDATE_COMPLETE")
        stack = store.stacks.get(path.rpartition("/")[2])
        assert stack is not None
        assert stack.environment["event_sinks"] == [sink]
        body = {"template": FULL, "environment": {"event_sinks": [sink]}}
        assert "hush" not in heat.call("POST", "/validate", body, code=200).text
        sink["target"] = "/etc/passwd"
        error, message = heat.fault("POST", "/validate", body)
        assert error == "HTTPBadRequest"
        assert "the target of a webhook must be an address" in message
        assert "hush" not in message

    def test_outputs(self, heat: Heat) -> None:
        path = heat.create(FULL)
        assert heat.get(f"{path}/outputs") == {
            "outputs": [
                {"output_key": "o", "description": "The text."},
                {"output_key": "plain", "description": "No description given"},
            ]
        }
        expected = {"output_key": "o", "description": "The text.", "output_value": "hello"}
        assert heat.get(f"{path}/outputs/o") == {"output": expected}
        assert heat.fault("GET", f"{path}/outputs/zz", code=404) == ("NotFound", "Specified output key zz not found.")


class TestList:
    def test_shape(self, heat: Heat) -> None:
        path = heat.create(FULL, tags="t")
        body = heat.get("/stacks")
        assert body.keys() == {"stacks"}
        (stack,) = body["stacks"]
        assert stack.keys() == LISTED
        assert stack["description"] == ""
        assert stack["tags"] == ["t"]
        assert stack["links"] == [{"href": f"http://localhost:80{heat.root}{path}", "rel": "self"}]
        assert heat.get("/stacks/detail") == body
        heat.create(FULL, name="plain")
        assert heat.get("/stacks?name=plain")["stacks"][0]["tags"] is None

    def test_order_and_pages(self, heat: Heat) -> None:
        names = ["c", "a", "b"]
        for name in names:
            heat.create(template(a=value()), name=name)

        def listed(query: str = "") -> list[str]:
            return [stack["stack_name"] for stack in heat.get(f"/stacks{query}")["stacks"]]

        assert listed() == ["b", "a", "c"]
        assert listed("?sort_keys=stack_name") == ["a", "b", "c"]
        assert listed("?sort_keys=stack_name&sort_dir=desc") == ["c", "b", "a"]
        assert listed("?sort_keys=zz") == ["b", "a", "c"]
        assert listed("?limit=0") == []
        assert listed("?marker=nobody") == ["b", "a", "c"]
        assert heat.fault("GET", "/stacks?foo=bar")[1].startswith("Unknown query key foo; there are: id, name, status,")
        assert listed("?name=a&name=c") == ["a", "c"]
        assert listed("?status=COMPLETE") == listed("?status=CREATE_COMPLETE") == ["b", "a", "c"]
        assert listed("?action=DELETE") == []

        seen: list[str] = []
        url = "/stacks?limit=2&sort_keys=stack_name"
        while url:
            page = heat.get(url)
            seen += [stack["stack_name"] for stack in page["stacks"]]
            links = page.get("links", [])
            assert [link["rel"] for link in links] == (["next"] if len(page["stacks"]) == 2 else [])
            url = links[0]["href"].partition(heat.root)[2] if links else ""
        assert seen == ["a", "b", "c"]

    def test_count(self, heat: Heat) -> None:
        for name in ("a", "b", "c"):
            heat.create(template(a=value()), name=name)
        assert heat.get("/stacks?with_count=True&limit=1")["count"] == 3
        assert heat.get("/stacks?with_count=false").keys() == {"stacks"}

    def test_tags(self, heat: Heat) -> None:
        for name, tags in (("both", "x,y"), ("one", "x"), ("none", None)):
            heat.create(template(a=value()), name=name, tags=tags)

        def listed(query: str) -> set[str]:
            return {stack["stack_name"] for stack in heat.get(f"/stacks?{query}")["stacks"]}

        assert listed("tags=x,y") == {"both"}
        assert listed("tags_any=y,x") == {"both", "one"}
        assert listed("not_tags=x,y") == {"one", "none"}
        assert listed("not_tags_any=y") == {"one", "none"}

    def test_deleted_ones_on_request(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        heat.call("DELETE", path)
        heat.settle(path)
        assert heat.get("/stacks")["stacks"] == []
        (stack,) = heat.get("/stacks?show_deleted=True")["stacks"]
        assert stack["stack_status"] == "DELETE_COMPLETE"

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            (
                "limit=-1",
                ("HTTPBadRequest", "Value '-1' is invalid for 'limit' which only accepts non-negative integer."),
            ),
            ("limit=abc", ("HTTPBadRequest", "Only integer is acceptable by 'limit'.")),
            ("limit=1.5", ("HTTPBadRequest", "Only integer is acceptable by 'limit'.")),
            (
                "with_count=zz",
                (
                    "HTTPBadRequest",
                    'Unrecognized value "zz" for "with_count", acceptable values are: true, false.',
                ),
            ),
            ("sort_dir=zz", ("ValueError", 'Unknown sort direction "zz", acceptable values are: asc, desc.')),
        ],
    )
    def test_bad_queries(self, refusing: Heat, query: str, expected: tuple[str, str]) -> None:
        assert refusing.fault("GET", f"/stacks?{query}") == expected


class TestUpdate:
    def test_put(self, heat: Heat) -> None:
        path = heat.create(FULL, parameters={"text": "x"}, tags="t", timeout_mins=9, files={"f": "1"})
        heat.call("PUT", path, {"template": FULL, "parameters": {"count": 4}}, code=202)
        stack = heat.settle(path, "UPDATE_COMPLETE")
        assert stack["parameters"]["text"] == "hello"
        assert stack["parameters"]["count"] == "4"
        assert stack["tags"] == []
        assert stack["timeout_mins"] == 9
        assert TIME.fullmatch(stack["updated_time"])
        assert heat.get(f"{path}/files") == {}

    def test_patch(self, heat: Heat) -> None:
        path = heat.create(FULL, parameters={"text": "x"}, tags="t", files={"f": "1"})
        heat.call("PATCH", path, {"parameters": {"count": 4}, "template": None}, code=202)
        stack = heat.settle(path, "UPDATE_COMPLETE")
        assert (stack["parameters"]["text"], stack["parameters"]["count"]) == ("x", "4")
        assert stack["tags"] == ["t"]
        assert heat.get(f"{path}/files") == {"f": "1"}
        heat.call("PATCH", path, {"clear_parameters": ["text"]}, code=202)
        assert heat.settle(path, "UPDATE_COMPLETE")["parameters"]["text"] == "hello"
        heat.call("PATCH", path, {"tags": "t1,t3"}, code=202)
        assert heat.settle(path, "UPDATE_COMPLETE")["tags"] == ["t1", "t3"]
        for nothing in ({}, None):
            heat.call("PATCH", path, nothing, code=202)
            heat.settle(path, "UPDATE_COMPLETE")

    def test_refusals(self, heat: Heat) -> None:
        path = heat.create(FULL)
        before = heat.get(path)
        assert heat.fault("PUT", path, {}) == ("HTTPBadRequest", "No template specified")
        assert heat.fault("PUT", path)[0] == "HTTPBadRequest"
        assert heat.fault("PUT", path, {"template": template(a={"type": "No::Such"})}) == (
            "StackValidationFailed",
            "The Resource Type (No::Such) could not be found.",
        )
        assert heat.fault("PUT", path, {"template": FULL, "parameters": {"zz": 1}}) == (
            "UnknownUserParameter",
            "The Parameter (zz) was not defined in template.",
        )
        assert heat.fault("PUT", path, {"template": FULL, "converge": "perhaps"})[0] == "HTTPBadRequest"
        assert heat.get(path) == before
        for converge in (False, "false", None):
            heat.call("PUT", path, {"template": FULL, "converge": converge}, code=202)
            heat.settle(path, "UPDATE_COMPLETE")

    @pytest.mark.parametrize("method", ["PUT", "PATCH"])
    def test_converge(self, heat: Heat, method: str) -> None:
        drifting = {"type": "OS::Heat::TestResource", "properties": {"value": "v", "live_value": "w"}}
        body = {"template": template(a=drifting), "converge": True}
        path = heat.create(template(a=drifting))
        changes = heat.call(method, f"{path}/preview", body, code=200).json["resource_changes"]
        assert [item["resource_name"] for item in changes["updated"]] == ["a"]
        heat.call(method, path, body, code=202)
        heat.settle(path, "UPDATE_COMPLETE")
        assert heat.get(f"{path}/resources/a")["resource"]["resource_status"] == "UPDATE_COMPLETE"

    def test_an_immutable_parameter(self, heat: Heat) -> None:
        fixed = {
            "heat_template_version": "2018-08-31",
            "parameters": {"p": {"type": "string", "default": "a", "immutable": True}},
        }
        path = heat.create(fixed)
        kind, message = heat.fault("PATCH", path, {"parameters": {"p": "b"}})
        assert kind == "ImmutableParameterModified"
        assert message.endswith(" p")

    def test_preview(self, heat: Heat) -> None:
        path = heat.create(template(same=value(), changes=value("1"), goes=value()))
        after = template(same=value(), changes=value("2"), comes=value())
        for method in ("PUT", "PATCH"):
            changes = heat.call(method, f"{path}/preview?show_nested=True", {"template": after}, code=200).json
            assert changes.keys() == {"resource_changes"}
            lists = changes["resource_changes"]
            names = {kind: [item["resource_name"] for item in items] for kind, items in lists.items()}
            assert names == {
                "unchanged": ["same"],
                "updated": ["changes"],
                "replaced": [],
                "added": ["comes"],
                "deleted": ["goes"],
            }
            for items in lists.values():
                for item in items:
                    assert item.keys() == PLANNED
        assert heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"

    @pytest.mark.parametrize("method", ["PUT", "PATCH"])
    def test_a_plan_and_its_digest(self, heat: Heat, method: str) -> None:
        path = heat.create(template(a=value("1")))
        body = {"template": template(a=value("2"), b=value("new"))}
        answer = heat.call(method, f"{path}/preview?plan=true", body, code=200).json
        assert answer.keys() == {"resource_changes", "plan"}
        plan = answer["plan"]
        assert heat.call(method, f"{path}/preview?plan=true", body, code=200).json["plan"] == plan
        a, b = plan["resources"]
        difference = {"name": "value", "known_later": False, "replaces": False, "because_of": []}
        assert a == {
            "resource_name": "a",
            "path": ["a"],
            "resource_type": "OS::Heat::Value",
            "physical_resource_id": heat.get(f"{path}/resources/a")["resource"]["physical_resource_id"],
            "action": "update",
            "cause": "the definition changed",
            "order": None,
            "after": [],
            "properties": [{**difference, "old": "1", "new": "2"}],
            "metadata_differs": False,
            "protected": False,
        }
        assert (b["action"], b["physical_resource_id"]) == ("create", "")
        assert b["properties"] == [{**difference, "old": None, "new": "new"}]
        other = {"template": template(a=value("3")), "plan_digest": plan["digest"]}
        assert heat.fault(method, path, other, code=409)[0] == "PlanChanged"
        assert heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"
        heat.call(method, path, {**body, "plan_digest": plan["digest"]}, code=202)
        heat.settle(path, "UPDATE_COMPLETE")
        assert heat.fault(method, path, {**body, "plan_digest": plan["digest"]}, code=409)[0] == "PlanChanged"
        assert heat.fault(method, path, {**body, "plan_digest": 1})[0] == "HTTPBadRequest"


def test_preview_of_nested_stacks(heat: Heat) -> None:
    inner = template(x=value("in"))
    outer = template(i={"type": "inner.yaml"}, y=value("y"))
    files = {"inner.yaml": json.dumps(inner), "outer.yaml": json.dumps(outer)}
    document = template(o={"type": "outer.yaml"}, z=value("z"))
    body = {"stack_name": "s", "template": document, "files": files}
    answer = heat.call("POST", "/stacks/preview?plan=true", body, code=200).json
    ((x,), y), z = answer["stack"]["resources"]
    assert [item["resource_name"] for item in (x, y, z)] == ["x", "y", "z"]
    assert x.keys() == y.keys() == z.keys() | {"parent_resource"}
    assert (x["parent_resource"], y["parent_resource"]) == ("i", "o")
    assert [item["path"] for item in answer["plan"]["resources"]] == [
        ["o"], ["o", "i"], ["o", "i", "x"], ["o", "y"], ["z"],
    ]  # fmt: skip
    assert {item["action"] for item in answer["plan"]["resources"]} == {"create"}
    assert "digest" not in answer["plan"]
    text = "plan_digest is valid for an update only."
    assert heat.fault("POST", "/stacks", {**body, "plan_digest": "x"}) == ("HTTPBadRequest", text)
    path = heat.create(document, files=files)
    lists = heat.call("PATCH", f"{path}/preview?show_nested=true", {}, code=200).json["resource_changes"]
    assert [item["resource_name"] for item in lists["updated"]] == ["o", "i"]
    assert sorted(item["resource_name"] for item in lists["unchanged"]) == ["x", "y", "z"]
    assert all("nested_stack_id" in item for item in lists["updated"])


def test_preview_of_a_create(heat: Heat) -> None:
    body = {"stack_name": "s", "template": FULL}
    answer = heat.call("POST", "/stacks/preview", body, code=200).json
    assert answer.keys() == {"stack"}
    stack = answer["stack"]
    absent = {"outputs", "stack_status", "stack_status_reason", "locked", "protection", "health", "cloud"}
    of_features = {"drift", "expiry"}
    assert stack.keys() == SHOW - absent - of_features | {"resources"}
    assert stack["id"] == "None"
    items = {item["resource_name"]: item for item in stack["resources"]}
    assert items.keys() == {"a", "b"}
    for item in items.values():
        assert item.keys() == PLANNED | {"properties"}
        assert (item["resource_action"], item["resource_status"]) == ("INIT", "COMPLETE")
        assert item["physical_resource_id"] == ""
    assert items["a"]["required_by"] == ["b"]
    assert items["a"]["properties"] == {"value": "hello"}
    assert items["b"]["metadata"] == {"m": 1}
    assert items["a"]["resource_identity"]["path"] == "/resources/a"
    assert heat.get("/stacks") == {"stacks": []}


def test_empty_values_of_a_list_are_passed_over(heat: Heat) -> None:
    """As Heat does, which scripts with unset variables rely on."""
    heat.create(template(a=value()))
    for name in ("show_deleted", "show_nested", "show_hidden", "with_count", "limit", "marker", "sort_dir", "name"):
        assert len(heat.get(f"/stacks?{name}=")["stacks"]) == 1, name
    heat.call("GET", "/stacks?global_tenant=", code=400)


def test_stacks_with_a_hidden_tag_are_listed_on_request(heat: Heat) -> None:
    for name, tags in (("plain", None), ("other", "a,b"), ("hidden", "a,data-processing-cluster")):
        heat.create(template(a=value()), name, tags=tags)

    def listed(path: str) -> set[str]:
        return {stack["stack_name"] for stack in heat.get(path)["stacks"]}

    assert listed("/stacks") == listed("/stacks?show_hidden=false") == listed("/stacks/detail") == {"plain", "other"}
    assert listed("/stacks?show_hidden=true") == {"plain", "other", "hidden"}
    assert listed("/stacks?tags=a") == {"other"}
    assert listed("/stacks?tags=a&show_hidden=true&not_tags_any=b") == {"hidden"}
    assert heat.get("/stacks?with_count=true")["count"] == 2
    assert heat.get("/stacks?with_count=true&show_hidden=true")["count"] == 3


def test_show_hidden_has_to_be_a_boolean(heat: Heat) -> None:
    heat.get("/stacks?show_hidden=True")
    assert "show_hidden" in heat.fault("GET", "/stacks?show_hidden=yes")[1]


@pytest.mark.slow
def test_locked_and_unhealthy_stacks_are_listed(heat: Heat) -> None:
    """The filters choose what `GET …/counts` counts, also below a lock."""
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": value()}}
    paths = {name: heat.create(template(g=group), name=name) for name in ("fine", "locked", "unwell", "both")}
    for name in ("unwell", "both"):
        listed = heat.get(f"{paths[name]}/resources?nested_depth=1")["resources"]
        (member,) = [one["links"][0]["href"] for one in listed if one["resource_name"] == "0"]
        heat.call("PATCH", member.partition(heat.root)[2], {"mark_unhealthy": True}, code=200)
    for name in ("locked", "both"):
        heat.call("POST", paths[name] + "/actions", {"lock": None}, code=200)
        heat.settle(paths[name])
    counts = heat.get("/counts")["counts"]
    for query, expected in {
        "locked=true": {"locked", "both"},
        "unhealthy=true": {"unwell", "both"},
        "locked=true&unhealthy=true": {"both"},
    }.items():
        found = heat.get(f"/stacks?with_count=true&{query}")
        assert {one["stack_name"] for one in found["stacks"]} == expected
        assert found["count"] == counts.get(query.removesuffix("=true"), 1)
    heat.fault("GET", "/stacks?locked=perhaps", code=400)
