"""MariaDB connections that read results in less time.

Imported only for such a database. PyMySQL takes more time for the descriptions of columns than for a row. The same
statement has the same ones each time.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import peewee
import pymysql.connections
from pymysql.connections import TEXT_TYPES
from pymysql.constants import CR, ER
from pymysql.converters import through
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

from heatlite.store.database.statements import Fetched, Row, Statement

_NULL, _TWO, _THREE, _EIGHT = 251, 252, 253, 254
"""First bytes of a column: NULL, or the number of bytes of its length. Others are the length."""
_WIDTHS = {_TWO: 2, _THREE: 3, _EIGHT: 8}
_BINARY = 63
"""Character set of binary columns."""
_ERROR = 255
"""First byte of an error."""
TOGETHER = 1024 * 1024
"""Characters of the statements in one round trip. A server takes 16 MiB, unless it is configured otherwise."""
_DONE = (ER.TABLE_EXISTS_ERROR, ER.DUP_FIELDNAME, ER.DUP_KEYNAME, ER.CANT_DROP_FIELD_OR_KEY)
"""Errors of a change that is done: the table, column or index is there, or gone."""


class _Result(pymysql.connections.MySQLResult):  # type: ignore[misc]  # PyMySQL has no types
    """A result whose descriptions of columns are parsed once."""

    def _get_descriptions(self) -> None:
        encoding = self.connection.encoding
        described = [_described(packet, encoding) for packet in self.connection.read_packets(self.field_count)]
        self.fields = [field for field, _, _ in described]
        self.description = tuple(description for _, description, _ in described)
        decoders = self.connection.decoders
        self.converters = [(encoding, decoders.get(field.type_code, through)) for field, _, encoding in described]
        end = self.connection._read_packet()
        if not end.is_eof_packet():
            raise pymysql.InternalError("the descriptions of columns have no end")

    def _read_row_from_packet(self, packet: MysqlPacket) -> Row:
        data, at, row = packet.get_all_data(), 0, list[Any]()
        for encoding, converter in self.converters:
            length = data[at]
            at += 1
            if length >= _NULL:
                if length == _NULL:
                    row.append(None)
                    continue
                width = _WIDTHS[length]
                length = int.from_bytes(data[at : at + width], "little")
                at += width
            value = data[at : at + length]
            at += length
            text = value if encoding is None else value.decode(encoding)
            row.append(text if converter is through else converter(text))
        return tuple(row)


@lru_cache(4096)
def _described(data: bytes, encoding: str) -> tuple[FieldDescriptorPacket, tuple[Any, ...], str | None]:
    """Return a column from its packet.

    That is its description, the DB-API's description, and the encoding of its values.
    """
    field = FieldDescriptorPacket(data, encoding)
    is_binary = field.type_code in TEXT_TYPES and field.charsetnr == _BINARY
    return field, field.description(), None if is_binary else encoding


class Connection(pymysql.connections.Connection):  # type: ignore[misc]  # as above
    """Reads results by `_Result`, and runs several statements in one round trip."""

    _next_seq_id: int

    def run(self, statements: Sequence[Statement]) -> list[Fetched]:
        """Run statements together. After an error the server skips the rest.

        Raises the first error.
        """
        answers: list[Fetched] = []
        cursor = self.cursor()
        for text in _joined(cursor.mogrify(sql, values) for sql, values in statements):
            self.query(text)
            while (result := self._result) is not None:
                answers.append(Fetched(result.affected_rows, result.rows or ()))
                if not result.has_next:
                    break
                self.next_result()
        return answers

    def read_packets(self, count: int) -> list[bytes]:
        """Return the next packets, which are small. Raises the server's error."""
        packets: list[bytes] = []
        for _ in range(count):
            head = self._read_bytes(4)
            if head[3] != self._next_seq_id:
                self._force_close()
                raise pymysql.OperationalError(CR.CR_SERVER_LOST, "Lost connection to MySQL server during query")
            self._next_seq_id = (head[3] + 1) % 256
            packets.append(self._read_bytes(int.from_bytes(head[:3], "little")))
            if packets[-1][0] == _ERROR:
                MysqlPacket(packets[-1], self.encoding).raise_for_error()
        return packets

    def _read_query_result(self, unbuffered: bool = False) -> int:
        if unbuffered:
            return int(super()._read_query_result(unbuffered))
        self._result = None
        result = _Result(self)
        try:
            result.read()
        except pymysql.MySQLError:
            raise
        except BaseException:
            self._force_close()  # the next statement might take the rest of the answer for its own
            raise
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return int(result.affected_rows)


def _joined(statements: Iterable[str]) -> Iterator[str]:
    """Yield texts of several statements, of moderate size each."""
    some: list[str] = []
    size = 0
    for one in statements:
        if some and size + len(one) > TOGETHER:
            yield ";".join(some)
            some, size = [], 0
        some.append(one)
        size += len(one)
    if some:
        yield ";".join(some)


class MariaDb(peewee.MySQLDatabase):
    """peewee's database, with connections that read results faster."""

    def _connect(self) -> Connection:
        return Connection(database=self.database, autocommit=True, **self.connect_params)

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Run a statement of a migration. A change that is done already is no error.

        MariaDB commits each change of a table at once, so a migration that was killed has done some of them.
        """
        try:
            return super().execute_sql(sql, params)  # type: ignore[no-untyped-call]
        except peewee.OperationalError as error:
            if error.args[0] not in _DONE:
                raise
            return None
