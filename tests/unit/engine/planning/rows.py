"""Rows, types and definitions for tests of pure planning rules."""

from collections.abc import Mapping

from heatlite.core.json import Json, JsonMap
from heatlite.core.status import Status, Verb
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.types.template_types import TemplateResource
from heatlite.plugin import Resource, Schema, StackResource, prop
from heatlite.plugin.ports import Change
from heatlite.plugin.resource import ResourceType
from heatlite.store.records import ResourceRecord
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment
from heatlite.template.replacement import Replacement


class Props(Schema):
    text: str = prop("", update=True, doc="Changed in place.")
    size: int = prop(0, doc="A change replaces.")
    net: str = prop("", immutable=True, doc="No template may change it.")


class Thing(Resource[Props]):
    """A type that can be updated."""

    def handle_update(self, change: Change) -> None:
        raise AssertionError


class Fixed(Resource[Props]):
    """A type without an update."""


class Fresh(Thing):
    """A type that each update replaces."""

    anew_with_update = True


class Restless(Thing):
    """A type that each update updates."""

    always_updated = True


class Rebuilt(Thing):
    """A type that can be made again in place."""

    def handle_rebuild(self, change: Change) -> None:
        raise AssertionError


class Rebooted(Thing):
    """A type that can be restarted."""

    def handle_reboot(self) -> None:
        raise AssertionError


class Joined(Thing):
    """A type whose objects are joined to networks."""

    joins = frozenset({"Test::Net"})


class Giving(Thing):
    """A type whose replacements take over parts of the object."""

    gives_way = True


class JoinedFixed(Fixed):
    """A type whose objects are joined to networks, without an update."""

    joins = frozenset({"Test::Net"})


class Group(StackResource[Props]):
    """A type that makes a nested stack."""


class OfTemplate(TemplateResource):
    """A type made of a template."""

    schema = Props


DEFINITION = Template(
    {
        "heat_template_version": "2021-04-16",
        "resources": {
            "net": {"type": "Test::Net"},
            "a": {
                "type": "Test::Thing",
                "properties": {"text": "x", "net": {"get_resource": "net"}},
            },
            "plain": {"type": "Test::Thing", "depends_on": "net"},
        },
    }
).bind(Environment(), {})
"""`a` refers to `net`; `plain` only comes after it."""


def row(
    verb: Verb = Verb.CREATE,
    status: Status = Status.COMPLETE,
    name: str = "a",
    identifier: str = "a1",
    **fields: object,
) -> ResourceRecord:
    """Return a row that looks like a finished object, unless told otherwise."""
    given: dict[str, object] = {
        "physical_id": f"{identifier}-object",
        "properties": {"text": "x"},
        "requires": ("net",),
        "uses": ("net1",),
        **fields,
    }
    return ResourceRecord(identifier, "s", name, "Test::Thing", "Test::Thing", verb, status, "why", 1.0, **given)  # type: ignore[arg-type]


NET = row(name="net", identifier="net1", requires=(), uses=(), properties={})
"""The network that `row` was made with."""
NEW_NET = row(name="net", identifier="net2", requires=(), uses=(), properties={})
"""Its replacement."""


def wanted(
    kind: ResourceType = Thing,
    properties: Mapping[str, object] | None = None,
    metadata: JsonMap | None = None,
    order: str | None = None,
    external_id: str | None = None,
    definition: Definition = DEFINITION,
) -> Wanted:
    """Return an evaluated definition that equals `row`, unless told otherwise."""
    values: Mapping[str, Json] = {"text": "x"} if properties is None else properties  # type: ignore[assignment]
    return Wanted(kind, dict(values), metadata or {}, {}, Replacement(order), definition, external_id)
