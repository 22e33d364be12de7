"""Each answer of a cloud × each type with a check (docs/reference/health.md)."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.clients import cloud as answers
from heatlite.clients.clouds import Clouds
from heatlite.core.json import Json, JsonMap
from heatlite.engine.calls.check_verdicts import cause_of
from heatlite.plugin import CloudResource
from heatlite.plugin.coercion import PropertyKind
from heatlite.plugin.registry import Registry
from heatlite.plugin.schema import Field, Schema
from heatlite.resources.heat.testing import TestResource
from tests.resource_types import ALL_TYPES, gone
from tests.tables import table

Build = Callable[..., Any]
Answer = Callable[[str], Json]

TYPES = Registry(ALL_TYPES)
CHECKED = [
    name
    for name in sorted(ALL_TYPES.keys() - gone())
    if TYPES.get(name).has("check") and issubclass(TYPES.get(name), CloudResource)
]
OBJECT = "11111111-1111-4111-8111-111111111111"


class Cloud:
    """A cloud that answers each call alike."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def call(self, verb: str, *_arguments: Json, **_attributes: Json) -> Json:
        return self._answer(verb)


def made(build: Build, name: str, answer: Answer | None) -> CloudResource[Schema]:
    """Return a resource of a type whose cloud answers so. None: no cloud is set."""
    cls: type[CloudResource[Schema]] = TYPES.get(name)  # type: ignore[assignment]
    required = {key: some(field) for key, field in cls.schema.fields.items() if field.required}
    connect: Any = None if answer is None else lambda _: Cloud(answer)
    facts = build(TestResource, physical_id=OBJECT).facts
    services = replace(facts.services, clouds=Clouds("one", lambda: 0.0, connect))
    return cls(replace(facts, properties=required, services=services))


def verdict(one: CloudResource[Schema]) -> str:
    """Return the result of a check."""
    try:
        one.check_check_complete(one.handle_check())
    except Exception as error:  # noqa: BLE001 - as the engine does
        return "unknown" if cause_of(error) else "unhealthy"
    return "healthy"


def verdicts(build: Build, answer: Answer | None) -> dict[str, str]:
    return {name: verdict(made(build, name, answer)) for name in CHECKED}


def some(field: Field) -> Any:
    """A value that the property may have."""
    for constraint in field.constraints:
        allowed = constraint.describe().get("allowed_values")
        if isinstance(allowed, list):
            return allowed[0]
    examples: dict[PropertyKind, object] = {
        PropertyKind.STRING: OBJECT,
        PropertyKind.BOOLEAN: True,
        PropertyKind.MAP: {},
        PropertyKind.LIST: [],
    }
    return examples.get(field.kind, 1)


def raises(error: Callable[[str], Exception]) -> Answer:
    def answer(verb: str) -> Json:
        raise error(verb)

    return answer


UNKNOWN: dict[str, Answer | None] = {
    "no cloud": None,
    **{
        f"HTTP {status}": raises(lambda verb, status=status: answers.CloudError(verb, "no", status))  # type: ignore[misc]
        for status in (400, 401, 403, 405, 408, 409, 412, 413, 422, 429, 500, 501, 502, 503, 504)
    },
    "CloudConflict": raises(lambda verb: answers.CloudConflict(verb, "no")),
    "OverQuota": raises(lambda verb: answers.OverQuota(verb, "no")),
    "CloudUnavailable": raises(lambda verb: answers.CloudUnavailable(verb, "no answer")),
    "CredentialsRefused": raises(lambda verb: answers.CredentialsRefused(verb, "wrong password")),
    "NoService": raises(answers.NoService),
    "Ambiguous": raises(lambda verb: answers.Ambiguous(verb, "web")),
    "NameNotFound": raises(lambda verb: answers.NameNotFound(verb, "no such name")),
    "OtherCloud": raises(lambda _: answers.other_cloud("Stack s", None, None)),  # type: ignore[arg-type]
    "a fault of the type": raises(lambda _: ZeroDivisionError("oops")),
    "no object": lambda _: "what?",
}

UNASKED = {"OS::Heat::SwiftSignal", "OS::Mistral::ExternalResource", "OS::Zaqar::SignedQueueURL"} & ALL_TYPES.keys()
"""Types whose check has nothing to ask a cloud: they are healthy."""
OF_A_WHOLE = {"AWS::EC2::VPCGatewayAttachment"} & ALL_TYPES.keys()
"""Types that name the object that another one is attached to: where that is absent, nothing is known of the rest."""


@pytest.mark.slow
@table("what", UNKNOWN)
def test_an_answer_that_says_nothing_about_the_object(build: Build, what: str) -> None:
    expected = {name: "healthy" if name in UNASKED else "unknown" for name in CHECKED}
    assert verdicts(build, UNKNOWN[what]) == expected


def test_an_object_that_is_absent(build: Build) -> None:
    gone = raises(lambda verb: answers.CloudNotFound(verb, "no such object"))
    told = {**dict.fromkeys(UNASKED, "healthy"), **dict.fromkeys(OF_A_WHOLE, "unknown")}
    assert verdicts(build, gone) == {**dict.fromkeys(CHECKED, "unhealthy"), **told}


PASSING = ("BUILD", "BUILDING", "CREATING", "PENDING_CREATE", "PENDING_UPDATE", "REBOOT", "MIGRATING", "UNKNOWN")
LISTING = [
    name
    for name in CHECKED
    if (cls := TYPES.get(name)).handle_check is CloudResource.handle_check
    and (cls.fetch is CloudResource.fetch or cls.ready)  # type: ignore[attr-defined]
]
"""Types whose `ready`, `broken` and `unwell` say what each status means."""


@table("name", LISTING)
def test_each_status_of_a_type(build: Build, name: str) -> None:
    one = made(build, name, lambda _: [])
    is_listed, broken = one.ready, one.broken | one.unwell
    meant = {
        **dict.fromkeys((*PASSING, ""), "unknown" if is_listed else "healthy"),
        **dict.fromkeys(is_listed, "healthy"),
        **dict.fromkeys(broken, "unhealthy"),
    }
    found = {}
    for status in meant:
        told: JsonMap = {"status": status, "provisioning_status": status, "instances": [{"status": status}]}
        one.fetch = lambda told=told: told  # type: ignore[method-assign,misc]
        found[status] = verdict(one)
    assert found == meant
    assert {"ERROR", "CREATE_FAILED"} & broken
    assert not broken & {*PASSING}
