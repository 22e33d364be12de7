"""State files of Terraform and OpenTofu, as a template and an import.

Pure functions.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from string import Formatter
from typing import Final

from msgspec import Struct, field

from heatlite.core.json import Json, JsonMap, as_map, as_maps, dump, pointer
from heatlite.core.wire.resources import MOST_RESOURCES
from heatlite.plugin.coercion import PropertyKind
from heatlite.plugin.registry import Registry
from heatlite.plugin.schema import Field, Schema
from heatlite.template.definitions.references import References, function_in
from heatlite.template.dialects import TemplateVersion

EMPTY: Final[tuple[Json, ...]] = (None, "", [], {})
"""Values that a state file has for what is not set. Zero is one too, unless it changes a default."""


class Counterpart(Struct, frozen=True):
    """The type of ours for a type of the provider."""

    type: str
    names: Mapping[str, str] = {}
    """Attributes by the places of properties, where the names differ. "": none is taken; ".": all around it."""
    id: str = "{id}"
    """The physical id, of attributes."""


_LOAD_BALANCER: Final = {"provider": "loadbalancer_provider"}
COUNTERPARTS: Final[Mapping[str, Counterpart]] = {
    "blockstorage_volume": Counterpart("OS::Cinder::Volume", {"source_volid": "source_vol_id"}),
    "compute_instance": Counterpart(
        "OS::Nova::Server",
        {
            "flavor": "flavor_name",
            "image": "image_name",
            "key_name": "key_pair",
            "networks.network": "uuid",
            "networks.fixed_ip": "",
            "user_data": "",  # the state has a checksum
        },
    ),
    "compute_keypair": Counterpart("OS::Nova::KeyPair"),
    "compute_servergroup": Counterpart("OS::Nova::ServerGroup"),
    "compute_volume_attach": Counterpart(
        "OS::Cinder::VolumeAttachment", {"instance_uuid": "instance_id"}, "{volume_id}"
    ),
    "dns_recordset": Counterpart("OS::Designate::RecordSet"),
    "dns_zone": Counterpart("OS::Designate::Zone"),
    "lb_listener": Counterpart("OS::Octavia::Listener"),
    "lb_loadbalancer": Counterpart("OS::Octavia::LoadBalancer", _LOAD_BALANCER),
    "lb_member": Counterpart("OS::Octavia::PoolMember"),
    "lb_monitor": Counterpart("OS::Octavia::HealthMonitor"),
    "lb_pool": Counterpart("OS::Octavia::Pool", {"lb_algorithm": "lb_method", "session_persistence": "persistence"}),
    "networking_floatingip": Counterpart(
        "OS::Neutron::FloatingIP", {"floating_network": "pool", "fixed_ip_address": "", "floating_ip_address": ""}
    ),
    "networking_floatingip_associate": Counterpart(
        "OS::Neutron::FloatingIPAssociation", {"floatingip_id": "id"}, "{id}:{port_id}"
    ),
    "networking_network": Counterpart("OS::Neutron::Net"),
    "networking_port": Counterpart(
        "OS::Neutron::Port",
        {"security_groups": "security_group_ids", "device_id": "", "device_owner": "", "mac_address": ""},
    ),
    "networking_router": Counterpart(
        "OS::Neutron::Router",
        {
            "external_gateway_info": ".",
            "external_gateway_info.network": "external_network_id",
            "external_gateway_info.external_fixed_ips": "",
        },
    ),
    "networking_router_interface": Counterpart(
        "OS::Neutron::RouterInterface", {"port": ""}, "{router_id}:subnet_id={subnet_id}"
    ),
    "networking_secgroup": Counterpart("OS::Neutron::SecurityGroup"),
    "networking_secgroup_rule": Counterpart("OS::Neutron::SecurityGroupRule"),
    "networking_subnet": Counterpart("OS::Neutron::Subnet"),
    "objectstorage_container": Counterpart("OS::Swift::Container"),
}
"""By types of the provider, without ``openstack_`` and their version."""
_KIND: Final = re.compile(r"openstack_(\w+?)(?:_v\d+)?")
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")
NEVER: Final = frozenset({"id", "region", "tenant_id", "timeouts", "value_specs"})
"""Attributes that are neither taken nor told."""


class StateResource(Struct, frozen=True):
    """One resource of a state file that has a counterpart."""

    address: str
    kind: str
    words: tuple[str, ...]
    """Parts of the address: modules, name, key."""
    attributes: JsonMap
    secret: frozenset[str]
    """Names of sensitive attributes."""

    @property
    def counterpart(self) -> Counterpart:
        """The type of ours."""
        return COUNTERPARTS[self.kind]

    @property
    def physical_id(self) -> str:
        """The id of its object, as we write it."""
        return self.counterpart.id.format_map(self.attributes).rpartition("/")[2]


class TakenState(Struct):
    """Template, import and report of a state file."""

    resources: dict[str, JsonMap] = field(default_factory=dict)
    """Definitions by name, those that others refer to first."""
    objects: dict[str, JsonMap] = field(default_factory=dict)
    """Objects by name, as the body of an import has them."""
    taken: dict[str, str] = field(default_factory=dict)
    """Addresses by name."""
    left_out: list[Json] = field(default_factory=list)
    """Resources without a counterpart, with the reason."""
    omitted: list[Json] = field(default_factory=list)
    """Attributes that no definition has, with the reason."""

    @property
    def parts(self) -> Iterator[tuple[Mapping[str, JsonMap], Mapping[str, JsonMap]]]:
        """Yield the definitions of the stack after each import, and its objects."""
        names = [*self.resources]
        for start in range(0, len(names) or 1, MOST_RESOURCES):
            end = start + MOST_RESOURCES
            defined = {name: self.resources[name] for name in names[:end]}
            yield defined, {name: self.objects[name] for name in names[start:end]}

    def leave_out(self, address: str, why: str) -> None:
        """Tell of a resource that is not taken."""
        self.left_out.append({"address": address, "why": why})

    @property
    def report(self) -> JsonMap:
        """All that became of the state."""
        imported: list[Json] = [
            {"path": name, "address": address, **self.objects[name]} for name, address in self.taken.items()
        ]
        return {"imported": imported, "left_out": self.left_out, "omitted": self.omitted}


def from_state(state: JsonMap, types: Registry, dialect: TemplateVersion) -> TakenState:
    """Return what becomes of a state file of version 4."""
    found = TakenState()
    named = _named([*_resources(state, found)])
    given = dict[str, dict[str, Json]]()
    for name, one in named.items():
        counterpart, seen = one.counterpart, set[str]()
        schema = types.get(counterpart.type).schema
        properties = dict(_properties(schema, one, seen))
        unusable = {str(fault.path[0]) for fault in schema.examine(properties)[1] if fault.path}
        unusable |= {key for key, value in properties.items() if function_in(value, dialect.functions) is not None}
        properties = {key: value for key, value in properties.items() if key not in unusable}
        missing = [key for key, each in schema.fields.items() if each.required and key not in properties]
        faults = [f"its state does not tell {', '.join(missing)}"] if missing else []
        faults += [fault.text for fault in schema.examine(properties)[1]]
        if faults:
            found.leave_out(one.address, faults[0])
            continue
        given[name] = properties
        found.objects[name] = {"type": counterpart.type, "id": one.physical_id}
        found.taken[name] = one.address
        found.omitted += [_omission(name, key, "unusable") for key in sorted(unusable)]
        found.omitted += _omitted(name, one, seen)
    found.resources = _definitions(named, given)
    return found


def _definitions(named: Mapping[str, StateResource], given: Mapping[str, JsonMap]) -> dict[str, JsonMap]:
    """Return definitions with these properties.

    Ids of others among them become references.
    """
    references = References({named[name].physical_id: name for name in given}, dict.fromkeys(given, frozenset()))
    found = dict[str, JsonMap]()
    for name, properties in given.items():
        value = {key: references.put(name, each) for key, each in properties.items()}
        found[name] = {"type": named[name].counterpart.type, **({"properties": value} if value else {})}
    order = TopologicalSorter({name: sorted(one) for name, one in references.needs.items()}).static_order()
    return {name: found[name] for name in order}


def _resources(state: JsonMap, found: TakenState) -> Iterator[StateResource]:
    """Yield the resources that have a counterpart, and tell of the others."""
    for entry in as_maps(state.get("resources")):
        module, kind, name = (str(entry.get(key) or "") for key in ("module", "type", "name"))
        mode = "data." if entry.get("mode") == "data" else ""
        place = f"{module}.{mode}{kind}.{name}" if module else f"{mode}{kind}.{name}"
        match = _KIND.fullmatch(kind)
        for instance in as_maps(entry.get("instances")):
            key = instance.get("index_key")
            address = place if key is None else f"{place}[{dump(key)}]"
            attributes = as_map(instance.get("attributes"))
            if mode:
                found.leave_out(address, "a data source owns nothing")
            elif match is None or match[1] not in COUNTERPARTS:
                found.leave_out(address, "no type of ours is its counterpart")
            elif instance.get("deposed") is not None or not _has_object(COUNTERPARTS[match[1]], attributes):
                found.leave_out(address, "it is about to be replaced, or has no object")
            else:
                words = (*re.findall(r"module\.([^.]+)", module), name, *([] if key is None else [str(key)]))
                yield StateResource(address, match[1], words, attributes, frozenset(_sensitive(instance)))


def _has_object(counterpart: Counterpart, attributes: JsonMap) -> bool:
    return all(attributes.get(name) for _, name, *_ in Formatter().parse(counterpart.id) if name)


def _sensitive(instance: JsonMap) -> Iterator[str]:
    """Yield the names of attributes that have a sensitive value, or a part of one."""
    paths = instance.get("sensitive_attributes")
    for path in paths if isinstance(paths, list) else ():
        yield from (str(step.get("value")) for step in as_maps(path)[:1])


def _named(resources: Sequence[StateResource]) -> dict[str, StateResource]:
    """Return the resources by names of ours.

    Where two would have one name, their types tell them apart.
    """
    plain = {one.address: "_".join(_NOT_IN_A_NAME.sub("_", word).strip("_") for word in one.words) for one in resources}
    often = Counter(plain.values())
    found = dict[str, StateResource]()
    for one in resources:
        name = base = plain[one.address] if often[plain[one.address]] == 1 else f"{plain[one.address]}_{one.kind}"
        number = 1
        while name in found:
            number += 1
            name = f"{base}_{number}"
        found[name] = one
    return found


def _properties(schema: type[Schema], one: StateResource, seen: set[str]) -> Iterator[tuple[str, Json]]:
    """Yield the properties that the state tells.

    Adds the attributes that were read to `seen`.
    """
    known = {key: value for key, value in one.attributes.items() if key not in one.secret}
    for name, value in _values(schema, known, one.counterpart.names, "", seen).items():
        if one.kind == "compute_instance" and name == "networks":
            value = [{"port": each["port"]} if "port" in each else each for each in as_maps(value)]
        if one.kind == "compute_instance" and name == "image" and str(value).startswith("Attempt to boot from volume"):
            continue
        if schema.fields[name].required or schema.fields[name].differs({}, {name: value}):
            yield name, value


def _values(
    schema: type[Schema], given: JsonMap, names: Mapping[str, str], place: str, seen: set[str]
) -> dict[str, Json]:
    """Return the values of a schema that attributes tell, if they are set."""
    found = dict[str, Json]()
    for name, each in schema.fields.items():
        if each.hidden or each.means or each.secret or name in NEVER:
            continue
        path = f"{place}{name}"
        source = names.get(path)
        tried = (name, f"{name}_id", name.removesuffix("s")) if source is None else (source,)
        key = next((one for one in tried if one == "." or _is_given(each, given.get(one))), None)
        if key is None:
            continue
        if not place and key != ".":
            seen.add(key)
        value = _value(each, given if key == "." else given[key], names, f"{path}.", seen)
        if value is not None:
            found[name] = value
    return found


def _is_given(one: Field, value: Json) -> bool:
    return value not in EMPTY and (bool(value) or one.default is not None)


def _value(one: Field, value: Json, names: Mapping[str, str], place: str, seen: set[str]) -> Json:
    """Return a value in the form of a property; None for one that is of no use."""
    if one.schema is not None:
        block = next(iter(as_maps(value)), as_map(value))
        found = _values(one.schema, block, names, place, seen)
        return found if all(name in found for name, each in one.schema.fields.items() if each.required) else None
    if one.kind is PropertyKind.LIST and isinstance(value, list) and one.item is not None and one.item.schema:
        items = [_value(one.item, each, names, place, seen) for each in value]
        return [each for each in items if each] or None
    return value


def _omitted(name: str, one: StateResource, seen: set[str]) -> Iterator[Json]:
    """Yield what a definition does not have, of what a state tells."""
    yield from (_omission(name, key, "secret") for key in sorted(one.secret))
    for key, value in one.attributes.items():
        if value and key not in {*seen, *one.secret, *NEVER} and not key.startswith("all_"):
            yield _omission(name, key, "no_property")


def _omission(name: str, key: str, why: str) -> JsonMap:
    return {"path": name, "pointer": pointer([key]), "why": why}
