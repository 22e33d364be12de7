"""Pages by key: a page starts after the row that the marker names, so it costs the same wherever it is."""

from collections.abc import Iterator, Sequence

import peewee


def directed(order: Sequence[peewee.ColumnBase], descending: bool) -> Iterator[peewee.Node]:
    """The keys of ORDER BY, all in one direction."""
    return (key.desc() if descending else key.asc() for key in order)


def after(order: Sequence[peewee.ColumnBase], marked: Sequence[object], descending: bool) -> peewee.ColumnBase:
    """The rows that come after the one whose keys are `marked`."""
    keys, values = peewee.Tuple(*order), peewee.Tuple(*marked)
    condition: peewee.ColumnBase = keys < values if descending else keys > values
    return condition
