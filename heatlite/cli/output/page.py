"""A stack for people: its state, the reasons, and what to do next."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from heatlite.cli.client import Client, Object, Stack, an_object, objects, text
from heatlite.cli.output import render
from heatlite.core.json import Json


class StackFacts(Struct, frozen=True):
    """The facts that the server tells on a stack."""

    stack: Stack
    facts: Sequence[Object]
    hidden: int
    """Number of facts that are not for this user."""

    @property
    def told(self) -> Iterator[str]:
        """The facts as sentences."""
        yield from (text(one.get("text")) for one in self.facts)
        if self.hidden:
            yield f"{self.hidden} more that you may not see: they are for users with more rights"

    @property
    def steps(self) -> Iterator[str]:
        """The ways out, once each; requests without a command only repeat others."""
        every = [way for one in self.facts for way in objects(one, "way_out")]
        ways = [way for way in every if way.get("command") or not way.get("path")]
        shown = ((text(way.get("command")), text(way.get("text"))) for way in ways)
        return iter(dict.fromkeys(f"{command}    {effect}" if command else effect for command, effect in shown))


def gather(client: Client, stack: Stack) -> StackFacts:
    """Read the facts on a stack."""
    found = an_object(client.request("GET", f"{stack.path}/why"))
    hidden = found.get("hidden")
    return StackFacts(stack, objects(found, "facts"), hidden if isinstance(hidden, int) else 0)


def draw(facts: StackFacts, shown: Object, resources: Sequence[Object]) -> None:
    """Print the page of `heatlite show`.

    `shown` is the stack with its outputs, `resources` are those of its tree.
    """
    now = time.time()
    heading(facts.stack)
    made = f"created {render.age(text(shown.get('creation_time')), now)} ago by {text(shown.get('stack_owner'))}"
    updated = text(shown.get("updated_time"))
    print(f"  {made}" + (f", updated {render.age(updated, now)} ago" if updated else ""))
    if shown.get("description") not in (None, "", "No description"):
        _paragraph(text(shown.get("description")).strip())
    for fact in facts.told:
        _paragraph(fact)
    cloud = shown.get("cloud")
    if isinstance(cloud, Mapping):
        print(f"  its objects are in the cloud {text(cloud.get('name'))}")
    given = shown.get("parameters")
    parameters = given.items() if isinstance(given, Mapping) else ()
    _pairs("Parameters", ((name, value) for name, value in parameters if not name.startswith("OS::")))
    outputs = objects(shown, "outputs") if shown.get("outputs") else []
    _pairs(
        "Outputs",
        ((text(one.get("output_key")), one.get("output_error") or one.get("output_value")) for one in outputs),
    )
    own = [item for item in resources if "/" not in text(item.get("path"))]
    counts = Counter(text(item.get("resource_status")) for item in resources)
    inner = len(resources) - len(own)
    print(f"\nResources: {len(own)}" + (f", and {inner} in nested stacks" if inner else ""))
    for status, count in counts.most_common():
        render.line(f"  {count} {status}", render.style(status))
    more = f"more: heatlite resources {facts.stack.name}, heatlite explain {facts.stack.name}"
    print(render.folded(f"\nid {facts.stack.id}; {more}", sys.stdout))


def explain(facts: StackFacts) -> None:
    """Print the reasons for the state of a stack, and the commands that help."""
    heading(facts.stack)
    told = [*facts.told]
    for fact in told:
        _paragraph(fact)
    steps = [*facts.steps]
    if steps:
        print("\nNext:")
        for step in steps:
            _paragraph(step)
    elif not told:
        print("  Nothing is wrong, nothing runs, and nothing waits.")


def heading(stack: Stack) -> None:
    """Print name and status."""
    routine = stack.status_reason.endswith("completed successfully")
    render.line(
        f"{stack.name}  {stack.status}" + ("" if routine or stack.failed else f"  {stack.status_reason}"),
        render.style(stack.status),
    )


def _paragraph(shown: str) -> None:
    print(render.folded(f"  {shown}", sys.stdout, 4))


def _pairs(title: str, found: Iterable[tuple[str, Json]]) -> None:
    pairs = list(found)
    if pairs:
        print(f"\n{title}:")
        width = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            print(render.folded(f"  {name:{width}}  {render.cell(value)}", sys.stdout, width + 4))
