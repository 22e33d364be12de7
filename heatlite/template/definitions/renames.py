"""Other names for resources in a template, with all references to them."""

from collections.abc import Iterator, Mapping, Sequence

from heatlite.core.json import Json, JsonMap
from heatlite.template.document import Template
from heatlite.template.functions.cfn import Ref
from heatlite.template.functions.references import GetAttrSelecting, GetResource


def renamed(template: Template, names: Mapping[str, str]) -> JsonMap:
    """Return the template with other names of resources, in the same order.

    `names` are the new ones by the old ones. Names that functions make at run time stay.
    """
    renaming = _Renaming(template, names)
    sections = template.dialect.sections
    changed: JsonMap = dict(template.document)
    changed[sections["resources"]] = {
        names.get(name, name): renaming.resource(entry) for name, entry in template.resources.items()
    }
    if template.outputs:
        changed[sections["outputs"]] = renaming.value(dict(template.outputs))
    return changed


def carried(template: Template, name: str, names: Mapping[str, str]) -> Json:
    """Return the definition of a resource for another template.

    All of `names` go there. Raises Foreign for what it reads and stays behind.
    """
    entry = template.resources[name]
    places = [*_Renaming(template, names).foreign(entry)]
    if places:
        raise Foreign(places)
    return _Renaming(template, names).resource(entry)


class Foreign(Exception):
    """A definition reads parts of its template that another one does not have."""

    def __init__(self, places: Sequence[str]) -> None:
        super().__init__(places)
        self.places = places


_OF_TEMPLATE = frozenset(
    {"get_param", "get_file", "resource_facade", "if", "Fn::If", "Fn::FindInMap", "Fn::ResourceFacade"}
)
"""Functions that read other parts of a template, or of its environment."""


class _Renaming:
    """Copies values with other names of resources."""

    def __init__(self, template: Template, names: Mapping[str, str]) -> None:
        dialect = template.dialect
        self._names = names
        self._depends_on = dialect.resource_keys["depends_on"]
        self._references = {one for one, kind in dialect.functions.items() if issubclass(kind, GetResource | Ref)}
        self._attributes = {one for one, kind in dialect.functions.items() if issubclass(kind, GetAttrSelecting)}

    def resource(self, entry: Json) -> Json:
        """Return a definition."""
        if not isinstance(entry, Mapping):
            return entry
        return {
            key: self._listed(value) if key == self._depends_on else self.value(value) for key, value in entry.items()
        }

    def value(self, value: Json) -> Json:
        """Return a value with functions in it."""
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            ((function, argument),) = value.items()
            if function in self._references and isinstance(argument, str):
                return {function: self._name(argument)}
            if function in self._attributes and isinstance(argument, list) and argument:
                return {function: [self._name(argument[0]), *map(self.value, argument[1:])]}
        return {key: self.value(item) for key, item in value.items()}

    def _listed(self, value: Json) -> Json:
        return [self._name(item) for item in value] if isinstance(value, list) else self._name(value)

    def _name(self, value: Json) -> Json:
        return self._names.get(value, value) if isinstance(value, str) else self.value(value)

    def foreign(self, value: Json, key: str = "") -> Iterator[str]:
        """Yield what a definition reads beside the names.

        These are functions with their arguments.
        """
        if key in (self._depends_on, "condition", "Condition"):
            for one in value if isinstance(value, list) else [value]:
                if one not in self._names:
                    yield f"{key} {one}"
        elif isinstance(value, list):
            for one in value:
                yield from self.foreign(one)
        elif isinstance(value, Mapping):
            for name, argument in value.items():
                first = argument[0] if isinstance(argument, list) and argument else argument
                reads = name in self._references or name in self._attributes and first is not argument
                if len(value) == 1 and (name in _OF_TEMPLATE or reads and first not in self._names):
                    yield f"{name} {first if isinstance(first, str) else ''}".rstrip()
                else:
                    yield from self.foreign(argument, name)
