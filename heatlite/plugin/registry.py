"""Registry of resource types.

Our own are listed in code; those of other packages announce themselves by an entry point::

    [options.entry_points]
    heatlite.resources =
        Example::Local::File = example_heatlite_plugin:File

Listing reads the metadata of the installed packages only; a type's module is imported when the type is
first used. A type that cannot be loaded is reported with the reason, and harms no other type.
"""

import inspect
import threading
from collections.abc import Container, Mapping, Sequence
from copy import copy
from importlib.metadata import EntryPoint

from msgspec import Struct

from heatlite.core.errors import EntityNotFound, Invalid, NotSupported, ResourceTypeUnavailable, features_off
from heatlite.core.json import JsonMap
from heatlite.core.runtime.entry_points import announced
from heatlite.plugin.constraints import GROUP as CONSTRAINTS
from heatlite.plugin.constraints import announce_constraints
from heatlite.plugin.descriptions.skeleton import skeleton
from heatlite.plugin.resource import Resource, ResourceType
from heatlite.template.patterns import CompiledPattern, StepMeter
from heatlite.template.types import (
    Availability,
    Fault,
    Installation,
    NestedTemplate,
    PropertyType,
    ResourceTypeView,
    UnusableType,
)

GROUP = "heatlite.resources"
SUPPORT_STATUSES = frozenset({"UNKNOWN", "SUPPORTED", "DEPRECATED", "UNSUPPORTED", "HIDDEN"})


class UnavailableType(Struct, frozen=True):
    """View of a type that cannot be loaded: every use of it is an error."""

    name: str
    reason: str
    attribute_names: frozenset[str] = frozenset()
    any_attribute: bool = True
    snapshot_on_delete: bool = True
    makes_stack: bool = False
    after: frozenset[str] = frozenset()

    def kind_of(self, path: Sequence[str | int]) -> str:
        return ""

    def property_types(self) -> Mapping[str, PropertyType]:
        return {}

    def first_unknown(self, path: Sequence[str]) -> str:
        return ""

    def comes_after(self, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:
        return False

    def check_update_policy(self, given: Mapping[str, object]) -> list[Fault]:
        return []

    def nested_template(self, given: Mapping[str, object]) -> NestedTemplate | None:
        return None

    def check_installation(self, given: Mapping[str, object], installation: Installation) -> list[Fault]:
        return []

    def check_siblings(self, given: Mapping[str, object], names: Container[str]) -> list[Fault]:
        return []

    def check_properties(self, given: Mapping[str, object]) -> list[Fault]:
        return [Fault((), ResourceTypeUnavailable.text.format(type=self.name, reason=self.reason))]


class Registry:
    """Type name → class. Safe for threads.

    `builtin` maps names to ``module:Class``; a built-in name cannot be taken by another package. `installation` is
    what the operator has set up for all stacks.
    """

    def __init__(self, builtin: Mapping[str, str], installation: Installation | None = None) -> None:
        self.installation = installation or Installation()
        self._builtin = builtin
        self._entries: dict[str, list[EntryPoint]] = {}
        """Those of other packages, under names that are not built in."""
        for entry in announced(GROUP):
            if entry.name not in builtin:
                self._entries.setdefault(entry.name, []).append(entry)
        self._loaded: dict[str, ResourceType | UnavailableType] = {}
        self._loading = threading.RLock()
        self._availability: Availability | None = None
        announce_constraints(announced(CONSTRAINTS))

    def offering(self, availability: Availability) -> "Registry":
        """Return a registry of the same types, whose `unavailable` asks `availability`."""
        other = copy(self)
        other._availability = availability
        return other

    def unavailable(self, type_name: str) -> UnusableType | None:
        """Return why an installed type cannot be used, None if it can."""
        found = self._find(type_name)
        if found is not None and not isinstance(found, UnavailableType) and found.gone:
            return UnusableType("ResourceTypeUnavailable", found.gone)
        return None if self._availability is None else self._availability(type_name)

    def register(self, cls: ResourceType) -> None:
        """Add a class under its own name, in place of any other."""
        self._loaded[cls.type_name] = cls

    def names(self) -> list[str]:
        """All names, sorted. Loads nothing."""
        return sorted(self._builtin.keys() | self._entries.keys() | self._loaded.keys())

    def find(self, type_name: str) -> ResourceTypeView | None:
        """Return the checker's view of a type, None for an unknown type."""
        return self._find(type_name)

    def get(self, type_name: str) -> ResourceType:
        """The class. Raises EntityNotFound, or ResourceTypeUnavailable with the reason."""
        found = self._loaded.get(type_name) or self._find(type_name)
        if found is None:
            text = EntityNotFound.text.format(entity="Resource Type", name=type_name)
            raise EntityNotFound(f"{text} {features_off(self.installation.features_off)}".rstrip())
        if isinstance(found, UnavailableType):
            raise ResourceTypeUnavailable(type=type_name, reason=found.reason)
        return found

    def service_of(self, type_name: str) -> str:
        """Return the cloud service that a type needs, "" for none."""
        found = self._find(type_name)
        return "" if found is None or isinstance(found, UnavailableType) else found.cloud_service

    def network_extension_of(self, type_name: str) -> str:
        """Return the extension of the network service that a type needs, "" for none."""
        found = self._find(type_name)
        return "" if found is None or isinstance(found, UnavailableType) else found.network_extension

    def _find(self, type_name: str) -> ResourceType | UnavailableType | None:
        found = self._loaded.get(type_name)
        if found is not None:
            return found
        if type_name in self._builtin:
            entries = [EntryPoint(type_name, self._builtin[type_name], GROUP)]
        elif type_name in self._entries:
            entries = self._entries[type_name]
        else:
            return None
        with self._loading:
            if type_name not in self._loaded:
                self._loaded[type_name] = _load(type_name, entries)
            return self._loaded[type_name]

    # -- for the API -------------------------------------------------------------------------------

    def listing(
        self,
        name: str | None = None,
        support_status: str | None = None,
        version: str | None = None,
    ) -> list[str]:
        """Return the `resource_types` of GET /resource_types.

        `name` is a regular expression that matches from the first character on. An invalid one, or one that takes too
        much work, matches nothing, as in Heat. `version` is the one that the type's support status names. Hidden types
        are never listed. Raises Invalid for an unknown support status.
        """
        names = self.names()
        if name is not None:
            try:
                pattern = CompiledPattern(name, StepMeter().charge)
                names = [known for known in names if pattern.begins(known)]
            except ValueError:
                return []
        names = [known for known in names if self._support_status(known) != "HIDDEN"]
        if support_status is not None:
            if support_status not in SUPPORT_STATUSES:
                known = ", ".join(sorted(SUPPORT_STATUSES))
                raise Invalid(f"The support status {support_status} is not known; there are: {known}")
            names = [known for known in names if self._support_status(known) == support_status]
        if version is not None:
            names = [known for known in names if self._version(known) == version]
        return names

    def described(self, names: list[str]) -> list[dict[str, str]]:
        """The same with ``with_description=true``."""
        return [{"resource_type": known, "description": self._description(known)} for known in names]

    def describe(self, type_name: str, with_description: bool = False) -> JsonMap:
        """The body of GET /resource_types/{type}.

        Raises as `get`, and NotSupported for a hidden type.
        """
        cls = self._shown(type_name)
        body: JsonMap = {
            "resource_type": type_name,
            "properties": cls.schema.describe(),
            "attributes": {name: attribute.describe() for name, attribute in cls.attributes_schema.items()},
            "support_status": cls.support_status.describe(),
        }
        if with_description:
            body["description"] = cls.description()
        return body

    def skeleton(self, type_name: str, language: str = "cfn") -> JsonMap:
        """The body of GET /resource_types/{type}/template; `language` is "cfn" or "hot".

        Raises as `describe`.
        """
        return skeleton(self._shown(type_name), language)

    def _shown(self, type_name: str) -> ResourceType:
        cls = self.get(type_name)
        if cls.support_status.status == "HIDDEN":
            raise NotSupported(feature=type_name)
        return cls

    def _support_status(self, type_name: str) -> str:
        found = self._find(type_name)
        return "UNSUPPORTED" if found is None or isinstance(found, UnavailableType) else found.support_status.status

    def _version(self, type_name: str) -> str | None:
        found = self._find(type_name)
        return None if found is None or isinstance(found, UnavailableType) else found.support_status.version

    def _description(self, type_name: str) -> str:
        found = self._find(type_name)
        if found is None or isinstance(found, UnavailableType):
            return f"Not available: {found.reason if found else ''}"
        return found.description()


def _load(name: str, entries: list[EntryPoint]) -> ResourceType | UnavailableType:
    """The class that an entry names.

    Foreign code runs here, so anything may be raised and none of it may pass.
    """
    if len(entries) > 1:
        return UnavailableType(name, f"several packages offer it: {', '.join(sorted(e.value for e in entries))}")
    entry = entries[0]
    try:
        loaded = entry.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code
        return UnavailableType(name, f"{entry.value} cannot be loaded: {type(error).__name__}: {error}")
    if not (inspect.isclass(loaded) and issubclass(loaded, Resource)):
        return UnavailableType(name, f"{entry.value} is not a Resource class")
    if loaded.type_name != name:
        return UnavailableType(name, f"{entry.value} calls itself {loaded.type_name or 'nothing'}")
    return loaded
