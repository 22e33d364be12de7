"""An alert takes an update back where earlier ones have left things out.

Laws C2 and D7.
"""

from itertools import product

import pytest

from tests.engine.conftest import Engine
from tests.engine.test_left_out_trees import LEFT, SHAPES, goes_back, left_out, shaped, tree
from tests.features.guards.engine.test_alerts import CRITICAL, SHOP, alert, guard, send
from tests.features.guards.engine.test_alerts import engine as engine  # takes reports
from tests.features.guards.engine.test_bakes import bakes
from tests.tables import sampled


@pytest.mark.slow
@pytest.mark.parametrize(("key", "shape"), sampled(product(LEFT, SHAPES), 4))
def test_an_alert_puts_back_the_own_definition_and_all_objects(engine: Engine, key: str, shape: str) -> None:
    stack, before = left_out(engine, shape, key)
    ids = {path: row.id for path, (_, row) in tree(engine, stack).items()}
    with engine.clock.held():
        engine.put(stack, **shaped(shape, "3"), wait=False, further=guard(alerts=[CRITICAL]))
        bakes(engine, stack)
        send(engine, alert(**SHOP))
    stack = engine.settle(stack)
    goes_back(engine, stack, before)
    assert {path: row.id for path, (_, row) in tree(engine, stack).items()} == ids
