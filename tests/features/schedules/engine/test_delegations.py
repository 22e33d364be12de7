"""Trusts of schedules and expiries: made, asked, and given back."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr, replace

from heatlite import wiring
from heatlite.api.access.authentication import AccessControl
from heatlite.api.access.policy import Table
from heatlite.clients.cloud import CloudError, CloudUnavailable
from heatlite.clients.clouds import Clouds
from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.errors import EntityNotFound, HTTPBadRequest, NoCredential
from heatlite.core.json import JsonMap
from heatlite.features.schedules.delegations import PAUSE, Delegations
from heatlite.features.schedules.expiry.operations import WantedExpiry
from heatlite.features.schedules.expiry.parts import Expiries
from heatlite.features.schedules.expiry.state import ExpiryState, Then
from heatlite.features.schedules.operations import WantedSchedule
from heatlite.features.schedules.parts import Schedules
from heatlite.features.schedules.store.delegations import DelegationStore
from heatlite.features.schedules.store.expiries import ExpiryStore
from heatlite.features.schedules.store.records import ScheduledTask
from heatlite.features.schedules.store.store import SchedulesStore
from heatlite.features.simulator.cloud import SimulatedCloud
from heatlite.store.records import StackRecord
from tests.engine.conftest import MEMBER, resource, template
from tests.killed import killed_at_each_write
from tests.tables import few
from tests.types.conftest import Cloudy

HOUR = 3600.0
OWNER = replace(MEMBER, user_id="owner", token="t")
MIA, TOM = (replace(MEMBER, user=name, user_id=name, token=name) for name in ("mia", "tom"))
LOOK = WantedSchedule("look", "0 9 * * *", "UTC", ScheduledTask.CHECK, {}, 3600, True, None, None)


class Notary:
    """Keystone's trusts, by the user who has given each."""

    def __init__(self) -> None:
        self.good: list[str] = []
        self.given = 0
        self.away = False
        self.lost = set[str]()
        """Users without their roles."""

    def delegate(self, context: Context) -> JsonMap:
        if context.user_id in self.lost:
            raise CloudError("identity.create_trust", "no such role", 403)
        self.given += 1
        self.good.append(f"{context.user_id}-{self.given}")
        return {"trust_id": self.good[-1]}

    def by_credential(self, _project: str, credential: JsonMap) -> Any:
        trust = str(credential["trust_id"])
        if self.away:
            raise CloudUnavailable("identity.token", "nobody answers")
        if trust not in self.good or trust.partition("-")[0] in self.lost:
            raise CloudError("identity.token", "the trust gives no token", 401)
        return self

    identity = "yes"

    def revoke(self, credential: JsonMap) -> None:
        if self.away:
            raise CloudUnavailable("identity.delete_trust", "nobody answers")
        if credential["trust_id"] in self.good:  # else it is revoked already
            self.good.remove(str(credential["trust_id"]))


class Keystone:
    """Accounts that are not kept here."""

    challenge = "Keystone"

    def identify(self, _req: object) -> None:
        return None

    def roles(self, _user: str, _project: str) -> frozenset[str]:
        raise AssertionError("its accounts are not kept here")

    def exchange(self, _credentials: object) -> None:
        return None


@pytest.fixture
def notary() -> Notary:
    return Notary()


@pytest.fixture
def engine(notary: Notary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloudy]:
    class WithDelegation(SimulatedCloud):
        def clouds(self, clock: Clock, credential_of: Callable[[str], JsonMap | None], *finders: object) -> Clouds:
            clouds = super().clouds(clock, credential_of, *finders)
            return Clouds("simulated", clock.now, lambda project: clouds.of(project).cloud, notary, credential_of)  # type: ignore[arg-type]

    monkeypatch.setattr(wiring, "cloud_provider", WithDelegation)
    found = Cloudy(tmp_path)
    found.who = OWNER
    access = AccessControl(Keystone(), Table(wiring.rules(found.components.settings)), None, None)
    force_setattr(found.components, "access", lambda: access)
    yield found
    found.close()


@pytest.fixture
def stack(engine: Cloudy) -> StackRecord:
    return engine.create(template(a=resource("OS::Heat::TestResource")))


def delegations(engine: Cloudy) -> list[tuple[str, bool]]:
    """The owners of all rows, and whether each is released."""
    return [*engine.store.database.read("SELECT owner_id, released FROM delegation ORDER BY released, id")]


def swept(engine: Cloudy, later: float = PAUSE) -> None:
    """Revoke what is released."""
    engine.clock.pass_(later)
    engine.components.of(Delegations).sweep(engine.clock.now())


def test_each_schedule_has_a_trust_of_its_author(engine: Cloudy, stack: StackRecord, notary: Notary) -> None:
    operations, rows = engine.components.of(Schedules).operations, engine.store.of(DelegationStore)
    with engine.clock.held():
        look = operations.add(MIA, stack, LOOK)
        other = operations.add(TOM, stack, replace(LOOK, name="other"))
        assert notary.good == ["owner-1", "mia-2", "tom-3"]
        assert rows.of(look.id) == {"trust_id": "mia-2"}
        stored = engine.store.database.read("SELECT credential FROM delegation")
        assert "trust" not in str(stored), "it is encrypted"
        operations.put(TOM, stack, "look", LOOK)
        assert rows.of(look.id) == {"trust_id": "tom-4"}
        notary.away = True
        swept(engine)
        assert (len(notary.good), delegations(engine)[-1]) == (4, (look.id, 1)), "it is tried again"
        notary.away = False
        swept(engine)
        assert notary.good == ["owner-1", "tom-3", "tom-4"]
        operations.delete(TOM, stack, "other")
        swept(engine)
        assert (notary.good, delegations(engine)) == (["owner-1", "tom-4"], [(look.id, 0)])
        for refused in (lambda: operations.add(MIA, stack, LOOK), lambda: operations.put(MIA, stack, "none", LOOK)):
            with pytest.raises((HTTPBadRequest, EntityNotFound)):
                refused()
        assert notary.good == ["owner-1", "tom-4"], "a refused one is given back at once"
        engine.delete(stack)
        swept(engine)
        assert (notary.good, delegations(engine)) == ([], [])
    assert other.created_by == "tom"
    assert engine.store.inconsistencies(engine.clock.now(), 60.0) == []


@pytest.mark.parametrize("how", few(["lost role", "withdrawn", "never given"]))
def test_an_author_without_a_right_is_refused(engine: Cloudy, stack: StackRecord, notary: Notary, how: str) -> None:
    """Although the owner of the stack still has all rights."""
    parts, rows = engine.components.of(Schedules), engine.store.of(SchedulesStore)
    with engine.clock.held():
        parts.operations.add(MIA, stack, LOOK)
        if how == "lost role":
            notary.lost.add("mia")
        elif how == "withdrawn":
            notary.good.remove("mia-2")
        else:  # made by an older version
            with engine.store.transaction():
                engine.store.database.write("DELETE FROM delegation")
        engine.clock.pass_(HOUR)
        parts.sweep.run(rows.due(engine.clock.now()))
        (ended,) = rows.of_stack(stack.id)
        assert ended.last is not None
        assert (ended.last.result, ended.last.code) == ("refused", "no_credential")
        with pytest.raises(NoCredential):
            parts.operations.add(replace(MIA, token=""), stack, replace(LOOK, name="more"))
        if how == "lost role":
            with pytest.raises(NoCredential):
                parts.operations.add(MIA, stack, replace(LOOK, name="more"))


def test_a_keystone_that_is_away_is_waited_for(engine: Cloudy, stack: StackRecord, notary: Notary) -> None:
    parts, rows = engine.components.of(Schedules), engine.store.of(SchedulesStore)
    with engine.clock.held():
        parts.operations.add(MIA, stack, LOOK)
        notary.away = True
        for after in (HOUR, HOUR - 1):
            engine.clock.pass_(after)
            parts.sweep.run(rows.due(engine.clock.now()))
            assert [one.last for one in rows.of_stack(stack.id)] == [None]
        notary.away = False
        parts.sweep.run(rows.due(engine.clock.now()))
        (begun,) = rows.of_stack(stack.id)
        assert begun.last is not None and begun.last.result == "started"


def test_an_expiry_has_one_too(engine: Cloudy, stack: StackRecord, notary: Notary) -> None:
    parts, rows = engine.components.of(Expiries), engine.store.of(ExpiryStore)
    with engine.clock.held():
        for caller in (MIA, TOM):
            parts.operations.put(caller, stack, WantedExpiry(engine.clock.now() + HOUR, Then.DELETE, (60,)))
        swept(engine)
        assert notary.good == ["owner-1", "tom-3"]
        engine.clock.pass_(HOUR - 100)
        parts.sweep.run(rows.due(engine.clock.now()))
        notary.lost.add("tom")
        engine.clock.pass_(100)
        parts.sweep.run(rows.due(engine.clock.now()))
        held = rows.of([stack.id])[stack.id]
        assert (held.state, held.code) == (ExpiryState.HELD, "no_credential")
        parts.operations.delete(MIA, stack)
        notary.lost.clear()
        swept(engine)
        assert (notary.good, delegations(engine)) == (["owner-1"], [])


def test_killed_at_each_write_no_trust_is_forgotten(
    engine: Cloudy, stack: StackRecord, notary: Notary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trusts that are stored are those that the rows need."""
    operations, rows = engine.components.of(Schedules).operations, engine.store.of(DelegationStore)
    with engine.clock.held():
        look = operations.add(MIA, stack, LOOK)
        assert len([*killed_at_each_write(monkeypatch, lambda: operations.put(TOM, stack, "look", LOOK))]) > 2
        (known,) = engine.store.of(SchedulesStore).of_stack(stack.id)
        assert known.created_by == "tom"
        assert str(rows.of(look.id)).startswith("{'trust_id': 'tom-")
        assert delegations(engine) == [(look.id, 0), (look.id, 1)]
        kills = [*killed_at_each_write(monkeypatch, lambda: engine.components.of(Delegations).sweep(1e12))]
        assert kills
        engine.components.of(Delegations).sweep(1e13)
        assert delegations(engine) == [(look.id, 0)]
