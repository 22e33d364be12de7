"""A resource type whose object lies in a cloud: create, check, update and delete from the service's regular verbs.

::

    class NetProps(Schema):
        name: str | None = prop(update=True, doc="…")
        admin_state_up: bool = prop(True, update=True, doc="…")
        qos_policy: str | None = prop(update=True, find="neutron.qos_policy", api="qos_policy_id", doc="…")

    class Net(CloudResource[NetProps], type="OS::Neutron::Net", kind="network.network"):
        \"\"\"A network.\"\"\"

        shown = {"mtu": (int, "The largest packet, in bytes."), "subnets": (list, "The ids of its subnets.")}

`kind` names the verbs: ``network.network`` is made by ``network.create_network``. Everything is called as the service's
API calls it; `prop(api=…)` says where a property is called otherwise, and ``api=""`` leaves it to the type's own code.
`prop(find=…)` takes a name or an id, and handlers see the id.

**Creation is idempotent.** What is made carries a mark by which `find` knows it again after a crash: its name, which is
`physical_name` unless the template gives one, or else its description. Where the template gives both, others may carry
the same: which they are is noted before the object is made (`survey`). A type whose objects have neither overrides
`identity` and `alike`.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import ClassVar, TypeVar, cast

from heatlite.clients.cloud import Cloud, CloudNotFound, NameNotFound
from heatlite.clients.finders import Finders, identity
from heatlite.core.clock import from_text
from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, JsonMap, dump
from heatlite.plugin.ports import Change
from heatlite.plugin.resource import Attribute, Resource, ResourceInError, Unhealthy, attribute_kind
from heatlite.plugin.schema import Schema
from heatlite.template.types import Fault, Installation

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

P_co = TypeVar("P_co", bound=Schema, covariant=True)

WHOLE = "whole"
"""Key of the data: the id of what the object is a part of, where the properties give a name."""
OTHERS = "others"
"""The key in `data` for the ids of what carried the mark before anything was made."""

CLOCKS_DIFFER = 60.0
"""Seconds by which the clock of a cloud may be behind ours."""


class WentToError(ResourceInError):
    """An object was made, and its service could not finish it."""


class Unsettled(HeatliteError):
    """A check has met an object that its service is at work on: it is neither well nor broken yet."""

    text = "its status is {status}, which passes"


class CloudResource(Resource[P_co]):
    """Base of the types whose objects lie in a cloud."""

    kind: ClassVar[str] = ""
    """Service and noun, as the SDK's verbs have them: ``network.security_group``; given as ``class …, kind="…"``."""
    plural: ClassVar[str] = ""
    """The verb that lists, without its service; where it is not the noun with an s."""
    within: ClassVar[str] = ""
    """The property with what the object is a part of; each verb is told that too: ``get_member(member, pool)``."""
    shown: ClassVar[Mapping[str, tuple[object, str]]] = {}
    """Attributes that are keys of the object: name → its type (Json: any), and what it is."""
    ready: ClassVar[frozenset[str]] = frozenset()
    """The values of `status` that end a create or an update; empty: the service's answer ends it."""
    broken: ClassVar[frozenset[str]] = frozenset({"ERROR"})
    """The values of `status` of an object that will not become well by itself."""
    unique_name: ClassVar[bool] = False
    """Whether the service refuses a second object of the same name in a project."""
    alone: ClassVar[frozenset[str]] = frozenset()
    """Properties in which no two objects of a project may be alike; one that is given no value has one of its own."""
    unwell: ClassVar[frozenset[str]] = frozenset()
    """Further values of `status` of an object that is unhealthy: it serves nobody, and will not by itself."""
    kept_when_well: ClassVar[bool] = False
    """Whether an update keeps the object of a failed resource if it is there and not broken."""

    def __init_subclass__(cls, type: str = "", kind: str = "") -> None:  # noqa: A002
        super().__init_subclass__(type=type)
        if kind:
            cls.kind = kind
        cls.cloud_service = cls.kind.partition(".")[0]
        declared = {name: Attribute(name, doc, attribute_kind(of)) for name, (of, doc) in cls.shown.items()}
        cls.attributes_schema = dict(sorted({**cls.attributes_schema, **declared}.items()))
        cls.attribute_names = frozenset(cls.attributes_schema)
        if not cls.schema.updatable and cls.handle_update is CloudResource.handle_update:
            cls._defined -= {"handle_update", "check_update_complete"}

    # -- the cloud ---------------------------------------------------------------------------------

    @property
    def cloud(self) -> Cloud:
        """The project's cloud. Raises NoCloud; OtherCloud where the stack has its objects in another one."""
        return self._finders.cloud

    @property
    def _finders(self) -> Finders:
        facts = self.facts
        return facts.services.clouds.at_home(facts.project, facts.stack_id, facts.stack_name, facts.home())

    @property
    def props(self) -> P_co:
        """The properties, typed, defaults applied, ids in place of the names of things in the cloud."""
        if self._props is None:
            self._props = cast(P_co, self.schema(self.resolved(self.facts.properties)))
        return self._props

    def resolved(self, values: Mapping[str, Json]) -> JsonMap:
        """Coerced properties with ids in place of names. Raises CloudNotFound, CloudError."""
        return self.schema.with_ids(values, self._id_of)

    def _id_of(self, constraint: str, name: str) -> str:
        # What get_resource gives is an id: looking for it would be one call more for each.
        return name if UUID.fullmatch(name) else self._finders.id_of(constraint, name)

    def service(self, verb: str, *arguments: Json, **attributes: Json) -> Json:
        """Ask the type's own service: ``service("add_interface_to_router", …)``. Raises CloudError."""
        return self.cloud.call(f"{self.kind.partition('.')[0]}.{verb}", *arguments, **attributes)

    @property
    def noun(self) -> str:
        return self.kind.partition(".")[2]

    @property
    def whole(self) -> tuple[Json, ...]:
        """The id of what the object is a part of (`within`), if it is. Raises CloudNotFound, CloudError."""
        if not self.within:
            return ()
        kept = self.data.get(WHOLE)
        return (self.resolved(self.facts.properties)[self.within] if kept is None else kept,)

    def keep_whole(self) -> None:
        """Keep the id of what a finished object is a part of: its name may change."""
        if self.within and self.whole[0] != self.facts.properties[self.within]:
            self.data[WHOLE] = self.whole[0]

    @property
    def address(self) -> tuple[Json, ...]:
        """What the verbs are given to know the object by. Raises CloudNotFound, CloudError."""
        return (self.physical_id, *self.whole)

    def fetch(self) -> JsonMap:
        """The object as it is now. Raises CloudNotFound, CloudError."""
        if self.physical_id is None:
            raise CloudNotFound(f"{self.kind.replace('.', '.get_')}", f"{self.name} has not been made")
        return self.map(self.service(f"get_{self.noun}", *self.address))

    @property
    def seen(self) -> JsonMap:
        """The object as it was when first asked; empty where there is none. Raises CloudError."""
        if self._seen is None:
            try:
                self._seen = self.fetch()
            except CloudNotFound:
                self._seen = {}
        return self._seen

    _seen: JsonMap | None = None

    @staticmethod
    def map(answer: Json) -> JsonMap:
        """An answer that has to be a map."""
        if not isinstance(answer, dict):
            raise TypeError(f"the service answered {answer!r}, where an object was expected")
        return answer

    # -- what is sent ------------------------------------------------------------------------------

    def sent(self, names: frozenset[str] | None = None) -> JsonMap:
        """The properties (all, or these) as the service calls them, defaults applied; those without a value left out,
        unless they are named."""
        values = self.resolved(self.facts.properties)
        found: JsonMap = {}
        for name, field in self.schema.fields.items():
            if not field.api or (names is not None and name not in names):
                continue
            value = field.wire(cast(Json, field.given(values)))
            if value is not None or names is not None:
                found[field.api] = value
        return found

    def create_args(self) -> JsonMap:
        """What the service is to make; `identity` comes on top of it."""
        return self.sent()

    def update_args(self, change: Change) -> JsonMap:
        """What the service is to change; nothing: no call."""
        args = self.sent(change.changed)
        if "name" in args and args["name"] is None:
            args["name"] = self.physical_name
        return args

    def identity(self) -> JsonMap:
        """By what `find` knows the object again: part of what it is created with."""
        properties, fields = self.facts.properties, self.schema.fields
        if properties.get("name") is None or "name" not in fields:
            return {"name": self.physical_name}
        if not self.unique_name and "description" in fields and properties.get("description") is None:
            return {"name": properties["name"], "description": self.physical_name}
        return {"name": properties["name"]}

    # -- deciding ----------------------------------------------------------------------------------

    @classmethod
    def check_installation(cls, given: Mapping[str, object], installation: Installation) -> list[Fault]:  # noqa: ARG003
        """Without a cloud nothing can be made."""
        if installation.cloud != "":
            return []
        text = f"{cls.type_name} needs a cloud, and none is set"
        return [Fault((), text, "Give one with --cloud NAME (an entry of clouds.yaml), or --cloud simulated.")]

    @property
    def marked(self) -> bool:
        """Whether the mark is on nobody else's object: it has our own name in it."""
        return self.physical_name in dump(self.identity())

    @property
    def inherits(self) -> bool:
        """Whether the resource that this one takes the place of has an object which is to be this one's."""
        return self._is_shared(self.facts.former())

    @property
    def bequeaths(self) -> bool:
        """Whether the resource that takes this one's place has the object now: it is not this one's to remove."""
        return self._is_shared(self.facts.latter())

    def _is_shared(self, other: Resource[Schema] | None) -> bool:
        key = self.physical_id if self.physical_id is not None else self.key()
        return type(other) is type(self) and other.physical_id is not None and other.physical_id == key

    def key(self) -> str | None:
        """For types whose objects' ids follow from the properties: the id that the object is to have."""
        return None

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """Whether the object has all that makes the service refuse a second one."""
        fields = [self.schema.fields[name] for name in self.alone]
        pairs = [(field.given(self.facts.properties), field.given(properties)) for field in fields]
        return bool(pairs) and all(own is not None and own == new for own, new in pairs)

    def survey(self) -> bool:
        """Objects that carry a mark which is not ours alone are somebody else's."""
        if OTHERS in self.data or type(self).find is not CloudResource.find or self.marked:
            return False
        self.data[OTHERS] = [identity(one) for one in self.alike()]
        return True

    def find(self) -> str | None:
        """The object that carries the mark and was not there before; several are somebody else's."""
        others = cast(list[Json], self.data.get(OTHERS, []))
        try:
            if OTHERS not in self.data and not self.marked:
                return None  # nothing was made yet
            ours = [one for one in self.alike() if identity(one) not in others and self._may_be_ours(one)]
        except CloudNotFound:
            return None  # what it would be a part of is gone
        return identity(ours[0]) if len(ours) == 1 else None

    def alike(self) -> list[JsonMap]:
        """The objects that carry the mark. Raises CloudNotFound where they would be a part of what there is not."""
        mark = self.identity()
        found = self.service(self.plural or f"{self.noun}s", *self.whole, **self.asked(mark))
        return [one for one in cast(list[JsonMap], found) if covers(one, mark)]

    def asked(self, mark: JsonMap) -> JsonMap:
        """What the verb that lists is asked for; the rest of the mark is compared here."""
        return {"name": mark["name"]} if "name" in mark else mark

    def _may_be_ours(self, thing: JsonMap) -> bool:
        """Whether an object is no older than this attempt to make it."""
        try:
            born = from_text(str(thing.get("created_at") or thing.get("created")))
        except ValueError:
            return True  # the service does not tell
        return born >= self.facts.created_at - CLOCKS_DIFFER

    def live_properties(self) -> Mapping[str, Json] | None:
        """Those of the given properties that the object tells by the same name."""
        try:
            with self.looking():
                thing = self.fetch()
        except Unhealthy:
            return None
        live: JsonMap = {}
        given = self.facts.properties
        resolved = self.resolved(given)
        for name, field in self.schema.fields.items():
            if given.get(name) is not None and thing.get(field.api) is not None and not field.secret:
                seen = thing[field.api]
                live[name] = given[name] if covers(seen, field.wire(resolved[name])) else field.read(seen)
        return live

    def needs_replace_failed(self) -> bool:
        if not self.kept_when_well or self.physical_id is None:
            return True
        try:
            with self.looking():
                return self.status_of(self.fetch()) in self.broken
        except Unhealthy:
            return True

    # -- what the template may ask -----------------------------------------------------------------

    def attribute(self, name: str) -> Json:
        """One attribute's value, from the object as it is."""
        if name in self.shown:
            return self.seen.get(name)
        return super().attribute(name)

    def attr_show(self) -> Mapping[str, Json] | None:
        """Everything that the service tells of the object."""
        return self.seen or None

    # -- handlers ----------------------------------------------------------------------------------

    def handle_create(self) -> Json:
        if self.physical_id is not None:  # the handler may have come further than this, and be called again
            return None
        args = {**self.create_args(), **self.identity()}
        made = self.map(self.service(f"create_{self.noun}", *self.whole, **args))
        self.physical_id = identity(made)
        self.keep_whole()
        return self.status_of(made) or None  # what is ready at once need not be asked for again

    def check_create_complete(self, token: Json) -> bool | float:
        return not self.ready or token in self.ready or self.is_ready()

    def handle_update(self, change: Change) -> Json:
        args = self.update_args(change)
        if args:
            self.service(f"update_{self.noun}", *self.address, **args)
        return None

    def check_update_complete(self, token: Json) -> bool | float:
        return not self.ready or self.is_ready()

    def free(self) -> None:
        """Where it goes before its replacement is made: have others of the stack let go of it."""
        for user in self.facts.users():
            if self.type_name in user.joins:
                user.let_go(self)

    def handle_delete(self) -> Json:
        self.free()
        if self.physical_id is not None:
            address = self.address  # a name that leads nowhere does not mean that the object is gone
            with suppress(CloudNotFound):  # gone is deleted
                self.service(f"delete_{self.noun}", *address)
        return None

    def check_delete_complete(self, token: Json) -> bool | float:
        if not self.ready or self.physical_id is None:
            return True
        try:
            thing = self.fetch()
        except CloudNotFound:
            return True
        if self.status_of(thing) in self.broken:
            raise WentToError(self.why(thing, "delete"))
        return False

    def handle_check(self) -> Json:
        with self.looking():
            thing = self.fetch()
        status = self.status_of(thing)
        if status in self.broken | self.unwell:
            raise Unhealthy(f"{self.kind.replace('.', '.get_')}: its status is {self.why(thing, 'check')}")
        if self.ready and status not in self.ready:
            raise Unsettled(status=status)
        return None

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Inside, an object that is not there raises Unhealthy; a name in the properties that leads nowhere does not,
        for it tells nothing about the object."""
        try:
            yield
        except NameNotFound:
            raise
        except CloudNotFound as error:
            raise Unhealthy(str(error)) from error

    # -- how it is ---------------------------------------------------------------------------------

    def status_of(self, thing: JsonMap) -> str:
        """The object's status, in capital letters; "" where it has none."""
        return str(thing.get("status") or "").upper()

    def is_ready(self) -> bool:
        """Whether the service has finished with the object. Raises WentToError."""
        thing = self._seen = self.fetch()
        status = self.status_of(thing)
        if status in self.broken:
            raise WentToError(self.why(thing, "work"))
        return status in self.ready

    def why(self, thing: JsonMap, what: str) -> str:
        """What the service says of an object that is not well."""
        reason = thing.get("fault") or thing.get("status_reason") or "the service gives no reason"
        return f"{self.status_of(thing)}: {reason}"


def covers(seen: Json, given: Json) -> bool:
    """Whether an object, or a part of it, is as it was asked for; a service adds to what it is given, may give lists
    back in another order, and numbers as text."""
    if isinstance(seen, dict) and isinstance(given, dict):
        return all(key in seen and covers(seen[key], value) for key, value in given.items())
    if isinstance(seen, list) and isinstance(given, list):
        return len(seen) == len(given) and all(any(covers(one, item) for one in seen) for item in given)
    return seen == given or isinstance(seen, str) != isinstance(given, str) and str(seen) == str(given)
