"""Limits of an operator: beyond them RequestLimitExceeded."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.context import Context
from heatlite.core.errors import RequestLimitExceeded
from heatlite.core.status import Status
from tests.tables import few

from .conftest import ADMIN, Engine, resource, template, thing

pytestmark = pytest.mark.database

LIMIT = 2


@pytest.fixture
def limited(plugins: Path, place: Path) -> Iterator[Callable[..., Engine]]:
    """An engine with these settings."""
    engines = []

    def make(**settings: Any) -> Engine:
        engines.append(Engine(place, **settings))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def stacks(engine: Engine, count: int) -> None:
    """So many stacks; one of them has another nested in it, which does not count."""
    files = {"child.yaml": "heat_template_version: 2021-04-16\n"}
    for number in range(count):
        engine.create(template(a=resource("child.yaml")), name=f"s{number}", files=files)


def resources(engine: Engine, count: int) -> None:
    """So many resources in one stack."""
    engine.create(template(**{f"r{number}": thing() for number in range(count)}))


def snapshots(engine: Engine, count: int) -> None:
    stack = engine.create(template(a=thing()))
    for _ in range(count):
        engine.components.snapshots.take(engine.who, engine.get(stack), None)
        engine.settle(stack)


def software_configs(engine: Engine, count: int) -> None:
    for number in range(count):
        stack = engine.create(template(a=resource("OS::Heat::SoftwareConfig", config="x")), name=f"s{number}")
        if stack.status is Status.FAILED:
            raise RequestLimitExceeded(stack.status_reason)


def software_deployments(engine: Engine, count: int) -> None:
    config = engine.components.software
    for number in range(count):
        config.create_deployment("demo", f"server-{number}", _config(engine), {}, "CREATE", "COMPLETE", "")


def _config(engine: Engine) -> str:
    stack = engine.create(template(a=resource("OS::Heat::SoftwareConfig", config="x")), name=f"c{engine.clock.now()}")
    engine.clock.pass_(1)
    return str(engine.row(stack, "a").physical_id)


def depth(engine: Engine, count: int) -> None:
    """A tree that goes so deep."""
    files = {
        f"{level}.yaml": f"heat_template_version: 2021-04-16\nresources: {{a: {{type: {level + 1}.yaml}}}}\n"
        for level in range(1, count)
    }
    files[f"{count}.yaml"] = "heat_template_version: 2021-04-16\n"
    engine.create(template(a=resource("1.yaml")), files=files)


CASES = {
    "max_stacks_per_tenant": stacks,
    "max_resources_per_stack": resources,
    "max_snapshots_per_stack": snapshots,
    "max_software_configs_per_tenant": software_configs,
    "max_software_deployments_per_tenant": software_deployments,
    "max_nested_stack_depth": depth,
}
UNLIMITED = CASES.keys() - {"max_nested_stack_depth"}


@pytest.mark.parametrize("setting", few(CASES))
def test_up_to_the_limit_and_not_beyond(limited: Callable[..., Engine], setting: str) -> None:
    engine = limited(**{setting: LIMIT})
    CASES[setting](engine, LIMIT)


@pytest.mark.parametrize("setting", few(CASES))
def test_one_more_is_refused(limited: Callable[..., Engine], setting: str) -> None:
    with pytest.raises(RequestLimitExceeded):
        CASES[setting](limited(**{setting: LIMIT}), LIMIT + 1)


@pytest.mark.parametrize("setting", few(sorted(UNLIMITED)))
def test_a_limit_can_be_switched_off(limited: Callable[..., Engine], setting: str) -> None:
    CASES[setting](limited(**{setting: -1}), LIMIT + 1)


def test_an_administrator_may_have_more_stacks(limited: Callable[..., Engine]) -> None:
    engine = limited(max_stacks_per_tenant=LIMIT)
    engine.who = ADMIN
    stacks(engine, LIMIT + 1)


def test_where_nobody_says_who_he_is_everybody_has_the_limit(limited: Callable[..., Engine]) -> None:
    engine = limited(max_stacks_per_tenant=LIMIT)
    engine.who = Context("demo")
    assert engine.who.is_admin
    with pytest.raises(RequestLimitExceeded):
        stacks(engine, LIMIT + 1)


def test_a_deleted_stack_makes_room(limited: Callable[..., Engine]) -> None:
    engine = limited(max_stacks_per_tenant=1)
    engine.delete(engine.create(template(a=thing())))
    engine.create(template(a=thing()))


def test_other_projects_have_limits_of_their_own(limited: Callable[..., Engine]) -> None:
    engine = limited(max_stacks_per_tenant=1)
    engine.create(template(a=thing()))
    engine.who = type(engine.who)("other", user="oz", roles=engine.who.roles)
    engine.create(template(a=thing()))


@pytest.mark.parametrize("depth_allowed", [1, 7])
def test_the_depth_holds_for_what_comes_later(limited: Callable[..., Engine], depth_allowed: int) -> None:
    engine = limited(max_nested_stack_depth=depth_allowed)
    stack = engine.create(template(a=thing()))
    files = {
        f"{level}.yaml": f"heat_template_version: 2021-04-16\nresources: {{a: {{type: {level + 1}.yaml}}}}\n"
        for level in range(1, depth_allowed + 1)
    }
    files[f"{depth_allowed + 1}.yaml"] = "heat_template_version: 2021-04-16\n"
    with pytest.raises(RequestLimitExceeded, match=f"Recursion depth exceeds {depth_allowed}"):
        engine.put(stack, template(a=resource("1.yaml")), files=files)
