"""Update: keep, change in place, replace, make, remove; and their order."""

import json
import threading
from collections.abc import Set
from typing import Any

import pytest

from heatlite.core.errors import (
    ActionConflict,
    HeatliteError,
    HTTPBadRequest,
    ImmutableParameterModified,
    NotSupported,
    ResourceIsLocked,
    StackNotFound,
    StackValidationFailed,
    UnknownUserParameter,
)
from heatlite.core.status import ActionStatus, Status, Verb, state
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import StackRecord

from .conftest import Engine, attr, param, ref, resource, template, thing


def test_no_change_writes_nothing_per_resource(engine: Engine) -> None:
    made = template(a=thing(), b=thing(ref("a")), c=resource("OS::Heat::Value", value=attr("b", "output")))
    stack = engine.create(made)
    rows, mark = engine.rows(stack), engine.now_on(stack)
    stack = engine.put(stack, made)
    assert engine.told(stack, mark) == ["s UPDATE_IN_PROGRESS", "s UPDATE_COMPLETE"]
    assert engine.rows(stack) == rows
    assert stack.updated_at == engine.clock.now()


def test_in_place(engine: Engine) -> None:
    stack = engine.create(template(a=thing("1"), b=thing("same")))
    before, mark = engine.ids(stack), engine.now_on(stack)
    stack = engine.put(stack, template(a=thing("2"), b=thing("same")))
    assert engine.told(stack, mark) == [
        "s UPDATE_IN_PROGRESS",
        "a UPDATE_IN_PROGRESS",
        "a UPDATE_COMPLETE",
        "s UPDATE_COMPLETE",
    ]
    assert engine.ids(stack) == before
    assert engine.value(stack, "a") == "2"
    assert engine.row(stack, "a").data["value"] == "2"
    assert engine.states(stack) == {"a": "UPDATE_COMPLETE", "b": "CREATE_COMPLETE"}


def test_a_change_in_place_reaches_those_who_read_it(engine: Engine) -> None:
    stack = engine.create(template(a=thing("1"), b=thing(attr("a", "output")), c=thing(ref("a"))))
    mark = engine.now_on(stack)
    stack = engine.put(stack, template(a=thing("2"), b=thing(attr("a", "output")), c=thing(ref("a"))))
    assert engine.value(stack, "b") == "2"
    assert [text for text in engine.told(stack, mark) if text.startswith("c ")] == []


def test_added_and_removed(engine: Engine) -> None:
    stack = engine.create(template(old=thing(), user=thing(depends_on="old"), stays=thing()))
    mark = engine.now_on(stack)
    stack = engine.put(stack, template(stays=thing(), new=thing(depends_on="stays")))
    assert engine.told(stack, mark) == [
        "s UPDATE_IN_PROGRESS",
        "new CREATE_IN_PROGRESS",
        "new CREATE_COMPLETE",
        "user DELETE_IN_PROGRESS",
        "user DELETE_COMPLETE",
        "old DELETE_IN_PROGRESS",
        "old DELETE_COMPLETE",
        "s UPDATE_COMPLETE",
    ]
    assert engine.states(stack) == {"stays": "CREATE_COMPLETE", "new": "CREATE_COMPLETE"}


def test_replacement_is_made_before_the_old_one_goes(engine: Engine) -> None:
    stack = engine.create(template(a=thing(update_replace_value="1"), b=thing(ref("a")), c=thing(attr("b", "output"))))
    before, mark = engine.ids(stack), engine.now_on(stack)
    old = engine.row(stack, "a")
    stack = engine.put(
        stack, template(a=thing(update_replace_value="2"), b=thing(ref("a")), c=thing(attr("b", "output")))
    )
    assert engine.told(stack, mark) == [
        "s UPDATE_IN_PROGRESS",
        "a CREATE_IN_PROGRESS",
        "a CREATE_COMPLETE",
        "b UPDATE_IN_PROGRESS",
        "b UPDATE_COMPLETE",
        "c UPDATE_IN_PROGRESS",
        "c UPDATE_COMPLETE",
        "a DELETE_IN_PROGRESS",
        "a DELETE_COMPLETE",
        "s UPDATE_COMPLETE",
    ]
    new = engine.row(stack, "a")
    assert (new.id, new.physical_id) != (old.id, old.physical_id)
    assert new.physical_name != old.physical_name
    assert engine.value(stack, "b") == engine.value(stack, "c") == new.physical_id
    assert {name: engine.ids(stack)[name] for name in "bc"} == {name: before[name] for name in "bc"}


def test_the_old_one_is_there_while_the_new_one_is_made(engine: Engine) -> None:
    stack = engine.create(template(a=thing(update_replace_value="1", wait_secs=5)))
    with engine.clock.held():
        engine.put(stack, template(a=thing(update_replace_value="2", wait_secs=5)), wait=False)
        engine.begun(lambda: len(engine.rows(stack)) == 2 and engine.rows(stack)[1].token)
        assert [state(row.verb, row.status) for row in engine.rows(stack)] == ["CREATE_COMPLETE", "CREATE_IN_PROGRESS"]
    engine.settle(stack)
    assert len(engine.rows(stack)) == 1


def test_update_replace(engine: Engine) -> None:
    """A property that can be updated, but whose type asks for a new object."""
    stack = engine.create(template(a=thing("1")))
    before = engine.ids(stack)
    stack = engine.put(stack, template(a=thing("1", update_replace=True)))
    assert engine.ids(stack) == before
    stack = engine.put(stack, template(a=thing("2", update_replace=True)))
    assert engine.ids(stack) != before


def test_a_handler_may_ask_for_replacement(engine: Engine) -> None:
    stack = engine.create(template(a=resource("Test::Choosy", value="1"), b=thing(ref("a"))))
    before, mark = engine.ids(stack), engine.now_on(stack)
    stack = engine.put(stack, template(a=resource("Test::Choosy", value="2"), b=thing(ref("a"))))
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
    told = engine.told(stack, mark)
    assert told[:2] == ["s UPDATE_IN_PROGRESS", "a UPDATE_IN_PROGRESS"]
    assert told.index("a CREATE_COMPLETE") < told.index("b UPDATE_IN_PROGRESS") < told.index("a DELETE_IN_PROGRESS")
    assert engine.ids(stack)["a"] != before["a"]
    assert engine.value(stack, "a") == "2"
    assert engine.value(stack, "b") == engine.row(stack, "a").physical_id


def test_an_immutable_property_refuses(engine: Engine) -> None:
    stack = engine.create(template(a=resource("Test::Fixed", value="1", fixed="x"), b=thing("1", depends_on="a")))
    before = engine.ids(stack)
    wanted = template(a=resource("Test::Fixed", value="2", fixed="y"), b=thing("2", depends_on="a"))
    stack = engine.put(stack, wanted)
    assert state(stack.verb, stack.status) == "UPDATE_FAILED"
    assert stack.status_reason.startswith("Resource UPDATE failed: NotSupported: resources.a: ")
    assert "fixed" in stack.status_reason
    assert (engine.states(stack)["b"], engine.told(stack)[-2]) == ("CREATE_COMPLETE", "a UPDATE_FAILED")
    assert (engine.ids(stack), engine.value(stack, "a")) == (before, "1")
    stack = engine.put(stack, wanted, disable_rollback=False)
    assert (state(stack.verb, stack.status), engine.ids(stack)) == ("ROLLBACK_COMPLETE", before), "nothing was touched"


def test_a_resource_whose_values_fail_stays_as_it_is(engine: Engine) -> None:
    """An attribute that a cloud does not tell costs no other resource its object."""

    def made(fails: str) -> Any:
        return template(a=resource("Test::Odd", value=fails, raise_in=fails), b=thing(attr("a", "odd")))

    stack = engine.create(made(""))
    before = engine.ids(stack)
    stack = engine.put(stack, made("attribute"), disable_rollback=False)
    assert (state(stack.verb, stack.status), engine.ids(stack)["b"]) == ("ROLLBACK_COMPLETE", before["b"])
    assert "b UPDATE_FAILED" in engine.told(stack)


def test_another_type_replaces(engine: Engine) -> None:
    stack = engine.create(template(a=thing("1"), b=thing(ref("a"))))
    before = engine.ids(stack)
    stack = engine.put(stack, template(a=resource("OS::Heat::Value", value="1"), b=thing(ref("a"))))
    assert engine.ids(stack)["a"] != before["a"]
    assert engine.row(stack, "a").type == "OS::Heat::Value"
    assert engine.value(stack, "b") == engine.row(stack, "a").physical_id


def test_another_mapping_of_the_type_replaces(engine: Engine) -> None:
    made = template(a=resource("My::Thing", value="1"))

    def mapped(to: str) -> dict[str, object]:
        return {"resource_registry": {"My::Thing": to}}

    stack = engine.create(made, environment=mapped("OS::Heat::TestResource"))
    before = engine.ids(stack)
    assert engine.row(stack, "a").type == "My::Thing"
    stack = engine.put(stack, made, environment=mapped("OS::Heat::Value"))
    assert engine.row(stack, "a").mapped_type == "OS::Heat::Value"
    assert engine.ids(stack) != before
    before, mark = engine.ids(stack), engine.now_on(stack)
    # Another name for the same class is no change of the object.
    stack = engine.put(stack, template(a=resource("OS::Heat::Value", value="1")))
    assert (engine.ids(stack), engine.row(stack, "a").type) == (before, "OS::Heat::Value")
    assert engine.told(stack, mark) == ["s UPDATE_IN_PROGRESS", "s UPDATE_COMPLETE"]


def test_only_metadata(engine: Engine) -> None:
    def with_metadata(value: int) -> object:
        keys = {"metadata": {"m": value}}
        return template(
            a=thing(keys=keys),
            none=resource("OS::Heat::RandomString", keys=keys),
        )

    stack = engine.create(with_metadata(1))
    before, mark = engine.ids(stack), engine.now_on(stack)
    stack = engine.put(stack, with_metadata(2))
    assert engine.ids(stack) == before
    assert engine.row(stack, "a").metadata == engine.row(stack, "none").metadata == {"m": 2}
    assert sorted(engine.told(stack, mark)[1:-1]) == sorted(
        [
            "a UPDATE_IN_PROGRESS",
            "a UPDATE_COMPLETE",
            "none UPDATE_IN_PROGRESS",
            "none UPDATE_COMPLETE",
        ]
    )


def test_conditions_flip(engine: Engine) -> None:
    made = {
        **template(
            a=thing(keys={"condition": "with_a"}),
            b=thing(keys={"condition": {"not": "with_a"}}),
            parameters={"p": {"type": "boolean"}},
        ),
        "conditions": {"with_a": param("p")},
    }
    stack = engine.create(made, parameters={"p": True})
    assert list(engine.states(stack)) == ["a"]
    stack = engine.patch(stack, parameters={"p": False})
    assert engine.states(stack) == {"b": "CREATE_COMPLETE"}
    stack = engine.patch(stack, parameters={"p": True})
    assert engine.states(stack) == {"a": "CREATE_COMPLETE"}


def test_new_dependencies_are_kept_for_the_delete(engine: Engine) -> None:
    stack = engine.create(template(a=thing(), b=thing()))
    stack = engine.put(stack, template(a=thing(depends_on="b"), b=thing()))
    mark = engine.now_on(stack)
    engine.delete(stack)
    assert engine.told(stack, mark)[1:3] == ["a DELETE_IN_PROGRESS", "a DELETE_COMPLETE"]
    assert engine.told(stack, mark)[3:5] == ["b DELETE_IN_PROGRESS", "b DELETE_COMPLETE"]


def test_dependencies_that_turn_round(engine: Engine) -> None:
    stack = engine.create(template(a=thing("1"), b=thing(depends_on="a", update_replace_value="1")))
    stack = engine.put(stack, template(a=thing("2", depends_on="b"), b=thing(update_replace_value="2")))
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
    assert len(engine.rows(stack)) == 2
    assert engine.row(stack, "a").requires == ("b",)


class TestRetry:
    def test_the_failed_one_is_replaced_and_the_others_are_kept(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), boom=thing(fail=True), after=thing(depends_on="boom")))
        before = engine.ids(stack)
        mark = engine.now_on(stack)
        stack = engine.put(stack, template(a=thing(), boom=thing(), after=thing(depends_on="boom")))
        assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
        assert engine.states(stack) == dict.fromkeys(("a", "boom", "after"), "CREATE_COMPLETE")
        assert engine.ids(stack)["a"] == before["a"]
        assert engine.ids(stack)["boom"] != before["boom"]
        assert engine.told(stack, mark) == [
            "s UPDATE_IN_PROGRESS",
            "boom CREATE_IN_PROGRESS",
            "boom CREATE_COMPLETE",
            "after CREATE_IN_PROGRESS",
            "after CREATE_COMPLETE",
            "boom DELETE_IN_PROGRESS",
            "boom DELETE_COMPLETE",
            "s UPDATE_COMPLETE",
        ]

    def test_a_failed_update(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("1"), b=thing("1", depends_on="a")))
        before = engine.ids(stack)
        stack = engine.put(stack, template(a=thing("2"), b=thing("2", fail=True, depends_on="a")))
        assert state(stack.verb, stack.status) == "UPDATE_FAILED"
        assert stack.status_reason == "Resource UPDATE failed: ValueError: resources.b: Test Resource failed b"
        # What was done stays done.
        assert (engine.value(stack, "a"), engine.states(stack)["a"]) == ("2", "UPDATE_COMPLETE")
        stack = engine.put(stack, template(a=thing("2"), b=thing("3", depends_on="a")))
        assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
        assert engine.ids(stack)["a"] == before["a"]
        assert engine.ids(stack)["b"] != before["b"]

    def test_one_that_its_type_finds_healthy_is_kept(self, engine: Engine) -> None:
        stack = engine.create(template(a=resource("Test::Robust", value="1")))
        before = engine.ids(stack)
        stack = engine.put(stack, template(a=resource("Test::Robust", value="2", fail=True)))
        assert engine.states(stack) == {"a": "UPDATE_FAILED"}
        mark = engine.now_on(stack)
        stack = engine.put(stack, template(a=resource("Test::Robust", value="1")))
        assert (engine.ids(stack), engine.states(stack)) == (before, {"a": "UPDATE_COMPLETE"})
        # The failed update may have changed it: it is changed back.
        changed_back = ["a UPDATE_IN_PROGRESS", "a UPDATE_COMPLETE"]
        assert engine.told(stack, mark) == ["s UPDATE_IN_PROGRESS", *changed_back, "s UPDATE_COMPLETE"]

    @pytest.mark.slow
    def test_an_object_that_would_not_go(self, engine: Engine) -> None:
        stuck = {"delete": -1}
        stack = engine.create(template(a=thing(), b=thing(action_wait_secs=stuck)), timeout_mins=1)
        stack = engine.put(stack, template(a=thing("2")))
        assert (state(stack.verb, stack.status), stack.status_reason) == ("UPDATE_FAILED", "Timed out")
        assert engine.states(stack) == {"a": "UPDATE_COMPLETE", "b": "DELETE_FAILED"}
        # Wanted again, it is made anew.
        stack = engine.put(stack, template(a=thing("2"), b=thing()))
        assert engine.row(stack, "a").updated_at is not None
        names = sorted((row.name, state(row.verb, row.status)) for row in engine.rows(stack))
        assert ("b", "CREATE_COMPLETE") in names

    def test_a_replacement_that_failed(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(update_replace_value="1"), b=thing(ref("a"))))
        old = engine.row(stack, "a")
        stack = engine.put(stack, template(a=thing(update_replace_value="2", fail=True), b=thing(ref("a"))))
        assert state(stack.verb, stack.status) == "UPDATE_FAILED"
        # Nothing that works has been removed.
        assert next(row.id for row in engine.rows(stack) if row.name == "a") == old.id
        assert engine.value(stack, "b") == old.physical_id
        # Back to where it was: the old object stands for the name again, the failed one goes.
        stack = engine.put(stack, template(a=thing(update_replace_value="1"), b=thing(ref("a"))))
        assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
        assert engine.row(stack, "a").id == old.id
        assert engine.value(stack, "b") == old.physical_id


class TestPutAndPatch:
    MADE = template(
        a=thing(param("p")),
        b=thing(param("q")),
        parameters={"p": {"type": "string", "default": "pd"}, "q": {"type": "string", "default": "qd"}},
    )

    def values(self, engine: Engine, stack: object) -> tuple[object, object]:
        return engine.value(stack, "a"), engine.value(stack, "b")  # type: ignore[arg-type]

    def test_put_forgets(self, engine: Engine) -> None:
        stack = engine.create(
            self.MADE,
            parameters={"p": "1", "q": "2"},
            tags=("t",),
            timeout_mins=9,
            files={"f": "x"},
            environment={"parameter_defaults": {"q": "9"}},
            disable_rollback=False,
        )
        assert self.values(engine, stack) == ("1", "2")
        stack = engine.put(stack, self.MADE, parameters={"p": "3"})
        assert self.values(engine, stack) == ("3", "qd")
        assert (stack.tags, stack.timeout_mins, stack.disable_rollback) == ((), 9, False)
        assert engine.store.templates.get(stack.template_id).files == {}
        assert stack.environment["parameter_defaults"] == {}

    def test_patch_goes_on_from_what_is_there(self, engine: Engine) -> None:
        stack = engine.create(
            self.MADE,
            parameters={"p": "1", "q": "2"},
            tags=("t",),
            timeout_mins=9,
            files={"f": "x"},
            environment={"parameter_defaults": {"other": "9"}},
        )
        stack = engine.patch(
            stack,
            parameters={"p": "3"},
            files={"g": "y"},
            environment={"parameter_defaults": {"more": "8"}, "resource_registry": {"My::T": "OS::Heat::Value"}},
        )
        assert self.values(engine, stack) == ("3", "2")
        assert (stack.tags, stack.timeout_mins) == (("t",), 9)
        assert engine.store.templates.get(stack.template_id).files == {"f": "x", "g": "y"}
        assert stack.environment["parameter_defaults"] == {"other": "9", "more": "8"}
        registry = stack.environment["resource_registry"]
        assert isinstance(registry, dict)
        assert registry["My::T"] == "OS::Heat::Value"
        stack = engine.patch(stack, clear_parameters=("p",))
        assert self.values(engine, stack) == ("pd", "2")
        stack = engine.patch(stack, tags=("u", "v"), timeout_mins=0, disable_rollback=False)
        assert (stack.tags, stack.timeout_mins, stack.disable_rollback) == (("u", "v"), None, False)
        assert self.values(engine, stack) == ("pd", "2")

    @pytest.mark.slow
    def test_a_patched_template_forgets_files_that_nothing_names(self, engine: Engine) -> None:
        """Files of its environment, its nested stacks and their files stay."""
        inner = "file:///one/inner.yaml"
        files = {
            "file:///one/child.yaml": json.dumps(template(i=resource(inner), f=thing({"get_file": "file:///one/f.sh"}))),
            inner: json.dumps(template(v=thing("v"))),
            "file:///one/f.sh": "echo",
            "file:///one/env.yaml": json.dumps({"resource_registry": {"My::T": "file:///one/child.yaml"}}),
            "unused": "x",
        }
        stack = engine.create(template(a=resource("My::T")), files=files, environment_files=("file:///one/env.yaml",))
        stack = engine.patch(stack)
        assert self.files(engine, stack) == files.keys()
        needed = {inner, "file:///one/child.yaml", "file:///one/f.sh"}
        stack = engine.patch(stack, template=template(a=resource("My::T"), b=thing("b")), files={"more": "y"})
        assert self.files(engine, stack) == {*needed, "more"}
        moved = {name.replace("one", "two"): text.replace("one", "two") for name, text in files.items()}
        registry = {"environment_files": ("file:///two/env.yaml",)}
        before = engine.ids(stack)
        stack = engine.patch(stack, template=template(a=resource("My::T")), files=moved, **registry)
        assert self.files(engine, stack) == {*moved, *needed}, "the nested stack was still that of folder one"
        stack = engine.patch(stack, template=template(a=resource("My::T")), files=moved, **registry)
        assert (self.files(engine, stack), engine.ids(stack)["a"]) == (moved.keys(), before["a"])
        stack = engine.patch(stack, template=template(b=thing("b")))
        stack = engine.patch(stack, template=template(b=thing("c")))
        assert self.files(engine, stack) == {"file:///two/child.yaml", inner.replace("one", "two"), "file:///two/f.sh"}

    def files(self, engine: Engine, stack: StackRecord) -> Set[str]:
        return engine.store.templates.get(stack.template_id).files.keys()

    def test_clear_and_give_at_once(self, engine: Engine) -> None:
        stack = engine.create(self.MADE, parameters={"p": "1", "q": "2"})
        stack = engine.patch(stack, parameters={"p": "3"}, clear_parameters=("p", "q"))
        assert self.values(engine, stack) == ("3", "qd")

    def test_patch_with_a_template_keeps_the_parameters_it_knows(self, engine: Engine) -> None:
        stack = engine.create(self.MADE, parameters={"p": "1", "q": "2"})
        made = template(a=thing(param("p")), parameters={"p": {"type": "string"}})
        stack = engine.patch(stack, template=made)
        assert engine.value(stack, "a") == "1"
        assert stack.environment["parameters"] == {"p": "1"}

    def test_an_unknown_parameter(self, engine: Engine) -> None:
        stack = engine.create(self.MADE)
        with pytest.raises(UnknownUserParameter):
            engine.put(stack, self.MADE, parameters={"zz": 1})
        # Heat drops it without a word.
        assert engine.patch(stack, parameters={"zz": 1}).status is Status.COMPLETE

    def test_put_needs_a_template(self, engine: Engine) -> None:
        stack = engine.create(self.MADE)
        with pytest.raises(HTTPBadRequest, match="No template specified"):
            engine.put(stack, None)

    def test_an_empty_patch_runs_the_same_again(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), boom=thing(fail=True)))
        stack = engine.patch(stack)
        assert state(stack.verb, stack.status) == "UPDATE_FAILED"
        assert engine.states(stack)["boom"] == "CREATE_FAILED"

    def test_a_bad_request_changes_nothing(self, engine: Engine) -> None:
        stack = engine.create(self.MADE)
        mark = engine.now_on(stack)
        with pytest.raises(StackValidationFailed):
            engine.put(stack, template(a=thing(zz=1)))
        assert engine.get(stack) == stack
        assert engine.told(stack, mark) == []

    def test_an_immutable_parameter(self, engine: Engine) -> None:
        made = template(a=thing(param("p")), parameters={"p": {"type": "string", "default": "d", "immutable": True}})
        stack = engine.create(made, parameters={"p": "1"})
        with pytest.raises(ImmutableParameterModified, match="p"):
            engine.patch(stack, parameters={"p": "2"})
        with pytest.raises(ImmutableParameterModified, match="p"):
            engine.put(stack, made)
        assert engine.patch(stack, parameters={"p": "1"}).status is Status.COMPLETE


class TestAtOnce:
    def test_an_update_while_something_runs(self, engine: Engine) -> None:
        with engine.clock.held():
            stack = engine.create(template(a=thing(wait_secs=5)), wait=False)
            engine.wait_for(lambda: engine.store.actions.live([stack.id])[0].status is ActionStatus.RUNNING)
            (action,) = engine.store.actions.live([stack.id])
            for attempt in (
                lambda: engine.patch(stack),
                lambda: engine.check(stack),
                lambda: engine.lock(stack),
                lambda: engine.unlock(stack),
            ):
                with pytest.raises(ResourceIsLocked) as caught:
                    attempt()
                assert action.id in caught.value.message
                assert "(CREATE)" in caught.value.message
        assert state(engine.settle(stack).verb, engine.get(stack).status) == "CREATE_COMPLETE"

    def test_an_update_while_something_is_queued(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing()))
        engine.close()
        # With no engine at work the queue stands still.
        engine.stacks.update(engine.who, stack, StackRequest(), existing=True)
        with pytest.raises(ActionConflict, match="queued"):
            engine.patch(stack, wait=False)
        engine.store.close()
        engine.open()
        assert state(engine.settle(stack).verb, engine.get(stack).status) == "UPDATE_COMPLETE"

    def test_of_many_exactly_one_is_accepted(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("0")))
        together = threading.Barrier(8)
        answers: list[object] = []

        def run(number: int) -> None:
            together.wait()
            try:
                engine.put(stack, template(a=thing(str(number), wait_secs=5)), wait=False)
                answers.append(number)
            except HeatliteError as error:
                answers.append(type(error))
            finally:
                engine.store.close()

        with engine.clock.held():
            threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 9)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        engine.settle(stack)
        accepted = [answer for answer in answers if isinstance(answer, int)]
        assert len(answers) == 8
        assert engine.value(stack, "a") == str(accepted[0])
        assert len(accepted) == 1
        assert set(answers) - set(accepted) <= {ResourceIsLocked, ActionConflict}


@pytest.mark.parametrize("status", [Status.COMPLETE, Status.FAILED])
def test_a_suspended_stack_is_not_updated(engine: Engine, status: Status) -> None:
    stack = engine.create(template(a=thing()))
    engine.put_stack(stack, Verb.SUSPEND, status)
    with pytest.raises(NotSupported, match=f"SUSPEND_{status}"):
        engine.patch(stack)


def test_a_deleted_stack_is_not_updated(engine: Engine) -> None:
    stack = engine.create(template(a=thing()))
    engine.delete(stack)
    with pytest.raises(StackNotFound):
        engine.patch(stack)


def test_properties_that_a_function_makes_as_a_whole(engine: Engine) -> None:
    def made(given: object, *path: str) -> object:
        whole = attr("a", "value", *path)
        b = {"type": "OS::Heat::TestResource", "properties": whole, "metadata": whole}
        return template(a=resource("OS::Heat::Value", value=given), b=b)

    stack = engine.create(made({"value": "1"}))
    assert engine.value(stack, "b") == "1"
    changes = engine.stacks.preview_update(
        engine.who, stack, StackRequest(template=made({"value": "2"})), existing=False
    )  # type: ignore[arg-type]
    assert {item.record.name for item in changes.updated} == {"a", "b"}
    before = engine.ids(stack)
    stack = engine.put(stack, made({"value": "2"}))
    assert (engine.value(stack, "b"), engine.ids(stack)) == ("2", before)
    assert engine.row(stack, "b").metadata == {"value": "2"}

    stack = engine.put(stack, made("text"))
    assert state(stack.verb, stack.status) == "UPDATE_FAILED"
    reason = "Resource UPDATE failed: StackValidationFailed: resources.b: The properties must be a map, not str."
    assert stack.status_reason == reason

    stack = engine.put(stack, made({"value": "2"}, "nothing"))
    assert (state(stack.verb, stack.status), engine.row(stack, "b").properties) == ("UPDATE_COMPLETE", {})


@pytest.mark.parametrize("existing", [True, False])
def test_an_update_prepared_while_another_one_ran_undoes_nothing(engine: Engine, existing: bool) -> None:
    seen = engine.create(template(a=thing("1")))
    engine.put(seen, template(a=thing("2")))
    with pytest.raises(ActionConflict, match="was updated by another request meanwhile"):
        engine.stacks.update(engine.who, seen, StackRequest(template=template(b=thing())), existing)
    engine.patch(seen)
    assert engine.value(seen, "a") == "2"
