"""A cloud that goes away in the middle of a check; ten thousand drifted."""

from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.clients.cloud import CloudError
from heatlite.core.differences import Difference, Differences
from heatlite.core.ids import new_id
from heatlite.features.drift.reverting import drifted_paths
from heatlite.features.drift.states import DriftState
from heatlite.features.drift.store.store import DriftQuery, DriftStore
from heatlite.store.feature_store import ObjectNews
from tests.engine.conftest import Engine, resource, template, thing
from tests.features.drift.engine.test_drift import drift, told
from tests.tables import few
from tests.types.conftest import Cloudy

NAMES = "abcdef"
MANY = 10_000


@pytest.mark.parametrize("answered", few(range(0, 2 * len(NAMES) + 1, 2)))
def test_the_cloud_goes_away_in_the_middle_of_a_check(
    cloudy: Cloudy, monkeypatch: pytest.MonkeyPatch, answered: int
) -> None:
    """Known drift of the rest stays, without an event; each object is read twice."""
    stack = cloudy.made({name: resource("OS::Neutron::Net", name=name) for name in NAMES})
    for name in NAMES:
        cloudy.view().call("network.update_network", cloudy.row(stack, name).physical_id, name="other")
    stack = cloudy.check(stack)
    before = {name: drift(cloudy, stack, name) for name in NAMES}
    cloudy.clock.pass_(60)
    cloud: Any = cloudy.view().simulation
    answer, asked = cloud._answer, list[str]()

    def tell(view: Any, verb: str, *rest: Any) -> Any:
        if verb == "network.get_network":
            asked.append(verb)
            if len(asked) > answered:
                raise CloudError(verb, "boom", 500)
        return answer(view, verb, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(cloud, "_answer", tell)
        stack = cloudy.check(stack)
    after = {name: drift(cloudy, stack, name) for name in NAMES}
    unseen = [name for name, one in after.items() if one is not None and one.unknown_since is not None]
    assert len(unseen) >= len(NAMES) - answered
    assert bool(unseen) == (answered < 2 * len(NAMES))
    for name, one in after.items():
        known = before[name]
        assert one is not None and known is not None
        assert (one.state, one.since, one.differences) == (DriftState.DRIFTED, known.since, known.differences)
        assert (one.checked_at == known.checked_at) == (name in unseen)
    stack = cloudy.check(stack)
    assert [name for name in NAMES if (drift(cloudy, stack, name) or known).unknown_since is not None] == []
    assert len(told(cloudy, stack)) == len(NAMES)


@pytest.mark.slow
@pytest.mark.database
def test_ten_thousand_at_once(engine: Engine) -> None:
    """One event for each beginning and end, and a list that has each once."""
    stack = engine.create(template(a=thing("v")))
    row, store, project = engine.row(stack, "a"), engine.store, engine.who.project
    rows = [replace(row, id=new_id(), name=f"größe-{number}") for number in range(MANY)]
    differing = Differences((Difference("/value", "v", "w"),))
    engine.by_hand = True
    with store.transaction():
        store.resources.insert_many(rows)
    for found, verb in ((differing, "DETECTED"), (differing, ""), (Differences(), "ENDED")):
        news = ObjectNews(project, stack.id, engine.clock.now(), compared={one.id: (one, found) for one in rows})
        with store.transaction():
            events = store.objects_seen(news)
        assert {one.status for one in events} == ({verb} if verb else set())
        assert len(events) == (MANY if verb else 0)
        if verb == "ENDED":
            break
        drifts = store.of(DriftStore)
        assert drifts.counts(project).drifted == MANY
        assert len(drifted_paths(drifts, stack, ())) == MANY
        listed, marker = list[str](), ""
        while page := drifts.page(project, DriftQuery((DriftState.DRIFTED,), limit=1000, marker=marker)):
            listed += [one.resource_id for one in page]
            marker = listed[-1]
        assert sorted(listed) == sorted(one.id for one in rows)
    assert store.of(DriftStore).counts(project).drifted == 0
