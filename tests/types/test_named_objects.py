"""Objects that a property only names, and that are gone or renamed since.

That is no fault of what was made with them.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import StackValidationFailed
from heatlite.core.json import Json, JsonMap
from heatlite.engine.state.requests import StackRequest
from heatlite.plugin import CloudResource
from heatlite.plugin.cloud import PARENT
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord, StackRecord
from tests.engine.conftest import resource, template
from tests.tables import few, sampled
from tests.types.conftest import Cloudy
from tests.types.marking import TYPES, read, restless, templates
from tests.types.standing import Standing

NOWHERE = "withdrawn"
"""A name that leads nowhere."""


def schema_of(row: ResourceRecord) -> type[Schema]:
    return TYPES.get(row.type).schema


def naming(rows: list[ResourceRecord]) -> Iterator[tuple[str, str]]:
    """Yield the names of resources, and of their given properties that name objects."""
    for row in rows:
        if issubclass(TYPES.get(row.type), CloudResource):
            for name in schema_of(row).fields:
                if withdrawn(row, name) != row.properties.get(name):
                    yield row.name, name


def withdrawn(row: ResourceRecord, name: str) -> Json:
    """The property with names that lead nowhere."""
    return schema_of(row).fields[name].with_ids(row.properties.get(name), lambda _constraint, _name: NOWHERE)


class Withdrawn:
    """A stack in which a property of a resource names what there is no more."""

    def __init__(self, one: Standing, resource: str, name: str) -> None:
        self.cloudy, self.stack = one.cloudy, one.cloudy.get(one.marks.stack)
        self.made = row = self.cloudy.row(self.stack, resource)
        value = withdrawn(row, name)
        self.document: Any = deepcopy(dict(read(one.file)))
        definition = self.document["resources"][resource]
        fields = schema_of(row).fields
        given = definition.get("properties", {}).items()
        definition["properties"] = {**{key: one for key, one in given if fields[key].means != name}, name: value}
        definition["depends_on"] = sorted(row.requires)
        # As it is stored when the whole was found by its name.
        data = {PARENT: row.properties[name]} if getattr(TYPES.get(row.type), "within", "") == name else {}
        self._write(self.document, properties={**row.properties, name: value}, data={**row.data, **data})

    def _write(self, document: Any, **changes: Any) -> None:
        """Write template and row as no operation of this installation would."""
        store, row = self.cloudy.store, self.cloudy.row(self.stack, self.made.name)
        address = store.templates.address(document, {})
        with store.transaction():
            store.templates.put(document, {}, address)
            store.stacks.save(replace(self.cloudy.get(self.stack), template_id=address))
            store.resources.save_many([replace(row, **changes)])
        self.cloudy.by_hand = True

    def restore(self, document: Any) -> None:
        """Let the stack be as it was made."""
        self._write(document, properties=self.made.properties, data=self.made.data, metadata=self.made.metadata)

    def lives(self) -> Iterator[str]:
        """Check and update the stack. Yields what is wrong."""
        cloudy, stack = self.cloudy, self.stack
        changed = deepcopy(self.document)
        changed["resources"][self.made.name]["metadata"] = {"changed": "yes"}
        steps: dict[str, Callable[[], Any]] = {
            "check": lambda: cloudy.check(stack),
            "an update with converge": lambda: cloudy.patch(stack, converge=True),
            "an update of nothing": lambda: cloudy.put(stack, {**self.document, "description": "other"}),
            "an update of metadata": lambda: cloudy.put(stack, changed),
        }
        before = {row.name: row.id for row in cloudy.rows(stack) if not restless(row.type)}
        for step, take in steps.items():
            since = cloudy.now_on(stack)
            stack = take()
            if stack.status != "COMPLETE":
                yield f"{step}: {cloudy.why(stack)}"
            reasons = [f"{one.resource_name} {one.status_reason}" for one in cloudy.events(stack)[since:]]
            yield from (f"{step}: {reason}" for reason in reasons if "differs" in reason)
            after = {row.id for row in cloudy.rows(stack)}
            gone = sorted(name for name, key in before.items() if key not in after)
            if gone:
                yield f"{step} replaced {gone}"
                return


@pytest.mark.slow
@pytest.mark.parametrize("file", sampled(templates(), 3, pytest.mark.thorough))
def test_a_name_that_leads_nowhere_any_more_is_neither_a_failure_nor_a_difference(
    tmp_path_factory: pytest.TempPathFactory, file: str
) -> None:
    wrong = []
    one = Standing(tmp_path_factory.mktemp("named"), file)
    for owner, name in [*naming(one.cloudy.rows(one.marks.stack))]:
        case = Withdrawn(one, owner, name)
        found = [f"{case.made.type} {owner}.{name}: {text}" for text in case.lives()]
        if not found:
            case.restore(dict(read(file)))
            continue
        wrong += found
        one.ends.close()
        one = Standing(tmp_path_factory.mktemp("named"), file)
    one.ends.close()
    assert not wrong, "\n".join(wrong)


SERVER = {"image": "theirs", "flavor": "theirs", "key_name": "theirs", "networks": [{"network": "theirs"}]}
VOLUME = {"size": 1, "volume_type": "theirs"}


def written(volume: JsonMap, **server: Any) -> Any:
    return template(server=resource("OS::Nova::Server", **server), disk=resource("OS::Cinder::Volume", **volume))


@pytest.mark.slow
@pytest.mark.parametrize("by_id", few([False, True]))
def test_a_cloud_withdraws_what_a_server_and_a_volume_were_made_with(cloudy: Cloudy, by_id: bool) -> None:
    call: Any = cloudy.admin.call
    own: Any = cloudy.view().call
    image = own("image.create_image", name="theirs", disk_format="raw", container_format="bare")
    own("image.import_image", image["id"], method="web-download", uri="http://x")
    cloudy.clock.pass_(60)
    flavor = call("compute.create_flavor", name="theirs", ram=64, vcpus=1, disk=1)
    kind = call("block_storage.create_type", name="theirs")
    network = own("network.create_network", name="theirs")
    own("network.create_subnet", network_id=network["id"], cidr="10.1.0.0/24", ip_version=4)
    own("compute.create_keypair", name="theirs")
    server, volume = dict[str, Any](SERVER), dict[str, Any](VOLUME)
    if by_id:
        server |= {"image": image["id"], "flavor": flavor["id"], "networks": [{"network": network["id"]}]}
        volume |= {"volume_type": kind["id"]}
    stack = cloudy.create(written(volume, **server))
    assert stack.status == "COMPLETE", cloudy.why(stack)
    before = {row.name: row.physical_id for row in cloudy.rows(stack)}
    call("image.delete_image", image["id"])
    call("compute.delete_flavor", flavor["id"])
    call("network.update_network", network["id"], name="renamed")
    call("block_storage.update_type", kind["id"], name="renamed")
    own("compute.delete_keypair", "theirs")
    cloudy.clock.pass_(3600)  # what was found is remembered for a while

    def stays(stack: StackRecord) -> StackRecord:
        assert stack.status == "COMPLETE", cloudy.why(stack)
        assert {row.name: row.physical_id for row in cloudy.rows(stack)} == before
        return stack

    stack = stays(cloudy.check(stack))
    assert [row.name for row in cloudy.rows(stack) if "differs" in row.status_reason] == []
    plan = cloudy.stacks.preview_update(cloudy.who, stack, StackRequest(converge=True), existing=True, plan=True).plan
    assert plan is not None
    assert {one.action for one in plan.resources} == {"keep"}
    stack = stays(cloudy.patch(stack, converge=True))
    stack = stays(cloudy.put(stack, written({**volume, "name": "new"}, **server, name="new", metadata={"a": "b"})))
    assert cloudy.thing(stack, "server")["name"] == cloudy.thing(stack, "disk")["name"] == "new"
    server |= {"networks": [{"allocate_network": "none"}]}
    stack = stays(cloudy.put(stack, written(volume, **server)))
    assert cloudy.thing(stack, "server")["addresses"] == {}
    for name, other in {"flavor": "nowhere", "image": "nowhere", "networks": [{"network": "nowhere"}]}.items():
        with pytest.raises(StackValidationFailed, match=r"\(nowhere\) could not be found"):
            cloudy.put(stack, written(volume, **server | {name: other}))
    stack = stays(cloudy.put(stack, written(volume, **server | {"flavor": "m1.small", "image": "cirros"})))
    assert cloudy.delete(stack).status == "COMPLETE"
