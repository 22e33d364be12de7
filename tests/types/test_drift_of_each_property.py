"""Drift of each property that changes in place is seen, and put back.

The update of the type itself changes the object from outside: it is called without its row.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import pytest
from msgspec.structs import replace

from heatlite.clients.finders import FINDERS
from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap
from heatlite.engine.types.observation import live_values
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.plugin import Change, CloudResource, Resource
from heatlite.store.records import ResourceRecord
from tests.types.marking import TYPES, templates
from tests.types.sample_values import values
from tests.types.standing import Standing
from tools.compared import NOT_COMPARED

TRIES: Final = 14
"""Pairs of values of a property that are tried until the service accepts them."""
RULES: Final = [{"IpProtocol": "tcp", "FromPort": at, "ToPort": at, "CidrIp": "0.0.0.0/0"} for at in ("80", "81")]
KEYS: Final = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")
GATEWAY: Final[JsonMap] = {"network": "public", "enable_snat": True}

Pair = tuple[JsonMap, JsonMap]
PAIRS: Final[Mapping[tuple[str, str], Callable[[Callable[[str], list[Json]]], Pair]]] = {
    ("AWS::EC2::SecurityGroup", "SecurityGroupEgress"): lambda _: (
        {"SecurityGroupEgress": [RULES[0]]}, {"SecurityGroupEgress": [RULES[1]]},
    ),
    ("OS::Cinder::VolumeType", "projects"): lambda ids: (
        {"is_public": False, "projects": ids("identity.project")[:1]},
        {"is_public": False, "projects": ids("identity.project")[:2]},
    ),
    ("OS::Glance::WebImage", "members"): lambda _: (
        {"visibility": "shared", "members": ["one"]}, {"visibility": "shared", "members": ["two"]},
    ),
    ("OS::Glance::WebImage", "kernel_id"): lambda _: ({"kernel_id": KEYS[0]}, {"kernel_id": KEYS[1]}),
    ("OS::Glance::WebImage", "ramdisk_id"): lambda _: ({"ramdisk_id": KEYS[0]}, {"ramdisk_id": KEYS[1]}),
    ("OS::Neutron::Net", "dhcp_agent_ids"): lambda ids: (
        {"dhcp_agent_ids": ids("network.agent")[:1]}, {"dhcp_agent_ids": ids("network.agent")[:2]},
    ),
    ("OS::Neutron::Port", "allowed_address_pairs"): lambda _: (
        {"allowed_address_pairs": [{"ip_address": "10.0.0.9"}]},
        {"allowed_address_pairs": [{"ip_address": "10.0.0.9", "mac_address": "aa:bb:cc:00:11:22"}]},
    ),
    ("OS::Neutron::ProviderNet", "segmentation_id"): lambda _: ({"segmentation_id": "101"}, {"segmentation_id": "102"}),
    ("OS::Neutron::QoSBandwidthLimitRule", "max_kbps"): lambda _: ({"max_kbps": 500000}, {"max_kbps": 600000}),
    ("OS::Neutron::Router", "external_gateway_info"): lambda _: (
        {"external_gateway_info": GATEWAY}, {"external_gateway_info": {**GATEWAY, "enable_snat": False}},
    ),
    ("OS::Neutron::Router", "l3_agent_ids"): lambda ids: (
        {"l3_agent_ids": ids("network.agent")[2:3]}, {"l3_agent_ids": ids("network.agent")[3:4]},
    ),
    ("OS::Neutron::SubnetPool", "max_prefixlen"): lambda _: ({"max_prefixlen": 28}, {"max_prefixlen": 30}),
    ("OS::Nova::HostAggregate", "hosts"): lambda _: ({"hosts": ["fake-1"]}, {"hosts": ["fake-2"]}),
    ("OS::Octavia::L7Policy", "position"): lambda _: ({"position": 1}, {"position": 2}),
}  # fmt: skip
"""Properties with two values of one, where its rules do not tell such values."""

REFUSED: Final = "the service refuses the change"
NO_SUCH: Final = "the service has no such quota any more"
OF_A_PORT: Final = "it needs a port; tests of Amazon's machines try it"
NOT_TRIED: Final = {
    ("AWS::EC2::EIP", "InstanceId"): OF_A_PORT,
    ("AWS::EC2::Instance", "NetworkInterfaces"): OF_A_PORT,
    ("AWS::EC2::Instance", "SubnetId"): OF_A_PORT,
    ("OS::Aodh::Alarm", "query"): "the values of the table say too little",
    ("OS::Cinder::Volume", "backup_id"): "an object does not tell from which backup it is",
    ("OS::Cinder::Volume", "size"): "a volume cannot shrink",
    ("OS::Designate::Zone", "masters"): "only a secondary zone has some",
    ("OS::Keystone::Group", "domain"): REFUSED,
    ("OS::Keystone::Project", "domain"): REFUSED,
    ("OS::Keystone::User", "domain"): REFUSED,
    ("OS::Neutron::FloatingIP", "fixed_ip_address"): "it needs a port with two addresses",
    ("OS::Neutron::FloatingIPAssociation", "fixed_ip_address"): "it needs a port with two addresses",
    ("OS::Neutron::FloatingIPPortForward", "internal_ip_address"): "it needs a port with two addresses",
    ("OS::Neutron::FloatingIPPortForward", "internal_port"): "it needs another port with the address",
    ("OS::Neutron::ProviderNet", "availability_zone_hints"): REFUSED,
    ("OS::Neutron::ProviderNet", "network_type"): REFUSED,
    ("OS::Neutron::Router", "l3_agent_id"): "it is an old name of l3_agent_ids",
    ("OS::Neutron::SubnetPool", "prefixes"): REFUSED,
    ("OS::Nova::Quota", "fixed_ips"): NO_SUCH,
    ("OS::Nova::Quota", "floating_ips"): NO_SUCH,
    ("OS::Nova::Quota", "security_group_rules"): NO_SUCH,
    ("OS::Nova::Quota", "security_groups"): NO_SUCH,
}
"""Properties that are compared, but not tried here, with the reasons."""

VOLATILE: Final = frozenset({"revision_number", "updated_at"})
"""Attributes that each change of an object changes."""


class Trial:
    """Tries the properties of the resources of one template."""

    def __init__(self, standing: Standing) -> None:
        self._cloudy = standing.cloudy
        self._resources: ResourceFactory = standing.cloudy.components.reader.resources_of(standing.marks.stack)
        self.rows = standing.cloudy.rows(standing.marks.stack)
        self._rows: dict[str, ResourceRecord] = {}
        """Rows as they are after what was tried."""
        self._more: dict[str, list[Json]] = {}
        self._resources.chosen = {row.name: row for row in self.rows}

    def _all(self, kind: str) -> list[Json]:
        """Return the ids of all objects of a kind."""
        return [*self._cloudy.admin.simulation.all(kind)]

    def _ids(self, finder: str) -> list[Json]:
        """Return the ids of some objects, two of which are made here."""
        known = FINDERS.get(finder)
        if known is None:
            return []
        kind, cloud = known.verb.replace("find_", ""), self._cloudy.view()
        if kind not in self._more:
            like = next(iter(cloud.things(kind)), {"project_id": cloud.project, "links": []})
            made = [cloud.put(kind, {**like, "id": new_id(), "name": f"{kind} {at}"}) for at in range(2)]
            self._more[kind] = [one["id"] for one in made]
        return [*self._more[kind], *(str(one.get("id", one.get("name"))) for one in cloud.things(kind)[:1])]

    def _live(self, row: ResourceRecord) -> JsonMap:
        live = live_values(self._resources.make(row))
        assert live is not None
        return live

    def _fetched(self, row: ResourceRecord) -> JsonMap:
        resource = self._resources.make(row)
        assert isinstance(resource, CloudResource)
        return {key: copy.deepcopy(value) for key, value in resource.fetch().items() if key not in VOLATILE}

    def _updated(self, row: ResourceRecord, before: JsonMap, after: JsonMap) -> ResourceRecord:
        """Change an object, and return the row as it would be then."""
        new = replace(row, properties=after)
        resource: Resource[Any] = self._resources.make(new)
        changed = resource.schema.diff(before, after)
        token = resource.handle_update(Change(changed, before, after, False, frozenset()))
        for _ in range(60):
            if resource.check_update_complete(token) is True:
                return replace(new, data={**resource.data})
            self._cloudy.clock.pass_(5)
        raise AssertionError("it is not updated")

    def _pairs(self, row: ResourceRecord, name: str, to_none: bool) -> Iterator[tuple[JsonMap, JsonMap]]:
        """Yield properties with two values of one, the second of which may be none."""
        schema, base = TYPES.get(row.type).schema, row.properties
        field, now = schema.fields[name], base.get(name)
        known = [one for one in values(field, self._ids) if one != now]
        first = known if now is None else [now, *known]
        found = [({name: one}, {name: two}) for one in first[:6] for two in ([None] if to_none else known[:8])]
        if (row.type, name) in PAIRS:
            one, two = PAIRS[row.type, name](self._all)
            found = [(one, {**two, name: None} if to_none else two)]
        for one, two in found:
            (before, some), (after, more) = (schema.examine({**base, **given}) for given in (one, two))
            if not some and not more and schema.diff(before, after) == {name}:
                yield cast(JsonMap, before), cast(JsonMap, after)

    def outcome(self, row: ResourceRecord, name: str, to_none: bool) -> str:
        """Return "" if drift of a property is seen and put back; else what went wrong."""
        now = row = self._rows.get(row.id, row)
        wrong = "" if to_none else "no two values"
        for (before, after), _ in zip(self._pairs(row, name, to_none), range(TRIES), strict=False):
            try:
                now = self._updated(now, self._live(now), before)
                wrong = self._tried(now, after, name)
                break
            except Exception as error:  # noqa: BLE001 - the service may refuse a value
                wrong = "" if to_none else f"{before.get(name)} → {after.get(name)}: {error}"
        with suppress(Exception):  # what cannot be taken back is no part of the law
            self._rows[row.id] = self._updated(now, self._live(now), row.properties)
        return wrong

    def _tried(self, row: ResourceRecord, after: JsonMap, name: str) -> str:
        """As `outcome`, for one other value. Raises errors of the service."""
        diff = TYPES.get(row.type).schema.diff
        pair = f"{row.properties.get(name)} → {after.get(name)}"
        if seen := diff(row.properties, self._live(row)):
            return f"{pair}: differs from itself in {sorted(seen)}"
        was = self._fetched(row)
        self._updated(row, row.properties, after)
        live = self._live(row)
        if after.get(name) is None and not _is_told(was, self._fetched(row)):
            return ""
        if (seen := diff(row.properties, live)) != {name}:
            return f"{pair}: a check sees {sorted(seen)}"
        back = self._updated(row, live, row.properties)
        left = diff(row.properties, self._live(back))
        return f"{pair}: {sorted(left)} is not put back" if left else ""


def _is_told(before: JsonMap, after: JsonMap) -> bool:
    """Return True if an object has changed, and tells as much as before."""
    return before != after and before.keys() <= after.keys()


@pytest.mark.slow
def test_drift_of_each_property_is_seen_and_put_back(tmp_path: Path) -> None:
    """Laws 1.4 and 1.5 of drift, for all types of the templates."""
    outcomes: dict[tuple[str, str, bool], str] = {}
    for number, file in enumerate(templates()):
        (folder := tmp_path / str(number)).mkdir()
        standing = Standing(folder, file)
        trial = Trial(standing)
        for row in trial.rows:
            kind = TYPES.get(row.type)
            if not issubclass(kind, CloudResource) or not kind.has("live_properties"):
                continue
            for name, field in kind.schema.fields.items():
                if name not in kind.schema.updatable or field.secret or (row.type, name) in NOT_COMPARED:
                    continue
                for to_none in (False, True):
                    if outcomes.get(key := (row.type, name, to_none)) != "":
                        outcomes[key] = trial.outcome(row, name, to_none)
        standing.ends.close()
    wrong = {key: outcome for key, outcome in outcomes.items() if outcome and key[:2] not in NOT_TRIED}
    assert wrong == {}
    assert NOT_TRIED.keys() <= {key[:2] for key in outcomes}
