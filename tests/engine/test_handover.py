"""Export, abandon, adopt, and objects that were there before."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.errors import ActionConflict, NotSupported, ResourceIsLocked, StackValidationFailed
from heatlite.core.json import Json
from heatlite.core.status import state
from heatlite.engine.state.requests import StackRequest
from heatlite.engine.state.stack_document import read_record
from heatlite.store.records import StackRecord
from tests.laws import FEW_EXAMPLES
from tests.tables import few

from .conftest import Engine, attr, param, ref, resource, template, thing


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def file(**more: Any) -> Any:
    return resource("Example::Local::File", **more)


def export(engine: Engine, stack: StackRecord) -> Any:
    return engine.components.exports.export(engine.get(stack))


def abandon(engine: Engine, stack: StackRecord, wait: bool = True) -> Any:
    record = engine.components.exports.abandon(engine.who, engine.get(stack))
    if wait:
        assert final(engine.settle(stack)) == "DELETE_COMPLETE"
    return record


def adopt(engine: Engine, record: Json, wait: bool = True, name: str = "s", **more: Any) -> StackRecord:
    stack = engine.stacks.create(engine.who, StackRequest(name=name, adopted=read_record(record), **more))
    return engine.settle(stack) if wait else stack


def unchanged(engine: Engine, stack: StackRecord) -> set[str]:
    """Unchanged resources of a preview without changes; asserts that all are."""
    changes = engine.stacks.preview_update(engine.who, engine.get(stack), StackRequest(), existing=True)
    assert changes.added == changes.deleted == changes.replaced == changes.updated == ()
    return {one.record.name for one in changes.unchanged}


def as_heat_exports(record: dict[str, Any]) -> dict[str, Any]:
    """The record without heatlite's additions: nested records replace resources."""
    own = {"mapped_type", "physical_name", "protection", "stack_protection", "cloud"}
    resources: dict[str, Any] = {}
    for name, entry in record["resources"].items():
        within = "template" in entry
        kept = as_heat_exports(entry) if within else {key: one for key, one in entry.items() if key not in own}
        if within:
            kept["name"] = entry["physical_name"]
            for key in ("resource_id", "type", "metadata", "resource_data"):
                del kept[key]
        resources[name] = kept
    return {key: one for key, one in record.items() if key not in own} | {"resources": resources}


PAIR = template(
    a=file(content=param("text")),
    b=file(content=attr("a", "path"), keys={"metadata": {"k": [1]}}),
    parameters={"text": {"type": "string", "hidden": True}},
    outputs={"path": attr("b", "content")},
)


class TestExport:
    def test_the_record(self, engine: Engine) -> None:
        stack = engine.create(PAIR, parameters={"text": "x"}, tags=("t",))
        record, rows = export(engine, stack), {row.name: row for row in engine.rows(stack)}
        assert record["template"]["resources"].keys() == {"a", "b"}
        assert record["environment"]["parameters"] == {"text": "x"}
        assert {key: value for key, value in record.items() if key not in ("template", "environment")} == {
            "name": "s", "id": stack.id, "action": "CREATE", "status": "COMPLETE", "files": {}, "project_id": "demo",
            "stack_user_project_id": None, "tags": ["t"], "stack_protection": None, "cloud": None,
            "resources": {
                name: {
                    "name": name, "resource_id": row.physical_id, "physical_name": row.physical_name,
                    "type": "Example::Local::File", "mapped_type": "Example::Local::File",
                    "action": "CREATE", "status": "COMPLETE",
                    "metadata": row.metadata, "resource_data": row.data, "protection": None,
                }
                for name, row in rows.items()
            },
        }  # fmt: skip

    def test_it_changes_nothing(self, engine: Engine) -> None:
        stack = engine.create(PAIR, parameters={"text": "x"})
        before = engine.get(stack), engine.rows(stack), engine.events(stack)
        export(engine, stack)
        assert (engine.get(stack), engine.rows(stack), engine.events(stack)) == before

    def test_a_nested_stacks_record_is_within(self, engine: Engine) -> None:
        child = {"heat_template_version": "2021-04-16", "resources": {"x": thing("deep")}}
        stack = engine.create(template(n=resource("child.yaml")), files={"child.yaml": json.dumps(child)})
        entry = export(engine, stack)["resources"]["n"]
        assert (entry["type"], entry["resource_id"], entry["id"]) == ("child.yaml", entry["id"], entry["id"])
        assert entry["template"] == child
        assert entry["resources"]["x"]["resource_data"] == {"value": "deep"}


class TestAbandon:
    def test_every_object_stays(self, engine: Engine, plugins: Path) -> None:
        stack = engine.create(PAIR, parameters={"text": "x"})
        files = sorted(plugins.iterdir())
        mark = engine.now_on(stack)
        record = abandon(engine, stack)
        assert sorted(plugins.iterdir()) == files
        assert (engine.rows(stack), engine.store.stacks.by_name("demo", "s")) == ([], None)
        assert record["resources"]["a"]["resource_id"]
        assert [text for text in engine.told(stack, mark) if text.startswith("s ")] == [
            "s DELETE_IN_PROGRESS", "s DELETE_COMPLETE",
        ]  # fmt: skip

    def test_of_a_tree(self, engine: Engine, plugins: Path) -> None:
        child = {"heat_template_version": "2021-04-16", "resources": {"x": file()}}
        stack = engine.create(template(n=resource("child.yaml")), files={"child.yaml": json.dumps(child)})
        (nested,) = engine.store.stacks.descendants(stack)
        files = sorted(plugins.iterdir())
        abandon(engine, stack)
        assert engine.get(nested).deleted_at is not None
        assert sorted(plugins.iterdir()) == files

    def test_a_stack_that_is_worked_on_is_not_given_away(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(action_wait_secs={"update": 9})))
        with engine.clock.held():
            engine.put(stack, template(a=thing("new", action_wait_secs={"update": 9})), wait=False)
            with pytest.raises((ResourceIsLocked, ActionConflict)):
                abandon(engine, stack)
        engine.settle(stack)

    def test_a_failed_stack_can_be_given_away(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), boom=thing(fail=True), never=thing(depends_on="boom")))
        record = abandon(engine, stack)
        assert record["resources"]["never"]["action"] == "INIT"

    def test_the_operator_can_switch_it_off(self, place: Path, plugins: Path) -> None:
        engine = Engine(place, enable_stack_abandon=False, enable_stack_adopt=False)
        stack = engine.create(template(a=thing()))
        with pytest.raises(NotSupported, match=r"^Stack Abandon is not supported\.$"):
            abandon(engine, stack)
        with pytest.raises(NotSupported, match=r"^Stack Export is not supported\.$"):
            export(engine, stack)
        with pytest.raises(NotSupported, match=r"^Stack Adopt is not supported\.$"):
            adopt(engine, {"template": template()}, name="other")
        engine.close()


class TestAdopt:
    def test_nothing_is_made(self, engine: Engine, plugins: Path) -> None:
        stack = engine.create(PAIR, parameters={"text": "x"})
        ids = {row.name: row.physical_id for row in engine.rows(stack)}
        outputs, files = engine.outputs(stack), sorted(plugins.iterdir())
        stack = adopt(engine, json.dumps(abandon(engine, stack)))
        assert (final(stack), stack.status_reason) == ("ADOPT_COMPLETE", "Stack ADOPT completed successfully")
        assert {row.name: row.physical_id for row in engine.rows(stack)} == ids
        assert engine.states(stack) == {"a": "ADOPT_COMPLETE", "b": "ADOPT_COMPLETE"}
        assert (engine.outputs(stack), sorted(plugins.iterdir())) == (outputs, files)
        assert engine.told(stack) == [
            "s ADOPT_IN_PROGRESS", "a ADOPT_IN_PROGRESS", "a ADOPT_COMPLETE", "b ADOPT_IN_PROGRESS",
            "b ADOPT_COMPLETE", "s ADOPT_COMPLETE",
        ]  # fmt: skip
        assert unchanged(engine, stack) == {"a", "b"}
        # From now on they are the stack's as any other.
        engine.delete(stack)
        assert [path.name for path in plugins.iterdir()] == ["journal"]

    def test_parameters_of_the_request_come_first(self, engine: Engine) -> None:
        stack = engine.create(PAIR, parameters={"text": "x"})
        stack = adopt(engine, abandon(engine, stack), parameters={"text": "y"})
        assert engine.row(stack, "a").properties == {"content": "y"}

    def test_without_an_id(self, engine: Engine, plugins: Path) -> None:
        stack = engine.create(PAIR, parameters={"text": "x"})
        record = abandon(engine, stack)
        record["resources"]["a"]["resource_id"] = None
        files = sorted(plugins.iterdir())
        stack = adopt(engine, record)
        why = "Exception: resources.a: Resource ID was not provided."
        assert (final(stack), stack.status_reason) == ("ADOPT_FAILED", f"Resource ADOPT failed: {why}")
        assert engine.states(stack) == {"a": "ADOPT_FAILED", "b": "INIT_COMPLETE"}
        # The object that was not adopted is not ours to delete.
        engine.delete(stack)
        assert sorted(plugins.iterdir()) == files

    @pytest.mark.parametrize("record", few([{"resources": {}}, {}, {"resources": {"b": {"resource_id": "x"}}}]))
    def test_what_the_record_does_not_know(self, engine: Engine, record: dict[str, Json]) -> None:
        stack = adopt(engine, {"template": template(a=thing()), **record})
        assert engine.states(stack) == {"a": "ADOPT_FAILED"}

    def test_a_rollback_only_forgets(self, engine: Engine, plugins: Path) -> None:
        stack = engine.create(PAIR, parameters={"text": "x"})
        record = abandon(engine, stack)
        record["resources"]["b"]["resource_id"] = None
        files = sorted(plugins.iterdir())
        stack = adopt(engine, record, disable_rollback=False)
        assert (final(stack), engine.rows(stack)) == ("ROLLBACK_COMPLETE", [])
        assert sorted(plugins.iterdir()) == files

    @pytest.mark.slow
    @pytest.mark.parametrize("origin", few(["own", "heats", "without id"]))
    def test_a_tree(self, engine: Engine, plugins: Path, origin: str) -> None:
        child = {
            "heat_template_version": "2021-04-16",
            "parameters": {"p": {"type": "string"}},
            "resources": {"x": file(content=param("p"))},
            "outputs": {"o": {"value": attr("x", "content")}},
        }
        made = template(n=resource("My::Child", p="deep"), outputs={"o": attr("n", "o")})
        registry = {"resource_registry": {"My::Child": "child.yaml"}}
        stack = engine.create(made, files={"child.yaml": json.dumps(child)}, environment=registry)
        (nested,) = engine.store.stacks.descendants(stack)
        before, files = engine.row(nested, "x").physical_id, sorted(plugins.iterdir())
        record = abandon(engine, stack)
        if origin == "heats":
            record = as_heat_exports(record)
        elif origin == "without id":
            record["resources"]["n"] = {"type": "My::Child", "resources": record["resources"]["n"]["resources"]}
        stack = adopt(engine, json.dumps(record))
        assert final(stack) == "ADOPT_COMPLETE", stack.status_reason
        (adopted,) = engine.store.stacks.descendants(stack)
        assert (final(adopted), engine.row(adopted, "x").physical_id) == ("ADOPT_COMPLETE", before)
        assert engine.outputs(stack) == {"o": "deep"}
        assert sorted(plugins.iterdir()) == files
        mark = engine.now_on(adopted)
        assert final(engine.patch(stack)) == "UPDATE_COMPLETE"
        assert engine.told(adopted, mark)[1:-1] == []  # no member is touched
        engine.delete(stack)
        assert [path.name for path in plugins.iterdir()] == ["journal"]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "group",
        few(
            [
                resource("OS::Heat::ResourceGroup", count=2, resource_def=file(content="m%index%")),
                resource("OS::Heat::AutoScalingGroup", min_size=2, max_size=4, resource=file(content="m")),
            ]
        ),
        ids=["resources", "scaling"],
    )
    @pytest.mark.parametrize("heats", few([False, True]), ids=["own", "heats"])
    def test_a_group(self, engine: Engine, plugins: Path, group: Any, heats: bool) -> None:
        """Existing members are adopted under their names, and an update keeps them."""
        stack = engine.create(template(g=group))
        assert final(stack) == "CREATE_COMPLETE", stack.status_reason
        (nested,) = engine.store.stacks.descendants(stack)
        before, files = {row.name: row.physical_id for row in engine.rows(nested)}, sorted(plugins.iterdir())
        record = abandon(engine, stack)
        stack = adopt(engine, json.dumps(as_heat_exports(record) if heats else record))
        assert final(stack) == "ADOPT_COMPLETE", stack.status_reason
        (adopted,) = engine.store.stacks.descendants(stack)
        assert final(engine.patch(stack)) == "UPDATE_COMPLETE"
        assert {row.name: row.physical_id for row in engine.rows(adopted)} == before
        assert sorted(plugins.iterdir()) == files

    def test_a_tree_with_names_that_other_stacks_have(self, engine: Engine) -> None:
        child = {"heat_template_version": "2021-04-16", "resources": {"x": file()}}
        group = resource("OS::Heat::ResourceGroup", count=1, resource_def=file(content="m"))
        files = {"child.yaml": json.dumps(child)}
        first = engine.create(template(n=resource("child.yaml"), g=group), files=files)

        def objects(of: StackRecord) -> set[str | None]:
            return {row.physical_id for nested in engine.store.stacks.descendants(of) for row in engine.rows(nested)}

        before, record = objects(first), abandon(engine, first)
        for name in ("n", "g"):
            engine.create(template(), name=record["resources"][name]["physical_name"])
        stack = adopt(engine, json.dumps(record), name="second")
        assert final(stack) == "ADOPT_COMPLETE", stack.status_reason
        assert objects(stack) == before

    def test_a_tree_with_a_fault_within(self, engine: Engine, plugins: Path) -> None:
        child = {"heat_template_version": "2021-04-16", "resources": {"x": file(), "y": file(depends_on="x")}}
        stack = engine.create(template(n=resource("child.yaml")), files={"child.yaml": json.dumps(child)})
        record = abandon(engine, stack)
        record["resources"]["n"]["resources"]["y"]["resource_id"] = None
        files = sorted(plugins.iterdir())
        stack = adopt(engine, record, disable_rollback=False)
        assert (final(stack), engine.rows(stack)) == ("ROLLBACK_COMPLETE", [])
        reasons = [event.status_reason for event in engine.events(stack)]
        assert any("resources.n.resources.y: Resource ID was not provided." in reason for reason in reasons)
        assert sorted(plugins.iterdir()) == files


VALUES = st.text("aé%", max_size=3) | st.integers() | st.booleans() | st.lists(st.integers(), max_size=2)


@st.composite
def templates(draw: st.DrawFn) -> dict[str, Any]:
    """Templates of built-in types without services, with references and attributes."""
    resources: dict[str, Any] = {}
    for number in range(draw(st.integers(1, 5))):
        earlier = sorted(resources)
        value: Any = draw(VALUES)
        if earlier and draw(st.booleans()):
            name = draw(st.sampled_from(earlier))
            value = draw(st.sampled_from([ref(name), {"get_attr": [name]}]))
        kind = draw(st.sampled_from(["Value", "RandomString", "None", "TestResource", "Delay"]))
        properties: dict[str, Any] = {
            "Value": {"value": value},
            "RandomString": {"length": draw(st.integers(1, 9))},
            "None": {"anything": value},
            "TestResource": {"value": ref(earlier[0]) if earlier else "v"},
            "Delay": {"min_wait": draw(st.integers(0, 3))},
        }[kind]
        keys = {"metadata": {"m": value}, "deletion_policy": draw(st.sampled_from(["Delete", "Retain"]))}
        resources[f"r{number}"] = {"type": f"OS::Heat::{kind}", "properties": properties, **keys}
    return template(**resources)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    engine = Engine(tmp_path_factory.mktemp("exports"))
    yield engine
    engine.close()


@pytest.mark.slow
@given(document=templates())
@FEW_EXAMPLES
def test_there_and_back_is_an_empty_preview(shared: Engine, document: Any) -> None:
    """Abandon then adopt: no update would change anything, and all reads are equal."""
    stack = shared.create(document)
    assert final(stack) == "CREATE_COMPLETE", stack.status_reason
    before = {row.name: (row.physical_id, row.data, row.properties) for row in shared.rows(stack)}
    stack = adopt(shared, json.dumps(abandon(shared, stack)))
    assert final(stack) == "ADOPT_COMPLETE", stack.status_reason
    assert unchanged(shared, stack) == set(document["resources"])
    assert {row.name: (row.physical_id, row.data, row.properties) for row in shared.rows(stack)} == before
    shared.delete(stack)


class TestExternal:
    @pytest.fixture
    def path(self, plugins: Path) -> Path:
        """An object made outside of heatlite."""
        path = plugins / "theirs"
        path.write_text("theirs")
        return path

    def external(self, path: Path, **more: Any) -> Any:
        return file(keys={"external_id": str(path)}, **more)

    def test_adopted_then_checked_then_left_alone(self, engine: Engine, path: Path) -> None:
        stack = engine.create(template(a=self.external(path), b=thing(attr("a", "content"))))
        assert final(stack) == "CREATE_COMPLETE"
        assert [text for text in engine.told(stack) if text.startswith("a ")] == [
            "a ADOPT_IN_PROGRESS", "a ADOPT_COMPLETE", "a CHECK_IN_PROGRESS", "a CHECK_COMPLETE",
        ]  # fmt: skip
        assert (engine.row(stack, "a").physical_id, engine.value(stack, "b")) == (str(path), "theirs")
        # Its definition may change, it does not.
        mark = engine.now_on(stack)
        stack = engine.put(stack, template(a=self.external(path, content="new"), b=thing(attr("a", "content"))))
        assert (final(stack), path.read_text()) == ("UPDATE_COMPLETE", "theirs")
        assert engine.told(stack, mark) == ["s UPDATE_IN_PROGRESS", "s UPDATE_COMPLETE"]
        stack = engine.delete(stack)
        assert (final(stack), path.read_text()) == ("DELETE_COMPLETE", "theirs")

    def test_a_type_without_a_check(self, engine: Engine) -> None:
        stack = engine.create(template(a=resource("OS::Heat::Value", value="v", keys={"external_id": "abc"})))
        row = engine.row(stack, "a")
        assert (state(row.verb, row.status), row.physical_id) == ("CHECK_COMPLETE", "abc")
        assert row.status_reason == "CHECK not supported for OS::Heat::Value"
        assert unchanged(engine, stack) == {"a"}

    def test_it_has_to_be_there(self, engine: Engine, path: Path) -> None:
        path.unlink()
        with pytest.raises(StackValidationFailed, match=r"resources\.a: there is no Example::Local::File with the id"):
            engine.create(template(a=self.external(path)))
        stack = engine.create(template(b=thing()))
        with pytest.raises(StackValidationFailed):
            engine.put(stack, template(a=self.external(path)))

    def test_one_that_is_not_well(self, engine: Engine) -> None:
        made = template(a=resource("Test::Suspicious", fail=True, keys={"external_id": "abc"}))
        stack = engine.create(made)
        assert (final(stack), engine.states(stack)) == ("CREATE_FAILED", {"a": "CHECK_FAILED"})
        assert stack.status_reason == "Resource CHECK failed: RuntimeError: resources.a: told to fail"
        before = engine.ids(stack)
        stack = engine.put(stack, template(a=resource("Test::Suspicious", keys={"external_id": "abc"})))
        assert (final(stack), engine.states(stack)) == ("UPDATE_COMPLETE", {"a": "CHECK_COMPLETE"})
        assert engine.ids(stack) == before

    @pytest.mark.parametrize("other", [{"external_id": "other"}, {}])
    def test_it_is_for_good(self, engine: Engine, other: dict[str, str]) -> None:
        value = "OS::Heat::None"
        stack = engine.create(template(a=resource(value, keys={"external_id": "abc"})))
        stack = engine.put(stack, template(a=resource(value, keys=other)))
        assert final(stack) == "UPDATE_FAILED"
        why = f"NotSupported: resources.a: Update to properties external_id of a ({value}) is not supported."
        assert stack.status_reason == f"Resource UPDATE failed: {why}"
        assert engine.row(stack, "a").physical_id == "abc"

    def test_what_was_made_does_not_become_external(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing()))
        before = engine.ids(stack)
        stack = engine.put(stack, template(a=thing(keys={"external_id": "abc"})))
        assert final(stack) == "UPDATE_FAILED"
        assert "external_id" in stack.status_reason
        stack = engine.put(stack, template(a=thing()))
        assert (final(stack), engine.ids(stack)) == ("UPDATE_COMPLETE", before)

    def test_a_rollback_leaves_it_alone(self, engine: Engine, path: Path) -> None:
        made = template(a=self.external(path), boom=thing(fail=True, depends_on="b"), b=thing(attr("a", "path")))
        stack = engine.create(made, disable_rollback=False)
        assert (final(stack), path.read_text()) == ("ROLLBACK_COMPLETE", "theirs")

    def test_no_nested_stack(self, engine: Engine) -> None:
        other = engine.create(template(a=thing()), name="other")
        child = json.dumps(template(x=thing()))
        made = template(n=resource("child.yaml", keys={"external_id": other.id}))
        stack = engine.create(made, files={"child.yaml": child})
        assert final(stack) == "CREATE_FAILED"
        assert "A nested stack with external_id is not supported." in stack.status_reason
        assert final(engine.delete(stack)) == "DELETE_COMPLETE"
        assert engine.get(other) == other
