"""Recorded HTTP of real services, and its replay.

A recording `recorded/http/<file>.json` has the exchanges of each case of `recorded/<file>.yaml`. Random names
stand there as `s-a`. `tests/clients/test_recording.py` makes it.
"""

import json
import re
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
RANDOM = re.compile(r"\bs-a-[a-z0-9]{12}\b")


def recorded(file: str) -> dict[str, Any]:
    """Return the recorded cases of a file by name.

    Each has names for ids of objects from before, and its exchanges.
    """
    path = recording(file)
    return json.loads(path.read_text()) if path.exists() else {}


def recording(file: str) -> Path:
    """Return the place of a recording, beside its cases."""
    (cases,) = [*TESTS.glob(f"types/recorded/{file}.yaml"), *TESTS.glob(f"features/*/types/recorded/{file}.yaml")]
    return cases.parent / "http" / f"{file}.json"


class Replay:
    """Answers a case's requests as the real service has answered them."""

    def __init__(self, exchanges: list[dict[str, Any]]) -> None:
        self.exchanges = exchanges
        self._at = self._read = -1
        self._name = "s-a"

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        """HTTP status and body."""
        random = RANDOM.search(target) or RANDOM.search(json.dumps(body))
        self._name = random[0] if random else self._name
        found = self._find(method, f"{method} {RANDOM.sub('s-a', target)}")
        if found is None:
            return 404, {"message": f"not recorded: {method} {target}"}
        return found["status"], json.loads(re.sub(r"\bs-a\b", self._name, json.dumps(found["answer"])))

    def _find(self, method: str, request: str) -> dict[str, Any] | None:
        """Find the answer.

        A change is the next like it, a read is between the last change and the next.
        """
        like = [at for at, one in enumerate(self.exchanges) if one["request"] == request]
        if method != "GET":
            self._at = self._read = next((at for at in like if at > self._at), len(self.exchanges))
            return self.exchanges[self._at] if self._at in like else None
        ends = [at for at, one in enumerate(self.exchanges) if at > self._at and one["request"][:4] != "GET "]
        before = [at for at in like if at < min(ends, default=len(self.exchanges))]
        if not before:
            return None
        self._read = next((at for at in before if at > self._read), before[-1])
        return self.exchanges[self._read]
