"""Base of resource types whose properties may name objects of a cloud."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar, cast

from heatlite.clients.cloud import Ambiguous, Cloud, CloudNotFound, NameNotFound
from heatlite.clients.finders import Finders
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema

UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

P_co = TypeVar("P_co", bound=Schema, covariant=True)


class NamingResource(Resource[P_co]):
    """Base of the types whose properties may name objects (`prop(find=…)`).

    A name is looked up when the property is read, and never otherwise: what is there stays well if an object that it
    was made with is gone or renamed.
    """

    @property
    def cloud(self) -> Cloud:
        """The project's cloud.

        Raises NoCloud; OtherCloud where the stack has its objects in another one.
        """
        return self._finders.cloud

    @property
    def _finders(self) -> Finders:
        facts = self.facts
        return facts.services.clouds.at_home(facts.project, facts.stack_id, facts.stack_name, facts.home())

    @property
    def props(self) -> P_co:
        """Typed properties with defaults, and ids in place of cloud names.

        Reading one raises NameNotFound or CloudError if it names objects, and StackValidationFailed if it is required
        and missing: an external object need not be described.
        """
        if self._props is None:
            self._props = cast(P_co, self.schema(self.facts.properties, self.ids_in))
        return self._props

    def resolved(self, values: Mapping[str, Json]) -> JsonMap:
        """Coerced properties with ids in place of names. Raises NameNotFound, CloudError."""
        return {name: self.ids_in(name, value) for name, value in values.items() if name in self.schema.fields}

    def ids_in(self, name: str, value: Json) -> Json:
        """Return a property's value with ids in place of names.

        Raises NameNotFound, CloudError.
        """
        return self.schema.fields[name].with_ids(value, self._id_of)

    def known(self, values: Mapping[str, Json]) -> JsonMap:
        """Return properties that an object was made with, as `resolved` does.

        A name that leads nowhere any more, or to several objects, stays in place. Raises CloudError.
        """
        fields = self.schema.fields
        return {name: fields[name].with_ids(value, self._known_id) for name, value in values.items() if name in fields}

    def _known_id(self, constraint: str, name: str) -> str:
        with suppress(NameNotFound, Ambiguous):
            return self._id_of(constraint, name)
        return name

    def _id_of(self, constraint: str, name: str) -> str:
        # References are ids: looking each one up would cost another call.
        return name if UUID.fullmatch(name) else self._finders.id_of(constraint, name)

    def is_as_given(self, name: str, live: Json) -> bool:
        """Test whether a property of the object is as the template says.

        It is if a name in the property leads to no object, or to several: that says nothing about this object.
        """
        given = self.facts.properties[name]
        if live == given:
            return True
        try:
            return is_as_requested(live, self.schema.fields[name].wire(self.ids_in(name, given)))
        except (NameNotFound, Ambiguous):
            return True

    def listed(self, name: str, live: Iterable[Json]) -> list[Json]:
        """Return a given list of names or ids as `live` has it, which are ids.

        Missing ones are left out, further ones stand at the end. A name that leads nowhere is not missing.
        """
        found: list[Json] = []
        left, tells_all = [*live], True
        for item in cast(list[Json], self.facts.properties[name]):
            try:
                key = cast(list[Json], self.ids_in(name, [item]))[0]
            except (NameNotFound, Ambiguous):
                tells_all = False
                found.append(item)
                continue
            if key in left:
                left.remove(key)
                found.append(item)
        return [*found, *left] if tells_all else found

    def is_called(self, name: str, live: Json, verb: str) -> bool:
        """As `is_as_given`, where the service tells the name of an object.

        `verb` gets that by its id.
        """
        given = self.facts.properties[name]
        try:
            return live == given or live == as_map(self.cloud.call(verb, self.ids_in(name, given))).get("name")
        except (CloudNotFound, Ambiguous):
            return True


def keys_as_given(
    given: Mapping[str, Json], live: Mapping[str, Json], is_same: Callable[[Json, Json], bool]
) -> JsonMap:
    """Return a map as the object has it, with given values where both are the same.

    `is_same` compares a value of the object with one of the property.
    """
    return {key: given[key] if key in given and is_same(one, given[key]) else one for key, one in live.items()}


def items_as_given(
    given: Sequence[JsonMap], live: Iterable[JsonMap], is_same: Callable[[JsonMap, JsonMap], bool]
) -> list[Json]:
    """Return a list as the object has it, with given items where both are the same.

    `is_same` compares an item of the object with one of the property.
    """
    found, left = list[Json](), [*live]
    for item in given:
        same = next((one for one in left if is_same(one, item)), None)
        if same is not None:
            left.remove(same)
            found.append(item)
    return [*found, *left]


def is_as_requested(live: Json, given: Json) -> bool:
    """Test whether an object, or a part of it, is as requested.

    A service adds keys, may reorder lists, and may give numbers as text.
    """
    if isinstance(live, dict) and isinstance(given, dict):
        return all(key in live and is_as_requested(live[key], value) for key, value in given.items())
    if isinstance(live, list) and isinstance(given, list):
        return len(live) == len(given) and all(any(is_as_requested(one, item) for one in live) for item in given)
    return live == given or isinstance(live, str) != isinstance(given, str) and str(live) == str(given)
