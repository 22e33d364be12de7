"""Other names for resources in a template, with all references to them."""

from collections.abc import Mapping

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
