"""Templates with each type, and the laws of a marked and replaced resource."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from heatlite.core.errors import StackValidationFailed
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb, state
from heatlite.engine.operations.signals import IgnoredSignal
from heatlite.plugin import StackResource
from heatlite.plugin.registry import Registry
from heatlite.resources.heat.signals.conditions import Condition
from heatlite.resources.heat.software.deployments import SoftwareDeploymentResource
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.environment import names_template
from heatlite.template.source.loader import load_mapping
from tests.engine.conftest import Engine
from tests.resource_types import ALL_TYPES

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "tests" / "types", *sorted((ROOT / "tests" / "features").glob("*/types")))
"""Tests of the types of the core, and of each feature."""
EXAMPLES = sorted(path for folder in FOLDERS for path in folder.glob("examples/*.yaml"))
RECORDED: Mapping[str, Any] = {
    path.stem: yaml.load(path.read_text(), yaml.CSafeLoader)
    for folder in FOLDERS
    for path in sorted(folder.glob("recorded/*.yaml"))
}
"""Requests to services that the simulated cloud lacks, by service."""
TYPES = Registry(ALL_TYPES)


@cache
def read(file: str) -> Mapping[str, Any]:
    """A template of the repository."""
    return dict(load_mapping((ROOT / file).read_text(), file, "Template").data)


def templates() -> list[str]:
    """Return the examples and the templates of the documentation.

    All their types are installed.
    """
    files = [*EXAMPLES, *(ROOT / "templates").rglob("*.yaml")]
    names = sorted(str(file.relative_to(ROOT)) for file in files)
    known = {*TYPES.names()}
    return [
        name
        for name in names
        if "heat_template_version" in read(name) and all(one in known or names_template(one) for one in types_of(name))
    ]


def types_of(file: str) -> set[str]:
    """The types of the resources in a template."""
    document = read(file)
    resources = document["resources"] if "resources" in document else document["Resources"]
    return {one["type"] if "type" in one else one["Type"] for one in resources.values()}


class Marks:
    """Marks resources of one stack, and looks at what an update makes of it."""

    def __init__(self, engine: Engine, stack: StackRecord) -> None:
        self.engine = engine
        self.stack = stack

    # -- the update ----------------------------------------------------------------------------------

    def replaced(self, *names: str, stack: StackRecord | None = None) -> None:
        """Mark resources and update the stack with its template."""
        engine = self.engine
        before = {row.id: row for row in self.tree()}
        for name in names:
            engine.mark(stack or self.stack, name)
        more = self.update()
        names = (*names, *more)
        marked = {row.id for row in before.values() if row.stack_id == (stack or self.stack).id and row.name in names}
        self.is_complete()
        after = {row.id: row for row in self.tree()}
        self._only_what_must(before, after, marked)
        self._nothing_of_the_old(before, after)
        self.check()
        self._again_nothing(after)

    def update(self) -> set[str]:
        """Update the stack with its template; return the further resources marked.

        If a refusal names resources in the way, these are marked as well.
        """
        found: set[str] = set()
        while True:
            try:
                self._update()
            except StackValidationFailed as error:
                (name,) = {*re.findall(r"Mark (\w+) unhealthy as well", error.message)}
                assert name not in found, error.message
                found.add(name)
                self.engine.mark(self.stack, name)
            else:
                return found

    def _update(self) -> None:
        """Update the stack with the template that it has."""
        self.change(lambda wait: self.engine.patch(self.stack, wait))

    def change(self, begin: Callable[[bool], StackRecord]) -> None:
        """Begin an update, and wait for it if asked; what waits for a signal gets it."""
        engine = self.engine
        if not any(issubclass(TYPES.get(row.type), AWAITING) for row in self.tree()):
            self.stack = begin(True)
            return
        with engine.clock.held():
            self.stack = begin(False)
            self.answer()
        self.stack = engine.settle(self.stack)

    def answer(self) -> None:
        """Signal whatever waits for a signal, until nothing is under way.

        Time must be held.
        """
        engine, told = self.engine, set()
        while engine.store.actions.live([self.stack.id]):
            if not engine.clock.at_rest():
                engine.wait_for(lambda: engine.clock.at_rest() or not engine.store.actions.live([self.stack.id]))
                continue
            heard = set()
            for row in self.handles():
                # One that comes before the resource waits for it has no effect: a thread of the engine may be slow.
                if row.id not in told and self.signal(row) is None:
                    heard.add(row.id)
            told |= heard
            if not heard:
                engine.clock.pass_(1)

    def signal(self, row: ResourceRecord) -> IgnoredSignal | None:
        """Send the signal of a well resource. Returns the reason why it had no effect."""
        return self.engine.components.signals.signal(self.engine.who, self.engine.get(self.stack), row, details(row))

    def handles(self) -> Iterator[ResourceRecord]:
        """The rows that wait for a signal from outside."""
        rows = self.engine.rows(self.stack)
        for row in rows:
            if row.status is not Status.IN_PROGRESS or row.verb not in (Verb.CREATE, Verb.UPDATE):
                continue
            kind = TYPES.get(row.type)
            if issubclass(kind, SoftwareDeploymentResource):
                yield row
            if issubclass(kind, Condition):
                yield from (
                    one
                    for one in rows
                    if one.name in row.requires and "Handle" in one.type and one.verb is not Verb.DELETE
                )

    def is_complete(self) -> None:
        """Nothing has failed."""
        failed = [f"{row.name}: {row.status_reason}" for row in self.tree() if row.status is Status.FAILED]
        assert (self.stack.status, failed) == (Status.COMPLETE, []), (self.stack.status_reason, failed)

    def have_own_objects(self) -> None:
        """Only types with `shares_object` have the object of another resource."""
        own = [
            (kind.object_kind, row.physical_id)
            for row in self.tree()
            if not (kind := self.engine.components.reader.resources_of(self.stack).type_of(row)).shares_object
        ]
        assert [one for one in own if own.count(one) > 1] == []

    # -- what there is to see ------------------------------------------------------------------------

    def tree(self) -> list[ResourceRecord]:
        """The rows of the stack and of those within it."""
        store = self.engine.store
        stacks = [self.stack.id, *(one.id for one in store.stacks.descendants(self.engine.get(self.stack)))]
        return [row for one in stacks for row in store.resources.of(one)]

    def check(self) -> None:
        """Everything is there, well, and as its resource says."""
        engine = self.engine
        since = engine.now_on(self.stack)
        self.stack = engine.check(self.stack)
        self.is_complete()
        notes = [one.status_reason for one in engine.events(self.stack)[since:] if "differs" in one.status_reason]
        assert notes == []

    def _only_what_must(
        self, before: Mapping[str, ResourceRecord], after: Mapping[str, ResourceRecord], marked: set[str]
    ) -> None:
        """Only the marked objects and those that name them immutably are new."""
        assert not marked & after.keys(), "it was not replaced"
        old = {(row.stack_id, row.name): row for row in before.values()}
        new = {(row.stack_id, row.name): row for row in after.values()}
        for key, row in new.items():
            was = old.get(key)
            if was is None or was.id in marked:
                continue  # a member of what was replaced
            kind = TYPES.get(row.type)
            changed = kind.schema.diff(was.properties, row.properties)
            if was.id != row.id:
                joined = kind.joins & {one.mapped_type for one in before.values() if one.id not in after}
                assert changed or joined or kind.anew_with_update, f"{row.name} was replaced as well"
            else:
                fixed = sorted(changed - kind.schema.updatable)
                assert not fixed, f"{row.name} is as it was, but its {fixed} are not"
                # The ids of what joins objects are made of theirs.
                same = row.physical_id == was.physical_id or changed and row.physical_id in str(row.properties)
                assert same or ":" in str(row.physical_id), f"{row.name} is another object"

    def _nothing_of_the_old(self, before: Mapping[str, ResourceRecord], after: Mapping[str, ResourceRecord]) -> None:
        """Nothing refers to an object that is gone."""
        kept = {row.physical_id for row in after.values()}
        gone = {row.physical_id for row in before.values()} - kept
        names = {str(number) for number in range(10_000)}  # ids of such kind stand for many things
        for row in after.values():
            words = set(re.split(r"[^\w.-]+", json.dumps([row.properties, row.metadata])))
            assert not gone & words - names, f"{row.name} refers to what is gone"

    def _again_nothing(self, before: Mapping[str, ResourceRecord]) -> None:
        """A second update finds nothing to do."""
        since = self.engine.now_on(self.stack)
        self.update()
        self.is_complete()
        told = [
            (one.resource_name, state(one.verb, one.status))
            for one in self.engine.events(self.stack)[since:]
            if one.resource_name != self.stack.name and not restless(one.resource_type)
        ]
        assert told == []
        still = {row.id for row in self.tree() if not restless(row.type)}
        assert still == {row.id for row in before.values() if not restless(row.type)}


AWAITING = (SoftwareDeploymentResource, Condition)


def restless(type_name: str) -> bool:
    """True if every update has something to do with a resource of the type."""
    kind = TYPES.get(type_name)
    return kind.anew_with_update or kind.always_updated or issubclass(kind, StackResource)


def details(row: ResourceRecord) -> JsonMap:
    """The report of a healthy machine on a row."""
    if row.type.startswith("AWS::"):
        return {"Status": "SUCCESS", "Reason": "", "Data": "", "UniqueId": "1"}
    return {}
