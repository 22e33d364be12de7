"""Order of replacements: objects that must be deleted before others. Pure.

An object with `blocks` prevents the deletion of another one. If that one must be deleted before its replacement is
made, the blocking object must go first, which requires that it is replaced, too (docs/decisions/0006).
"""

from collections.abc import Container, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.json import dump
from heatlite.engine.planning.decide import is_retained
from heatlite.engine.planning.facts import ObjectRelations
from heatlite.engine.planning.plan import Outcome, ResourceDecision, Step
from heatlite.store.records import ResourceRecord


class _Objects(Struct, frozen=True):
    """The existing objects of a stack."""

    rows: Mapping[str, ResourceRecord]
    """By row id."""
    users: Mapping[str, Sequence[ResourceRecord]]
    """By row id, the rows whose objects use this one."""
    staying: Container[str]
    """Ids of the rows that keep their object."""
    relations: ObjectRelations


def order_replacements(
    steps: Mapping[str, Step],
    replaced: Sequence[ResourceDecision],
    rows: Iterable[ResourceRecord],
    kept: Iterable[ResourceRecord],
    keeping_name: Container[str],
    relations: ObjectRelations,
) -> tuple[dict[str, Step], dict[str, str]]:
    """Return the steps with early deletions, and impossible replacements by name.

    `replaced` are certain to be replaced. Each row that blocks one of them gets a deletion of its own. New objects
    under the names in `keeping_name` get the physical name of the old one.
    """
    if not replaced:
        return dict(steps), {}
    staying = {step.row.id for step in steps.values() if step.row is not None and step.outcome is not Outcome.REPLACE}
    staying |= {row.id for row in kept}
    made = {row.id: row for row in rows if row.physical_id is not None and row.external_id is None}
    users: dict[str, list[ResourceRecord]] = {}
    for row in made.values():
        for key in row.uses:
            users.setdefault(key, []).append(row)
    objects = _Objects(made, users, staying, relations)
    needs, refused = _deletions([one.row for one in replaced if one.deletes_first and one.row.id in made], objects)
    refused = {**_held_by_joins([one.row for one in replaced], objects), **refused}
    refused = _with_dependents(refused, needs, made)
    ordered = _with_deletions(steps, needs, made, keeping_name)
    for name, cause in refused.items():
        ordered[name] = replace(ordered[name], outcome=Outcome.REFUSE, cause=cause)
    return ordered, refused


def _held_by_joins(replaced: Iterable[ResourceRecord], objects: _Objects) -> dict[str, str]:
    """Find rows with a joined object that stays and cannot be detached.

    Its own user is deleted with it.
    """
    refused: dict[str, str] = {}
    for row in replaced:
        for user in objects.users.get(row.id, ()):
            if user.id not in objects.staying or row.mapped_type not in objects.relations.joins(user):
                continue
            if any(objects.relations.takes(holder, user) for holder in objects.users.get(user.id, ())):
                refused[row.name] = _explained(row, user, f"{user.name} cannot leave it for another")
    return refused


def _deletions(first: Iterable[ResourceRecord], objects: _Objects) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the rows to be deleted before each row, and the refusals.

    It starts from the rows in `first`. Rows are keyed by id, refusals by name.
    """
    needs: dict[str, list[str]] = {}
    refused: dict[str, str] = {}
    ready = list(first)
    while ready:
        row = ready.pop()
        if row.id in needs:
            continue
        needs[row.id] = []
        for user in objects.users.get(row.id, ()):
            blocker = _blocker(row, user, objects.relations)
            if blocker is None:
                continue
            if user.id not in objects.staying and not is_retained(user):
                needs[row.id].append(user.id)
                ready.append(user)
            elif row.mapped_type not in objects.relations.joins(user):
                refused[row.name] = _explained(row, user, f"{blocker} needs it, and stays")
        for used in (objects.rows[key] for key in row.uses if key in objects.rows):
            if used.id in objects.staying and objects.relations.takes(row, used):
                refused[row.name] = _explained(row, used, f"{used.name} goes with it, and stays in the stack")
    return needs, refused


def _blocker(row: ResourceRecord, user: ResourceRecord, relations: ObjectRelations) -> str | None:
    """Return the name of the object that blocks a deletion.

    It is the user, or a member of its nested stack.
    """
    if row.mapped_type in relations.blocks(user):
        return user.name
    for member in relations.members(user):
        if row.mapped_type in member.holds and f'"{row.physical_id}"' in dump(member.properties):
            return f"{user.name}.{member.name}"
    return None


def _with_dependents(
    refused: Mapping[str, str], needs: Mapping[str, Sequence[str]], rows: Mapping[str, ResourceRecord]
) -> dict[str, str]:
    """Return the refusals with those of rows that wait for a refused deletion."""
    found = dict(refused)
    held = {row.id: found[row.name] for row in rows.values() if row.name in found}
    while held:
        held = {key: cause for key, ids in needs.items() for need, cause in held.items() if need in ids}
        found |= {rows[key].name: cause for key, cause in held.items()}
    return found


def _with_deletions(
    steps: Mapping[str, Step],
    needs: Mapping[str, Sequence[str]],
    rows: Mapping[str, ResourceRecord],
    keeping_name: Container[str],
) -> dict[str, Step]:
    """Return the steps with a deletion for each row that others wait for."""
    found = dict(steps)
    blocking = {key for ids in needs.values() for key in ids}
    for key, ids in needs.items():
        row = rows[key]
        step = found.get(row.name)
        if key in blocking:
            keeps_name = row.name in keeping_name
            found[key] = Step(key, row.name, Outcome.DELETE, tuple(ids), row, keeps_name=keeps_name)
            if step is not None and step.row is row:
                found[row.name] = replace(step, deletes_first=True)
        elif step is not None:
            found[row.name] = replace(step, requires=(*step.requires, *ids))
    return found


def _explained(row: ResourceRecord, other: ResourceRecord, why: str) -> str:
    return (
        f"{row.name} ({row.type}) cannot be replaced: {why}. Mark {other.name} unhealthy as well, so that both are"
        f" replaced, or remove {other.name} from the template first."
    )
