"""Bodies of repairs by hand."""

from typing import Annotated, TypeAlias

from msgspec import Meta

from heatlite.api.bodies import Body
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json
from heatlite.core.repairs import RepairStep
from heatlite.core.validation import options
from heatlite.features.healing.by_hand import HealRequest
from heatlite.features.healing.terms import IGNORABLE, Brake

MOST_RESOURCES = 1000

Paths: TypeAlias = Annotated[
    tuple[Annotated[str, Meta(min_length=1)], ...], Meta(min_length=1, max_length=MOST_RESOURCES)
]
Ignorable: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": sorted(IGNORABLE)})]


class HealOptions(Body, frozen=True):
    """The repair; ``null`` and ``{}`` mean all that is marked."""

    resources: Paths = ()
    """Paths from the stack on, such as ``web/2``; they need no mark. Default: all resources that are marked."""
    step: RepairStep | None = None
    """``replace``, ``rebuild`` or ``reboot``. Default: the first step of the policy's ladder that the type can do."""
    plan_digest: str | None = None
    """Digest of an approved plan. If the plan is another one now, the answer is 409 ``PlanChanged``."""
    ignore: tuple[Ignorable, ...] = ()
    """Brakes that do not hold this repair."""


def heal(value: Json) -> HealRequest:
    """Parse the value of `heal`. null and "" mean all that is marked."""
    asked = options(value, HealOptions, "heal")
    for at, name in enumerate(asked.ignore):
        if name not in IGNORABLE:
            raise HTTPBadRequest(f"heal.ignore[{at}]: must be one of: {', '.join(sorted(IGNORABLE))}.")
    return HealRequest(asked.resources, asked.step, asked.plan_digest, frozenset(map(Brake, asked.ignore)))
