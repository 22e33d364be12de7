"""Follow an operation on a stack: prints events until its end."""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from heatlite.cli.client import Client, Object, Stack, an_object, failures, objects, part, text
from heatlite.cli.output import render
from heatlite.cli.session import Session

if TYPE_CHECKING:
    from rich.console import RenderableType

FIRST_PAUSE = 0.005
MAX_PAUSE = 1.0
"""Seconds between polls: short at first, as most operations are fast, then longer."""

LONG_PAUSE = 0.1
"""Seconds between polls from which on a suspended action is reported."""


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


class View(AbstractContextManager["View"], ABC):
    """Shows events. Records the last failure of each resource."""

    def __init__(self) -> None:
        self.failed: dict[str, Object] = {}

    def add(self, stack: Stack, event: Object) -> None:
        """Record and show an event."""
        status = text(event.get("resource_status"))
        if not is_about_stack(stack, event) and status.endswith("_FAILED") and not status.startswith("NODE_ACTION_"):
            self.failed[text(event.get("resource_name"))] = event
        self.show(stack, event)

    @abstractmethod
    def show(self, stack: Stack, event: Object) -> None:
        """Show an event."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Lines(View):
    """Prints one line for each event."""

    def show(self, stack: Stack, event: Object) -> None:
        print(line(stack, event), flush=True)


class Tree(View):
    """Draws a tree of the stack with failed, running and last changed resources.

    Never exceeds the screen, so the time to draw does not depend on the size of the stack.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__()
        self._console = Console()
        self._states: dict[str, tuple[str, str]] = {}
        self._title = ("", "")
        self._live = Live(console=self._console, get_renderable=self._draw, refresh_per_second=10)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, stack: Stack, event: Object) -> None:
        status = text(event.get("resource_status"))
        if is_about_stack(stack, event):
            self._title = (stack.name, status)
            return
        name = text(event.get("resource_name"))
        self._states.pop(name, None)  # the newest goes to the end
        self._states[name] = (status, text(event.get("resource_status_reason")))

    def _draw(self) -> "RenderableType":
        from rich.text import Text
        from rich.tree import Tree as RichTree

        def label(name: str, status: str, reason: str) -> Text:
            shown = Text.assemble(name, "  ", (status, render.style(status)))
            if status.endswith("_FAILED"):
                shown.append(f"  {reason}")
            shown.no_wrap, shown.overflow = True, "ellipsis"
            return shown

        tree = RichTree(label(*self._title, ""))
        room = max(self._console.height - 4, 3)
        newest_first = list(self._states.items())[::-1]
        ranked = sorted(newest_first, key=lambda item: _rank(item[1][0]))
        for name, (status, reason) in ranked[:room]:
            tree.add(label(name, status, reason))
        if len(ranked) > room:
            tree.add(f"… and {len(ranked) - room} more")
        return tree


def _rank(status: str) -> int:
    return 0 if status.endswith("_FAILED") else 1 if status.endswith(("_IN_PROGRESS", "_RUNNING")) else 2


def view() -> View:
    """Return a tree for a terminal, else lines."""
    return Tree() if render.is_rich() else Lines()


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


def follow(client: Client, stack: Stack, after: str | None, shown: View) -> Stack | None:
    """Show the events after `after` until no operation is in progress.

    Returns the final state of the stack, or None if it is gone.
    """
    pause, notice = FIRST_PAUSE, SuspensionNotice(stack.name)
    while True:
        # Read the state before the events, so that these include its cause.
        now = client.again(stack)
        news: Iterable[Object] = () if now is None else client.events(now, after)
        for event in news:
            after = text(event.get("id"))
            shown.add(stack, event)
        if now is None or not now.in_progress:
            return now
        if pause >= LONG_PAUSE:
            notice.update(_suspended(client, stack))
        time.sleep(pause)
        pause = min(pause * 1.5, MAX_PAUSE)


def wait(session: Session, stack: Stack, after: str | None, again: str) -> Stack | None:
    """Show the events of the operation until its end.

    Returns the final state of the stack, None if it is gone.
    Prints failures to stderr. After Ctrl-C, prints the effect on the work, with `again` as the command that continues
    it, and raises KeyboardInterrupt.
    """
    try:
        with view() as shown:
            done = follow(session.client, stack, after, shown)
    except KeyboardInterrupt:
        if session.embedded:
            word = f"Interrupted. The work pauses here; nothing is lost; continue with: {again}"
        else:
            word = f"Interrupted. The server continues; watch it with: heatlite events -f {stack.name}"
        print(word, file=sys.stderr)
        raise
    if done is not None and is_failure(done):
        _report(session.client, done, shown.failed)
    return done


def is_failure(stack: Stack) -> bool:
    """Return True if the last operation failed. A rollback means a failure before it."""
    return stack.failed or stack.status.startswith("ROLLBACK_")


def _report(client: Client, stack: Stack, failed: Mapping[str, Object]) -> None:
    """Print the failed stack and its failed resources to stderr.

    A rollback has deleted failed resources; only their events (`failed`) remain.
    """
    print(f"{stack.name}: {stack.status}  {stack.status_reason}", file=sys.stderr)
    found = {text(item.get("resource_name")): item for item in failures(client.resources(stack))}
    for name, event in failed.items():
        if name not in found:
            path = f"{stack.path}/resources/{part(name)}/events/{part(text(event.get('id')))}"
            found[name] = an_object(client.request("GET", path), "event")
    for name, item in found.items():
        kind, status = text(item.get("resource_type")), text(item.get("resource_status"))
        print(f"  {name} ({kind}): {status}  {text(item.get('resource_status_reason'))}", file=sys.stderr)
