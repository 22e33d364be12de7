"""Choose what an update touches: closures of paths over the whole plan."""

from collections.abc import Iterator, Mapping
from itertools import accumulate

from msgspec import Struct

from heatlite.core.actions.repairs import RepairPart, RepairStep, Selection
from heatlite.core.errors import HeatliteError, HTTPBadRequest, Problem, StackValidationFailed
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.planning.planner import bookkeeping_differs
from heatlite.engine.preview.preview import PreviewItem, StackPreview
from heatlite.engine.preview.preview_views import ChosenPart, changing
from heatlite.engine.state.requests import Reach
from heatlite.template.expression import has_unknown
from heatlite.template.source.problems import nearest

ENTERED = frozenset({Outcome.KEEP, Outcome.UPDATE})
"""Outcomes of the resource of a nested stack that leave its members their own."""
_DONE = {Outcome.KEEP: "described anew", Outcome.PROTECT: "refused", Outcome.REFUSE: "refused"}


class _Entry(Struct, frozen=True):
    """A resource in the plan of the whole update."""

    item: PreviewItem
    needs: tuple[str, ...]
    """Paths of what it requires, or of what is deleted before it."""
    outcome: Outcome
    """KEEP also for a nested stack in which nothing changes."""
    changes: bool


class _Whole:
    """The plan of the whole update, by path."""

    def __init__(self, preview: StackPreview) -> None:
        self.entries: dict[str, _Entry] = {}
        self.users: dict[str, list[str]] = {}
        """By the id of a row, the paths that use its object."""
        for item in preview.items(nested=True):
            path = "/".join(item.path)
            for used in item.row.uses:
                self.users.setdefault(used, []).append(path)
            if not item.is_leftover:
                self.entries[path] = _entry(item)

    def is_gone(self, path: str) -> bool:
        """Return True for an object that goes before a new one is there, or without one."""
        one = self.entries[path]
        step = None if one.item.level is None else one.item.level.step(one.item.name)
        return one.outcome is Outcome.DELETE or step is not None and step.deletes_first

    def is_new(self, path: str) -> bool:
        """Return True for a resource without an object."""
        return self.entries[path].item.outcome is Outcome.CREATE

    def using(self, path: str) -> list[str]:
        """Return the paths that use an object which goes (`is_gone`)."""
        return self.users.get(self.entries[path].item.row.id, []) if self.is_gone(path) else []

    def whole_of(self, path: str) -> str:
        """Return the outermost path above, or itself, that is done or left as a whole.

        The members of a nested stack that is made, replaced or deleted have no choice of their own.
        """
        return next((one for one in above(path) if self.entries[one].item.outcome not in ENTERED), path)


def _entry(item: PreviewItem) -> _Entry:
    level, names, outcome = item.level, item.after, item.outcome
    changes = outcome is not Outcome.KEEP
    if level is not None:
        if outcome is Outcome.UPDATE and level.is_unchanged(item.name):
            outcome, changes = Outcome.KEEP, False
        wanted, rows = level.definition.resources[item.name], level.values.rows
        names = tuple(name for name in wanted.requires if name in level.definition.resources)
        changes = changes or item.name in rows and bookkeeping_differs(item.row, wanted, rows)
    return _Entry(item, tuple("/".join((*item.path[:-1], name)) for name in names), outcome, changes)


def above(path: str) -> Iterator[str]:
    """Yield the paths of the resources that contain another, the outermost first."""
    return accumulate(path.split("/")[:-1], "{}/{}".format)


def choose(preview: StackPreview, reach: Reach) -> ChosenPart:
    """Return what an update touches, by its `preview` as a whole.

    Raises HTTPBadRequest for paths that do not exist, and for a replacement of something that is left out.
    """
    whole = _Whole(preview)
    asked = dict.fromkeys([*reach.target, *reach.exclude, *reach.replace])
    if unknown := [path for path in asked if path not in whole.entries]:
        text = f"There is no resource {', '.join(unknown)}, neither in stack {preview.resources.stack.name} nor in its"
        hint = nearest(unknown[0], whole.entries)
        done = f"Nothing was done; {hint}" if hint else "Nothing was done. The plan has all paths."
        raise HTTPBadRequest(f"{text} new template. {done}")
    parts = dict.fromkeys(reach.replace, RepairPart.NAMED)
    outside: list[str] = []
    if reach.target:
        outside = _untouched(whole, reach.target, parts)
    elif reach.exclude:
        outside = [*_left_out(whole, reach.exclude)]
    left = frozenset(outside)
    below = {path: left.intersection((*above(path), path)) for path in whole.entries}
    if lost := [path for path in reach.replace if below[path]]:
        raise HTTPBadRequest(f"{', '.join(lost)}: to be replaced, but left out. Nothing was done. Name it once.")
    causes = {path: _cause(one) for path, one in whole.entries.items() if below[path] and one.changes}
    touching = {one for path in causes for one in below[path]}
    parts |= dict.fromkeys([*causes, *(path for path in reach.exclude if path in left)], RepairPart.LEFT_OUT)
    return ChosenPart(
        selection=Selection(dict.fromkeys(reach.replace, RepairStep.REPLACE), outside=tuple(outside)),
        parts=parts,
        causes=causes,
        left_out=tuple(path for path in outside if path in touching),
        entries={path: whole.entries[path].item for path in causes},
    )


def _cause(entry: _Entry) -> str:
    """Return why a plan lists a resource that is left out."""
    level, why = entry.item.level, entry.item.cause
    if level is not None:
        why = "" if _wanted(entry.item) is None else level.mask.text(why)
    done = _DONE.get(entry.outcome) or f"{entry.outcome.value.removesuffix('e')}ed"
    return f"left out; it would be {done}{why and f': {why}'}"


def _wanted(item: PreviewItem) -> Wanted | None:
    """Return the evaluated definition; None if it fails or is not there."""
    try:
        return None if item.level is None else item.level.wanted(item.name)
    except HeatliteError:
        return None


def _sources(item: PreviewItem) -> set[str]:
    """Return the names of changing resources from which unknown values come."""
    wanted, level = _wanted(item), item.level
    if wanted is None or level is None:
        return set()
    unknown = [key for key, value in wanted.properties.items() if has_unknown(value)]
    return {name for key in unknown for name in changing(level, item.name, key)}


def _untouched(whole: _Whole, named: tuple[str, ...], parts: dict[str, RepairPart]) -> list[str]:
    """Return the outermost paths that an update of the `named` does not touch.

    It takes what they require, the deletions that theirs wait for, and what uses an object of theirs that goes first.
    Adds the `parts` of what it touches.
    """
    taken, led, todo = set[str](), set[str](), [*named]
    while todo:
        path = whole.whole_of(todo.pop())
        if path in taken:
            continue
        taken.add(path)
        todo += [*whole.entries[path].needs, *(whole.using(path))]
        for one in above(path):
            if one not in led:
                led.add(one)
                todo += whole.entries[one].needs
    outside = dict[str, None]()
    for path, entry in whole.entries.items():
        lineage = {*above(path), path}
        if path in named:
            parts[path] = RepairPart.NAMED
        if taken.isdisjoint(lineage) and path not in led:
            if outside.keys().isdisjoint(lineage):
                outside[path] = None
        elif entry.changes and lineage.isdisjoint(named):
            parts.setdefault(path, RepairPart.PULLED_IN)
    return [*outside]


def _left_out(whole: _Whole, named: tuple[str, ...]) -> dict[str, None]:
    """Return the paths that an update leaves out which excludes the `named`.

    Also what would need a new value of them, and objects that they use and that would go.
    """
    out = dict.fromkeys(map(whole.whole_of, named))
    found = True
    while found:
        found = False
        partly = {one for path in out for one in above(path)}
        for path, entry in whole.entries.items():
            if out.keys().isdisjoint((*above(path), path)) and _follows(whole, path, entry, out, partly):
                out[whole.whole_of(path)] = None
                found = True
    return {path: None for path in out if out.keys().isdisjoint(above(path))}


def _follows(whole: _Whole, path: str, entry: _Entry, out: Mapping[str, None], partly: set[str]) -> bool:
    """Return True for what has to be left out with others."""
    if any(user in out for user in whole.using(path)):
        return True
    needs = [need for need in entry.needs if need in out or need in partly]
    if any(need in out and (entry.item.level is None or whole.is_new(need)) for need in needs):
        return True
    return bool(needs) and not _sources(entry.item).isdisjoint(need.rpartition("/")[2] for need in needs)


def require_replaced(preview: StackPreview, reach: Reach) -> None:
    """Raise StackValidationFailed if an update cannot replace what it is asked to.

    `preview` is that of the update. A protected object is refused elsewhere.
    """
    if not reach.replace:
        return
    items = {"/".join(item.path): item for item in preview.items(nested=True)}
    problems = []
    for path in reach.replace:
        item = items[path]
        outcomes = {items[one].outcome for one in (*above(path), path)}
        if outcomes.isdisjoint({Outcome.REPLACE, Outcome.CREATE, Outcome.PROTECT}):
            external = "it is external, so heatlite does not replace it"
            why = item.cause or (external if item.row.external_id else "the new template does not have it")
            problems.append(Problem(("resources", *item.path), f"resources.{'.'.join(item.path)}: {why}"))
    if problems:
        raise StackValidationFailed("; ".join(one.text for one in problems), problems=tuple(problems))
