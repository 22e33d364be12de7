"""Requests for node actions in each state, and their results."""

from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from heatlite import wiring
from heatlite.__main__ import main
from heatlite.core.clock import Clock
from heatlite.core.config import Auth, BadSetting, Settings, load
from heatlite.core.context import Context
from heatlite.core.errors import EntityNotFound, Forbidden, HTTPBadRequest, MultipleChoices, RequestLimitExceeded
from heatlite.feature import installed
from heatlite.features.nodes.feature import NodeSettings
from heatlite.features.nodes.requests import MAX_ARGS, NodeRequest, NodeRequests
from heatlite.features.nodes.states import (
    AT_AGENT,
    ENDED,
    MOVES,
    InvalidNodeActionState,
    NodeActionChanged,
    NodeActionExists,
    NodeActionState,
    TransitionOrigin,
)
from heatlite.features.nodes.store.records import NodeActionRecord, NodeTransitionRecord
from heatlite.features.nodes.store.store import NodeStore
from tests.api.conftest import template, value
from tests.features.nodes.registered_nodes import registered
from tests.tables import sampled

from .conftest import Site

S = NodeActionState
WAY = {
    S.PENDING_APPROVE: (),
    S.PENDING_SCHEDULE: (S.PENDING_SCHEDULE,),
    S.NEW: (S.PENDING_SCHEDULE, S.NEW),
    S.RUNNING: (S.PENDING_SCHEDULE, S.RUNNING),
    S.DONE: (S.PENDING_SCHEDULE, S.DONE),
    S.FAILED: (S.PENDING_SCHEDULE, S.FAILED),
    S.CANCELLED: (S.CANCELLED,),
    S.LOST: (S.PENDING_SCHEDULE, S.NEW, S.LOST),
}
"""Ways of a node action into each state."""


def moved(site: Site, action: NodeActionRecord, *states: NodeActionState, **more: object) -> NodeActionRecord:
    """A node action to which that has happened, as an orchestration would write it."""
    for state in states:
        sent = {"sent_at": 1.0} if state in AT_AGENT else {}
        action = replace(site.now(action), state=state, **sent)
        with site.store.transaction():
            site.store.stacks.lock(action.stack_id)
            site.ledger.record([action], [NodeTransitionRecord(action.id, 1.0, state, TransitionOrigin.SERVER)])
    if more:
        action = replace(site.now(action), **more)  # type: ignore[arg-type]
        with site.store.transaction():
            site.ledger.record([action])
    return site.now(action)


def due(site: Site) -> int:
    """Number of orchestrations requested for the stack."""
    found = site.store.of(NodeStore).orchestrations.get(site.stack.id)
    return 0 if found is None else found.nudges


@pytest.fixture(scope="module")
def shared(server: wiring.Embedded) -> Site:
    return Site(server)


class TestMatrix:
    @pytest.mark.parametrize(
        ("state", "sent", "asked"),
        sampled([
            (state, sent, asked)
            for state, sent, asked in product(S, (False, True), ("approve", "reject", "cancel"))
            if sent <= (state is S.PENDING_SCHEDULE)
        ], 7, pytest.mark.thorough),
    )
    def test_each_request_in_each_state(self, shared: Site, state: S, sent: bool, asked: str) -> None:
        site = shared
        action = moved(site, site.ask(), *WAY[state], **({"sent_at": 1.0} if sent else {}))
        before, nudges = site.store.of(NodeStore).node_actions.history(action.id), due(site)
        path = f"/node_actions/{action.id}/{asked}"
        reached = {"approve": S.PENDING_SCHEDULE, "reject": S.CANCELLED}.get(asked)
        if asked == "cancel" and state not in ENDED:
            reached = S.CANCELLED if state in (S.PENDING_APPROVE, S.PENDING_SCHEDULE) and not sent else state
        elif state is not S.PENDING_APPROVE:
            reached = None
        if reached is None:
            kind, text = site.heat.fault("POST", path)
            assert kind == "InvalidNodeActionState"
            assert state in text
            assert site.now(action) == action
            assert site.store.of(NodeStore).node_actions.history(action.id) == before
            return
        answer = site.heat.call("POST", path, code=202 if reached is state else 200).json["node_action"]
        assert answer["state"] == reached
        assert answer["cancel_asked"] == (reached is state)
        assert site.now(action).state is reached
        (line,) = site.store.of(NodeStore).node_actions.history(action.id)[len(before) :]
        assert (line.state, line.origin, line.user) == (reached, TransitionOrigin.SERVER, "anonymous")
        assert (due(site) > nudges) == (reached is not S.CANCELLED)

    @pytest.mark.slow
    @given(
        steps=st.lists(
            st.one_of(st.sampled_from(["approve", "reject", "cancel"]), st.sampled_from([*S])), min_size=1, max_size=6
        )
    )
    def test_no_history_makes_a_move_that_there_is_not(self, shared: Site, steps: list[str | S]) -> None:
        site = shared
        action = site.ask()
        for step in steps:
            before = site.now(action)
            try:
                if isinstance(step, S):
                    moved(site, action, step)
                else:
                    getattr(site.requests, step)(site.caller, action)
            except (InvalidNodeActionState, RuntimeError):
                assert site.now(action) == before
        told = [line.state for line in site.store.of(NodeStore).node_actions.history(action.id)]
        assert told[0] is S.PENDING_APPROVE
        assert all(after in MOVES[one] | {one} for one, after in pairwise(told))
        assert told[-1] is site.now(action).state


class TestCreate:
    def test_a_name_or_an_id_says_on_which_node_also_of_a_nested_stack(self, site: Site) -> None:
        inner = template(a=value(), only=value())
        nested = {"type": "inner.yaml"}
        path = site.heat.create(template(a=value(), n=nested), name="outer", files={"inner.yaml": str(inner)})
        outer = site.store.stacks.get(path.rpartition("/")[2])
        assert outer is not None
        (child,) = site.store.stacks.descendants(outer)
        registered(site.store, outer, "a")
        deep, only = registered(site.store, child, "a"), registered(site.store, child, "only")

        def ask(node: str) -> NodeActionRecord:
            return site.requests.create(site.caller, outer, NodeRequest(node, "script", {}))[0]

        assert (ask("only").node_id, ask(deep.id).node_id) == (only.id, deep.id)
        assert (ask("only").root_id, ask("only").stack_id) == (outer.id, child.id)
        with pytest.raises(MultipleChoices, match=deep.id):
            ask("a")
        for unknown in ("c", site.nodes["b"].id):
            with pytest.raises(EntityNotFound, match=r"could not be found in stack outer.*only"):
                ask(unknown)

    def test_the_callers_id_puts_it_once(self, site: Site) -> None:
        one = "0b54ba22-1c4e-4f8e-9c43-6d8b54f43d35"
        first = site.ask(id=one, args={"n": 1})
        site.requests.approve(site.caller, first)
        request = NodeRequest("a", "test/success", {"n": 1}, id=one)
        again, is_new = site.requests.create(site.caller, site.stack, request)
        assert (again.state, is_new) == (S.PENDING_SCHEDULE, False)
        assert len(site.store.of(NodeStore).node_actions.page(site.heat.project)) == 1
        for other in (replace(request, node="b"), replace(request, kind="script"), replace(request, args={"n": True})):
            with pytest.raises(NodeActionExists):
                site.requests.create(site.caller, site.stack, other)
        (action,) = site.store.action_list.find(site.heat.project, f"stack_create_{site.stack.id[-8:]}", 2)
        with pytest.raises(NodeActionExists):
            site.ask(id=action.id)

    def test_what_its_agent_cannot_do_or_is_too_much_is_refused(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(HTTPBadRequest, match="has no reboot; it has: script, test/loop"):
            site.ask(kind="reboot")
        with pytest.raises(HTTPBadRequest, match=f"there may be {MAX_ARGS}"):
            site.ask(args={"text": "ä" * (MAX_ARGS // 2)})
        site.ask(args={"text": "x" * (MAX_ARGS - 20)})
        node = replace(site.nodes["b"], kinds=())
        with site.store.transaction():
            site.store.of(NodeStore).nodes.save_many([node])
        site.ask("b", "reboot")  # it has not said yet what it can do
        monkeypatch.setattr("heatlite.features.nodes.requests.MAX_OPEN", 1)
        with pytest.raises(RequestLimitExceeded, match="1 actions on node b"):
            site.ask("b")

    def test_it_tells_who_follows_the_stack(self, site: Site) -> None:
        """It does not count as the end of the stack."""
        path = f"{site.path}/resources/a/events?resource_type=OS::Heat::NodeAction&sort_dir=asc"
        action = site.ask(kind="script", args={"password": "hunter22"})
        site.requests.approve(site.caller, action)
        failed = replace(site.now(action), state=S.FAILED, error="login with hunter22 was refused")
        with site.store.transaction():
            site.ledger.record([failed])
        shown = site.heat.get(path)["events"]
        assert [event["resource_status"] for event in shown] == [
            "NODE_ACTION_PENDING_APPROVE",
            "NODE_ACTION_PENDING_SCHEDULE",
            "NODE_ACTION_FAILED",
        ]
        assert shown[-1]["resource_status_reason"] == "script: login with ****** was refused"
        assert {event["physical_resource_id"] for event in shown} == {action.id}


class TestApproval:
    def strict(self, site: Site) -> NodeRequests:
        """Requests that another user must approve."""
        strict = Settings(database="", auth=Auth.TOKENS, of_features=(NodeSettings(node_approval_by_another=True),))
        return NodeRequests(site.store, Clock(), strict, site.ledger)

    def test_nobody_is_somebody_else_where_nobody_is_asked(self) -> None:
        with pytest.raises(BadSetting, match="Choose another auth"):
            load(installed, environ={"HEATLITE_NODE_APPROVAL_BY_ANOTHER": "true", "XDG_CONFIG_HOME": "/nowhere"})

    def test_commands_in_one_process_ask_nobody(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("HEATLITE_AUTH", "tokens")
        monkeypatch.setenv("HEATLITE_NODE_APPROVAL_BY_ANOTHER", "true")
        assert main(["ls"]) == 0

    def test_it_may_be_granted_by_whom_may_approve(self, site: Site) -> None:
        nudges = due(site)
        action = site.ask(granted=True)
        assert (action.state, action.approved_by) == (S.PENDING_SCHEDULE, "mia")
        assert due(site) == nudges + 1
        nobody = Context(site.heat.project, "max", may=lambda rule: rule != "node_actions:approve")
        with pytest.raises(Forbidden, match="node_actions:approve"):
            site.requests.create(nobody, site.stack, NodeRequest("a", "script", {}, granted=True))
        with pytest.raises(Forbidden, match="node_approval_by_another"):
            self.strict(site).create(site.caller, site.stack, NodeRequest("a", "script", {}, granted=True))

    def test_somebody_else_has_to_where_the_installation_wants_that(self, site: Site) -> None:
        requests, action = self.strict(site), site.ask()
        with pytest.raises(Forbidden, match="another user"):
            requests.approve(site.caller, action)
        assert site.now(action).state is S.PENDING_APPROVE
        assert requests.approve(Context(site.heat.project, "max"), action).approved_by == "max"
        assert requests.reject(site.caller, site.ask()).state is S.CANCELLED

    def test_it_is_for_what_was_read(self, site: Site) -> None:
        action, other = site.ask(), site.ask(args={"n": 1})
        assert action.digest != other.digest
        for decide in (site.requests.approve, site.requests.reject):
            with pytest.raises(NodeActionChanged, match=action.digest):
                decide(site.caller, action, other.digest)
        assert site.requests.approve(site.caller, action, action.digest).state is S.PENDING_SCHEDULE

    def test_of_a_run_each_part_is_approved_with_it(self, site: Site) -> None:
        run = replace(site.ask(), id="0b54ba22-1c4e-4f8e-9c43-6d8b54f43d36", run_id="run")
        with site.store.transaction():
            site.store.of(NodeStore).node_actions.insert_many([run])
        for decide, what in ((site.requests.approve, "approved"), (site.requests.reject, "rejected")):
            with pytest.raises(InvalidNodeActionState, match=f"part of the run run: only the whole run can be {what}"):
                decide(site.caller, run)
        assert site.requests.cancel(site.caller, run).state is S.CANCELLED

    def test_a_lock_is_no_reason_to_wait(self, site: Site) -> None:
        site.heat.call("POST", f"{site.path}/actions", {"lock": None}, code=200)
        site.heat.settle(site.path, "LOCK_COMPLETE")
        action = site.requests.approve(site.caller, site.ask())
        assert site.requests.cancel(site.caller, action).state is S.CANCELLED
