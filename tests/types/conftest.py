"""Resources built by hand on a held clock; an engine on a simulated cloud."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import pytest

from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap
from heatlite.engine.operations.software_configs import Software
from heatlite.features.simulator.feature import SimulatorSettings
from heatlite.features.simulator.simulation import ADMIN, FAULT, SimulatedProject
from heatlite.plugin import CloudResource, Facts, Resource, Schema, Services
from heatlite.store.records import StackRecord
from tests.engine.conftest import Engine, place, template  # noqa: F401 - fixtures
from tests.memory_mailbox import MemoryMailbox
from tests.ports import NoRegions, make_software

AnyResource = TypeVar("AnyResource", bound=Resource[Schema])


class HeldClock:
    """Time that stands until the test moves it."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture(scope="session")
def software(tmp_path_factory: pytest.TempPathFactory) -> Software:
    """One database for all tests: each has a project of its own."""
    return make_software(tmp_path_factory.mktemp("software"))


@pytest.fixture
def project() -> str:
    return new_id()


@pytest.fixture
def build(clock: HeldClock, software: Software, project: str) -> Callable[..., Any]:
    """`build(cls, properties, data, …)` → a resource `a` of stack `s`, not created.

    More by keyword is as in `Facts`.
    """

    def build(
        cls: type[AnyResource],
        properties: Mapping[str, object] | None = None,
        data: dict[str, Json] | None = None,
        **facts: Any,
    ) -> AnyResource:
        return cls(
            Facts(
                name="a",
                stack_id="00000000-0000-7000-8000-000000000001",
                stack_name="s",
                project=project,
                physical_name="s-a-abcdefghijkl",
                physical_id=facts.pop("physical_id", None),
                properties=cls.schema.coerce(properties or {}),
                metadata={},
                now=clock.now,
                services=Services(MemoryMailbox(), "http://127.0.0.1:8004", software, NoRegions(), float),
                data={} if data is None else data,
                **facts,
            )
        )

    return build


class Cloudy(Engine):
    """An engine on a simulated cloud, and what there is to see of the cloud."""

    def __init__(self, folder: Path, given: Mapping[str, Any] = MappingProxyType({}), **scenario: Any) -> None:
        """`scenario` is the content of the file of `simulation`.

        As in ``faults=[{"verb": …, "raises": "lost"}]``. `given` are further settings.
        """
        settings = dict(given)
        if scenario:
            file = folder / "simulation.yaml"
            file.write_text(json.dumps(scenario))
            settings["of_features"] = (SimulatorSettings(simulation=str(file)),)
        super().__init__(folder, cloud="simulated", **settings)
        self.view().simulation.verbs["network.security_groups"](self.view())  # now there is the project's default group

    def view(self, project: str | None = None) -> SimulatedProject:
        """The cloud of a project; without a name, of the project of these stacks."""
        clouds = self.server.components.engine_services.services.clouds
        return cast(SimulatedProject, clouds.of(project or self.who.project).cloud)

    @property
    def admin(self) -> SimulatedProject:
        """The cloud as its administrator sees it: all objects of all projects."""
        return self.view(ADMIN)

    def thing(self, stack: StackRecord, name: str) -> JsonMap:
        """The object of a resource as it is in the cloud. Raises CloudNotFound."""
        row = self.row(stack, name)
        cls = self.components.types.get(row.type)
        assert issubclass(cls, CloudResource)
        return self.admin.thing(cls.kind, row.physical_id)

    def count(self, kind: str) -> int:
        """Return the number of objects of a kind (``network.port``) in the whole cloud."""
        return len(self.admin.simulation.all(kind))

    def census(self) -> dict[str, int]:
        """Return the number of objects of each kind, to see that nothing is left."""
        with self.admin.simulation.lock:
            kinds = {kind: self.count(kind) for kind in list(self.admin.simulation._objects) if kind != FAULT}
        return {kind: count for kind, count in kinds.items() if count}

    def made(self, resources: Mapping[str, object], name: str = "s", **more: Any) -> StackRecord:
        """A stack of these resources, which has to become complete."""
        stack = self.create(template(**resources), name, **more)
        assert stack.status == "COMPLETE", self.why(stack)
        return stack

    def changed(self, stack: StackRecord, resources: Mapping[str, object], **more: Any) -> StackRecord:
        """The stack with these resources instead, which has to become complete."""
        stack = self.put(stack, template(**resources), **more)
        assert stack.status == "COMPLETE", self.why(stack)
        return stack

    def why(self, stack: StackRecord) -> Sequence[str]:
        """Return the status reasons of the stack and its resources."""
        rows = [f"{row.name}: {row.status_reason}" for row in self.rows(stack) if row.status == "FAILED"]
        return [stack.status_reason, *rows]


@pytest.fixture
def cloudy(place: Path) -> Iterator[Cloudy]:  # noqa: F811 - the fixture
    """An engine on a simulated cloud that does what it is asked."""
    engine = Cloudy(place)
    yield engine
    engine.close()


@pytest.fixture
def troubled(place: Path) -> Iterator[Callable[..., Cloudy]]:  # noqa: F811 - the fixture
    """`troubled(faults=[…], quotas={…})` → an engine on such a simulated cloud."""
    engines: list[Cloudy] = []

    def begin(**scenario: Any) -> Cloudy:
        engines.append(Cloudy(place, **scenario))
        return engines[-1]

    yield begin
    for engine in engines:
        engine.close()


@pytest.fixture(scope="module")
def recordings() -> Iterator[dict[str, Any]]:
    """The engines of a module by the file of their cases (`recordings.Recording`)."""
    found: dict[str, Any] = {}
    yield found
    for one in found.values():
        one.ends.close()
