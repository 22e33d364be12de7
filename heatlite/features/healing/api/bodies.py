"""Bodies of repairs by hand."""

from heatlite.api.bodies import check
from heatlite.core.json import Json, as_map, as_texts
from heatlite.core.repairs import RepairStep
from heatlite.core.shapes import Shape
from heatlite.features.healing.by_hand import HealRequest
from heatlite.features.healing.terms import IGNORABLE, Brake

MOST_RESOURCES = 1000
HEAL = Shape(
    {
        "type": ["object", "null"],
        "properties": {
            "resources": {
                "type": "array",
                "items": {"type": "string", "minLength": 1},
                "minItems": 1,
                "maxItems": MOST_RESOURCES,
            },
            "step": {"enum": [*RepairStep]},
            "plan_digest": {"type": "string"},
            "ignore": {"type": "array", "items": {"enum": sorted(IGNORABLE)}},
        },
        "additionalProperties": False,
    }
)


def heal(value: Json) -> HealRequest:
    """Parse the value of `heal`. null and "" mean all that is marked."""
    value = None if value == "" else value
    check(HEAL, value, "heal")
    given = as_map(value)
    step, digest = given.get("step"), given.get("plan_digest")
    return HealRequest(
        resources=as_texts(given.get("resources")),
        step=None if step is None else RepairStep(str(step)),
        plan_digest=None if digest is None else str(digest),
        ignore=frozenset(Brake(name) for name in as_texts(given.get("ignore"))),
    )
