"""Moves of resources to other names."""

import peewee
import pytest
from msgspec import ValidationError, convert
from msgspec.structs import replace

from heatlite.core.errors import HTTPBadRequest, InvalidStackState, InvalidValue, PlanChanged, ResourceNotFound
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb
from heatlite.features.healing.store.incidents import digest
from heatlite.features.healing.store.observations import open_key
from heatlite.features.healing.store.tables import Incident
from heatlite.features.ownership import errors
from heatlite.features.ownership.bodies import MoveRequest
from heatlite.features.schedules.store.records import ScheduledTask, ScheduleRecord
from heatlite.features.schedules.store.store import SchedulesStore
from heatlite.store.database.database import Database
from heatlite.store.database.sql import marks
from heatlite.store.database.statements import Value
from heatlite.store.feature_store import Moved, TreeStack
from heatlite.store.records import ResourceRecord
from heatlite.store.tables import MODELS
from heatlite.template.definitions.renames import renamed
from heatlite.template.document import Template
from tests.engine.conftest import attr, ref, resource, template
from tests.features.ownership.engine.conftest import Imported
from tests.features.ownership.engine.test_nested import stacks, tree

NET, VOLUME, SUBNET, VALUE = "OS::Neutron::Net", "OS::Cinder::Volume", "OS::Neutron::Subnet", "OS::Heat::Value"
GROUP = "OS::Heat::ResourceGroup"
SHOP = {
    "net": resource(NET, name="n"),
    "sub": resource(SUBNET, network=ref("net"), cidr="10.0.0.0/24"),
    "vol": resource(VOLUME, size=1),
    "web": resource(GROUP, count=2, resource_def=resource(VALUE, value=attr("vol", "size"))),
    "last": {**resource(VALUE, value=[attr("web", "refs"), {"get_attr": ["net", "name"]}]), "depends_on": ["vol"]},
}
NAMES = {"net": "vol", "vol": "net", "web": "api"}
"""Two swap their names, and a group gets another one."""


def new(name: str) -> str:
    return NAMES.get(name, name)


def data(row: ResourceRecord) -> JsonMap:
    """Return the data of a row after the move."""
    return {**row.data, "moved_from": row.name} if row.name in NAMES else row.data


@pytest.mark.slow
def test_rows_definitions_and_paths_follow(imported: Imported) -> None:
    cloudy = imported.cloudy
    registry = {"resources": {"net": {"hooks": []}, "web": {"0": {"protect": {"reason": "it is the first"}}}}}
    document = {**template(**SHOP), "outputs": {"id": {"value": ref("net")}}}
    stack = cloudy.create(document, "a", environment={"resource_registry": registry})
    cloudy.components.protection.protect(cloudy.who, stack, "sub", "of the shop")
    cloudy.components.protection.protect(cloudy.who, stack, "net", "of the shop")
    rows, outputs = cloudy.rows(stack), cloudy.components.reader.outputs(stack)
    (group,) = (one for one in cloudy.store.stacks.descendants(stack) if one.parent_resource == "web")
    members, told = cloudy.rows(group), cloudy.events(group)
    plan = imported.move_plan(stack, NAMES)
    assert [(one.path, one.action, one.cause) for one in plan.resources] == [
        (("vol",), "move", "from net"), (("net",), "move", "from vol"), (("api",), "move", "from web"),
    ]  # fmt: skip
    assert plan.later == ()
    stack = imported.moved(stack, NAMES)
    assert cloudy.rows(stack) == [
        replace(row, name=new(row.name), requires=tuple(sorted(map(new, row.requires))), data=data(row)) for row in rows
    ]
    assert imported.first_plan(stack) == {}
    assert cloudy.components.reader.outputs(stack) == outputs
    definition = cloudy.components.definitions.of(stack)
    assert definition.template.document["resources"] == {
        "vol": SHOP["net"],
        "sub": resource(SUBNET, network=ref("vol"), cidr="10.0.0.0/24"),
        "net": SHOP["vol"],
        "api": resource(GROUP, count=2, resource_def=resource(VALUE, value=attr("net", "size"))),
        "last": {**resource(VALUE, value=[attr("api", "refs"), {"get_attr": ["vol", "name"]}]), "depends_on": ["net"]},
    }
    assert definition.environment.blocks("vol") == [{"hooks": []}]
    assert [*definition.environment.resource_registry["resources"]] == ["vol", "api"]  # type: ignore[call-overload,index]
    after = cloudy.store.stacks.get(group.id)
    assert after == replace(group, parent_resource="api")
    assert (cloudy.rows(group), cloudy.events(group)) == (members, told)
    moves = [(event.resource_name, event.status_reason) for event in cloudy.events(stack) if event.verb == "MOVE"]
    assert sorted(moves) == [("api", "Moved from web"), ("net", "Moved from vol"), ("vol", "Moved from net")]
    action = cloudy.store.actions.last(stack.id, Verb.UPDATE)
    assert action is not None and action.outputs.moved == NAMES
    with pytest.raises(errors.DefinitionOutdated, match="lacks api"):
        cloudy.put(stack, document)
    assert cloudy.put(stack, definition.template.document).status is Status.COMPLETE
    assert [row.physical_id for row in cloudy.rows(stack)] == [row.physical_id for row in rows]


def test_what_was_marked_or_drifted_stays_so(imported: Imported) -> None:
    cloudy = imported.cloudy
    stack = cloudy.made({"net": SHOP["net"], "vol": SHOP["vol"]}, "a")
    cloudy.view().call("block_storage.update_volume", cloudy.row(stack, "vol").physical_id, name="other")
    cloudy.check(stack)
    cloudy.mark(stack, "net", reason="no ping")
    rows, facts = cloudy.rows(stack), cloudy.store.resource_facts([row.id for row in cloudy.rows(stack)])
    to_do = imported.first_plan(cloudy.get(stack))
    stack = imported.moved(cloudy.get(stack), {"net": "lan", "vol": "disk"})
    assert [replace(row, name="") for row in cloudy.rows(stack)] == [
        replace(row, name="", data={**row.data, "moved_from": row.name}) for row in rows
    ]
    assert cloudy.store.resource_facts([row.id for row in rows]) == facts
    assert to_do == {"net": "replace"}
    assert imported.first_plan(stack) == {"lan": "replace"}


def test_what_cannot_move(imported: Imported) -> None:
    cloudy = imported.cloudy
    stack = cloudy.made(SHOP, "a")
    for names, error in (
        ({"nothing": "new"}, ResourceNotFound),
        ({"net": "vol"}, HTTPBadRequest),
        ({"web/0": "web/2"}, HTTPBadRequest),
        ({"net": "web/net"}, InvalidValue),
    ):
        with pytest.raises(error):
            imported.move_plan(stack, names)
    for moved in ([], [("a", "a")], [("a", "b"), ("a", "c")], [("a", "c"), ("b", "c")]):
        with pytest.raises(ValidationError):
            convert({"moved": [{"from": old, "to": new} for old, new in moved]}, MoveRequest)
    body = {"moved": [{"from": "net", "to": "lan"}]}
    with pytest.raises(PlanChanged):
        imported.moves.start(cloudy.who, stack, convert(body, MoveRequest), {})
    with pytest.raises(PlanChanged):
        imported.moves.start(cloudy.who, stack, convert({**body, "plan_digest": "x"}, MoveRequest), {})
    cloudy.put_row(stack, "vol", Verb.UPDATE, Status.IN_PROGRESS)
    with pytest.raises(InvalidStackState, match="update the stack first"):
        imported.move_plan(stack, {"vol": "disk"})


def test_a_handle_whose_url_is_in_a_server_does_not_move(imported: Imported) -> None:
    """The next update would replace the server."""
    cloudy = imported.cloudy
    data = {"str_replace": {"template": "$c", "params": {"$c": attr("handle", "curl_cli")}}}
    machine = {"image": "cirros", "flavor": "m1.nano", "user_data_format": "RAW"}
    stack = cloudy.made(
        {
            "handle": resource("OS::Heat::WaitConditionHandle"),
            "machine": resource("OS::Nova::Server", user_data=data, **machine),
            "value": resource(VALUE, value=attr("handle", "endpoint")),
        },
        "a",
    )
    with pytest.raises(errors.MoveReplaces, match="make or delete machine:"):
        imported.move_plan(stack, {"handle": "ready"})
    plan = imported.move_plan(stack, {"machine": "server"})
    assert plan.details["breaks"] == ["machine: URLs that were given to machines or people have the old name."]


COLUMNS = {"path", "member", "scope", "resource_name", "parent_resource", "node"}
"""Columns with names or paths of resources, in tables of trees. `name` is one beside the id of a resource."""
AS_SENT = {"audit", "suppressed"}
"""Tables of requests as they were sent."""


class Undone(Exception):
    """Rolls the rows of a test back."""


def places(model: type[peewee.Model]) -> list[str]:
    """Return the columns of a table that have names or paths of a tree's resources."""
    names = {field.column_name for field in model._meta.sorted_fields}
    if model._meta.table_name in AS_SENT or not names & {"stack_id", "root_id", "parent_id"}:
        return []
    is_named = "resource_id" in names or model._meta.table_name in ("resource", "node")
    return sorted(names & (COLUMNS | ({"name"} if is_named else set())))


def test_law_every_place_of_a_path_is_known(imported: Imported) -> None:
    """Rows with names in each such column of any table: none has an old one left."""
    cloudy = imported.cloudy
    store, stack, other = cloudy.store, cloudy.made({}, "a"), tree(imported, "b")
    below = stacks(imported, other)["data"]
    database = store.database
    models = [*MODELS, *(model for one in store.features for model in one.tables)]
    found = {model: columns for model in models if (columns := places(model))}
    expected = {"account", "event", "healing_scope", "incident", "node", "node_action", "repair", "unnamed_resource"}
    assert expected <= {model._meta.table_name for model in found}

    def row(model: type[peewee.Model], columns: list[str], name: str) -> dict[str, Value]:
        cells: dict[str, Value] = {}
        for field in model._meta.sorted_fields:
            column = field.column_name
            if column in columns:
                cells[column] = name if column in ("name", "resource_name", "parent_resource", "node") else f"{name}/x"
            elif column in ("stack_id", "root_id", "parent_id"):
                cells[column] = stack.id
            elif isinstance(field, peewee.AutoField) or field.null:
                continue
            elif isinstance(field, peewee.CharField | peewee.TextField):
                cells[column] = "{}" if column == "properties" else f"{name}-{column}"[:16]
            else:
                cells[column] = 0
        if "scope_digest" in cells:
            cells["scope_digest"] = digest(f"{name}/x")
        if model is Incident:
            cells["open_key"] = open_key(stack.id, f"{name}/x", f"{name}-source")
        return cells

    with pytest.raises(Undone), store.transaction():
        for model, columns in found.items():
            for name in ("one", "two", "other"):
                cells = row(model, columns, name)
                quoted = ", ".join(map(database.quote, cells))
                sql = f"INSERT INTO {model._meta.table_name} ({quoted}) VALUES ({marks(cells)})"
                database.write(sql, [*cells.values()])
        times = ScheduleRecord(
            "s", "demo", stack.id, "s", "* * * * *", "UTC", ScheduledTask.RESIZE, {
                "resource": "one/x"
            }, 0, True, "u", {}, 0
        )  # fmt: skip
        schedules = store.of(SchedulesStore)
        schedules.insert(times)
        place = TreeStack(stack.id, stack.id)
        store.move_resources(Moved(place, place, {"one": "two", "two": "three"}))
        for model, columns in found.items():
            for column in columns:
                sql = f"SELECT {column} FROM {model._meta.table_name} WHERE {column} IS NOT NULL"
                names = {text.partition("/")[0] for (text,) in database.read(sql)}
                assert names & {"one", "two", "three", "other"} == {"two", "three", "other"}, (model, column)
        assert schedules.of_stack(stack.id) == [replace(times, options={"resource": "two/x"})]
        for path, source, key in database.read("SELECT path, source, open_key FROM incident"):
            assert key == open_key(stack.id, path, source)
        elsewhere = TreeStack(other.id, below.id, ("up",))
        store.move_resources(Moved(place, elsewhere, {"three": "far"}))
        for model, columns in found.items():
            require_there(database, model, columns, elsewhere)
        assert schedules.of_stack(stack.id) == [replace(times, options={"resource": "two/x"})]
        raise Undone


def require_there(database: Database, model: type[peewee.Model], columns: list[str], there: TreeStack) -> None:
    """Fail unless what was called three has another name, in another tree."""
    table = model._meta.table_name
    names = {field.column_name for field in model._meta.sorted_fields}
    for column in columns if table != "stack" else ():
        new = "up/far/x" if column in ("path", "member", "scope") else "far"
        for key, value in (("root_id", there.root_id), ("stack_id", there.stack_id)):
            if key in names and not (model is Incident and key == "stack_id"):  # of a nested stack, which stays

                sql = f"SELECT DISTINCT {key} FROM {table} WHERE {column} = ?"
                assert database.read(sql, (new,)) == [(value,)], (model, column, key)


CFN = {
    "AWSTemplateFormatVersion": "2010-09-09",
    "Parameters": {"P": {"Type": "String"}},
    "Resources": {
        "A": {"Type": VALUE, "Properties": {"value": "A"}},
        "B": {"Type": VALUE, "DependsOn": "A", "Properties": {"value": [{"Ref": "A"}, {"Ref": "P"}]}},
    },
    "Outputs": {"A": {"Value": {"Fn::GetAtt": ["A", "value"]}}},
}


def test_references_of_the_other_language() -> None:
    assert renamed(Template(CFN), {"A": "C"}) == {
        **CFN,
        "Resources": {
            "C": {"Type": VALUE, "Properties": {"value": "A"}},
            "B": {"Type": VALUE, "DependsOn": "C", "Properties": {"value": [{"Ref": "C"}, {"Ref": "P"}]}},
        },
        "Outputs": {"A": {"Value": {"Fn::GetAtt": ["C", "value"]}}},
    }
