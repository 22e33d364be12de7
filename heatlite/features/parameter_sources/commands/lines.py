"""Lines of `heatlite plan` and `up` about values of other stacks."""

from heatlite.cli.client import Object, objects, text
from heatlite.cli.output import render
from heatlite.cli.session import PlanFacts


def planned(facts: Object) -> PlanFacts:
    """Return a line for each value that is read, and for each reader."""
    sources = objects(facts, "sources") if "sources" in facts else []
    lines = [_value(one) for one in sources]
    if "readers" in facts:
        lines += [_reader(one) for one in objects(facts, "readers")]
    return PlanFacts(lines, given=[text(one.get("parameter")) for one in sources])


def _value(one: Object) -> str:
    old, new = one.get("old"), render.inline(one.get("new"))
    change = new if old is None else f"{render.inline(old)} → {new}"
    return f"{text(one.get('parameter'))}: {change}  (from {text(one.get('stack_name'))}.{text(one.get('output'))})"


def _reader(one: Object) -> str:
    name, parameter = text(one.get("stack_name")), text(one.get("parameter"))
    return f"Output {text(one.get('output'))} is {text(one.get('effect'))}: {name} reads it as {parameter}"
