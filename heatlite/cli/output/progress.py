"""Follow an operation on a stack: prints events until its end."""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from heatlite.cli.client import Client, Object, Stack, an_object, causes, failures, objects, part, text
from heatlite.cli.errors import RefusedRequest
from heatlite.cli.output import render
from heatlite.cli.output.tally import Course, Tally, count, sentence, span, stack_id_of
from heatlite.cli.session import Session
from heatlite.cli.transport import Unreachable
from heatlite.core.actions.check_tally import COULD_NOT_LOOK
from heatlite.core.errors import abbreviated
from heatlite.core.json import Json, dump
from heatlite.core.status import NOT_ROLLED_BACK

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

FIRST_PAUSE = 0.005
MAX_PAUSE = 1.0
"""Seconds between polls: short at first, as most operations are fast, then longer."""

NESTED = 20
"""Levels of nested stacks whose events and resources are counted."""

LONG_PAUSE = 0.1
"""Seconds between polls from which on a suspended action is reported."""


MOST_NAMED = 5
"""Resources with the same cause that a failure report names."""


def line(stack: Stack, event: Object) -> str:
    """Format an event as `openstack … -f log` does.

    ``2026-11-21 02:44:00Z [stack.resource]: CREATE_COMPLETE  state changed``
    """
    when = text(event.get("event_time")).replace("T", " ")
    where = stack.name if is_about_stack(stack, event) else f"{stack.name}.{text(event.get('resource_name'))}"
    reason = text(event.get("resource_status_reason"))
    return f"{when} [{where}]: {text(event.get('resource_status'))}  {reason}".rstrip()


def is_about_stack(stack: Stack, event: Object) -> bool:
    """Return True for an event of the stack itself, by Heat's rule."""
    return event.get("resource_name") == stack.name and event.get("physical_resource_id") == stack.id


class ProgressView(AbstractContextManager["ProgressView"], ABC):
    """Shows events. Records the outcomes and failures of resources."""

    expects = False
    """True if `expect` needs the resources after each event."""

    def __init__(self, began: float | None = None) -> None:
        """`began` is the time of the request (monotonic); None: now."""
        self.began = time.monotonic() if began is None else began
        self.failed: dict[str, Object] = {}
        self.tally = Tally()
        self.is_whole = False
        """True once the beginning of the operation was seen."""
        self.nested: dict[str, Tally] = {}
        """Ids of nested stacks → events of their resources."""

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    def add(self, stack: Stack, event: Object) -> None:
        """Record and show an event."""
        status, inside = text(event.get("resource_status")), stack_id_of(event)
        if inside not in ("", stack.id):
            if text(event.get("physical_resource_id")) != inside:
                self.nested.setdefault(inside, Tally()).add(event, time.monotonic())
        elif is_about_stack(stack, event):
            self.is_whole |= status.endswith("_IN_PROGRESS")
        else:
            self.tally.add(event, time.monotonic())
            if status.endswith("_FAILED") and not status.startswith("NODE_ACTION_"):
                self.failed.setdefault(text(event.get("resource_name")), event)
        self.show(stack, event)

    def counts(self, stack: Stack, resources: Sequence[Object] | None) -> dict[str, int]:
        """Count the outcomes in the tree, as its plan does.

        `resources` are those at the end, of nested stacks too; None: the stack is gone.
        """
        return count({stack.id: self.tally, **self.nested}, resources, self.is_whole)

    def expect(self, resources: Sequence[Object]) -> None:
        """Take note of the resources that the operation is about."""

    @abstractmethod
    def show(self, stack: Stack, event: Object) -> None:
        """Show an event."""

    def end(self, stack: Stack, counts: Mapping[str, int], gone: bool) -> None:
        """Show the result of the operation."""
        status = f"{stack.status.partition('_')[0]}_COMPLETE" if gone else stack.status
        where = f"{stack.name}: {status} in {span(self.seconds)}: "
        render.line(where + sentence(counts), render.style(status))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class LinesView(ProgressView):
    """Prints one line for each event."""

    def show(self, stack: Stack, event: Object) -> None:
        if stack_id_of(event) in ("", stack.id):
            print(render.folded(line(stack, event), sys.stdout, 4), flush=True)


class JSONLines(ProgressView):
    """Prints a JSON object for each event."""

    def show(self, stack: Stack, event: Object) -> None:
        if stack_id_of(event) not in ("", stack.id):
            return
        shown = {name: value for name, value in event.items() if name != "links"}
        print(dump({"type": "event", "stack_name": stack.name, **shown}), flush=True)

    def end(self, stack: Stack, counts: Mapping[str, int], gone: bool) -> None:
        """Print nothing: the record of the result has the counts."""


class TreeView(ProgressView):
    """Draws a tree of the stack with failed, running and last changed resources.

    Never exceeds the screen, so the time to draw does not depend on the size of the stack. Resources of nested stacks
    are counted beside the resource that has the stack.
    """

    expects = True

    def __init__(self, began: float | None = None) -> None:
        from rich.live import Live

        super().__init__(began)
        self._console = render.console()
        self._title = ("", "", "")
        self._total = 0
        self._owners: dict[str, str] = {}
        """Ids of nested stacks → names of resources of the stack."""
        self._inner: dict[str, Tally] = {}
        """Names of resources → events of their nested stacks."""
        self._waiting: dict[str, list[str]] = {}
        """Names of resources that have not begun → those that they wait for."""
        self._live = Live(console=self._console, get_renderable=self._draw, refresh_per_second=10)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def expect(self, resources: Sequence[Object]) -> None:
        self._total = max(self._total, len(resources))
        needs: dict[str, list[str]] = {}
        done = {text(item.get("resource_name")) for item in resources if _is_complete(item)}
        for item in resources:
            name, users = text(item.get("resource_name")), item.get("required_by")
            self._owners[text(item.get("physical_resource_id"))] = name
            if name not in done and isinstance(users, list):
                for user in users:
                    needs.setdefault(text(user), []).append(name)
        begun = {text(item.get("resource_name")) for item in resources if not _is_initial(item)}
        self._waiting = {name: needs[name] for name in sorted(needs) if name not in begun}

    def show(self, stack: Stack, event: Object) -> None:
        name, physical_id = text(event.get("resource_name")), text(event.get("physical_resource_id"))
        if is_about_stack(stack, event):
            reason = text(event.get("resource_status_reason"))
            self._title = (stack.name, text(event.get("resource_status")), reason)
            return
        inside = stack_id_of(event)
        if inside in ("", stack.id):
            self._owners.setdefault(physical_id, name)
            return
        owner = self._owners.get(inside)
        if owner is not None and physical_id != inside:
            self._owners.setdefault(physical_id, owner)
            self._inner.setdefault(owner, Tally()).add({**event, "resource_name": f"{inside}/{name}"}, time.monotonic())

    def _draw(self) -> "RenderableType":
        from rich.text import Text
        from rich.tree import Tree as RichTree

        now = time.monotonic()
        courses = self.tally.courses
        ended = sum(not course.running for course in courses.values())
        name, status, reason = self._title
        title = Text.assemble((name, "bold"), "  ", (status, render.style(status)))
        count = f"  {ended} of {max(self._total, len(courses))}," if status.endswith("_IN_PROGRESS") else " "
        title.append(f"{count} {span(self.seconds)}", "dim")
        if status.endswith("_IN_PROGRESS") and not reason.startswith("Stack "):
            title.append(f"  {render.cell(reason)}")  # it bakes: nothing else moves meanwhile
        tree = RichTree(title)
        room = max(self._console.height - 4, 3)
        chosen = set(sorted(courses, key=lambda name: _rank(courses[name]), reverse=True)[:room])
        width = max((len(render.cell(name)) for name in chosen), default=0)
        for name, course in courses.items():
            if name in chosen:
                tree.add(self._label(render.cell(name).ljust(width), course, self._inner.get(name), now))
        if len(courses) > room:
            tree.add(Text(f"… and {len(courses) - room} more", "dim"))
        for name in [name for name in self._waiting if name not in courses][: max(room - len(courses), 0)]:
            awaited = render.cell(", ".join(self._waiting[name]))
            label = Text(f"{render.cell(name).ljust(width)}  waits for {awaited}", "dim")
            label.no_wrap, label.overflow = True, "ellipsis"
            tree.add(label)
        return tree

    @staticmethod
    def _label(name: str, course: Course, inner: Tally | None, now: float) -> "Text":
        from rich.text import Text

        word = "REPLACED" if course.is_replaced and not course.running else course.status
        label = Text.assemble(name, "  ", (word, render.style(course.status)))
        if inner is not None and inner.courses:
            ended = sum(not one.running for one in inner.courses.values())
            running = len(inner.courses) - ended
            label.append(f"  inside: {ended} done" + (f", {running} running" if running else ""))
        if course.running:
            label.append(f"  {span(now - course.began)}", "dim")
        if course.status.endswith("_FAILED") or (course.running and course.reason != "state changed"):
            label.append(f"  {render.cell(course.reason)}")
        elif course.physical_id:
            label.append(f"  {render.cell(course.physical_id)}", "dim")
        label.no_wrap, label.overflow = True, "ellipsis"
        return label


def _is_complete(resource: Object) -> bool:
    return text(resource.get("resource_status")).endswith("_COMPLETE") and not _is_initial(resource)


def _is_initial(resource: Object) -> bool:
    return text(resource.get("resource_status")).startswith("INIT")


def _rank(course: Course) -> tuple[int, float]:
    return (2 if course.status.endswith("_FAILED") else 1 if course.running else 0, course.began)


def view(form: str = "text", began: float | None = None) -> ProgressView:
    """Return a tree for a terminal, else lines; JSON lines for the format ``json``."""
    return JSONLines(began) if form == "json" else TreeView(began) if render.is_rich() else LinesView(began)


class SuspensionNotice:
    """Prints to stderr, once each, that the action is suspended and that it continues."""

    def __init__(self, name: str) -> None:
        """`name` is the name of the stack."""
        self._name = name
        self._suspended: Object | None = None

    def update(self, suspended: Object | None) -> None:
        """Take note of the action that is suspended now, or None."""
        before, self._suspended = self._suspended, suspended
        if suspended is not None and before is None:
            action_id = text(suspended.get("id"))
            print(
                f"{self._name}: {_named(suspended)} is SUSPENDED. Continue it with: heatlite action signal {action_id}"
                f" RESUME; cancel it with: heatlite action signal {action_id} CANCEL",
                file=sys.stderr,
            )
        elif suspended is None and before is not None:
            print(f"{self._name}: {_named(before)} continues.", file=sys.stderr)


def _named(action: Object) -> str:
    return f"{text(action.get('action'))} {text(action.get('id'))}"


def _suspended(client: Client, stack: Stack) -> Object | None:
    query = {"target": stack.id, "status": "SUSPENDED", "limit": "1"}
    found = objects(client.request("GET", "/actions", query=query), "actions")
    return found[0] if found else None


NO_ENGINE = "heatlite: The server's engine is not running, and its log says why. The work waits."


def follow(client: Client, stack: Stack, after: str | None, shown: ProgressView) -> Stack | None:
    """Show the events after `after` until no operation is in progress.

    Returns the final state of the stack, or None if it is gone. An outage of the server's database only delays it.
    """
    pause, notice, is_told, is_warned = FIRST_PAUSE, SuspensionNotice(stack.name), False, False
    while True:
        try:
            # Read the state before the events, so that these include its cause.
            now = client.again(stack)
            news: Sequence[Object] = () if now is None else client.events(now, after, NESTED)
            if news and now is not None and shown.expects:
                shown.expect(client.resources(now))
            for event in news:
                after = text(event.get("id"))
                shown.add(stack, event)
            if now is None or not now.in_progress:
                return now
            if pause >= LONG_PAUSE:
                notice.update(_suspended(client, stack))
                if not is_warned and client.lacks_engine():
                    is_warned = True
                    print(NO_ENGINE, file=sys.stderr)
        except RefusedRequest as error:
            is_told = tell_outage(error, is_told)
        time.sleep(pause)
        pause = min(pause * 1.5, MAX_PAUSE)


def tell_outage(error: RefusedRequest, is_told: bool) -> bool:
    """Print once that the server cannot answer now. Returns True.

    Raises the refusal if it is another one.
    """
    if not error.is_outage:
        raise error
    if not is_told:
        print(render.folded(f"heatlite: {error} Waiting for its end.", sys.stderr), file=sys.stderr)
    return True


class Followed(Struct, frozen=True):
    """The end of an operation. `stack` is None if nothing of it is left to read."""

    stack: Stack | None
    before: Stack
    counts: Mapping[str, int]
    failures: Sequence[Object]
    seconds: float

    @property
    def gone(self) -> bool:
        """True if the stack is deleted: its id may still be read."""
        return self.stack is None or self.stack.status == "DELETE_COMPLETE"

    @property
    def exit_code(self) -> int:
        """1 if the operation failed."""
        return 1 if self.stack is not None and is_failure(self.stack) else 0

    def record(self, outputs: Mapping[str, Json] | None = None) -> Json:
        """Return the last line of the format ``json``."""
        done = self.stack
        return {
            "type": "result",
            "stack_name": self.before.name,
            "id": self.before.id,
            "stack_status": "DELETE_COMPLETE" if done is None else done.status,
            "stack_status_reason": "" if done is None else done.status_reason,
            "seconds": round(self.seconds, 3),
            "counts": dict(self.counts),
            "failures": [dict(item) for item in self.failures],
            **({} if outputs is None else {"outputs": dict(outputs)}),
        }


def wait(session: Session, stack: Stack, after: str | None, again: str, form: str, began: float) -> Followed:
    """Show the events of the operation until its end, and its result.

    `began` is the time of the request (monotonic): an engine in this process works while it is answered. Prints
    failures to stderr. Raises Unreachable if the server is lost, Refused. After Ctrl-C, prints the effect on the work,
    with `again` as the command that continues it, and raises KeyboardInterrupt.
    """
    client = session.client
    try:
        with view(form, began) as shown:
            done = follow(client, stack, after, shown)
    except KeyboardInterrupt:
        if session.embedded:
            word = f"Interrupted. The work pauses here; nothing is lost; continue with: {again}"
        else:
            word = f"Interrupted. The server continues; watch it with: heatlite events -f {stack.name}"
        print(word, file=sys.stderr)
        raise
    except RefusedRequest:
        print(goes_on(f"heatlite events -f {stack.name}"), file=sys.stderr)
        raise
    except Unreachable as error:
        raise lost(error, f"heatlite events -f {stack.name}") from None
    tree = None if done is None else client.resources(done, NESTED)
    counts = shown.counts(stack, tree)
    resources = [] if done is None else client.resources(done)
    failed = [] if done is None or not is_failure(done) else _failures(client, done, resources, shown.failed)
    seconds = shown.seconds
    if done is None or shown.tally.courses:
        shown.end(done or stack, counts, done is None)
    if done is not None and is_failure(done):
        _report(done, failed, again)
    return Followed(done, stack, counts, failed, seconds)


def goes_on(again: str) -> str:
    """Return the note for a refusal while work is followed.

    A token may expire meanwhile. `again` is the command that follows the work again.
    """
    return f"What was begun continues; watch it with: {again}"


def lost(error: Unreachable, again: str) -> Unreachable:
    """Return the error for a server that is lost while its work is followed.

    `again` is the command that follows it again.
    """
    return Unreachable(f"{error}\nWhat was begun continues as soon as a server runs; watch it with: {again}")


def is_failure(stack: Stack) -> bool:
    """Return True if the last operation failed. A rollback means a failure before it."""
    return stack.failed or stack.status.startswith("ROLLBACK_")


def _failures(client: Client, stack: Stack, resources: Sequence[Object], failed: Mapping[str, Object]) -> list[Object]:
    """Return the failed resources, in the order of their failures.

    A rollback has deleted failed resources; only their events (`failed`) remain.
    """
    found = {text(item.get("resource_name")): item for item in failures(resources)}
    for name, event in failed.items():
        if name not in found:
            path = f"{stack.path}/resources/{part(name)}/events/{part(text(event.get('id')))}"
            found[name] = an_object(client.request("GET", path), "event")
    order = [*failed, *(name for name in found if name not in failed)]
    kept = ("resource_name", "resource_type", "resource_status", "resource_status_reason", "physical_resource_id")
    return [{key: found[name].get(key) for key in kept} for name in order]


def _report(stack: Stack, failed: Sequence[Object], again: str) -> None:
    """Print the failed stack, its causes, and the next command, to stderr."""
    broken = [item for item in failed if not text(item.get("resource_status_reason")).startswith(COULD_NOT_LOOK)]
    if not broken:
        print(render.folded(f"{stack.name}: {stack.status}  {stack.status_reason}", sys.stderr), file=sys.stderr)
    elif not render.is_rich():  # the summary above says it
        print(f"{stack.name}: {stack.status}", file=sys.stderr)
    reasons: dict[tuple[str, str], list[str]] = {}
    for item in causes(broken):
        cause = (text(item.get("resource_status")), text(item.get("resource_status_reason")))
        shown = f"{text(item.get('resource_name'))} ({text(item.get('resource_type'))})"
        reasons.setdefault(cause, []).append(shown)
    for (status, reason), names in reasons.items():
        line = f"  {abbreviated(names, MOST_NAMED)}: {status}  {reason}"
        print(render.folded(line, sys.stderr, 4), file=sys.stderr)
    if broken and why_not_rolled_back(stack):
        print(render.folded(why_not_rolled_back(stack), sys.stderr), file=sys.stderr)
    way = way_on(stack, again, bool(broken))
    if way:
        print(way, file=sys.stderr)


def why_not_rolled_back(stack: Stack) -> str:
    """Return why a failed update was not rolled back, or an empty text."""
    _, found, why = stack.status_reason.rpartition(NOT_ROLLED_BACK)
    return f"{found}{why}." if found else ""


def way_on(stack: Stack, again: str, broken: bool) -> str:
    """Return a sentence with the command that continues after the failure.

    A check may fail with nothing `broken`: then it could not look.
    """
    name = stack.name
    if stack.status == "CHECK_FAILED" and not broken:
        return f"No update replaces what could not be looked at. Check again: heatlite check {name}"
    return {
        "CREATE_FAILED": f"Continue with: heatlite retry {name}",
        "UPDATE_FAILED": f"Continue with: heatlite retry {name}",
        "DELETE_FAILED": f"Try again with: heatlite down {name}; --force leaves behind what cannot be deleted.",
        "CHECK_FAILED": "The next heatlite up replaces what is broken. See it first with: heatlite plan",
        "ROLLBACK_COMPLETE": f"The earlier state is restored. Correct the cause, then: {again}",
        "ROLLBACK_FAILED": f"Continue with: heatlite retry {name}",
    }.get(stack.status, "")
