"""Rights of the caller in Keystone by which resources are made (decision 0014)."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.clients.cloud import Cloud, CloudError, CloudUnavailable
from heatlite.clients.clouds import Clouds
from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.errors import CommitUnanswered, NoCredential, StackExists, StackValidationFailed
from heatlite.core.json import JsonMap
from heatlite.features.simulator.cloud import SimulatedCloud
from heatlite.store.database.database import Database
from heatlite.store.stacks.stack_query import StackQuery
from tests.engine.conftest import MEMBER, resource, template
from tests.types.conftest import Cloudy

CALLER = replace(MEMBER, user_id="u1", token="theirs", options={"quota_check": "off"})
"""Without a quota check, which reads as the caller."""


class Notary:
    """Gives out credentials and records those by which each view was opened."""

    def __init__(self, clouds: Clouds) -> None:
        self._clouds = clouds
        self.good: list[str] = []
        self.given = 0
        self.opened: list[str] = []
        self.away = False

    def _view(self, project: str, by: str) -> Cloud:
        self.opened.append(by)
        return self._clouds.of(project).cloud

    def by_token(self, context: Context) -> Cloud:
        return self._view(context.project, context.token)

    def delegate(self, context: Context) -> JsonMap:
        self.given += 1
        self.good.append(f"{context.user_id}-{self.given}")
        return {"trust_id": self.good[-1]}

    def by_credential(self, project: str, credential: JsonMap) -> Cloud:
        assert credential["trust_id"] in self.good
        return self._view(project, str(credential["trust_id"]))

    def revoke(self, credential: JsonMap) -> None:
        if self.away:
            raise CloudUnavailable("identity.delete_trust", "nobody answers")
        self.good.remove(str(credential["trust_id"]))


@pytest.fixture
def notary(monkeypatch: pytest.MonkeyPatch) -> list[Notary]:
    """The notaries of the engines that are made."""
    notaries = []

    class WithDelegation(SimulatedCloud):
        def clouds(self, clock: Clock, credential_of: Callable[[str], JsonMap | None], *finders: object) -> Clouds:
            clouds = super().clouds(clock, credential_of, *finders)
            notaries.append(Notary(clouds))
            return Clouds("simulated", clock.now, lambda project: clouds.of(project).cloud, notaries[-1], credential_of)

    monkeypatch.setattr(wiring, "cloud_provider", WithDelegation)
    return notaries


@pytest.fixture
def engine(notary: list[Notary], tmp_path: Path) -> Iterator[Cloudy]:
    found = Cloudy(tmp_path)
    found.who = CALLER
    yield found
    found.close()


NET = resource("OS::Neutron::Net")


@pytest.mark.slow
def test_a_stack_acts_by_its_owners_credential(engine: Cloudy, notary: list[Notary]) -> None:
    (one,) = notary
    stack = engine.made({"net": NET})
    assert (one.given, one.opened) == (1, ["u1-1"])
    assert engine.store.credentials.of(stack.id) == {"trust_id": "u1-1"}
    engine.who = replace(CALLER, user_id="u2", token="another's")
    engine.changed(stack, {"net": NET, "more": NET})
    engine.check(stack)
    assert set(one.opened) == {"u1-1"}, "whoever updates it"
    engine.delete(stack)
    assert one.good == []
    assert engine.store.credentials.of(stack.id) is None


@pytest.mark.slow
def test_nested_stacks_act_by_their_roots(engine: Cloudy, notary: list[Notary]) -> None:
    group = resource("OS::Heat::ResourceGroup", count=2, resource_def=NET)
    stack = engine.made({"group": group})
    (one,) = notary
    assert (one.given, set(one.opened)) == (1, {"u1-1"})
    engine.delete(stack)
    assert one.good == []


def test_what_a_template_names_is_looked_for_by_the_caller(engine: Cloudy, notary: list[Notary]) -> None:
    port = resource("OS::Neutron::Port", network="nowhere")
    with pytest.raises(StackValidationFailed, match="nowhere"):
        engine.create(template(port=port))
    (one,) = notary
    assert (one.opened, one.good) == (["theirs"], [])
    stack = engine.made({"net": NET})
    with pytest.raises(StackValidationFailed, match="nowhere"):
        engine.put(stack, template(port=port))
    assert set(one.opened[1:]) == {"u1-1"}


def test_a_stack_that_is_not_made_leaves_none(
    engine: Cloudy, notary: list[Notary], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.made({"net": NET})
    (one,) = notary
    monkeypatch.setattr(engine.store.stacks, "by_name", lambda *_: None)  # it came between the look and the write
    with pytest.raises(StackExists):
        engine.create(template(net=NET))
    assert (one.given, one.good) == (2, ["u1-1"])


def test_a_stack_that_may_have_been_made_keeps_it(
    engine: Cloudy, notary: list[Notary], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer to the COMMIT is lost.

    Without the credential no engine could carry the stack out, or delete it.
    """
    make_durable, here = Database._make_durable, threading.current_thread()

    def unanswered(database: Database) -> None:
        make_durable(database)
        if threading.current_thread() is here:
            monkeypatch.setattr(Database, "_make_durable", make_durable)
            raise CommitUnanswered(reason="connection lost")

    monkeypatch.setattr(Database, "_make_durable", unanswered)
    with pytest.raises(CommitUnanswered):
        engine.create(template(net=NET))
    (found,) = engine.store.stacks.list(None, StackQuery())
    assert engine.store.credentials.of(found.id) == {"trust_id": "u1-1"}
    assert notary[0].good == ["u1-1"]
    assert "stack s may exist" in caplog.text


def test_keystone_is_away_when_the_stack_goes(
    engine: Cloudy, notary: list[Notary], caplog: pytest.LogCaptureFixture
) -> None:
    stack = engine.made({"net": NET})
    notary[0].away = True
    engine.delete(stack)
    assert engine.get(stack).deleted_at is not None
    assert "was not given back: identity.delete_trust: nobody answers" in caplog.text


@pytest.mark.slow
def test_who_comes_without_a_token_acts_by_the_operators_right(engine: Cloudy, notary: list[Notary]) -> None:
    engine.who = MEMBER
    stack = engine.made({"net": NET})
    engine.delete(stack)
    assert (notary[0].given, notary[0].opened) == (0, [])


def test_the_rights_of_a_stack_are_confirmed_by_its_credential(
    engine: Cloudy, notary: list[Notary], monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = engine.made({"net": NET})
    clouds = engine.components.engine_services.services.clouds
    own = engine.store.credentials.of(stack.id)
    clouds.confirm(CALLER, own, stack.name)

    def refuses(error: CloudError) -> None:
        def by_credential(_project: str, _credential: JsonMap) -> Cloud:
            raise error

        monkeypatch.setattr(notary[0], "by_credential", by_credential)

    refuses(CloudUnavailable("identity.token", "nobody answers"))
    with pytest.raises(CloudUnavailable):
        clouds.confirm(CALLER, own, stack.name)
    refuses(CloudError("identity.token", "the trustor has lost a role", 401))
    with pytest.raises(NoCredential, match="whether mia may still do this"):
        clouds.confirm(CALLER, own, stack.name)
    monkeypatch.undo()
    with pytest.raises(NoCredential):
        clouds.confirm(CALLER, None, stack.name)
