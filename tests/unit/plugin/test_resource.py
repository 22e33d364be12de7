"""A resource type: what is defined, what is asked, what is read."""

from collections.abc import Mapping

import pytest

from heatlite.core.errors import InvalidTemplateAttribute, ResourceActionNotSupported
from heatlite.plugin import Change, Facts, Json, JsonMap, ReplaceResource, Resource, Schema, Services, prop
from heatlite.plugin.handlers import VERBS
from tests.memory_mailbox import MemoryMailbox
from tests.ports import NoRegions, NoSoftware


class Props(Schema):
    size: int = prop(3, doc="How big.")


class Plain(Resource[Props], type="Test::Plain"):
    """Does nothing."""


class Busy(Resource[Props], type="Test::Busy"):
    """Does
    much.
    """

    any_attribute = True

    def handle_create(self) -> Json:
        return None

    def check_delete_complete(self, token: Json) -> bool:
        return True

    def handle_signal(self, details: Json) -> None:
        self.data["signal"] = details

    def find(self) -> str | None:
        return None

    def attr_text(self) -> str:
        """A text."""
        return "a"

    def attr_count(self) -> int | None:
        """A count."""
        return None

    def attr_items(self) -> list[str]:
        """Items."""
        return []

    def attr_table(self) -> JsonMap:
        """A table."""
        return {}

    def attr_anything(self) -> Json:
        """Anything."""
        return None

    def attr_unsaid(self):  # type: ignore[no-untyped-def]
        return 1


class Busier(Busy, type="Test::Busier"):
    def handle_lock(self) -> Json:
        return None

    def attr_show(self) -> Mapping[str, Json]:
        return {"id": 1}


def facts(**given: object) -> Facts:
    values: dict[str, object] = {
        "name": "a",
        "stack_id": "s-1",
        "stack_name": "s",
        "project": "p",
        "physical_name": "s-a-x",
        "physical_id": None,
        "properties": {},
        "metadata": {},
        "now": lambda: 0.0,
        "services": Services(MemoryMailbox(), "http://127.0.0.1:8004", NoSoftware(), NoRegions(), float),
    }
    return Facts(**(values | given))  # type: ignore[arg-type]


def test_a_type_without_handlers_has_none() -> None:
    assert not any(Plain.has(verb) or Plain.polls(verb) for verb in VERBS)
    assert not Plain.has("signal")
    assert not Plain.has("find")


def test_either_half_of_a_pair_counts_as_a_handler() -> None:
    assert {verb for verb in VERBS if Busy.has(verb)} == {"create", "delete"}
    assert {verb for verb in VERBS if Busy.polls(verb)} == {"delete"}
    assert Busy.has("signal")
    assert Busy.has("find")


def test_handlers_and_schema_are_inherited() -> None:
    assert {verb for verb in VERBS if Busier.has(verb)} == {"create", "delete", "lock"}
    assert Busier.schema is Props
    assert Busier.type_name == "Test::Busier"
    assert Busy.type_name == "Test::Busy"


def test_a_handler_that_is_the_bases_own_again_is_none() -> None:
    class Undone(Busy):
        find = Resource.find

    assert not Undone.has("find")


def test_every_default_handler_leaves_everything_as_it_is() -> None:
    resource = Plain(facts(physical_id="x"))
    for verb in VERBS:
        if verb != "update":
            given = ("a name",) if verb == "snapshot" else ()
            assert getattr(resource, f"handle_{verb}")(*given) is None
        assert getattr(resource, f"check_{verb}_complete")(None) is True
    assert resource.find() is None
    assert resource.needs_replace_failed() is True
    assert resource.needs_replace(Change(frozenset({"size"}), {}, {"size": 1})) is False
    assert (resource.physical_id, resource.data) == ("x", {})


def test_by_default_a_changed_property_replaces_and_changed_metadata_does_not() -> None:
    resource = Plain(facts())
    assert resource.handle_update(Change(frozenset(), {}, {}, metadata_changed=True)) is None
    with pytest.raises(ReplaceResource):
        resource.handle_update(Change(frozenset({"size"}), {}, {"size": 1}))


def test_a_type_without_signals_says_so() -> None:
    with pytest.raises(ResourceActionNotSupported, match="signal is not supported for resource"):
        Plain(facts()).handle_signal({})


def test_properties_are_typed_with_defaults() -> None:
    assert Plain(facts()).props.size == 3
    assert Plain(facts(properties={"size": 5})).props.size == 5


def test_what_a_handler_sets_is_in_the_facts() -> None:
    given = facts()
    resource = Busy(given)
    resource.physical_id = "id-1"
    resource.handle_signal("x")
    assert (given.physical_id, given.data) == ("id-1", {"signal": "x"})


def test_the_reference_is_the_physical_id_else_the_name() -> None:
    assert Plain(facts()).reference() == "a"
    assert Plain(facts(physical_id="id-1")).reference() == "id-1"


def test_attributes_come_from_methods() -> None:
    assert {name: attribute.describe() for name, attribute in Busy.attributes_schema.items()} == {
        "anything": {"description": "Anything."},
        "count": {"description": "A count.", "type": "integer"},
        "items": {"description": "Items.", "type": "list"},
        "show": {"description": "Detailed information about resource.", "type": "map"},
        "table": {"description": "A table.", "type": "map"},
        "text": {"description": "A text.", "type": "string"},
        "unsaid": {"description": ""},
    }
    assert Busy.attribute_names == {"anything", "count", "items", "show", "table", "text", "unsaid"}


def test_attribute_values() -> None:
    resource = Busy(facts())
    assert resource.attribute("text") == "a"
    assert resource.attribute("whatever") is None
    assert resource.attributes() == {
        "anything": None,
        "count": None,
        "items": [],
        "table": {},
        "text": "a",
        "unsaid": 1,
    }
    assert Busier(facts()).attributes()["show"] == {"id": 1}


def test_an_unknown_attribute_is_refused() -> None:
    with pytest.raises(InvalidTemplateAttribute, match=r"The Referenced Attribute \(a zz\) is incorrect."):
        Plain(facts()).attribute("zz")


def test_the_description_is_the_docstring() -> None:
    assert Busy.description() == "Does\nmuch."
    assert Busier.description() == ""
