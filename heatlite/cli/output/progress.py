"""Follow what is being done to a stack: its events as they come, until it is done."""

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
LONGEST_PAUSE = 1.0
"""Seconds between two looks: short at first, because most stacks are done at once; then longer and longer."""

LONG_PAUSE = 0.1
"""Seconds. Who waits as long is told if what he waits for is suspended."""


def line(stack: Stack, event: Object) -> str:
    """``2026-11-21 02:44:00Z [stack.resource]: CREATE_COMPLETE  state changed``, as `openstack … -f log` prints it."""
    when = text(event.get("event_time")).replace("T", " ")
    where = stack.name if is_about_stack(stack, event) else f"{stack.name}.{text(event.get('resource_name'))}"
    reason = text(event.get("resource_status_reason"))
    return f"{when} [{where}]: {text(event.get('resource_status'))}  {reason}".rstrip()


def is_about_stack(stack: Stack, event: Object) -> bool:
    """Whether the event tells of the stack itself and not of a resource (Heat's rule for telling them apart)."""
    return event.get("resource_name") == stack.name and event.get("physical_resource_id") == stack.id


class View(AbstractContextManager["View"], ABC):
    """Where events are shown. Remembers the last failure of each resource."""

    def __init__(self) -> None:
        self.failed: dict[str, Object] = {}

    def add(self, stack: Stack, event: Object) -> None:
        """One more event."""
        status = text(event.get("resource_status"))
        if not is_about_stack(stack, event) and status.endswith("_FAILED") and not status.startswith("NODE_ACTION_"):
            self.failed[text(event.get("resource_name"))] = event
        self.show(stack, event)

    @abstractmethod
    def show(self, stack: Stack, event: Object) -> None:
        """Put an event on the screen."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Lines(View):
    """One line for each event."""

    def show(self, stack: Stack, event: Object) -> None:
        print(line(stack, event), flush=True)


class Tree(View):
    """A tree that changes in place: the stack, below it what failed, what runs, and what was done last.

    It never grows beyond the screen, so a stack of ten thousand resources is as quick to draw as one of ten.
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
    """A tree on a terminal, lines elsewhere."""
    return Tree() if render.is_rich() else Lines()


class Rest:
    """Says on stderr that what somebody waits for is suspended, and that it goes on, each once."""

    def __init__(self, name: str) -> None:
        """`name`: of the stack."""
        self._name = name
        self._suspended: Object | None = None

    def tell(self, suspended: Object | None) -> None:
        """`suspended`: the action that is, as it was seen now; None: none is."""
        before, self._suspended = self._suspended, suspended
        if suspended is not None and before is None:
            action_id = text(suspended.get("id"))
            print(
                f"{self._name}: {_named(suspended)} is SUSPENDED. It goes on with: heatlite action signal {action_id}"
                f" RESUME; it is given up with: heatlite action signal {action_id} CANCEL",
                file=sys.stderr,
            )
        elif suspended is None and before is not None:
            print(f"{self._name}: {_named(before)} goes on.", file=sys.stderr)


def _named(action: Object) -> str:
    return f"{text(action.get('action'))} {text(action.get('id'))}"


def _suspended(client: Client, stack: Stack) -> Object | None:
    query = {"target": stack.id, "status": "SUSPENDED", "limit": "1"}
    found = objects(client.request("GET", "/actions", query=query), "actions")
    return found[0] if found else None


def follow(client: Client, stack: Stack, after: str | None, shown: View) -> Stack | None:
    """Show the events after the one with the id `after` until nothing is being done to the stack.

    Returns how the stack stands then; None if it is gone without a trace.
    """
    pause, rest = FIRST_PAUSE, Rest(stack.name)
    while True:
        # The state is read before the events, so that whatever led to it is among them.
        now = client.again(stack)
        news: Iterable[Object] = () if now is None else client.events(now, after)
        for event in news:
            after = text(event.get("id"))
            shown.add(stack, event)
        if now is None or not now.in_progress:
            return now
        if pause >= LONG_PAUSE:
            rest.tell(_suspended(client, stack))
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)


def wait(session: Session, stack: Stack, after: str | None, again: str) -> Stack | None:
    """Show what happens to the stack until it is done; returns how it stands then, None if it is gone.

    What has failed is said on stderr. `again` is the command that takes interrupted work up again; KeyboardInterrupt
    goes on after a word on what becomes of the work.
    """
    try:
        with view() as shown:
            done = follow(session.client, stack, after, shown)
    except KeyboardInterrupt:
        if session.embedded:
            word = f"Interrupted. The work stops here, and nothing is lost; go on with: {again}"
        else:
            word = f"Interrupted. The server goes on; watch it with: heatlite events -f {stack.name}"
        print(word, file=sys.stderr)
        raise
    if done is not None and is_failure(done):
        _report(session.client, done, shown.failed)
    return done


def is_failure(stack: Stack) -> bool:
    """Whether the last operation did not do what was asked; a rollback is a failure of what came before it."""
    return stack.failed or stack.status.startswith("ROLLBACK_")


def _report(client: Client, stack: Stack, failed: Mapping[str, Object]) -> None:
    """Say on stderr what failed: the stack, then each resource with its type, status and reason.

    A rollback has removed resources that failed; of those only their events (`failed`) are left.
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
