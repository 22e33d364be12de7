"""An engine on either cloud, and the comparable results of its work."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from heatlite.clients.cloud import Cloud
from heatlite.clients.finders import identity
from heatlite.core.clock import Clock
from heatlite.core.json import Json, JsonMap
from heatlite.core.status import Verb, state
from heatlite.features.simulator.feature import SimulatorSettings
from heatlite.features.simulator.services.registry import VERBS
from heatlite.plugin import CloudResource
from heatlite.store.records import StackRecord
from tests.clouds.real import locked
from tests.engine.conftest import ADMIN, MEMBER, Engine

KINDS = (
    "network.networks", "network.subnets", "network.ports", "network.routers", "network.ips",
    "network.security_groups", "compute.servers", "compute.keypairs", "compute.server_groups", "block_storage.volumes",
    "block_storage.snapshots", "image.images",
)  # fmt: skip
"""Objects that a user may leave behind, as the verbs that list them."""

ADMINISTERED = (
    "identity.users", "identity.groups", "identity.projects", "identity.roles", "identity.domains",
    "identity.services", "identity.endpoints", "identity.regions",
)  # fmt: skip
"""And an administrator, of Keystone's."""
THEIRS = ("hl-", "test_", "http://hl-")
"""Prefixes of these names: other users may make and remove some meanwhile."""

_UUID = re.compile(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?")
_MAC = re.compile(r"\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b")
_HEX = re.compile(r"\b([0-9a-f]{2}:){15}[0-9a-f]{2}\b")
_ADDRESS = re.compile(r"\b(\d+\.\d+\.\d+)\.\d+\b(?!/)")
_PUBLIC = re.compile(r"\b172\.24\.[4-7]\.\d+\b(?!/)")
_HOST = re.compile(r"\bhost-(\d+-\d+-\d+)-\d+")
_DOMAIN = re.compile(r"\.(openstacklocal|cloud\.example)\.")
_RANDOM = re.compile(r"-[a-z0-9]{12}\b")


ANSWER = 300.0
"""Seconds for an answer of a real service.

A check fails without one, and on a busy machine it takes long.
"""


class Ahead(Clock):
    """A clock in step with the machine's, possibly ahead of it: a cloud takes time."""

    def __init__(self) -> None:
        self._by = 0.0

    def now(self) -> float:
        return super().now() + self._by

    def pass_(self, seconds: float) -> None:
        """Be ahead by more."""
        self._by += seconds


class OnCloud(Engine):
    """The use cases of one caller, on a cloud."""

    def __init__(self, folder: Path, real: bool, admin: bool = False, timeout: float = ANSWER) -> None:
        self._real, self._admin = real, admin
        self._made: list[str] = []
        cloud = ("ours-admin" if admin else "ours") if real else "simulated"
        scenario = folder / "simulation.yaml"
        scenario.write_text(json.dumps({"roles": ["admin"] if admin else ["member"]}))
        scripted = (SimulatorSettings(simulation=str(scenario)),)
        super().__init__(folder, cloud=cloud, cloud_timeout=timeout, of_features=scripted)
        self.who = replace(ADMIN, project="admin") if admin else MEMBER

    def create(self, *arguments: Any, **more: Any) -> StackRecord:
        stack = super().create(*arguments, **more)
        self._made.append(stack.id)
        return stack

    def open(self) -> None:
        if self._real:
            self.clock = Ahead()  # type: ignore[assignment]
        super().open()

    @property
    def cloud(self) -> Cloud:
        """The cloud as the project of the stacks sees it."""
        return self.server.components.engine_services.services.clouds.of(self.who.project).cloud

    def holdings(self) -> dict[str, set[str]]:
        """The ids of the project's and public objects, by kind."""
        return {kind: {*things} for kind, things in self._things().items()}

    def _things(self) -> dict[str, dict[str, JsonMap]]:
        """The project's and public objects by id, by kind."""
        found: dict[str, dict[str, JsonMap]] = {}
        for kind in ADMINISTERED if self._admin else KINDS:
            if not self._real and kind not in VERBS:
                continue
            things = self.cloud.call(kind)
            assert isinstance(things, list)
            found[kind] = {
                identity(thing): thing
                for thing in things
                if isinstance(thing, dict) and (not self._admin or _label(thing).startswith(THEIRS))
            }
        return found

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Inside, no other tests of this machine are in their own."""
        if not self._real:
            yield
            return
        with locked("alone"):
            yield

    def take_stock(self) -> None:
        """Remember what there is, for `gone`."""
        self.before = self.holdings()

    def well(self, stack: StackRecord) -> StackRecord:
        """The stack, which must be complete."""
        assert stack.status == "COMPLETE", self.why(stack)
        return stack

    def gone(self, stack: StackRecord) -> None:
        """Delete the stack: the cloud holds nothing of it."""
        self.well(self.delete(stack))
        left = self._things()
        changed = {
            kind: ([things[key] for key in things.keys() - self.before[kind]], self.before[kind] - things.keys())
            for kind, things in left.items()
            if things.keys() != self.before[kind]
        }
        assert not changed, f"left, and missing: {changed}"

    def clear(self) -> None:
        """Take away what a scenario that has failed has left."""
        left = [stack for stack in map(self.store.stacks.get, self._made) if stack is not None]
        for stack in left:
            if stack.verb is not Verb.DELETE:
                if stack.lock is not None:
                    self.unlock(stack)
                self.delete(stack)

    @staticmethod
    def thing(answer: Json) -> dict[str, Any]:
        """An answer that must be an object."""
        assert isinstance(answer, dict)
        return answer

    def settle_tree(self, stack: StackRecord) -> None:
        """Until nothing is under way in a stack and those within it."""
        self.wait_for(lambda: not self.store.actions.live([stack.id, *self.store.stacks.nested(stack.id, 9)]))

    def later(self, seconds: float) -> None:
        """Let time go on."""
        self.clock.pass_(seconds)

    def story(self, stack: StackRecord) -> dict[str, Any]:
        """The states of the resources of a stack and its nested ones, by name, in order."""
        told: dict[str, list[str]] = {}
        for event in self.events(stack):
            told.setdefault(event.resource_name, []).append(state(event.verb, event.status))
        return told

    def in_order(self, stack: StackRecord) -> None:
        """Every resource was begun after what it depends on was complete."""
        complete: set[str] = set()
        requires = {row.name: row.requires for row in self.rows(stack)}
        for event in self.events(stack):
            if event.verb != "CREATE" or event.resource_name == stack.name:
                continue
            if event.status == "IN_PROGRESS":
                assert complete.issuperset(requires.get(event.resource_name, ())), event.resource_name
            elif event.status == "COMPLETE":
                complete.add(event.resource_name)

    def comparable(self, stack: StackRecord) -> dict[str, Json]:
        """The outputs, with names in place of what no two clouds have in common."""
        names = self._names(stack)
        return {key: _plain(value, names) for key, value in self.outputs(stack).items()}

    def objects(self, stack: StackRecord) -> dict[str, Json]:
        """The comparable objects of the resources, as the services show them, by name."""
        names, found = self._names(stack), {}
        for row in self.rows(stack):
            cls = self.components.types.get(row.type)
            if issubclass(cls, CloudResource) and row.physical_id is not None:
                verb = ".get_".join(cls.kind.split("."))
                if verb in VERBS:  # else it has no object of its own
                    found[row.name] = _plain(self.cloud.call(verb, row.physical_id), names)
        return found

    def _names(self, stack: StackRecord) -> dict[str, str]:
        names = {row.physical_id: f"<{row.name}>" for row in self.rows(stack) if row.physical_id}
        names[json.dumps(self.who.project)] = '"<id>"'  # which is no name in the simulated cloud
        return names

    def seen(self, stack: StackRecord) -> dict[str, Any]:
        """The comparable data of a stack."""
        if self.get(stack).verb is Verb.CREATE:
            self.in_order(stack)
        return {
            "state": state(self.get(stack).verb, self.get(stack).status),
            "resources": self.states(stack),
            "story": self.story(stack),
            "outputs": self.comparable(stack),
        }

    def why(self, stack: StackRecord) -> list[str]:
        """The reasons of the states of the stack and its resources."""
        rows = [f"{row.name}: {row.status_reason}" for row in self.rows(stack) if row.status == "FAILED"]
        return [self.get(stack).status_reason, *rows]


def _label(thing: Mapping[str, Json]) -> str:
    """The name of an administrator's object."""
    return str(thing.get("url") or thing.get("name") or thing["id"])


def _plain(value: Json, names: Mapping[str, str]) -> Json:
    text = json.dumps(value)
    for physical, name in names.items():
        text = text.replace(physical, name)
    for pattern, word in (
        (_TIME, "<time>"), (_UUID, "<id>"), (_HEX, "<fingerprint>"), (_MAC, "<mac>"), (_PUBLIC, "<public>"),
        (_ADDRESS, r"\1.<n>"), (_HOST, r"host-\1-<n>"), (_DOMAIN, ".<domain>"), (_RANDOM, "-<random>"),
    ):  # fmt: skip
        text = pattern.sub(word, text)
    return json.loads(text)  # type: ignore[no-any-return]
