"""A failed replacement of an object that others of its stack use has ways out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from heatlite.clients.cloud import CloudConflict
from heatlite.plugin import CloudResource
from tests.engine.conftest import place  # noqa: F401 - a fixture
from tests.tables import sampled
from tests.types.conftest import Cloudy
from tests.types.marking import TYPES, read, templates
from tests.types.replacing import Ways, changes, is_possible, used
from tests.types.standing import Stands, standing, stands  # noqa: F401 - fixtures

CASES = [
    pytest.param(file, name, changed, id=f"{file.rpartition('/')[2]}-{name}-{key}")
    for file in templates()
    for name in sorted(used(file))
    for key, changed in changes(file, name)
]


@contextmanager
def refusing(cloudy: Cloudy, kind: str, physical_id: str | None) -> Iterator[None]:
    """Inside, the cloud refuses to delete an object: it is in use elsewhere."""
    simulation = cloudy.view().simulation
    before = simulation.verbs

    def refused(verb: str, carry_out: Any) -> Any:
        def call(view: Any, *arguments: Any, **more: Any) -> Any:
            if physical_id in arguments:
                raise CloudConflict(verb, f"{physical_id} is in use")
            return carry_out(view, *arguments, **more)

        return call

    verb = kind.replace(".", ".delete_", 1)
    if verb in before:
        simulation.verbs = {**before, verb: refused(verb, before[verb])}
    yield
    simulation.verbs = before


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name", "changed"), sampled(CASES, 8, pytest.mark.thorough))
def test_a_failed_replacement_has_a_way_out(stands: Stands, file: str, name: str, changed: Any) -> None:  # noqa: F811
    with stands(file) as one:
        ways = Ways(one.marks, read(file), changed, one.census)
        possible = is_possible(ways)
        if possible is None:
            return
        ways.back()
        ways.fail()
        ways.back()
        for leads_on in (False, True):
            row = one.cloudy.row(one.marks.stack, name)
            kind = TYPES.get(row.type)
            if not issubclass(kind, CloudResource):
                break
            with refusing(one.cloudy, kind.kind, row.physical_id):
                ways.put(changed)
                if not leads_on:
                    ways.back()
            if leads_on:
                assert is_possible(ways) is not False or not possible, ways.why()
            ways.back()
