"""Base of resource types whose object lies in a cloud.

Create, check, update and delete follow from the service's regular verbs.

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

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import ClassVar, Final, TypeVar, cast

from heatlite.clients.cloud import Cloud, CloudNotFound, NameNotFound
from heatlite.clients.finders import identity
from heatlite.core.clock import from_text
from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, JsonMap, dump
from heatlite.plugin.handlers import Absent, ResourceInError, ServiceConflict, Unhealthy
from heatlite.plugin.naming import NamingResource, is_as_requested
from heatlite.plugin.ports import Change
from heatlite.plugin.resource import Attribute, Resource, attribute_kind
from heatlite.plugin.schema import Schema

P_co = TypeVar("P_co", bound=Schema, covariant=True)

_OF_STATUS: Final = ("check_create_complete", "check_update_complete", "check_delete_complete")
"""Checks that look at the object's status."""
PARENT = "whole"
"""Key of `data`: id of the object that this one is a part of, if the properties give a name."""
FOUND_BEFORE = "others"
"""Key of `data`: ids of the objects that looked like the new one before it was made."""

UNFINISHED = "unfinished"
"""Key of `data`: a new object still lacks what further calls give it.
A failure then replaces the object, even a healthy one."""

HOW_TO_SET_A_CLOUD = "Give one with --cloud NAME (an entry of clouds.yaml), or --cloud simulated."
DEPARTING: Final = frozenset({"DELETED", "DELETING", "PENDING_DELETE"})
"""Values of `status` of an object that goes by itself."""
CLOCKS_DIFFER = 60.0
"""Seconds by which the clock of a cloud may be behind ours."""


class WentToError(ResourceInError):
    """An object was made, and its service could not finish it."""


class Unsettled(HeatliteError):
    """The service still works on the object: neither healthy nor broken yet."""

    text = "its status is {status}, which passes"


class CloudResource(NamingResource[P_co]):
    """Base of the types whose objects lie in a cloud."""

    kind: ClassVar[str] = ""
    """Service and noun of the SDK's verbs, as ``network.security_group``.
    Given as ``class …, kind="…"``."""
    plural: ClassVar[str] = ""
    """The verb that lists, without its service; where it is not the noun with an s."""
    within: ClassVar[str] = ""
    """Property with the whole that the object is part of.
    Each verb gets it: ``get_member(member, pool)``."""
    shown: ClassVar[Mapping[str, tuple[object, str]]] = {}
    """Attributes that are keys of the object: name → type and description.
    The type Json stands for any."""
    unshown: ClassVar[frozenset[str]] = frozenset()
    """Keys of the object that the attribute show leaves out: they repeat input, which may be secret."""
    ready: ClassVar[frozenset[str]] = frozenset()
    """Values of `status` that end a create or an update.
    Empty: the service's answer ends it."""
    broken: ClassVar[frozenset[str]] = frozenset({"ERROR"})
    """The values of `status` of an object that will not become well by itself."""
    unique_name: ClassVar[bool] = False
    """True if the service refuses a second object of the same name in a project."""
    alone: ClassVar[frozenset[str]] = frozenset()
    """Properties that no two objects of a project may share.
    A property without a value counts as unique."""
    unwell: ClassVar[frozenset[str]] = frozenset()
    """Further values of `status` of an object that will not recover by itself."""
    searched: ClassVar[bool] = True
    """False if no object is searched for after a crash: a repeated create does no harm, or nothing carries a mark."""
    kept_when_well: ClassVar[bool] = False
    """True if an update keeps the existing, healthy object of a failed resource."""

    def __init_subclass__(cls, type: str = "", kind: str = "") -> None:  # noqa: A002
        super().__init_subclass__(type=type)
        if kind:
            cls.kind = kind
        cls.object_kind = cls.kind or cls.object_kind
        cls.cloud_service = cls.kind.partition(".")[0]
        declared = {name: Attribute(name, doc, attribute_kind(of)) for name, (of, doc) in cls.shown.items()}
        cls.attributes_schema = dict(sorted({**cls.attributes_schema, **declared}.items()))
        cls.attribute_names = frozenset(cls.attributes_schema)
        if not (cls.schema.updatable or cls.puts_back or cls.joins):
            cls._defined -= {"handle_update", "check_update_complete"}
        if not cls.ready:
            cls._defined -= {name for name in _OF_STATUS if getattr(cls, name) is getattr(CloudResource, name)}

    # -- the cloud ---------------------------------------------------------------------------------

    def service(self, verb: str, *arguments: Json, **attributes: Json) -> Json:
        """Ask the type's own service: ``service("add_interface_to_router", …)``.

        Raises CloudError.
        """
        return self.cloud.call(f"{self.kind.partition('.')[0]}.{verb}", *arguments, **attributes)

    @property
    def noun(self) -> str:
        return self.kind.partition(".")[2]

    @property
    def whole(self) -> tuple[Json, ...]:
        """The id of what the object is a part of (`within`), if it is.

        Raises CloudNotFound, CloudError.
        """
        if not self.within:
            return ()
        kept = self.data.get(PARENT)
        field = self.schema.fields[self.within]
        return (getattr(self.props, field.attribute) if kept is None else kept,)

    def keep_whole(self) -> None:
        """Keep the id of what a finished object is a part of: its name may change."""
        if self.within and self.whole[0] != self.facts.properties[self.within]:
            self.data[PARENT] = self.whole[0]

    @property
    def address(self) -> tuple[Json, ...]:
        """Return the arguments by which the verbs identify the object.

        Raises CloudNotFound, CloudError.
        """
        return (self.physical_id, *self.whole)

    def fetch(self) -> JsonMap:
        """The object as it is now. Raises CloudNotFound, CloudError."""
        if self.physical_id is None:
            raise CloudNotFound(f"{self.kind.replace('.', '.get_')}", f"{self.name} has not been made")
        if self._held is not None:
            return self._held
        thing = self.map(self.service(f"get_{self.noun}", *self.address))
        self._held = thing if self._holds else None
        return thing

    def hold(self) -> None:
        """Read the object once: from now on `fetch` returns what its first call reads."""
        self._holds = True

    _holds = False
    _held: JsonMap | None = None

    @property
    def fetched(self) -> JsonMap:
        """The object as it was when first asked; empty where there is none.

        Raises CloudError.
        """
        if self._fetched is None:
            try:
                self._fetched = self.fetch()
            except CloudNotFound:
                self._fetched = {}
        return self._fetched

    _fetched: JsonMap | None = None

    @staticmethod
    def map(answer: Json) -> JsonMap:
        """An answer that must be a map."""
        if not isinstance(answer, dict):
            raise TypeError(f"the service answered {answer!r}, where an object was expected")
        return answer

    # -- what is sent ------------------------------------------------------------------------------

    def sent(self, names: frozenset[str] | None = None) -> JsonMap:
        """Return properties in the service's form, defaults applied.

        All, or these. Those without a value are left out, unless they are named.
        """
        given = self.facts.properties
        found: JsonMap = {}
        for name, field in self.schema.fields.items():
            if not field.api or (names is not None and name not in names):
                continue
            value = field.wire(self.ids_in(name, cast(Json, field.given(given))))
            if value is not None or names is not None:
                found[field.api] = value
        return found

    def create_args(self) -> JsonMap:
        """Return the arguments of the create verb; `identity` is added to them."""
        return self.sent()

    def update_args(self, change: Change) -> JsonMap:
        """Return the arguments of the update verb; empty: no call."""
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

    @property
    def marked(self) -> bool:
        """True if the mark is unique to this resource: it contains its own name."""
        return self.physical_name in dump(self.identity())

    @property
    def inherits(self) -> bool:
        """True if this resource takes over the object of its predecessor."""
        return self._is_shared(self.facts.former())

    @property
    def is_passed_on(self) -> bool:
        """True if another row has the object now, so that this one must not remove it."""
        return self._is_shared(self.facts.latter()) or self._is_shared(self.facts.former())

    def _is_shared(self, other: Resource[Schema] | None) -> bool:
        key = self.physical_id if self.physical_id is not None else self.key()
        return type(other) is type(self) and other.physical_id is not None and other.physical_id == key

    def key(self) -> str | None:
        """Return the id that the object will have, if it follows from the properties."""
        return None

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """Test whether the service refuses a second object beside this one."""
        fields = [self.schema.fields[name] for name in self.alone]
        pairs = [(field.given(self.facts.properties), field.given(properties)) for field in fields]
        return bool(pairs) and all(own is not None and own == new for own, new in pairs)

    def survey(self) -> bool:
        """Note objects with a mark that others may use, since they are foreign."""
        if not self.searched or FOUND_BEFORE in self.data or type(self).find is not CloudResource.find or self.marked:
            return False
        self.data[FOUND_BEFORE] = [identity(one) for one in self.alike()]
        return True

    def find(self) -> str | None:
        """Return the new object that carries the mark; several are foreign."""
        if not self.searched:
            return None
        others = cast(list[Json], self.data.get(FOUND_BEFORE, []))
        try:
            if FOUND_BEFORE not in self.data and not self.marked:
                return None  # nothing was made yet
            ours = [one for one in self.alike() if identity(one) not in others and self._may_be_ours(one)]
            ours = [one for one in ours if not self.is_held(identity(one))]
        except CloudNotFound:
            return None  # the whole that it would be part of is gone
        return identity(ours[0]) if len(ours) == 1 else None

    def is_held(self, key: str) -> bool:
        """Test whether another resource of the project has an object.

        It may have been made with the same mark after an attempt of this one failed.
        """
        return any(isinstance(one, CloudResource) and one.kind == self.kind for one in self.facts.holders(key))

    def alike(self) -> list[JsonMap]:
        """The objects that carry the mark. Raises CloudNotFound without their whole."""
        mark = self.identity()
        found = self.service(self.plural or f"{self.noun}s", *self.whole, **self.asked(mark))
        return [one for one in cast(list[JsonMap], found) if is_as_requested(one, mark)]

    def asked(self, mark: JsonMap) -> JsonMap:
        """Return arguments of the list verb; `alike` compares the rest of the mark."""
        return {"name": mark["name"]} if "name" in mark else mark

    def _may_be_ours(self, thing: JsonMap) -> bool:
        """Test whether an object is no older than this attempt to make it."""
        try:
            born = from_text(str(thing.get("created_at") or thing.get("created")))
        except ValueError:
            return True  # the service does not tell
        return born >= self.facts.created_at - CLOCKS_DIFFER

    def live_properties(self) -> Mapping[str, Json] | None:
        """Those of the given properties that the object tells by the same name."""
        try:
            with self.absent_if_missing():
                thing = self.fetch()
        except Unhealthy:
            return None
        live: JsonMap = {}
        given = self.facts.properties
        for name, field in self.schema.fields.items():
            if given.get(name) is not None and field.api in thing and not field.secret:
                value = thing[field.api]  # null: the object has none, or has lost it
                is_same = not given[name] if value is None else self.is_as_given(name, value)
                live[name] = given[name] if is_same else field.read(value)
        return {**live, **self.live_parts(thing)}

    def live_parts(self, thing: JsonMap) -> JsonMap:
        """Return given properties that the object does not tell by their names.

        Such as objects that belong to it. A part that is as given has the value of the property.
        """
        return {}

    def needs_replace_failed(self) -> bool:
        if not self.kept_when_well or self.physical_id is None:
            return True
        with suppress(Unhealthy), self.absent_if_missing():
            return self.status_of(self.fetch()) in self.broken
        return True

    def outlasts_refusal(self) -> bool:
        with suppress(Unhealthy, Unsettled):
            self.handle_check()
            return self.status_of(self.fetched) not in DEPARTING
        return False

    # -- what the template may ask -----------------------------------------------------------------

    def attribute(self, name: str) -> Json:
        """One attribute's value, from the object as it is."""
        if name in self.shown:
            return self.fetched.get(name)
        return super().attribute(name)

    def attr_show(self) -> Mapping[str, Json] | None:
        """Everything that the service tells of the object, without repeated input."""
        return {name: value for name, value in self.fetched.items() if name not in self.unshown} or None

    # -- handlers ----------------------------------------------------------------------------------

    def handle_create(self) -> Json:
        if self.physical_id is not None:  # the handler may have come further than this, and be called again
            return None
        args = {**self.create_args(), **self.identity()}
        made = self.map(self.service(f"create_{self.noun}", *self.whole, **args))
        self.physical_id = identity(made)
        self.keep_whole()
        return self.status_of(made) or None  # an object that is ready at once needs no check

    def needs_check(self, verb: str, token: Json) -> bool:
        """False if the answer to the create request says that the object is ready."""
        is_inherited = type(self).check_create_complete is CloudResource.check_create_complete
        return verb != "create" or not is_inherited or not self.says_ready(token)

    def says_ready(self, token: Json) -> bool:
        """Test whether the answer of `handle_create` says that the object is ready."""
        return not self.ready or token in self.ready

    def check_create_complete(self, token: Json) -> bool | float:
        return self.says_ready(token) or self.is_ready()

    def handle_update(self, change: Change) -> Json:
        args = self.update_args(change)
        if args:
            self.service(f"update_{self.noun}", *self.address, **args)
        return None

    def check_update_complete(self, token: Json) -> bool | float:
        return not self.ready or self.is_ready()

    def free(self) -> None:
        """Detach the object from others of the stack before it is replaced."""
        for user in self.facts.users():
            if self.type_name in user.joins:
                user.detach_from(self)

    def handle_delete(self) -> Json:
        self.free()
        if self.physical_id is not None:
            address = self.address  # a name that leads nowhere does not mean that the object is gone
            try:
                self.service(f"delete_{self.noun}", *address, **self.delete_args())
            except CloudNotFound as error:
                expect_absent(self, error)
        return None

    def delete_args(self) -> JsonMap:
        """Return the arguments of the delete verb."""
        return {}

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
        with self.absent_if_missing():
            thing = self.fetch()
        status = self.status_of(thing)
        if status in self.broken | self.unwell:
            raise Unhealthy(f"{self.kind.replace('.', '.get_')}: its status is {self.why(thing, 'check')}")
        if self.ready and status not in self.ready:
            raise Unsettled(status=status)
        return None

    @contextmanager
    def absent_if_missing(self) -> Iterator[None]:
        """Convert a missing object to Absent.

        A name in the properties that leads nowhere is not converted: it says nothing about the object.
        """
        try:
            yield
        except NameNotFound:
            raise
        except CloudNotFound as error:
            raise Absent(str(error)) from error

    # -- how it is ---------------------------------------------------------------------------------

    def status_of(self, thing: JsonMap) -> str:
        """The object's status, in capital letters; "" where it has none."""
        return str(thing.get("status") or "").upper()

    def is_ready(self) -> bool:
        """Test whether the service has finished the object. Raises WentToError."""
        thing = self._fetched = self.fetch()
        status = self.status_of(thing)
        if status in self.broken:
            raise WentToError(self.why(thing, "work"))
        return status in self.ready

    def why(self, thing: JsonMap, what: str) -> str:
        """Return the service's explanation for an unhealthy object."""
        reason = thing.get("fault") or thing.get("status_reason") or "the service gives no reason"
        return f"{self.status_of(thing)}: {reason}"


def expect_absent(resource: CloudResource[Schema], refusal: CloudNotFound) -> None:
    """Accept a 404 to a deletion if the object is gone. Raises ServiceConflict.

    A service may mean a part of the object that another request has removed meanwhile.
    """
    with suppress(CloudNotFound):
        if resource.status_of(resource.fetch()) not in DEPARTING:
            raise ServiceConflict(f"{refusal}, but the object is still there") from refusal


def delete_other(cloud: Cloud, kind: str, key: Json) -> None:
    """Delete an object that a resource has beside its own, unless it is gone.

    Raises ServiceConflict as `expect_absent`, and CloudError.
    """
    service, _, noun = kind.partition(".")
    try:
        cloud.call(f"{service}.delete_{noun}", key)
    except CloudNotFound as error:
        with suppress(CloudNotFound):
            cloud.call(f"{service}.get_{noun}", key)
            raise ServiceConflict(f"{error}, but {key} is still there") from error
