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
    rows = database.read(f"SELECT id, {', '.join(columns)} FROM {table} WHERE root_id = ?", (moved.stack_id,))
    changed = [(*(_moved(moved, text) for text in texts), key) for key, *texts in rows]
    changed = [row for row, (_, *texts) in zip(changed, rows, strict=True) if row[:-1] != tuple(texts)]
    if changed:
        assignments = ", ".join(f"{column} = ?" for column in columns)
        database.write_many(f"UPDATE {table} SET {assignments} WHERE id = ?", changed)


def _move_incidents(database: Database, moved: Moved) -> None:
    """Change incidents, and the keys of the open ones: two may swap theirs."""
    sql = "SELECT id, path, source FROM incident WHERE root_id = ? AND open_key IS NOT NULL"
    found = database.read(sql, (moved.stack_id,))
    opened = [(key, moved.path(path), source) for key, path, source in found if moved.path(path) != path]
    if opened:
        release = "UPDATE incident SET open_key = NULL, version = version + 1 WHERE id = ?"
        database.write_many(release, [(key,) for key, _, _ in opened])
        keys = [(open_key(moved.stack_id, path, source), key) for key, path, source in opened]
        database.write_many("UPDATE incident SET open_key = ? WHERE id = ?", keys)
    _rewrite(database, moved, "incident", ("path", "member", "scope"))


def _move_scopes(database: Database, moved: Moved) -> None:
    """Change scopes.

    They replace those that former resources of the new names have left.
    """
    found = database.read("SELECT scope FROM healing_scope WHERE root_id = ?", (moved.stack_id,))
    scopes = {scope: _moved(moved, scope) for (scope,) in found}
    scopes = {old: new for old, new in scopes.items() if old != new}
    within = "WHERE root_id = ? AND scope_digest = ?"
    for new in {*scopes.values()} - scopes.keys():
        database.write(f"DELETE FROM healing_scope {within}", (moved.stack_id, digest(new)))
    aside = f"UPDATE healing_scope SET scope_digest = ? {within}"
    for old, new in scopes.items():  # first to keys that no scope has: two may swap theirs
        database.write(aside, (f"-{digest(new)[1:]}", moved.stack_id, digest(old)))
    for new in scopes.values():
        sql = f"UPDATE healing_scope SET scope = ?, scope_digest = ? {within}"
        database.write(sql, (new, digest(new), moved.stack_id, f"-{digest(new)[1:]}"))


def _moved(moved: Moved, path: str) -> str:
    """Return the new form of a path or a scope."""
    return path if path.startswith(_BY_TYPE) else moved.path(path)
