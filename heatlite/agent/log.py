"""What the agent does, a line of JSON each on stderr. Never args or outputs: they hold secrets."""

import json
import sys
import threading

from heatlite.agent import form

_one_at_a_time = threading.Lock()


def log(event: str, **fields: str | int | None) -> None:
    """Write a line."""
    line = json.dumps({"time": form.now(), "event": event, **fields})
    with _one_at_a_time:
        print(line, file=sys.stderr, flush=True)
