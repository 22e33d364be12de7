"""A resource type: a schema and a few handlers.

::

    class RandomString(Resource[RandomStringProps], type="OS::Heat::RandomString"):
        \"\"\"A string drawn once and kept until the resource is replaced.\"\"\"

        def handle_create(self) -> None:
            self.data["value"] = draw(self.props.length)

        def attr_value(self) -> str:
            \"\"\"The string that was drawn.\"\"\"
            return self.data["value"]

**Handlers.** For each verb `handle_<verb>` starts the work and returns a token, and `check_<verb>_complete(token)` is
asked until it says True. The token is JSON: it is stored, so that another process can go on after a crash. False means
"ask again", a number means "ask again in so many seconds"; a handler never sleeps. Where the token says that all is
done, `needs_check` may return False: no check is asked. Anything raised fails the resource. A verb without handlers
costs nothing: the engine sees that neither is defined (`Resource.has`) and moves on.

**Crash safety.** The engine stores that it is about to call a handler, then calls it, then stores what the
handler left (physical id, data, token), and only then asks the check. A process that dies in between leaves a
stored intent without a result, and the handler is called again. Hence:

- *create*: give the object the name `physical_name`, and define `find()`, which returns the id of the object of
  that name. After a crash it is called first; when it finds the object, `handle_create` is not called again, and the
  check, if there is one, gets null for its token. Where others may have objects of that name, define `survey()`.
- *delete*: an object that is gone is deleted; do not raise for it.
- *lock*: `handle_lock` only reads and records in `data` whether the object is locked already, by whomever, and it
  records that once (``self.data.setdefault("was_locked", …)``): a repeated lock would otherwise take our own lock for
  a foreign one. `check_lock_complete` does the locking, when the record is safe, and must bear being repeated.
  `handle_unlock` puts the recorded state back: it never clears a lock that was there before.
  `check_unlock_complete` forgets the record.
- *rebuild*: as update; a rebuild that was cut off is begun again, or goes on from its token.
- *reboot*: may be done twice.
- *snapshot*: save under the name that `handle_snapshot` is given: after a crash it is the same.
- everything else: what is done twice must come out as done once.

**Signals.** `handle_signal(details)` is called at once, whatever operation runs on the stack, within the transaction
that also writes the event; it must not wait for anything. What it raises is the answer to the sender; NoActionNeeded
means that there is nothing to do, and leaves no event. A signal that
calls a service does so in `prepare_signal`, before the transaction. There are two kinds of signals:

- one that *delivers data* keeps it in ``facts.services.mailbox``, under its `mailbox_address`, and returns what
  the event is to say, or None. It passes while a maintenance lock holds. Whatever it leaves in `data` is lost: a
  running operation has the row.
- one that *changes what there is* changes nothing itself and returns a `Resize`: the engine asks the group named
  there for its new nested stack (`StackResource.resized`), and updates that if nothing is in the way. While a
  maintenance lock holds or an operation runs, it is ignored; a lock lists it among the suppressed requests. What both
  leave in `data` is stored together with the update.
"""

import builtins
import inspect
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar, cast, get_args, get_origin

from msgspec import Struct

from heatlite.core.errors import InvalidTemplateAttribute
from heatlite.core.json import Json, JsonMap
from heatlite.plugin.coercion import PropertyKind
from heatlite.plugin.handlers import VERBS, Handlers
from heatlite.plugin.needs import Find, Need, counted
from heatlite.plugin.ports import Account, Change, Facts
from heatlite.plugin.schema import SCALARS, Schema
from heatlite.template.expression import select
from heatlite.template.types import Fault, Installation, NestedTemplate, PropertyType

P_co = TypeVar("P_co", bound=Schema, covariant=True)


class SupportStatus(Struct, frozen=True):
    """Support of a type, in the form of GET /resource_types/{type}."""

    status: str = "SUPPORTED"
    version: str | None = None
    message: str | None = None
    previous: "SupportStatus | None" = None

    def describe(self) -> JsonMap:
        return {
            "status": self.status,
            "message": self.message,
            "version": self.version,
            "previous_status": self.previous.describe() if self.previous else None,
        }


class Attribute(Struct, frozen=True):
    """Something that a resource can be asked for once it exists."""

    name: str
    doc: str
    kind: PropertyKind | None

    def describe(self) -> JsonMap:
        body: JsonMap = {"description": self.doc}
        if self.kind is not None:
            body["type"] = self.kind.value
        return body


class Resource(Handlers, Generic[P_co]):
    """Base of all resource types."""

    type_name: ClassVar[str] = ""
    """``OS::Heat::RandomString``; given as ``class …, type="…"``."""
    schema: ClassVar[type[Schema]] = Schema
    """The properties; given as ``Resource[TheSchema]``."""
    update_policy: ClassVar[type[Schema] | None] = None
    """Schema of the resource's update_policy section; None: it must be empty."""
    support_status: ClassVar[SupportStatus] = SupportStatus()
    gone: ClassVar[str] = ""
    """Reason why no template may have the type any more, with its successor."""
    old_name_of: ClassVar[str] = ""
    """Name of the type that has taken this one's place: a change to it is an update, as in Heat."""
    cloud_service: ClassVar[str] = ""
    """Cloud service (``block_storage``) that the type needs."""
    network_extension: ClassVar[str] = ""
    """Extension of the network service that the type needs."""
    quick: ClassVar[bool] = False
    """True if no handler waits outside the process: the engine calls it itself."""
    obeys_placement: ClassVar[bool] = False
    """True if it makes its object in the zone that a policy of its group has decided (`plugin.groups.PLACEMENT`)."""
    address_attribute: ClassVar[str] = ""
    """Attribute with the address by which a pool reaches the object, a machine; "": it is none."""
    stored_only: ClassVar[bool] = False
    """True if handlers change nothing but heatlite's own database: several share a transaction. They may run twice."""
    name_limit: ClassVar[int] = 255
    """The longest physical name, in characters."""
    secret_attributes: ClassVar[frozenset[str]] = frozenset()
    """Attributes that a service keeps secret; `secrets` names those in `data`."""
    longest_signal: ClassVar[int] = 64 * 1024
    """Bytes of JSON that the details of a signal may have."""
    makes_stack: ClassVar[bool] = False
    """Set by `StackResource`: the object is a nested stack."""
    snapshot_on_delete: ClassVar[bool] = False
    """Allow ``deletion_policy: Snapshot``."""
    after: ClassVar[frozenset[str]] = frozenset()
    """Types of the same template for which `comes_after` is asked."""
    joins: ClassVar[frozenset[str]] = frozenset()
    """Types that the object is attached to.
    Before such an object is replaced after deletion, `detach_from` is called. Once it is made again, this object is
    updated, though its definition is unchanged."""
    keeps_joined: ClassVar[bool] = False
    """True if objects that join this one stay with it while another exists beside it, as ports do in a subnet.
    Then the old object is deleted first, which detaches them."""
    blocks: ClassVar[frozenset[str]] = frozenset()
    """Types that cannot be deleted while this object exists.
    A load balancer cannot go before its listeners. If both are replaced after deletion, this resource goes first."""
    shares_object: ClassVar[bool] = False
    """True if the physical id is that of an object that others may have too, as for an assignment to a user."""
    object_kind: ClassVar[str] = ""
    """Types of the same kind have the same objects: ``network.network``; without a service the type's name."""
    counts: ClassVar[Sequence[str]] = ()
    """Quotas in which objects count: ``network.router``. `needs` tells how much; the default is one in each.
    Those of a type that sets limits are the limits."""
    gives_way: ClassVar[bool] = False
    """True if a replacement takes over parts of the object.
    An update that takes the old object back then updates it, though its definition is unchanged: it takes them back."""
    lasting_reference: ClassVar[bool] = False
    """True if a successor may have the same reference, as it follows from properties."""
    resizes: ClassVar[bool] = False
    """True if signals only resize groups: `handle_signal` returns a `Resize`, and has no effect of its own."""
    no_signal_during: ClassVar[frozenset[str]] = frozenset({"DELETE", "SUSPEND"})
    """Verbs during and after which no signal is taken."""
    anew_with_update: ClassVar[bool] = False
    """True if every update of the stack replaces the resource."""
    puts_back: ClassVar[frozenset[str]] = frozenset()
    """Properties whose drift an update takes back in place, though another value in the template needs a new object."""
    always_updated: ClassVar[bool] = False
    """True if every update of the stack updates the resource."""
    always_updated_if: ClassVar[str] = ""
    """Boolean property: true stands for `always_updated`."""
    any_attribute: ClassVar[bool] = False
    """Allow attributes beyond `attribute_names`."""

    attributes_schema: ClassVar[Mapping[str, Attribute]] = {}
    """Attributes by name, from the methods ``attr_<name>``.
    Docstrings describe them, return annotations give the types."""
    attribute_names: ClassVar[frozenset[str]] = frozenset()
    _defined: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, type: str = "") -> None:  # noqa: A002
        super().__init_subclass__()
        if type:
            cls.type_name = cls.object_kind = type
        for base in cls.__dict__.get("__orig_bases__", ()):
            origin, arguments = get_origin(base), get_args(base)
            if isinstance(origin, builtins.type) and issubclass(origin, Resource):
                schema = arguments[0]
                if isinstance(schema, builtins.type) and issubclass(schema, Schema):
                    cls.schema = schema
        cls._defined = frozenset(name for name in _DEFAULTS if getattr(cls, name) is not _DEFAULTS[name])
        methods = {name[5:]: getattr(cls, name) for name in dir(cls) if name.startswith("attr_")}
        cls.attributes_schema = {name: _attribute(name, method) for name, method in sorted(methods.items())}
        cls.attribute_names = frozenset(methods)

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._props: P_co | None = None

    note: str = ""
    """Reason in the event of a successful lock, unlock, check …"""

    # -- facts -------------------------------------------------------------------------------------

    @property
    def props(self) -> P_co:
        """The properties, typed, defaults applied.
        During an update these are the new ones."""
        if self._props is None:
            self._props = cast(P_co, self.schema(self.facts.properties))
        return self._props

    @property
    def name(self) -> str:
        """The resource's name in the template."""
        return self.facts.name

    @property
    def physical_name(self) -> str:
        """The name that the real object carries."""
        return self.facts.physical_name

    @property
    def mailbox_address(self) -> str:
        """The address of the resource's messages in the mailbox."""
        return self.facts.row_id

    @property
    def physical_id(self) -> str | None:
        """The real object's id; None until a handler has set it."""
        return self.facts.physical_id

    @physical_id.setter
    def physical_id(self, value: str | None) -> None:
        self.facts.physical_id = value

    @property
    def data(self) -> JsonMap:
        """Data of handlers, stored after each of them."""
        return self.facts.data

    @property
    def metadata(self) -> JsonMap:
        """The resource's metadata section."""
        return self.facts.metadata

    @property
    def account(self) -> Account | None:
        """Credentials of the object's agent, None without an account."""
        accounts = self.facts.services.accounts
        if accounts is None or not self.wants_account():
            return None
        return accounts.of(self.facts.stack_id, self.physical_name)

    @property
    def is_quick(self) -> bool:
        """True if no handler of this resource waits outside the process."""
        return self.quick

    # -- what the type can do ----------------------------------------------------------------------

    @classmethod
    def has(cls, handler: str) -> bool:
        """Test whether the type defines a verb or an optional method.
        "signal" (`handle_signal`), "prepare_signal", "find", "live_properties", "wants_account", "objection" or
        "exported"."""
        if handler in ("prepare_signal", "find", "live_properties", "wants_account", "objection", "exported"):
            return handler in cls._defined
        also = {"check": "live_properties", "delete": "wants_account"}.get(handler)
        if also in cls._defined:
            return True
        return f"handle_{handler}" in cls._defined or f"check_{handler}_complete" in cls._defined

    @classmethod
    def polls(cls, verb: str) -> bool:
        """Test whether `check_<verb>_complete` is defined.
        Without it, the handler's return ends the work."""
        return f"check_{verb}_complete" in cls._defined

    def needs_check(self, verb: str, token: Json) -> bool:
        """Test whether a check follows a handler of `verb` that has returned `token`.

        Only asked where the type has that check. Without it the token is not stored, which saves a commit.
        """
        return True

    def awaited_address(self) -> str | None:
        """Return the mailbox address whose next message ends the wait of a check.

        It counts if the check has returned a number of seconds: the engine calls the check after them, or after the
        message. None: no message ends the wait.
        """
        return None

    @classmethod
    def check_properties(cls, given: Mapping[str, object]) -> list[Fault]:
        """Every fault of the properties; values are resolved, or UNKNOWN."""
        return cls.schema.check(given)

    @classmethod
    def check_installation(cls, given: Mapping[str, object], installation: Installation) -> list[Fault]:  # noqa: ARG003
        """Return faults of valid properties that the installation does not offer."""
        return []

    @classmethod
    def check_siblings(cls, given: Mapping[str, object], names: Container[str]) -> list[Fault]:  # noqa: ARG003
        """Return faults of valid properties that name resources.

        `names` are the resources of the template.
        """
        return []

    @classmethod
    def check_update_policy(cls, given: Mapping[str, object]) -> list[Fault]:
        """Every fault of the update_policy section."""
        return (cls.update_policy or Schema).check(given)

    @classmethod
    def nested_template(cls, given: Mapping[str, object]) -> NestedTemplate | None:  # noqa: ARG003
        """Return the template of a nested stack, to be checked in advance.
        `given` are resolved properties, in which UNKNOWN may stand. None: there is nothing to check."""
        return None

    @classmethod
    def needs(cls, given: Mapping[str, object], find: Find) -> Iterable[Need]:  # noqa: ARG003
        """Return how much an object with these properties counts in quotas.

        That includes what is made beside it. `given` are coerced properties, in which UNKNOWN may stand.
        """
        return counted(cls.counts, given)

    @classmethod
    def property_types(cls) -> Mapping[str, PropertyType]:
        """The properties by name, as the template checker sees them."""
        return cls.schema.property_types()

    @classmethod
    def kind_of(cls, path: Sequence[str | int]) -> str:
        """Return the type of a property, or of the value at `path`; "" if open."""
        return cls.schema.kind_of(path)

    @classmethod
    def first_unknown(cls, path: Sequence[str]) -> str:
        """The first step of a path into properties that no value has, or ""."""
        return cls.schema.first_unknown(path)

    @classmethod
    def description(cls) -> str:
        """The class's docstring; "" where it has none of its own."""
        return inspect.cleandoc(cls.__doc__ or "")

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:  # noqa: ARG003
        """Test for an implicit dependency, as Heat has them.

        A resource with the properties `own` is made after, and deleted before, one of type `kind` (of `after`) with
        those of `other`.

        In both, a text of its own stands for each reference, and UNKNOWN for what is not known.
        """
        return False

    # -- what the template may ask -----------------------------------------------------------------

    def reference(self) -> Json:
        """Return the value of get_resource: the physical id, or before it the name."""
        return self.name if self.physical_id is None else self.physical_id

    def attribute(self, name: str) -> Json:
        """One attribute's value.
        Raises InvalidTemplateAttribute where the type has none of that name."""
        if name not in self.attribute_names:
            if self.any_attribute:
                return None
            raise InvalidTemplateAttribute(resource=self.name, key=name)
        return cast(Json, getattr(self, f"attr_{name}")())

    def attribute_at(self, name: str, path: Sequence[object]) -> Json:
        """Return the value of get_attr at `path`; null where the path leads nowhere.
        A group asks its members for what the path names. Raises as `attribute`."""
        return cast(Json, select(self.attribute(name), path, None))

    def secrets(self) -> list[Json]:
        """Return secrets in `data`, or derived from it.
        A caller who may not export the stack is shown stars in its place. Must not ask the object."""
        return []

    def exported(self) -> JsonMap:
        """Return what the stack's document has besides `data`.

        `handle_adopt` of another installation finds it in `data`. Must not ask the object.
        """
        return {}

    def shown_attributes(self) -> Iterable[str]:
        """Return the names of the attributes shown by default."""
        return self.attributes_schema

    def attributes(self) -> JsonMap:
        """Every attribute's value; `show` only where it has one."""
        values = {name: self.attribute(name) for name in self.shown_attributes()}
        if values.get("show") is None:
            values.pop("show", None)
        return values

    def attr_show(self) -> Mapping[str, Json] | None:
        """Detailed information about resource."""
        return None

    def live_metadata(self) -> JsonMap:
        """Return the answer of GET …/metadata."""
        return self.metadata

    def wants_account(self) -> bool:
        """Return True if an agent of the object needs an account.

        The account is created before the object is made or changed, and removed after the object. It opens the metadata
        and the signals of this resource only. The answer must follow from the properties.
        """
        return False

    # -- deciding ----------------------------------------------------------------------------------

    def needs_replace(self, change: Change) -> bool:
        """Test whether a change of updatable properties needs a new object.
        Asked in previews too, where ``change.after`` may hold UNKNOWN. Must not touch the real object."""
        return False

    def objection(self, change: Change) -> str:
        """Return why a change cannot be made in place; "": it can, or is unknown.
        Asked before an update is begun, which is refused then (400), and in previews; in both ``change.after`` may hold
        UNKNOWN. Must not touch the real object."""
        return ""

    def needs_replace_failed(self) -> bool:
        """Test whether an update replaces the object because its last action failed."""
        return True

    def outlasts_refusal(self) -> bool:
        """Test whether the object is whole after its service has refused to delete it.

        Then an update to a definition that wants it takes it back. Only looks.
        """
        return False

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """Test whether a second object with these properties cannot exist beside this.

        It has the same name or place. Then it is deleted first when it is replaced, unless the template or the
        environment gives an order. Asked in previews too, where `properties` may hold UNKNOWN. Must not touch the real
        object.
        """
        return False

    def takes(self, other: "Resource[Schema]") -> bool:
        """Test whether the object of `other` is deleted with this one."""
        return False

    def detach_from(self, gone: "Resource[Schema]") -> None:
        """Detach the object from that of `gone` (a type of `joins`).
        That object is about to be replaced after deletion; the update that follows attaches the new one. Also called
        for resources of nested stacks that use `gone`. May be called again. Must not write `data`."""

    def survey(self) -> bool:
        """Record in `data` existing objects that `find` could take for the new one.

        Returns True if `data` has changed: it is stored before `handle_create` is called.
        """
        return False

    def find(self) -> str | None:
        """Return the physical id of the object called `physical_name`, or None.
        Called after a crash."""
        return None

    def live_properties(self) -> Mapping[str, Json] | None:
        """Return the properties of the real object; None: there is no such object.
        Asked after a check, which says what differs from the stored ones, and before an update that is to start from
        what is there (`converge`). Only looks."""
        return {}

    def told(self) -> JsonMap:
        """Return properties that the object tells, but not `live_properties`.

        That only compares them, or leaves them out. A definition that is written for an existing object has them. None
        stands for one that the service sets by itself: the definition leaves it out. Only looks.
        """
        return {}


ResourceType = type[Resource[Schema]]
"""A resource type is a class."""

_DEFAULTS: Mapping[str, object] = {
    name: getattr(Resource, name)
    for name in (
        "find",
        "live_properties",
        "wants_account",
        "objection",
        "exported",
        "handle_signal",
        "prepare_signal",
        "handle_delete_snapshot",
        "handle_rebuild",
        "handle_reboot",
        "handle_adopt",
        "check_rebuild_complete",
        "check_reboot_complete",
        *(f"handle_{verb}" for verb in VERBS),
        *(f"check_{verb}_complete" for verb in VERBS),
    )
}


def _attribute(name: str, method: Callable[..., object]) -> Attribute:
    annotation = inspect.get_annotations(method, eval_str=True).get("return", Json)
    return Attribute(name, inspect.getdoc(method) or "", attribute_kind(annotation))


def attribute_kind(annotation: object) -> PropertyKind | None:
    """The kind that an annotation of Python means; None where it is open."""
    if annotation == Json:
        return None
    choices = [choice for choice in get_args(annotation) if choice is not type(None)]
    if type(None) in get_args(annotation) and len(choices) == 1:
        annotation = choices[0]
    origin = get_origin(annotation) or annotation
    if origin in SCALARS:
        return SCALARS[origin]
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return PropertyKind.MAP
    if inspect.isclass(origin) and issubclass(origin, Sequence):
        return PropertyKind.LIST
    return None
