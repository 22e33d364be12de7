"""New paths of renamed resources in the rows of healing."""

from collections.abc import Sequence

from heatlite.features.healing.store.incidents import digest
from heatlite.features.healing.store.observations import open_key
from heatlite.store.database.database import Database
from heatlite.store.feature_store import Moved

_BY_TYPE = "type:"
"""Begin of a scope that is no path."""


def move(database: Database, moved: Moved) -> None:
    """Change paths of a tree. Reads the rows of the whole tree: they are few."""
    _move_incidents(database, moved)
    _move_scopes(database, moved)
    _rewrite(database, moved, "observation", ("path",))
    _rewrite(database, moved, "repair", ("path", "member", "scope"))


def _rewrite(database: Database, moved: Moved, table: str, columns: Sequence[str]) -> None:
    """Change the columns, of which the first one has the path of the resource."""
    root_id = moved.source.root_id
    rows = database.read(f"SELECT id, {', '.join(columns)} FROM {table} WHERE root_id = ?", (root_id,))
    changed = [
        (*(_moved(moved, text) for text in texts), moved.target.root_id if moved.covers(path) else root_id, key)
        for key, path, *more in rows
        for texts in [(path, *more)]
    ]
    changed = [row for row, (_, *old) in zip(changed, rows, strict=True) if row[:-1] != (*old, root_id)]
    if changed:
        assignments = ", ".join(f"{column} = ?" for column in (*columns, "root_id"))
        database.write_many(f"UPDATE {table} SET {assignments} WHERE id = ?", changed)


def _move_incidents(database: Database, moved: Moved) -> None:
    """Change incidents, and the keys of the open ones: two may swap theirs."""
    sql = "SELECT id, path, source, open_key FROM incident WHERE root_id = ?"
    found = [row for row in database.read(sql, (moved.source.root_id,)) if moved.covers(row[1])]
    opened = [(key, moved.path(path), source) for key, path, source, is_open in found if is_open is not None]
    if opened:
        release = "UPDATE incident SET open_key = NULL, version = version + 1 WHERE id = ?"
        database.write_many(release, [(key,) for key, _, _ in opened])
        keys = [(open_key(moved.target.root_id, path, source), key) for key, path, source in opened]
        database.write_many("UPDATE incident SET open_key = ? WHERE id = ?", keys)
    there = [(moved.target.stack_id, key) for key, path, *_ in found if path.count("/") == len(moved.source.path)]
    if there and moved.source != moved.target:
        database.write_many("UPDATE incident SET stack_id = ? WHERE id = ?", there)
    _rewrite(database, moved, "incident", ("path", "member", "scope"))


def _move_scopes(database: Database, moved: Moved) -> None:
    """Change scopes.

    They replace those that former resources of the new names have left.
    """
    source, target = moved.source.root_id, moved.target.root_id
    found = database.read("SELECT scope FROM healing_scope WHERE root_id = ?", (source,))
    scopes = {scope: _moved(moved, scope) for (scope,) in found}
    scopes = {old: new for old, new in scopes.items() if old != new or source != target and _covers(moved, old)}
    within = "WHERE root_id = ? AND scope_digest = ?"
    for new in {*scopes.values()} - (scopes.keys() if source == target else set()):
        database.write(f"DELETE FROM healing_scope {within}", (target, digest(new)))
    aside = f"UPDATE healing_scope SET scope_digest = ? {within}"
    for old, new in scopes.items():  # first to keys that no scope has: two may swap theirs
        database.write(aside, (f"-{digest(new)[1:]}", source, digest(old)))
    for new in scopes.values():
        sql = f"UPDATE healing_scope SET root_id = ?, scope = ?, scope_digest = ? {within}"
        database.write(sql, (target, new, digest(new), source, f"-{digest(new)[1:]}"))


def _covers(moved: Moved, scope: str) -> bool:
    return not scope.startswith(_BY_TYPE) and moved.covers(scope)


def _moved(moved: Moved, path: str) -> str:
    """Return the new form of a path or a scope."""
    return path if path.startswith(_BY_TYPE) else moved.path(path)
