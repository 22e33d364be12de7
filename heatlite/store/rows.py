"""Rows of records: a field of a record is the column of its name.

The type of the field says how the column stores it: text and numbers as they are, a word of an enum as text, and all
else as JSON. In an `EncryptedField` text is JSON, too.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from inspect import get_annotations
from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin

import peewee
from msgspec import Struct
from msgspec.structs import astuple

from heatlite.core.json import decoder, dump, parse, parser
from heatlite.store.database.statements import Row, Value
from heatlite.store.tables.fields import ContentField, EncryptedField, MaskedField, SecretField

Record = TypeVar("Record", bound=Struct)


class Codec(Struct, frozen=True):
    """Conversions between the values of a field and the cells of its column.

    NULL stands for None.
    """

    write: Callable[[Any], Value] | None = None
    """None: the cell has the value itself, as in `read`."""
    read: Callable[[Any], Any] | None = None
    empty: Value = None
    """The cell of an empty text, map or list, unless `write` makes it."""
    tolerant: Callable[[Any], Any] | None = None
    """Takes the place of `read` if that raises ValueError."""
    words: Mapping[str | None, Any] | None = None
    """In place of `read`: the values by their cells, NULL included."""


class Rows(Generic[Record]):
    """Makes rows of records, and records of rows.

    A row has the columns of the record's fields, then the other `computed` ones.
    """

    def __init__(
        self,
        record: type[Record],
        model: type[peewee.Model],
        names: Mapping[str, str] = {},
        codecs: Mapping[str, Codec] = {},
        parts: Mapping[str, "Rows[Any]"] = {},
        computed: Mapping[str, Callable[[Record], Value]] = {},
    ) -> None:
        """`names` maps fields to columns with another name.

        `codecs` maps fields to conversions of their own. A field of `parts` is a record whose columns are in the same
        row, and NULL for None. `computed` maps columns to functions of the record. Raises KeyError for a field without
        a column.
        """
        self.model = model
        self.record = record
        plain = [name for name in record.__struct_fields__ if name not in parts]
        own = [names.get(name, name) for name in plain]
        self.columns = own[:]
        """Names of the fields of `model` that the record has."""
        self._parts: list[tuple[int, Rows[Any], slice]] = []
        for at, name in enumerate(record.__struct_fields__):
            if name in parts:
                begin = len(self.columns)
                self.columns += parts[name].columns
                self._parts.append((at, parts[name], slice(begin, len(self.columns))))
        self.written = [*self.columns, *(name for name in computed if name not in self.columns)]
        """Names of the fields of `model` that a row has."""
        self._computed = [(self.written.index(name), value_of) for name, value_of in computed.items()]
        # Not msgspec's `fields`: it knows no type that names itself, as `Json` does.
        types = {name: kind for base in record.__mro__ for name, kind in get_annotations(base).items()}
        found = [
            codecs.get(name) or _codec(types[name], model._meta.fields[column])
            for name, column in zip(plain, own, strict=True)
        ]
        self._writes = [(at, one.write, one.empty) for at, one in enumerate(found) if one.write]
        self._reads = [(at, one.read) for at, one in enumerate(found) if one.read]
        self._tolerant = [(at, one.tolerant or one.read) for at, one in enumerate(found) if one.read]
        self._words = [(at, one.words) for at, one in enumerate(found) if one.words is not None]

    def selected(self, without: Collection[str] = ()) -> list[peewee.Node]:
        """Return the columns of the record for a SELECT of peewee.

        In place of columns `without` it has an empty text, or the JSON of an empty object.
        """
        known = self.model._meta.fields
        return [_empty(known[name]) if name in without else known[name] for name in self.columns]

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Return a row for each record."""
        return [self._row(record) for record in records]

    def cells(self, record: Record) -> dict[str, Value]:
        """Return the row of a record, by column."""
        return dict(zip(self.written, self._row(record), strict=True))

    def _row(self, record: Record) -> Row:
        cells: list[Any] = [*astuple(record)]
        parts = [(part, cells.pop(at)) for at, part, _ in reversed(self._parts)] if self._parts else ()
        for at, write, empty in self._writes:
            if (value := cells[at]) is not None:
                cells[at] = write(value) if value or empty is None else empty
        for part, value in reversed(parts):
            cells += [None] * len(part.columns) if value is None else part._row(value)
        for at, value_of in self._computed:
            cells[at : at + 1] = [value_of(record)]
        return tuple(cells)

    def records(self, rows: Sequence[Row]) -> list[Record]:
        """Return the record of each row, which has its columns."""
        made, words, reads, parts = self.record, self._words, self._reads, self._parts
        out: list[Record] = []
        for row in rows:
            cells = [*row]
            try:
                for at, read in reads:
                    if (cell := cells[at]) is not None:
                        cells[at] = read(cell)
            except ValueError:
                for at, read in self._tolerant:
                    cells[at] = None if row[at] is None else read(row[at])
            for at, values in words:
                cells[at] = values[cells[at]]
            if parts:
                found = [(at, part, cells[where]) for at, part, where in parts]
                del cells[parts[0][2].start :]
                for at, part, some in found:
                    cells.insert(at, None if some[0] is None else part.records([tuple(some)])[0])
            out.append(made(*cells))
        return out


def _empty(field: "peewee.Field[Any]") -> peewee.Node:
    return peewee.Value("{}" if isinstance(field, ContentField | MaskedField | EncryptedField) else "")


def _codec(kind: Any, field: "peewee.Field[Any]") -> Codec:
    """Return the conversions for the type of a field."""
    if get_origin(kind) in (Union, UnionType):
        kind, *_ = (one for one in get_args(kind) if one is not type(None))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _word(kind)
    is_json = isinstance(field, EncryptedField) and not isinstance(field, SecretField)
    if is_json or kind not in (str, int, float, bool):
        return _json(kind)
    return Codec(read=bool) if kind is bool else Codec()


def _word(kind: type[StrEnum]) -> Codec:
    # Drivers are slow at subclasses of str, and the constructor of an enum is slow.
    return Codec(str.__str__, words={None: None, **{str(one): one for one in kind}})


def _json(kind: Any) -> Codec:
    outer = get_origin(kind) or kind
    empty = {tuple: "[]", dict: "{}"}.get(outer)  # as most cells are
    if outer in (dict, str):
        return Codec(dump, decoder(Any), empty, tolerant=parse)
    return Codec(dump, decoder(kind), empty, tolerant=parser(kind))
