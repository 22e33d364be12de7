"""Compare processor time with a commit: ``python -m benchmarks guard``.

Both serve at the same time on this machine and take turns, so that its speed cancels out. Each case yields a ratio of
processor times (working tree / commit). A ratio above 1.05 fails the run.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.client import Client
from benchmarks.lifecycle import PROJECT, Stack, group, template
from benchmarks.ports import free_port
from benchmarks.processes import CHECKOUT, Checkout, Server

LIMIT = 1.05
RESOURCES = 1000
REQUESTS = 300
Measure = Callable[[str, Callable[[], object]], None]


@dataclass
class Side:
    """One of the two versions, and the processor time of its cases in seconds."""

    server: Server
    samples: dict[str, list[float]]

    def measure(self, case: str, work: Callable[[], object]) -> None:
        """Do some work and record the server's processor time."""
        before = self.server.processor_time()
        work()
        self.samples.setdefault(case, []).append(self.server.processor_time() - before)


def life(client: Client, name: str, measure: Measure) -> None:
    """Record the cases of a stack's life."""
    for kind, label in (("OS::Heat::Value", ""), ("OS::Heat::TestResource", " TestResource")):
        stack = Stack(client, f"{name}{label.strip()}")
        measure(f"create{label}", lambda stack=stack, kind=kind: stack.create(template(RESOURCES, kind)))  # type: ignore[misc]
        measure(f"no-op{label}", lambda stack=stack, kind=kind: stack.update(template(RESOURCES, kind)))  # type: ignore[misc]
        changed = template(RESOURCES, kind, changed=RESOURCES // 100)
        measure(f"1 %{label}", lambda stack=stack, changed=changed: stack.update(changed))  # type: ignore[misc]
        measure(f"delete{label}", stack.delete)
    grouped = Stack(client, f"{name}group")
    measure("create group", lambda: grouped.create(group(RESOURCES)))
    measure("delete group", grouped.delete)


def requests(client: Client, shown: Stack, locked: Stack, measure: Measure) -> None:
    """Record the cases of single requests, sent one after another."""

    def repeat(method: str, path: str, body: object = None, expect: int = 200) -> Callable[[], None]:
        def send() -> None:
            for number in range(REQUESTS):
                client.json(method, path.format(number % 100), body, expect)

        return send

    measure("show", repeat("GET", shown.path))
    measure("one resource", repeat("GET", f"{shown.path}/resources/r{{}}"))
    measure("list", repeat("GET", f"{PROJECT}/stacks"))
    measure("mark", repeat("PATCH", f"{shown.path}/resources/r{{}}", {"mark_unhealthy": True}))
    measure("409", repeat("POST", f"{locked.path}/actions", {"check": None}, 409))


@contextmanager
def checkout(against: str) -> Iterator[Checkout]:
    """Yield a checkout: a folder, or a commit in a temporary folder."""
    if Path(against).is_dir():
        yield Checkout(Path(against).resolve(), "before ")
        return
    folder = Path(tempfile.mkdtemp(prefix="heatlite-guard-"))
    tree = folder / "tree"
    git = ["git", "-C", str(CHECKOUT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(tree), against], check=True)
    try:
        yield Checkout(tree, "before ")
    finally:
        subprocess.run([*git, "remove", "--force", str(tree)], check=True)
        shutil.rmtree(folder)


def serve(source: Checkout, folder: Path) -> Server:
    """Return a server of a checkout, not started yet."""
    folder.mkdir()
    port = free_port()
    return Server(source.command("serve", "--port", str(port)), port, folder, "/healthcheck", source.variables)


def compare(against: str, turns: int) -> dict[str, list[float]]:
    """Return the ratios of processor times by case, one for each turn."""
    with ExitStack() as stack:
        before = stack.enter_context(checkout(against))
        folder = Path(tempfile.mkdtemp(prefix="heatlite-guard-"))
        stack.callback(shutil.rmtree, folder)
        sides = [
            Side(stack.enter_context(serve(source, folder / name)), {})
            for name, source in (("new", Checkout(CHECKOUT)), ("old", before))
        ]
        prepared = [_prepared(side) for side in sides]
        for turn in range(turns):
            print(f"{turn + 1} of {turns}", file=sys.stderr, flush=True)
            for side, (client, shown, locked) in list(zip(sides, prepared, strict=True))[:: 1 if turn % 2 else -1]:
                life(client, f"s{turn}", side.measure)
                requests(client, shown, locked, side.measure)
    new, old = (side.samples for side in sides)
    return {case: [a / b for a, b in zip(new[case], old[case], strict=True)] for case in new}


def _prepared(side: Side) -> tuple[Client, Stack, Stack]:
    client = Client(side.server.port)
    shown, locked = Stack(client, "shown"), Stack(client, "locked")
    for stack in (shown, locked):
        stack.create(template(100))
    locked.lock()
    return client, shown, locked


def main(arguments: list[str]) -> int:
    """Print the ratios. Returns 1 if one of them exceeds the limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks guard", description=__doc__)
    parser.add_argument("--against", default="origin/main", help="commit or folder (default: origin/main)")
    parser.add_argument("--turns", type=int, default=7)
    given = parser.parse_args(arguments)
    slower = []
    print("| case | processor time, working tree / commit | smallest | largest |\n|---|---|---|---|")
    for case, ratios in compare(given.against, given.turns).items():
        ratio = statistics.median(ratios)
        print(f"| {case} | {ratio:.2f} | {min(ratios):.2f} | {max(ratios):.2f} |")
        if ratio > LIMIT:
            slower.append(case)
    if slower:
        print(f"\nslower than {LIMIT} ×: {', '.join(slower)}")
    return 1 if slower else 0
