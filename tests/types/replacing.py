"""Changes that replace an object of a stack, and the ways out of their failures."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from heatlite.core.errors import HTTPBadRequest, StackValidationFailed
from heatlite.core.status import Status
from heatlite.plugin.coercion import PropertyKind
from heatlite.plugin.schema import Field
from heatlite.template.document import Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN
from tests.types.marking import TYPES, Marks, read

TEXTS = ("other", "10.99.0.0/24", "10.99.0.9", "fa:16:3e:00:00:99", "2001:db8:99::/64", "ssh-rsa AAAA other")
"""Texts to try for a property; the constraints of most leave one of them."""
OF_OTHERS = ("tenant_id", "user_id")
"""Properties whose change puts the object where this project does not see it."""
LAST = "last"
"""The name of a resource that fails once everything else is made."""


def used(file: str) -> set[str]:
    """The resources of a template that others of it use, implied uses included."""
    bound = Template(dict(read(file))).bind(Environment(), {}, types=TYPES)
    return {name for one in bound.resources.values() for name in one.requires}


def changes(file: str, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each property whose change replaces the resource, and a changed template."""
    document = read(file)
    written = document["resources"][name]
    kind = TYPES.get(written["type"])
    given = written.get("properties", {})
    for key, field in kind.schema.fields.items():
        if key in kind.schema.updatable | kind.schema.immutable or field.hidden or key in OF_OTHERS:
            continue
        for value, more in _values(field, given.get(key), document):
            properties = {**given, key: value}
            if not kind.check_properties({one: _known(said) for one, said in properties.items()}):
                changed = deepcopy(dict(document))
                changed["resources"].update(more)
                changed["resources"][name]["properties"] = properties
                yield key, changed
                break


def _values(field: Field, now: Any, document: Mapping[str, Any]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield other values of a property, and the further resources that they name."""
    if isinstance(now, dict) and now.keys() == {"get_resource"}:
        name = now["get_resource"]
        yield {"get_resource": f"{name}_2"}, {f"{name}_2": document["resources"][name]}
        return
    shape = field.describe()
    held = now if now is not None else shape.get("default")
    for rule in shape.get("constraints", []):  # type: ignore[union-attr]
        assert isinstance(rule, dict)
        for value in rule.get("allowed_values", ()):  # type: ignore[union-attr]
            if value != held:
                yield value, {}
    if field.kind is PropertyKind.BOOLEAN:
        yield not held, {}
    elif field.kind in (PropertyKind.INTEGER, PropertyKind.NUMBER):
        yield from ((int(held or 0) + step, {}) for step in (1, 2, 8) if not isinstance(held, dict))
    elif field.kind is PropertyKind.STRING and field.find is None:
        yield from ((text, {}) for text in TEXTS if text != held)


def _known(value: Any) -> Any:
    """The value, if it is without functions."""
    has_function = isinstance(value, dict) and len(value) == 1 and next(iter(value)).startswith(("get_", "str_", "Fn"))
    return UNKNOWN if has_function else value


class Ways:
    """Leads the stack of one template into a failed replacement and out again."""

    def __init__(self, marks: Marks, before: Mapping[str, Any], after: Mapping[str, Any], clean: Callable[[], Any]):
        self.marks = marks
        self.before = before
        self.after = after
        self.clean = clean
        """Return what must be the same whenever the stack is as before."""
        self.full = clean()

    def put(self, document: Mapping[str, Any]) -> bool:
        """Update the stack with a template. True if it is complete."""
        self.marks.change(lambda wait: self.marks.engine.put(self.marks.stack, document, wait))
        return self.marks.stack.status is Status.COMPLETE

    def fail(self) -> None:
        """Fail in the middle: all is made, and only what must go first is deleted."""
        made = self.after["resources"]
        after = [one for one, written in made.items() if not TYPES.get(written["type"]).after]
        failing = {"type": "OS::Heat::TestResource", "properties": {"fail": True}, "depends_on": after}
        assert not self.put({**self.after, "resources": {**made, LAST: failing}})

    def back(self) -> None:
        """Return to the template from before: everything is there, well, and nothing else."""
        while not self._is_put_back():
            pass
        self.marks.is_complete()
        assert self.clean() == self.full
        self.marks.check()

    def _is_put_back(self) -> bool:
        """True if the stack is as before. Else mark what a refusal advises to mark."""
        try:
            is_complete, told = self.put(self.before), self.marks.stack.status_reason
        except StackValidationFailed as error:
            is_complete, told = False, error.message
        advised = re.search(r"Mark (\w+) unhealthy as well", told)
        assert is_complete or advised, self.why()
        if advised:
            self.marks.engine.mark(self.marks.stack, advised[1])
        return is_complete

    def why(self) -> Sequence[str]:
        tree = self.marks.tree()
        return [self.marks.stack.status_reason, *(f"{row.name} {row.verb} {row.status_reason}" for row in tree)]


def is_possible(ways: Ways) -> bool | None:
    """Return whether the cloud takes the change; None if a check refuses it first."""
    try:
        return ways.put(ways.after)
    except (StackValidationFailed, HTTPBadRequest):
        return None
