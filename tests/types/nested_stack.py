"""A nested stack that obeys its parent's resource at once, and a group with it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heatlite.core.json import Json
from heatlite.plugin import ChildStack, Resource, StackResource
from heatlite.plugin.schema import Schema


@dataclass
class FakeMember:
    """One that gives each of its properties as an attribute."""

    name: str
    created_at: float
    definition: dict[str, Any]
    action: str = "CREATE"
    status: str = "COMPLETE"

    def reference(self) -> Json:
        return f"ref-{self.name}"

    def attribute(self, name: str, path: Sequence[Json] = ()) -> Json:
        value: Any = self.definition.get("properties", {}).get(name)
        for step in path:
            value = value[step]
        found: Json = value
        return found


class FakeNested:
    """`plugin.ports.Nested`. Members keep the time at which they were made."""

    id = "00000000-0000-7000-8000-00000000000c"
    action = "CREATE"
    status = "COMPLETE"
    outputs = ()

    def __init__(self) -> None:
        self.template: dict[str, Any] = {}
        self.rows: dict[str, FakeMember] = {}
        self.moment = 0.0
        self.pauses: list[float] = []
        """Pauses before its updates."""

    @property
    def members(self) -> list[FakeMember]:
        return sorted(self.rows.values(), key=lambda member: (member.created_at, member.name))

    @property
    def definitions(self) -> dict[str, Any]:
        found: dict[str, Any] = self.template["resources"]
        return found

    def output(self, _name: str) -> Json:
        return None

    def become(self, child: ChildStack) -> None:
        """Make, change and remove members; failed ones are made again."""
        self.moment += 1
        self.pauses.append(child.pause)
        self.template = dict(child.template)
        kept = {}
        for name, definition in self.definitions.items():
            old = self.rows.get(name)
            if old is None or old.status == "FAILED":
                old = FakeMember(name, self.moment, definition)
            old.definition = definition
            kept[name] = old
        self.rows = kept


def carried_out(
    make: Callable[[dict[str, Json]], StackResource[Schema]], nested: FakeNested
) -> tuple[list[Mapping[str, Any]], dict[str, Json]]:
    """The members' definitions after each round, and the data in the end.

    Each round is asked of a resource made anew, as after a crash.
    """
    data: dict[str, Json] = {}
    rounds: list[Mapping[str, Any]] = []
    while True:
        resource = make(data)
        child = resource.child(len(rounds))
        data = dict(resource.data)
        if child is None:
            return rounds, data
        nested.become(child)
        rounds.append(nested.definitions)


class Group:
    """One group over its life."""

    def __init__(self, build: Callable[..., Any], cls: type[Resource[Schema]], **facts: Any) -> None:
        self._build, self._cls, self._facts = build, cls, facts
        self.nested: FakeNested | None = None
        self.data: dict[str, Json] = {}
        self.properties: dict[str, Any] | None = None
        self.policy: dict[str, Any] = {}

    def now(self) -> Any:
        return self._resource(self.data, None)

    def _resource(self, data: dict[str, Json], before: dict[str, Any] | None) -> Any:
        facts = {**self._facts, "nested": lambda: self.nested, "before": before, "update_policy": self.policy}
        return self._build(self._cls, self.properties, json.loads(json.dumps(data)), **facts)

    def become(self, **properties: Any) -> list[Mapping[str, Any]]:
        """Create or update it; the members after each round."""
        before, self.properties = self.properties, properties
        made = FakeNested() if self.nested is None else self.nested
        made.pauses = []

        def make(round_data: dict[str, Json]) -> Any:
            if made.pauses:
                self.nested = made
            return self._resource(round_data or self.data, before)

        rounds, self.data = carried_out(make, made)
        self.nested = made
        return rounds

    @property
    def names(self) -> list[str]:
        assert self.nested is not None
        return list(self.nested.definitions)
