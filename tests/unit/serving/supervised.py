"""Program of the supervisor's tests: two children that note what happens."""

import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from heatlite.serving.supervisor import Child, Supervisor, unblock

FOLDER = Path(sys.argv[1])


def note(text: str) -> None:
    with (FOLDER / "notes").open("a") as notes:
        notes.write(f"{text}\n")


def child(name: str, way: str) -> Callable[[], None]:
    def run() -> None:
        if way == "is reloaded":
            unblock()
            signal.signal(signal.SIGHUP, lambda *_: note(f"{name} is reloaded"))
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        note(f"{name} {os.getpid()} runs")  # from now on it may get signals
        if way == "fails":
            sys.exit(2)
        if way == "is reloaded":
            while True:
                signal.pause()
        while way == "stays":
            signal.sigwait({signal.SIGTERM})
        signal.sigwait({signal.SIGTERM})
        note(f"{name} stops")

    return run


logging.basicConfig(format="%(message)s", stream=sys.stdout)
ways = {"first": sys.argv[2], "second": sys.argv[3]}
children = [Child(name, child(name, way), reloads=way == "is reloaded") for name, way in ways.items()]
sys.exit(Supervisor(children, float(sys.argv[4]), lambda: None).run())
