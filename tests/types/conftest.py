"""A resource built by hand: facts with a clock that the test holds."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest

from heatlite.core.ids import new_id
from heatlite.core.json import Json
from heatlite.engine.software import Software
from heatlite.plugin import Facts, Resource, Schema, Services
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
    """`build(cls, properties, data, …)` → a resource of that class, named a, in stack s, not yet created.

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
                services=Services(MemoryMailbox(), "http://127.0.0.1:8004", software, NoRegions()),
                data={} if data is None else data,
                **facts,
            )
        )

    return build
