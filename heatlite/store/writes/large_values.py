"""Large values in the rows of a tree of stacks or of a project, stored once.

Many rows may hold the value of one parameter. So each part of a row's JSON of at least `LARGE` characters becomes a
row of `large_value`, or of `project_value`. The row keeps a reference: REFERENCE and the id of that part. A part may
have references, too.

JSON text has control characters in escaped form only, so nothing in a user's value can look like a reference.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TypeAlias

import peewee

from heatlite.core.errors import NotFound
from heatlite.core.json import Json, dump, parse
from heatlite.store.database.sql import chunks, marks
from heatlite.store.database.statements import Row, Value
from heatlite.store.errors import UnreadableSecret
from heatlite.store.rows import Codec
from heatlite.store.secrets.cipher import PREFIX
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.fields import ContentField, EncryptedField, LongTextField, MaskedField
from heatlite.store.tables.stacks import (
    Event,
    LargeValue,
    ProjectValue,
    Resource,
    SoftwareConfig,
    SoftwareDeployment,
    Stack,
)

LARGE = 4096
"""Characters of JSON from which on a value has a row of its own."""

DEPTH = 16
"""Levels of JSON that are searched for large values; below them a value is stored as a whole."""

LARGE_VALUE_GRACE = 3600.0
"""Seconds before an unused value is deleted: a reader may still have a row that refers to it."""

REFERENCE = "\x01"
"""First character of a reference, and of a text with references."""

_REFERENCES = re.compile(REFERENCE + "([0-9a-f]{64})")

_Holders = Sequence[tuple[type[peewee.Model], str]]

ValuesByOwner: TypeAlias = dict[tuple[str, bool], dict[str, str]]
"""Values by id, for each owner, those of sealed stacks apart."""


class LargeValues:
    """The large values of all trees.

    A value is deleted once a check has found it unused twice, an hour apart. A row that refers to it again meanwhile
    takes the mark off.
    """

    kinds: tuple[type[LongTextField], ...] = (ContentField, MaskedField)
    """Fields of other tables that have references."""
    _model: type[LargeValue | ProjectValue] = LargeValue
    _owner = "stack_id"

    def __init__(
        self,
        encryption: FieldEncryption,
        of_features: Callable[[], Sequence[type[peewee.Model]]] = lambda: (),
        lost: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        """`of_features` returns the tables of features, on or off, that refer to values.

        `lost` returns the features whose tables cannot be read: while there is one, no value is known to be unused.
        """
        self._of_features = of_features
        self._lost = lost
        self._encryption = encryption
        self._database = encryption.database
        self._table = encryption.database.quote(self._model._meta.table_name)

    def _holders(self) -> _Holders:
        """Return the tables whose rows have references, with the column of the scope."""
        of_features = ((model, "stack_id") for model in self._of_features())
        return ((Resource, "stack_id"), (Stack, "id"), (Event, "stack_id"), *of_features)

    def _scopes(self, owner: str) -> Sequence[str]:
        """Return the scopes whose rows may refer to an owner's values: stacks of a tree."""
        nested = self._database.read("SELECT id FROM stack WHERE root_id = ?", (owner,))
        return [owner, *(stack_id for (stack_id,) in nested)]

    # -- rows of other tables ------------------------------------------------------------------------

    def extract(self, text: str, owner: str, sealed: bool, known: dict[bytes, str], found: ValuesByOwner) -> str:
        """Add the large values of a JSON text to `found`; return the text with references.

        `owner` is the root of a tree. The values of a `sealed` stack are encrypted. `known` has the results of texts
        that repeat each other.
        """
        if len(text) < LARGE or text.startswith(PREFIX):
            return text
        parts: dict[str, str] = {}

        def keep(part: str) -> str:
            content = hashlib.sha256(part.encode(errors="surrogatepass")).hexdigest()
            part_id = self._encryption.digest(f"{owner}:{sealed}:{content}")
            parts[part_id] = part
            return REFERENCE + part_id

        short = _extracted(parse(text), keep, DEPTH, known)
        if parts:
            found.setdefault((owner, sealed), {}).update(parts)
        return text if short == text else REFERENCE + short

    def put(self, found: ValuesByOwner) -> None:
        """Store the values of all texts of a statement.

        Call it in the transaction that writes them. Others may insert the same ones, so the order is that of the ids.
        """
        for owner, sealed in sorted(found):
            self._put(found[owner, sealed], owner, sealed)

    def restore(self, rows: Sequence[Row], columns: Sequence[int]) -> Sequence[Row]:
        """Return rows with whole texts in the columns.

        Raises NotFound, UnreadableSecret.
        """
        found = sorted(
            {at for column in columns for at, row in enumerate(rows) if (text := row[column]) and text[0] == REFERENCE}
        )
        if not found:
            return rows
        parts = self._parts({one for at in found for column in columns for one in _references(rows[at][column])})
        whole: dict[str, str] = {}
        out = [*rows]
        for at in found:
            cells = [*rows[at]]
            for column in columns:
                if _has_references(cells[column]):
                    cells[column] = _restored(cells[column][1:], parts, whole)
            out[at] = tuple(cells)
        return out

    def roots(self, stack_ids: Sequence[str]) -> dict[str, str]:
        """Return the root of each stack."""
        sql = "SELECT id, COALESCE(root_id, id) FROM stack WHERE id IN ()"
        return dict(self._database.read_in(sql, stack_ids))

    def _put(self, parts: Mapping[str, str], owner: str, sealed: bool) -> None:
        """Store values unless they exist."""
        known: dict[str, bool] = {}
        sql = f"SELECT id, unused FROM {self._table} WHERE id IN ()"
        known.update(dict(self._database.read_in(sql, [*parts])))
        for part_id in sorted(parts):
            if part_id in known:
                used = self._model.update(unused=False).where(self._model.id == part_id)
                if not known[part_id] or self._database.change(used):
                    continue  # else it has just been deleted
            content = self._encryption.encrypt(parts[part_id]) if sealed else parts[part_id]
            row = {"id": part_id, self._owner: owner, "content": content, "checked_at": 0.0, "unused": False}
            row |= self._described(parts[part_id])
            self._database.change(self._model.insert(row).on_conflict_ignore())

    def _described(self, content: str) -> dict[str, object]:  # noqa: ARG002
        """Return further columns of a value's row."""
        return {}

    def _parts(self, part_ids: set[str]) -> dict[str, str | None]:
        """Return the values of some ids and of all that they refer to.

        None stands for a missing one.
        """
        parts: dict[str, str | None] = {}
        todo = part_ids
        while todo:
            parts |= dict.fromkeys(todo)
            found: set[str] = set()
            sql = f"SELECT id, content FROM {self._table} WHERE id IN ()"
            for part_id, content in self._database.read_in(sql, sorted(todo)):
                parts[part_id] = text = self._encryption.decrypt(content)
                found.update(_REFERENCES.findall(text))
            todo = found - parts.keys()
        return parts

    # -- deletion ------------------------------------------------------------------------------------

    def unchecked(self, before: float, limit: int) -> Sequence[str]:
        """Return owners with values that were not checked since a moment."""
        sql = f"SELECT {self._owner} FROM {self._table} WHERE checked_at < ? GROUP BY {self._owner} LIMIT ?"
        found = [owner for (owner,) in self._database.read(sql, (before, limit))]
        return () if found and self._lost() else found

    def check(self, owner: str, now: float) -> None:
        """Mark the values that no row of an owner uses; delete those marked long before."""
        sql = f"SELECT id, checked_at, unused FROM {self._table} WHERE {self._owner} = ?"
        values = self._database.read(sql, (owner,))
        used = self._used(owner)
        before = now - LARGE_VALUE_GRACE
        for part_id, checked_at, unused in values:
            one = self._model.id == part_id
            if unused and part_id not in used and checked_at < before:
                # A transaction that uses it again has changed the row: the database looks at it once more.
                self._database.change(self._model.delete().where(one, self._model.unused))
            elif checked_at < before:
                self._database.change(self._model.update(checked_at=now, unused=part_id not in used).where(one))

    def put_off(self, owner: str, now: float) -> None:
        """Check the values of an owner later: a row that may refer to them cannot be read."""
        self._database.write(f"UPDATE {self._table} SET checked_at = ? WHERE {self._owner} = ?", (now, owner))

    def missing(self) -> Iterator[tuple[str, str]]:
        """Return the values that rows refer to and that are not there, as owner and id.

        If a row cannot be read, the reason stands for the id.
        """
        for (owner,) in self._database.read(f"SELECT DISTINCT {self._owner} FROM {self._table}"):
            try:
                used = self._used(owner)
            except UnreadableSecret as error:
                yield owner, error.message
                continue
            for part_id, text in used.items():
                if text is None:
                    yield owner, part_id

    def _used(self, owner: str) -> dict[str, str | None]:
        """Return all values that rows of an owner refer to, by id.

        None stands for a missing one.
        """
        scopes = self._scopes(owner)
        used: set[str] = set()
        for model, scope in self._holders():
            columns = [field.name for field in model._meta.sorted_fields if isinstance(field, self.kinds)]
            table = self._database.quote(model._meta.table_name)
            for column, some in product(columns, chunks(scopes)):
                name = self._database.quote(column)
                begins = f"({name} LIKE ? OR {name} LIKE ?)"
                sql = f"SELECT {name} FROM {table} WHERE {scope} IN ({marks(some)}) AND {begins}"
                for (text,) in self._database.read(sql, (*some, f"{REFERENCE}%", f"{PREFIX}%")):
                    used.update(_references(self._encryption.decrypt(text)))
        return self._parts(used)


class ProjectValues(LargeValues):
    """The large values in rows of a project: software, and rows of features.

    Such rows are always encrypted. They outlive stacks.
    """

    kinds = (EncryptedField,)
    _model = ProjectValue
    _owner = "project"

    def _holders(self) -> _Holders:
        of_features = ((model, "project") for model in self._of_features())
        return ((SoftwareConfig, "project"), (SoftwareDeployment, "project"), *of_features)

    def _scopes(self, owner: str) -> Sequence[str]:
        return [owner]

    def _described(self, content: str) -> dict[str, object]:
        return {"size": len(content)}

    def total(self, project: str) -> int:
        """Return the characters of all values of a project, also of those not deleted yet."""
        ((total,),) = self._database.read(f"SELECT SUM(size) FROM {self._table} WHERE project = ?", (project,))
        return int(total or 0)


def condensed(text: str) -> str:
    """Return a JSON text that has each large value once.

    It needs no other row: the values are before it, in a line of JSON.
    """
    parts: dict[str, str] = {}

    def keep(part: str) -> str:
        part_id = hashlib.sha256(part.encode(errors="surrogatepass")).hexdigest()
        parts[part_id] = part
        return REFERENCE + part_id

    if len(text) < 2 * LARGE:
        return text
    short = _extracted(parse(text), keep, DEPTH, {})
    out = f"{REFERENCE}{dump(parts)}\n{short}"
    return out if len(out) < len(text) else text


def whole(text: str) -> str:
    """Return the text given to `condensed`."""
    if not _has_references(text):
        return text
    parts, _, short = text[1:].partition("\n")
    return _restored(short, parse(parts), {})


CONDENSED = Codec(lambda value: condensed(dump(value)), lambda text: parse(whole(text)))
"""A field whose column has the text of `condensed`."""


def _extracted(value: Json, keep: Callable[[str], str], depth: int, known: dict[bytes, str]) -> str:
    """Return the JSON text of a value, with what `keep` returns for each large part.

    `known` has the results by the digest of the text: values that double each other repeat their parts at each level.
    """
    text = dump(value)
    if len(text) < LARGE:  # most parts: none of theirs is large
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
    if digest in known:
        return known[digest]
    if depth and isinstance(value, dict) and _has_large(value.values()):
        text = ",".join([f"{dump(key)}:{_extracted(one, keep, depth - 1, known)}" for key, one in value.items()])
        text = f"{{{text}}}"
    elif depth and isinstance(value, list) and _has_large(value):
        text = f"[{','.join([_extracted(one, keep, depth - 1, known) for one in value])}]"
    known[digest] = keep(text) if len(text) >= LARGE else text
    return known[digest]


def _has_large(parts: Iterable[Json]) -> bool:
    """Return whether one of the parts of a value may be large, or have large parts."""
    return any(isinstance(one, dict | list) or isinstance(one, str) and len(one) >= LARGE - 2 for one in parts)


def _has_references(text: Value) -> bool:
    return isinstance(text, str) and text[:1] == REFERENCE


def _references(text: Value) -> list[str]:
    return _REFERENCES.findall(text) if isinstance(text, str) and _has_references(text) else []


def _restored(text: str, parts: Mapping[str, str | None], restored: dict[str, str]) -> str:
    """Return a text with `parts` in place of its references.

    `restored` keeps the parts that are whole already.
    """

    def part(match: re.Match[str]) -> str:
        part_id = match[1]
        if part_id not in restored:
            found = parts[part_id]
            if found is None:
                raise NotFound(entity="Large value", name=part_id)
            restored[part_id] = _restored(found, parts, restored)
        return restored[part_id]

    return _REFERENCES.sub(part, text)
