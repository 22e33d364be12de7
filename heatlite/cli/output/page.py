"""A stack for people: its state, the reasons, and what to do next."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from heatlite.cli.client import Client, Object, Stack, an_object, causes, health_of, objects, text
from heatlite.cli.errors import Refused
from heatlite.cli.output import progress, render
from heatlite.cli.output.tally import span
from heatlite.core.clock import from_text
from heatlite.core.json import Json
from heatlite.core.status import ENDED_ACTIONS, ActionStatus

NESTED = 20
"""Levels of nested stacks whose resources count."""

MOST_SHOWN = 10
"""Resources that a page lists."""

_AT_HOOK = ActionStatus.WAITING_LIFECYCLE_COMPLETION
_OPEN = ",".join(sorted(frozenset(ActionStatus) - ENDED_ACTIONS))
"""Statuses of actions that have not ended."""

_NEEDS_ENGINE = frozenset({"READY", "RUNNING"})
"""Statuses of actions that only an engine leads on."""


class StackFacts(Struct, frozen=True):
    """Everything that a page is about."""

    stack: Stack
    resources: Sequence[Object]
    actions: Sequence[Object]
    lock: Object | None
    suppressed: int
    lacks_engine: bool = False
    """True if an action needs an engine, and none is alive."""

    @property
    def failed(self) -> list[Object]:
        """The resources that failed or are marked unhealthy, by their status."""
        return [item for item in self.resources if _has_failed(item)]

    @property
    def unwell(self) -> list[Object]:
        """The failed ones, and the unhealthy ones that have another status in a lock."""
        return [item for item in self.resources if _has_failed(item) or health_of(item) == "unhealthy"]

    @property
    def running(self) -> list[Object]:
        """The resources that are worked on."""
        return [item for item in self.resources if text(item.get("resource_status")).endswith("_IN_PROGRESS")]


def _has_failed(item: Object) -> bool:
    return text(item.get("resource_status")).endswith("_FAILED")


def gather(client: Client, stack: Stack) -> StackFacts:
    """Read the facts of a stack."""
    held = an_object(client.request("GET", f"{stack.path}/lock"))
    actions = _permitted(client, "actions", {"target": stack.id, "status": _OPEN}) or []
    resources = client.resources(stack, NESTED)
    if stack.in_progress:
        below = {item.get("physical_resource_id") for item in resources}
        at_hooks = _permitted(client, "actions", {"status": _AT_HOOK}) or []
        actions += [action for action in at_hooks if action.get("target") in below]
    engines = None
    if any(action.get("status") in _NEEDS_ENGINE for action in actions):
        engines = _permitted(client, "services", {})
    lacks_engine = engines is not None and all(engine.get("status") != "up" for engine in engines)
    lock = None if held.get("lock") is None else an_object(held, "lock")
    suppressed = len(objects(held, "suppressed"))
    return StackFacts(stack, resources, actions, lock, suppressed, lacks_engine)


def _permitted(client: Client, listed: str, query: Mapping[str, str]) -> list[Object] | None:
    """Return a list of the API; None if it is not for this user."""
    try:
        return objects(client.request("GET", f"/{listed}", query=query), listed)
    except Refused as error:
        if error.status not in (400, 403):
            raise
        return None


def draw(facts: StackFacts, shown: Object) -> None:
    """Print the page of `heatlite show`; `shown` is the stack with its outputs."""
    now = time.time()
    heading(facts.stack)
    made = f"created {render.age(text(shown.get('creation_time')), now)} ago by {text(shown.get('stack_owner'))}"
    updated = text(shown.get("updated_time"))
    print(f"  {made}" + (f", updated {render.age(updated, now)} ago" if updated else ""))
    if shown.get("description") not in (None, "", "No description"):
        _paragraph(text(shown.get("description")))
    for fact in (*failures(facts), *held_by(facts), *health(facts), *waiting(facts, now)):
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
    own = [item for item in facts.resources if "/" not in text(item.get("path"))]
    counts = Counter(text(item.get("resource_status")) for item in facts.resources)
    inner = len(facts.resources) - len(own)
    print(f"\nResources: {len(own)}" + (f", and {inner} in nested stacks" if inner else ""))
    for status, count in counts.most_common():
        render.line(f"  {count} {status}", render.style(status))
    more = f"more: heatlite resources {facts.stack.name}, heatlite explain {facts.stack.name}"
    print(render.folded(f"\nid {facts.stack.id}; {more}", sys.stdout))


def explain(facts: StackFacts) -> None:
    """Print the reasons for the state of a stack, and the commands that help."""
    heading(facts.stack)
    told = [*failures(facts), *waiting(facts, time.time()), *held_by(facts), *health(facts)]
    for fact in told:
        _paragraph(fact)
    steps = list(dict.fromkeys(ways(facts)))
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


def failures(facts: StackFacts) -> Iterator[str]:
    """Yield the reason for a failure: that of the resources, else that of the stack."""
    if facts.stack.failed or facts.stack.status.startswith("ROLLBACK_"):
        if not facts.failed:
            yield facts.stack.status_reason
        for item in causes(facts.failed)[:MOST_SHOWN]:
            where = f"{text(item.get('path'))} ({text(item.get('resource_type'))})"
            yield f"{where} is {text(item.get('resource_status'))}: {text(item.get('resource_status_reason'))}"
        if facts.failed and progress.why_not_rolled_back(facts.stack):
            yield progress.why_not_rolled_back(facts.stack)


def health(facts: StackFacts) -> Iterator[str]:
    """Yield a sentence on each resource that is unhealthy or of unknown health."""
    if not facts.stack.failed:
        for item in facts.unwell[:MOST_SHOWN]:
            failed = _has_failed(item)
            reason = item.get("resource_status_reason") if failed else an_object(item, "health").get("reason")
            yield f"not well: {text(item.get('path'))}: {text(reason)}"
    for state, told in (("unknown", "health unknown"), ("suspected", "reported, not confirmed yet")):
        found = [text(item.get("path")) for item in facts.resources if health_of(item) == state]
        if found:
            yield f"{told}: {', '.join(found[:MOST_SHOWN])}"


def held_by(facts: StackFacts) -> Iterator[str]:
    """Yield sentences on the lock and on protection."""
    if facts.lock is not None:
        lock = facts.lock
        reason = f": {text(lock.get('reason'))}" if lock.get("reason") else ""
        until = f", until {text(lock.get('expires_at'))}" if lock.get("expires_at") else ""
        since = f"locked ({text(lock.get('level'))}) by {text(lock.get('locked_by'))}"
        yield f"{since} since {text(lock.get('locked_at'))}{until}{reason}"
        if facts.suppressed:
            yield f"requests refused or ignored by locks: {facts.suppressed}"
    if facts.stack.fields.get("protection") is not None:
        held = an_object(facts.stack.fields, "protection")
        reason = f": {text(held.get('reason'))}" if held.get("reason") else ""
        yield f"protected from deletion by {text(held.get('protected_by'))}{reason}"
    protected = [text(item.get("path")) for item in facts.resources if item.get("protection")]
    if protected:
        yield f"protected resources: {', '.join(protected[:MOST_SHOWN])}"


def waiting(facts: StackFacts, now: float) -> Iterator[str]:
    """Yield sentences on open actions, and on running and waiting resources."""
    for action in facts.actions:
        since = span(now - from_text(text(action.get("start_time") or action.get("created_at"))))
        later = f", not before {text(action.get('not_before'))}" if action.get("not_before") else ""
        reason = f": {text(action.get('status_reason'))}" if action.get("status_reason") else ""
        what = f"{text(action.get('action'))} {text(action.get('id'))} is {text(action.get('status'))}"
        yield f"{what} for {since}{later}{reason}"
    if facts.lacks_engine:
        yield "no engine is alive: nothing goes on until one is started"
    for item in facts.running[:MOST_SHOWN]:
        after = item.get("required_by")
        waits = f"; {', '.join(map(text, after))} wait for it" if isinstance(after, list) and after else ""
        yield f"{text(item.get('path'))} is {text(item.get('resource_status'))}{waits}"


def ways(facts: StackFacts) -> Iterator[str]:
    """Yield the commands that lead on, each with its effect."""
    name = facts.stack.name
    for action in facts.actions:
        if action.get("status") == "SUSPENDED":
            yield f"heatlite action signal {text(action.get('id'))} RESUME    (or CANCEL)"
        elif action.get("status") == _AT_HOOK:
            yield f"openstack stack hook clear --pre-delete {name} RESOURCE    ends its wait at a lifecycle hook"
    if facts.lacks_engine:
        yield "heatlite serve    starts an engine; on a server with `heatlite api`: heatlite worker"
    if facts.stack.in_progress:
        yield f"heatlite events -f {name}    follow the operation"
    if facts.lock is not None:
        yield f"heatlite lock-status {name}    the requests that the lock refused"
        yield f"heatlite unlock {name}"
    way = progress.way_on(facts.stack, f"heatlite up FILE -n {name}", bool(facts.failed))
    if way:
        yield way
        if any(item.get("is_old") for item in facts.failed):
            yield f"heatlite up FILE -n {name}    with the earlier template, to take the old object back"
    elif facts.unwell:
        yield f"heatlite up FILE -n {name}    replaces what is not well"
        yield f"heatlite mark-healthy {name} RESOURCE    takes a mark back"


def _paragraph(shown: str) -> None:
    print(render.folded(f"  {shown}", sys.stdout, 4))


def _pairs(title: str, found: Iterable[tuple[str, Json]]) -> None:
    pairs = list(found)
    if pairs:
        print(f"\n{title}:")
        width = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            print(render.folded(f"  {name:{width}}  {render.cell(value)}", sys.stdout, width + 4))
