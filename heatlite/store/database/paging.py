"""Keyset pagination: a page starts after the marker's row, at constant cost."""

from collections.abc import Iterator, Sequence

import peewee


def directed(order: Sequence[peewee.ColumnBase], descending: bool) -> Iterator[peewee.Node]:
    """Yield the keys of ORDER BY in one direction."""
    return (key.desc() if descending else key.asc() for key in order)


def after(order: Sequence[peewee.ColumnBase], marked: Sequence[object], descending: bool) -> peewee.ColumnBase:
    """Return the condition for rows after the row with the keys `marked`."""
    keys, values = peewee.Tuple(*order), peewee.Tuple(*marked)
    condition: peewee.ColumnBase = keys < values if descending else keys > values
    return condition
