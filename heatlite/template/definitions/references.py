"""Literal values as a template has them: references in place of ids."""

from collections.abc import Collection, Mapping
from typing import Final

from heatlite.core.json import Json

NO_ID: Final = "00000000-0000-4000-8000-000000000000"
"""Id of no object. A text of this form is never looked up as a name."""


def function_in(value: Json, functions: Collection[str]) -> str | None:
    """Return the first function that a template would find in a literal value."""
    if isinstance(value, Mapping):
        name = next(iter(value), "")
        if len(value) == 1 and name in functions:
            return name
        value = [*value.values()]
    found = (function_in(one, functions) for one in value) if isinstance(value, list) else ()
    return next((one for one in found if one is not None), None)


class References:
    """Puts references in place of ids, as long as no resource needs itself."""

    def __init__(self, names: Mapping[str, str], needs: Mapping[str, frozenset[str]]) -> None:
        """Begin with the references that there are.

        `names` are those of resources by what refers to them, `needs` the resources that each one needs.
        """
        self._names = names
        self.needs = {name: set(one) for name, one in needs.items()}
        """The resources that each one needs, with those of the references put in."""

    def put(self, name: str, value: Json) -> Json:
        """Return a value of a resource with references."""
        if isinstance(value, str) and value in self._names and value != NO_ID:
            other = self._names[value]
            if other == name or name in self._below(other):
                return value
            self.needs.setdefault(name, set()).add(other)
            return {"get_resource": other}
        if isinstance(value, Mapping):
            return {key: self.put(name, one) for key, one in value.items()}
        return [self.put(name, one) for one in value] if isinstance(value, list) else value

    def _below(self, name: str) -> set[str]:
        """Return the names of all that a resource needs."""
        found, todo = set[str](), [name]
        while todo:
            for one in self.needs.get(todo.pop(), ()):
                if one not in found:
                    found.add(one)
                    todo.append(one)
        return found
