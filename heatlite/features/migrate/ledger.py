"""The state of each stack of a migration, in a file with which it continues."""

from enum import StrEnum
from pathlib import Path

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import replace

from heatlite.core.json import JsonMap, parse, pretty
from heatlite.core.runtime.file_locks import locked
from heatlite.features.migrate.findings import MigrationFinding

FORMAT = 1
"""Version of the file."""


class MigrationState(StrEnum):
    """States of a stack in a migration."""

    PLANNED = "planned"
    BLOCKED = "blocked"
    ADOPTING = "adopting"
    TAKEN = "taken"
    UNDONE = "undone"
    RELEASED = "released"
    RETAINED = "retained"


DONE = frozenset({MigrationState.TAKEN, MigrationState.RELEASED, MigrationState.RETAINED})
"""States in which heatlite has the stack."""


class StackMove(Struct, frozen=True):
    """One stack.

    `resources` counts all depths. `changes` are resources that the first plan would change, `outputs` the names of
    outputs with another value than in the Heat.
    """

    name: str
    source_id: str
    state: MigrationState
    resources: int = 0
    target_id: str = ""
    reason: str = ""
    changes: tuple[str, ...] = ()
    outputs: tuple[str, ...] = field(default=(), name="outputs_that_differ")
    findings: tuple[MigrationFinding, ...] = ()

    def to_json(self) -> JsonMap:
        """Return the form in the file and in reports."""
        return {**to_builtins(self), "findings": [one.to_json() for one in self.findings]}

    def lines(self) -> list[str]:
        """Return the report as text."""
        why = f": {self.reason}" if self.reason else ""
        plural = "" if self.resources == 1 else "s"
        shown = [f"{self.name}: {self.state.value}, {self.resources} resource{plural}{why}"]
        for one in self.findings:
            where = f"{one.path}: " if one.path else ""
            shown.append(f"  {'!' if one.blocks else '-'} {one.kind.value}: {where}{one.text}")
        shown += [f"  ! the first plan would change {path}" for path in self.changes]
        shown += [f"  - output {name} differs" for name in self.outputs]
        return shown


class MigrationLedger(Struct):
    """The stacks of a migration by name, and the file that has them.

    It has no values of parameters.
    """

    file: Path
    moves: dict[str, StackMove] = {}
    heat: str = ""
    """Address of the Heat's project; empty before the first use."""

    def find(self, name: str) -> StackMove | None:
        """Return a stack by its name, or by its id in the Heat."""
        by_id = (one for one in self.moves.values() if one.source_id == name)
        return self.moves.get(name) or next(by_id, None)

    def put(self, move: StackMove) -> StackMove:
        """Keep the state of a stack, in the file too.

        Other commands may have written states of their stacks meanwhile. Raises OSError.
        """
        with locked(self.file.parent):
            self.moves = {**self.moves, **load(self.file).moves, move.name: move}
            text = pretty(self.to_json())
            beside = self.file.with_name(f"{self.file.name}.new")
            beside.write_text(f"{text}\n", "utf-8")
            beside.replace(self.file)
        return move

    def to_json(self) -> JsonMap:
        """Return the content of the file, which is the report as JSON."""
        return {"format": FORMAT, "heat": self.heat, "stacks": [one.to_json() for one in self.moves.values()]}


def load(file: Path) -> MigrationLedger:
    """Read the file, if there is one. Raises ValueError for another content, OSError."""
    if not file.exists():
        return MigrationLedger(file)
    data = parse(file.read_text("utf-8"))
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("stacks"), list):
        raise ValueError(f"{file} is no record of a migration")
    return MigrationLedger(
        file, {one.name: one for one in convert(data["stacks"], list[StackMove])}, str(data.get("heat", ""))
    )


def moved(move: StackMove, state: MigrationState, reason: str = "") -> StackMove:
    """Return the stack in another state."""
    return replace(move, state=state, reason=reason)
