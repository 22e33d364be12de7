"""What the agent does, a line of JSON each on stderr. Never args or outputs: they hold secrets."""

import contextlib
import json
import sys
import threading

from heatlite.agent import form

_one_at_a_time = threading.Lock()


def log(event: str, **fields: str | int | None) -> None:
    """Write a line."""
    line = json.dumps({"time": form.now(), "event": event, **fields})
    # A log that cannot be written (a full disk) must not stop the work; there is nobody else to tell.
    with _one_at_a_time, contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)
