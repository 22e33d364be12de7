"""The guide docs/schedules.md, followed from its first command to its last."""

import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.cli.main import run
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.features.schedules.commands import expiry
from tests.api.conftest import Heat
from tests.api.test_commands import Here
from tests.databases import sqlite
from tests.waiting import eventually

GUIDE = Path(__file__).parents[4] / "docs/schedules.md"


class AheadClock(Clock):
    """Time that goes on as ever, but begins where the test has moved it."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> AheadClock:
    clock = AheadClock()
    monkeypatch.setattr(expiry, "Clock", lambda: clock)
    return clock


@pytest.fixture
def heat(tmp_path: Path, clock: AheadClock) -> Iterator[Heat]:
    server = wiring.embedded(Settings(sqlite(tmp_path), cloud="simulated"), clock=clock)
    yield Heat(server.app)
    server.close()


@pytest.mark.slow
def test_it_can_be_followed(
    heat: Heat, clock: AheadClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GUIDE.read_text().partition("\n## Schedules\n")[0]
    (lab,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "lab.yaml").write_text(textwrap.dedent(lab))
    monkeypatch.chdir(tmp_path)

    def here(line: str) -> str:
        assert run([*shlex.split(line), "--project", heat.project], Here(heat)) == 0, line
        return capsys.readouterr().out

    def told(word: str) -> Callable[[], bool]:
        return lambda: word in here("events lab")

    seen = dict[str, str]()
    for line in re.findall(r"^    \$ heatlite (.*)$", text, re.MULTILINE):
        if line.startswith("serve"):
            continue
        if line == "schedule show lab now -c last":
            clock.ahead += 60
            eventually(told("SUSPEND_COMPLETE"))
        if line == "unlock lab":
            assert "EXPIRY_WARNING" in seen["events lab"] or eventually(told("EXPIRY_WARNING"))
            clock.ahead += 62
            eventually(told("EXPIRY_HELD"))
            assert "is held: StackLocked" in " ".join(here("explain lab").split())
        seen[line] = here(line)
    listed = seen["schedule list lab -c next_at -c kind -c name -c do"]
    assert sorted(line.split()[1:] for line in listed.splitlines()[1:]) == [
        ["expiry", "lab", "delete"],
        ["schedule", "exam", "resize"],
        ["schedule", "sleep", "suspend"],
        ["schedule", "wake", "resume"],
    ]
    assert '"result": "started"' in seen["schedule show lab now -c last"]
    assert heat.get("/stacks")["stacks"] == heat.get("/schedules")["schedules"] == []
