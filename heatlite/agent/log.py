"""Log of the agent: JSON lines on stderr, without args and outputs.

These may hold secrets.
"""

import contextlib
import json
import sys
import threading

from heatlite.agent import form

_one_at_a_time = threading.Lock()


def log(event: str, **fields: str | int | None) -> None:
    """Write a log line."""
    line = json.dumps({"time": form.now(), "event": event, **fields})
    # A failed log write (a full disk) must not stop the work; there is no other channel to report it.
    with _one_at_a_time, contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)
