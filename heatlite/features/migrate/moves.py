"""The steps of a migration: plan a stack, take it, let go of it in the Heat."""

import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

from msgspec.structs import replace

from heatlite.core.errors import ErrorAnswer
from heatlite.core.json import Json, JsonMap, as_map, as_maps, as_texts
from heatlite.features.migrate.document import document, environment
from heatlite.features.migrate.findings import FindingKind, MigrationFinding, judged
from heatlite.features.migrate.ledger import DONE, MigrationLedger, MigrationState, StackMove, moved
from heatlite.features.migrate.retaining import obstacles, retaining
from heatlite.features.migrate.source import Api, FoundStack, path_of, read

UNUSED: Final = frozenset({"ADOPT_COMPLETE", "ADOPT_FAILED", "DELETE_COMPLETE"})
"""States of a stack that nothing but the adoption has changed, or that is gone."""

PAUSE: Final = 0.5
"""Seconds between two looks at a stack in progress."""


class Migration:
    """Moves stacks from a Heat (`source`) to heatlite (`target`)."""

    def __init__(
        self,
        source: Api,
        target: Api,
        ledger: MigrationLedger,
        hidden: Mapping[str, Mapping[str, Json]],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`hidden` has values of hidden parameters: stack → parameter → value."""
        self._source = source
        self._target = target
        self._ledger = ledger
        self._hidden = hidden
        self._sleep = sleep
        self._types: frozenset[str] | None = None

    # -- plan ----------------------------------------------------------------------------------------

    def plan(self, name: str) -> StackMove:
        """Judge a stack. Writes to the ledger only.

    A stack whose move has begun stays as it is.
    """
        known = self._ledger.find(name)
        if known is not None and known.state in {*DONE, MigrationState.ADOPTING}:
            return known
        return self._judge(read(self._source, name))

    def _judge(self, found: FoundStack) -> StackMove:
        hidden = self._hidden.get(found.name, {})
        findings = judged(found, self._offered(), hidden)
        if _get(self._target, f"/stacks/{quote(found.name, safe='')}") is not None:
            text = "heatlite has a stack of this name: delete or abandon that first."
            findings.insert(0, MigrationFinding(FindingKind.NAME_TAKEN, "", text))
        missing = {one.text for one in findings if one.kind is FindingKind.MISSING_TYPE}
        for text in self._problems(found, hidden) if not missing else ():
            findings.insert(0, MigrationFinding(FindingKind.INVALID, "", text))
        state = MigrationState.BLOCKED if any(one.blocks for one in findings) else MigrationState.PLANNED
        count = sum(1 for _ in found.walk())
        return self._ledger.put(StackMove(found.name, found.id, state, count, findings=tuple(findings)))

    def _offered(self) -> frozenset[str]:
        if self._types is None:
            listed = as_map(self._target.request("GET", "/resource_types")).get("resource_types")
            self._types = frozenset(map(str, listed if isinstance(listed, list) else ()))
        return self._types

    def _problems(self, found: FoundStack, hidden: Mapping[str, Json]) -> list[str]:
        body: JsonMap = {
            "template": found.template, "environment": environment(found, hidden), "files": found.files
        }  # fmt: skip
        answer = as_map(self._target.request("POST", "/validate", body, {"all_errors": "true"}))
        listed = as_maps(answer.get("problems"))
        return [f"{one['path']}: {one['message']}" for one in listed if one.get("severity") == "error"]

    # -- run -----------------------------------------------------------------------------------------

    def run(self, name: str) -> StackMove:
        """Take a stack, or continue with it, and compare.

    heatlite gives a stack up again if the first plan has changes.
    """
        move = self._ledger.find(name)
        if move is not None and move.state in DONE:
            return move
        found = read(self._source, name)
        if move is None or move.state is not MigrationState.ADOPTING:
            move = self._judge(found)
            if move.state is MigrationState.BLOCKED:
                return move
            move = self._ledger.put(moved(move, MigrationState.ADOPTING))
        if not move.target_id:
            move = self._ledger.put(replace(move, target_id=self._adopt(found)))
        return self._ledger.put(self._compared(move, found))

    def _adopt(self, found: FoundStack) -> str:
        """Begin the adoption, unless an earlier attempt did and missed the answer."""
        begun = _get(self._target, f"/stacks/{quote(found.name, safe='')}")
        if begun is not None:
            return str(as_map(begun.get("stack"))["id"])
        shown = found.shown
        tags = shown.get("tags")
        body: JsonMap = {
            "stack_name": found.name,
            "adopt_stack_data": document(found, self._hidden.get(found.name, {})),
            "disable_rollback": True,
            "timeout_mins": shown.get("timeout_mins"),
            "tags": ",".join(map(str, tags)) if isinstance(tags, list) and tags else None,
        }
        answer = self._target.request("POST", "/stacks", {key: one for key, one in body.items() if one is not None})
        return str(as_map(as_map(answer).get("stack"))["id"])

    def _compared(self, move: StackMove, found: FoundStack) -> StackMove:
        path = path_of(move.name, move.target_id)
        stack = self._settled(self._target, path)
        status = str(stack.get("stack_status"))
        if status not in UNUSED:
            # Another client made or changed it: an abandoned stack would lose track of its objects.
            return moved(
                move, MigrationState.ADOPTING, f"heatlite has a stack of this name that is {status}: compare by hand"
            )
        if status != "ADOPT_COMPLETE":
            return self._undone(move, path, f"{status}: {stack.get('stack_status_reason')}")
        answer = as_map(self._target.request("PATCH", f"{path}/preview", {}, {"plan": "True"}))
        changes = _changes(as_map(answer.get("plan")))
        if changes:
            return replace(self._undone(move, path, "the first plan would change it"), changes=tuple(changes))
        now = read(self._source, move.name)
        if (now.id, now.changed_at, now.status, _ids(now)) != (found.id, found.changed_at, found.status, _ids(found)):
            return self._undone(move, path, "it has changed in Heat meanwhile: run again")
        outputs = {str(one["output_key"]): one.get("output_value") for one in as_maps(stack.get("outputs"))}
        differing = sorted(name for name, value in now.outputs.items() if outputs.get(name) != value)
        return moved(replace(move, outputs=tuple(differing), changes=()), MigrationState.TAKEN)

    def _undone(self, move: StackMove, path: str, reason: str) -> StackMove:
        """Give the stack up in heatlite; its objects stay."""
        try:
            self._target.request("DELETE", f"{path}/abandon")
        except ErrorAnswer as error:
            if error.status != 404:  # else somebody has deleted or abandoned it
                raise
        while (shown := _get(self._target, path)) is not None:
            if as_map(shown.get("stack")).get("stack_status") == "DELETE_COMPLETE":
                break
            self._sleep(PAUSE)
        return moved(replace(move, target_id=""), MigrationState.UNDONE, reason)

    def _settled(self, api: Api, path: str) -> JsonMap:
        while True:
            stack = as_map(as_map(api.request("GET", path)).get("stack"))
            if not str(stack.get("stack_status")).endswith("_IN_PROGRESS"):
                return stack
            self._sleep(PAUSE)

    # -- finish --------------------------------------------------------------------------------------

    def finish(self, name: str) -> StackMove:
        """Let go of a taken stack in the Heat, never by a delete.

    The Heat abandons it, or an update has it retain all objects.
    """
        move = self._ledger.find(name)
        if move is not None and move.state in DONE - {MigrationState.TAKEN}:
            return move
        if move is None or move.state is not MigrationState.TAKEN:
            state = "not planned" if move is None else move.state.value
            known = move or StackMove(name, "", MigrationState.PLANNED)
            return moved(known, known.state, f"it is {state}: run comes first")
        path = path_of(move.name, move.source_id)
        if (shown := _get(self._source, path)) is None or _is_gone(shown):
            return self._ledger.put(moved(move, MigrationState.RELEASED, "Heat has it no more"))
        if (taken := _get(self._target, path_of(move.name, move.target_id))) is None or _is_gone(taken):
            return self._ledger.put(
                moved(replace(move, target_id=""), MigrationState.UNDONE, "heatlite has it no more")
            )
        try:
            self._source.request("DELETE", f"{path}/abandon")
        except ErrorAnswer as error:
            if error.status not in (400, 403, 404):
                raise
            return self._ledger.put(self._retained(move, path))
        return self._ledger.put(moved(move, MigrationState.RELEASED, "abandoned in Heat"))

    def _retained(self, move: StackMove, path: str) -> StackMove:
        """Have the Heat keep all objects of the stack if it is deleted there."""
        before = read(self._source, move.name)
        if hindering := obstacles(before):
            names = ', '.join(hindering)
            text = f"Heat forbids abandon, and an update would replace {names}: ask its operator to abandon it"
            return moved(move, MigrationState.TAKEN, text)
        body: JsonMap = {"template": retaining(before), "files": before.files}
        self._source.request("PATCH", path, body)
        stack = self._settled(self._source, path)
        if stack.get("stack_status") != "UPDATE_COMPLETE":
            return moved(
                move, MigrationState.TAKEN, f"Heat: {stack.get('stack_status_reason')}: its objects are not retained"
            )
        after = read(self._source, move.name)
        if retaining(after) != after.template:
            # A Heat without convergence may begin the update after its answer: this is the state before it.
            return moved(
                move, MigrationState.TAKEN, "Heat has not updated the stack: its objects are not retained; try again"
            )
        ids = _ids(after)
        differs = [path for path, one in _ids(before).items() if ids.get(path) != one]
        if differs:
            return moved(move, MigrationState.TAKEN, f"Heat has replaced {', '.join(differs)}: compare by hand")
        return moved(
            move, MigrationState.RETAINED, f"`openstack stack delete {move.name}` in Heat keeps every object now"
        )


def _changes(plan: JsonMap) -> list[str]:
    """Return the paths of the resources that a plan changes."""
    return [
        f"{'/'.join(as_texts(one.get('path')))} ({one.get('action')})"
        for one in as_maps(plan.get("resources"))
        if one.get("action") not in ("keep", None) or one.get("metadata_differs")
    ]


def _ids(found: FoundStack) -> dict[str, str]:
    return {path: one.physical_id for path, one in found.walk()}


def _is_gone(shown: JsonMap) -> bool:
    return as_map(shown.get("stack")).get("stack_status") == "DELETE_COMPLETE"


def _get(api: Api, path: str) -> JsonMap | None:
    try:
        return as_map(api.request("GET", path))
    except ErrorAnswer as error:
        if error.status == 404:
            return None
        raise
