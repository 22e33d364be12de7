"""Types that hold a value and create nothing outside the stack."""

import secrets
import string
from collections.abc import Mapping

from heatlite.core.json import Json
from heatlite.plugin import Change, Resource, Schema, SupportStatus, prop
from heatlite.plugin.coercion import PropertyKind, convert
from heatlite.template.expression import UNKNOWN
from heatlite.template.parameters.rules import AllowedValues
from heatlite.template.types import Fault

# -- OS::Heat::RandomString --------------------------------------------------------------------------

CHARACTER_CLASSES = {
    "lettersdigits": string.ascii_letters + string.digits,
    "letters": string.ascii_letters,
    "lowercase": string.ascii_lowercase,
    "uppercase": string.ascii_uppercase,
    "digits": string.digits,
    "hexdigits": string.digits + "ABCDEF",
    "octdigits": string.octdigits,
}
_CLASS_NAMES = tuple(CHARACTER_CLASSES)


class CharacterClass(Schema):
    characters: str = prop("lettersdigits", alias="class", one_of=_CLASS_NAMES, doc="A named set of characters.")
    min: int = prop(1, between=(1, 512), doc="Minimum number of characters from the set.")


class CharacterSequence(Schema):
    sequence: str = prop(doc="The characters to choose from.")
    min: int = prop(1, between=(1, 512), doc="Minimum number of these characters.")


class RandomStringProps(Schema):
    length: int = prop(32, between=(1, 512), doc="The number of characters.")
    character_classes: list[CharacterClass] = prop(
        [{"class": "lettersdigits", "min": 1}], doc="Named sets of characters to choose from."
    )
    character_sequences: list[CharacterSequence] | None = prop(doc="Custom sets of characters to choose from.")
    salt: str | None = prop(doc="A change generates a new string; otherwise without effect.")
    sequence: str | None = prop(
        one_of=_CLASS_NAMES, hidden=True, doc="The only set to choose from; replaced by character_classes."
    )

    def sources(self) -> list[tuple[str, int]]:
        """Return the sets of characters, each with its minimum count."""
        if self.sequence is not None:
            return [(CHARACTER_CLASSES[self.sequence], 1)]
        named = [(CHARACTER_CLASSES[item.characters], item.min) for item in self.character_classes]
        return named + [(item.sequence, item.min) for item in self.character_sequences or ()]

    @classmethod
    def examine(cls, values: Mapping[str, object]) -> tuple[dict[str, object], list[Fault]]:
        coerced, faults = super().examine(values)
        old, new = (coerced.get(name) for name in ("sequence", "character_classes"))
        if None not in (old, new) and UNKNOWN not in (old, new):
            text = "Cannot use character_classes and sequence at the same time"
            faults.append(Fault((), text, "Leave out sequence."))
        return coerced, faults

    def fault_length(self) -> str | None:
        if sum(minimum for _, minimum in self.sources()) > self.length:
            return "Length property cannot be smaller than combined character class and character sequence minimums"
        return None

    def fault_characters(self) -> str | None:
        if self.sequence is not None:
            return None
        own = self.character_sequences
        has_characters = all(item.sequence for item in own) if own else self.character_classes
        return None if has_characters else "There are no characters to draw from"


def _pick(characters: str, count: int) -> list[str]:
    """Return random characters, independent and uniformly distributed."""
    size = len(characters)
    if size > 256:
        return [secrets.choice(characters) for _ in range(count)]
    limit = 256 - 256 % size  # larger bytes would make the first characters more likely
    picked: list[str] = []
    while len(picked) < count:
        picked.extend(characters[byte % size] for byte in secrets.token_bytes(2 * count) if byte < limit)
    return picked[:count]


def draw(length: int, sources: list[tuple[str, int]]) -> str:
    """Return a random text with the minimum from each source, in random order."""
    if len(sources) == 1:
        return "".join(_pick(sources[0][0], length))
    picked = [character for characters, minimum in sources for character in _pick(characters, minimum)]
    every = "".join(sorted({character for characters, _ in sources for character in characters}))
    picked += _pick(every, length - len(picked))
    noise = secrets.token_bytes(8 * length)
    order = sorted(range(length), key=lambda index: noise[8 * index : 8 * index + 8])
    return "".join([picked[index] for index in order])


class RandomString(Resource[RandomStringProps], type="OS::Heat::RandomString"):
    """A random string, generated once and kept until the resource is replaced.

    Any change of a property generates a new one; `salt` exists for that purpose. get_resource returns the string.
    """

    quick = True
    support_status = SupportStatus(version="2014.1")

    def handle_create(self) -> None:
        self.data["value"] = draw(self.props.length, self.props.sources())
        self.physical_id = self.physical_name

    def reference(self) -> Json:
        return self.data.get("value", self.name)

    def secrets(self) -> list[Json]:
        return [self.data.get("value")]

    def attr_value(self) -> str:
        """The random string; get_resource returns it, too."""
        return str(self.data["value"])


# -- OS::Heat::Value ---------------------------------------------------------------------------------

_VALUE_KINDS = {
    "string": PropertyKind.STRING,
    "number": PropertyKind.NUMBER,
    "comma_delimited_list": PropertyKind.LIST,
    "json": PropertyKind.MAP,
    "boolean": PropertyKind.BOOLEAN,
}


class ValueProps(Schema):
    value: Json = prop(update=True, null=True, doc="The value of the attribute `value`.")
    kind: str | None = prop(alias="type", one_of=tuple(_VALUE_KINDS), update=True, doc="The type of the value.")

    @classmethod
    def examine(cls, values: Mapping[str, object]) -> tuple[dict[str, object], list[Fault]]:
        coerced, faults = super().examine(values)
        value, kind = coerced.get("value"), coerced.get("type")
        if "type" in values and values["type"] is None:
            faults.append(Fault(("type",), AllowedValues(tuple(_VALUE_KINDS)).fault("") or ""))
        if value is not None and value is not UNKNOWN and isinstance(kind, str) and kind in _VALUE_KINDS:
            try:
                convert(_VALUE_KINDS[kind], value)
            except ValueError as error:
                faults.append(Fault(("value",), str(error)))
        return coerced, faults


class Value(Resource[ValueProps], type="OS::Heat::Value"):
    """Exposes its property `value` as an attribute, for values that are used often."""

    quick = True
    support_status = SupportStatus(version="7.0.0")

    def handle_create(self) -> None:
        self.physical_id = self.physical_name

    def handle_update(self, change: Change) -> None:
        """Do nothing: the value is the property."""

    def attr_value(self) -> Json:
        """The value as it was given; the property `type` only checks it."""
        return self.props.value


# -- OS::Heat::None ----------------------------------------------------------------------------------


class NoneProps(Schema):
    """Accept all properties and ignore them."""

    @classmethod
    def examine(cls, values: Mapping[str, object]) -> tuple[dict[str, object], list[Fault]]:
        return dict(values), []


class NoneResource(Resource[NoneProps], type="OS::Heat::None"):
    """A placeholder for an unwanted type; it does nothing.

    It accepts every property, each of its attributes is null, and no change ever updates or replaces it.
    """

    quick = True
    any_attribute = True
    support_status = SupportStatus(version="5.0.0")

    def handle_create(self) -> None:
        self.physical_id = self.physical_name
