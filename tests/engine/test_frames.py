"""Functions from the begin of a thread to the code that decides."""

import pytest

from heatlite.engine.planning import decide
from heatlite.engine.planning.facts import RowFacts
from heatlite.engine.planning.plan import ResourceDecision

from .conftest import Engine, resource, template, thing

MOST_TO_A_HANDLER = 4
MOST_TO_DECIDE = 10


def test_few_functions_lead_to_a_handler(engine: Engine) -> None:
    stack = engine.create(template(a=resource("Test::Traced")))
    data = engine.row(stack, "a").data
    assert len(data["handler"]) <= MOST_TO_A_HANDLER, data["handler"]
    assert len(data["check"]) <= MOST_TO_A_HANDLER, data["check"]


def test_few_functions_lead_from_the_worker_to_a_decision(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine_test_types import frames  # a plugin of these tests

    stack = engine.create(template(a=thing("one")))
    real, found = decide.decide, list[list[str]]()

    def traced(facts: RowFacts) -> ResourceDecision:
        found.append([*frames(), "decide"])
        return real(facts)

    monkeypatch.setattr(decide, "decide", traced)
    engine.put(stack, template(a=thing("two")))
    of_worker = [names for names in found if "walk" in names]
    assert of_worker
    assert max(map(len, of_worker)) <= MOST_TO_DECIDE, max(of_worker, key=len)
