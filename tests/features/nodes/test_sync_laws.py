"""Laws of `sync.compare` for any reports in any order after any state."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from heatlite.features.nodes.agents.sync import AgentReport, RecordChanges, ReportedAction, ReportedStep, compare
from heatlite.features.nodes.states import AT_AGENT, ENDED, MOVES, PENDING, NodeActionState, NodeState, Requester
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord

NODE = NodeRecord(
    "n", "s", "r", "p", "a", "http://a", "secret", "i", 3, "1", ["k"], False, NodeState.UP, "", 1.0, 2.0
)  # fmt: skip
IDS = ("one", "two", "three", "four")
TOLD_STATES = sorted(AT_AGENT | (ENDED - {NodeActionState.LOST}))


def digest(kind: str, args: Any, node_id: str) -> str:
    return f"{kind} {args} {node_id}"


def record(action_id: str, state: NodeActionState, **more: Any) -> NodeActionRecord:
    made = NodeActionRecord(
        action_id, "p", "s", "r", "n", "a", "k", {}, digest("k", {}, "n"), state, Requester.USER, "mia", 1.0, 1.0,
        approved_by="max", approved_at=1.0,
    )  # fmt: skip
    return replace(made, **more)


records = st.dictionaries(
    st.sampled_from(IDS),
    st.tuples(
        st.sampled_from(NodeActionState), st.sampled_from(("n", "n", "n", "other")), st.sampled_from(({}, {"a": 1}))
    ),
).map(lambda found: {
    one: record(one, state, node_id=node, args=args, digest=digest("k", args, node))
    for one, (state, node, args) in found.items()
})
tolds = st.dictionaries(
    st.sampled_from(IDS),
    st.tuples(st.sampled_from(TOLD_STATES), st.sampled_from(({}, {"a": 1})), st.sampled_from(("k", "l"))),
).map(lambda found: tuple(
    ReportedAction(
        one, kind, args, "who", 1.5, 2.0, 3.0, None, state, {}, {"o": 1}, "", (ReportedStep(2.0, state, ""),)
    )
    for one, (state, args, kind) in found.items()
))


@st.composite
def answers(draw: st.DrawFn) -> AgentReport:
    told = draw(tolds)
    known = frozenset(draw(st.sets(st.sampled_from(IDS)))) | {one.id for one in told}
    return AgentReport(draw(st.sampled_from(("i", "j"))), draw(st.integers(0, 9)), ("k",), known, told)


def after(before: dict[str, NodeActionRecord], changes: RecordChanges) -> dict[str, NodeActionRecord]:
    return {**before, **{one.id: one for one in (*changes.adopted, *changes.changed)}}


@given(records, answers())
def test_the_agent_wins_and_only_it(before: dict[str, NodeActionRecord], answer: AgentReport) -> None:
    changes = compare(NODE, before, answer, digest, 9.0)
    now = after(before, changes)
    for told in answer.actions:
        was = before.get(told.id)
        if was is None:
            adopted = now[told.id]
            assert (adopted.requester, adopted.node_id, adopted.state) == (Requester.AGENT, "n", told.state)
        elif was.node_id != "n":
            assert now[told.id] == was and told.id in changes.others
        elif was.has_ended:
            assert now[told.id] == was, "what has ended is frozen"
        else:
            is_ = now[told.id]
            assert (is_.kind, is_.args, is_.outputs) == (told.kind, told.args, told.outputs)
            assert is_.digest == digest(told.kind, told.args, "n")
            assert is_.state in (told.state, was.state)
            assert is_.state is told.state or told.state not in MOVES[was.state]
            assert (is_.requester, is_.requested_by) == (was.requester, was.requested_by)
            same = is_.digest == was.digest
            assert is_.approved_by == (was.approved_by if same else None), "nobody has approved what is another"
    for one, was in before.items():
        is_ = now[one]
        assert is_.state is was.state or is_.state in MOVES[was.state]
        if one not in {told.id for told in answer.actions}:
            assert answer.known is not None
            lost = was.node_id == "n" and was.state in AT_AGENT and one not in answer.known
            assert is_.state is (NodeActionState.LOST if lost else was.state)
            if was.state in PENDING:
                assert is_ == was, "what is only wanted cannot be lost"


@given(records, answers())
def test_the_same_answer_twice_changes_nothing(before: dict[str, NodeActionRecord], answer: AgentReport) -> None:
    changes = compare(NODE, before, answer, digest, 9.0)
    again = compare(changes.node, after(before, changes), answer, digest, 99.0)
    assert (again.adopted, again.changed, again.lines, again.told) == ([], [], [], {})
    assert again.node == changes.node


@given(records, st.sampled_from(("i", "j")), st.integers(0, 9))
def test_an_answer_that_is_not_complete_loses_nothing(
    before: dict[str, NodeActionRecord], instance: str, revision: int
) -> None:
    for node in (NODE, replace(NODE, state=NodeState.UNREACHABLE, reason="away")):
        changes = compare(node, before, AgentReport(instance, revision), digest, 9.0)
        assert after(before, changes) == before
        assert (changes.node.state, changes.node.reason) == (NodeState.UP, "")
        assert (changes.node.instance, changes.node.revision) == (NODE.instance, NODE.revision)


@given(records, answers())
def test_each_change_has_its_history_and_says_who_tells_it(
    before: dict[str, NodeActionRecord], answer: AgentReport
) -> None:
    changes = compare(NODE, before, answer, digest, 9.0)
    lost = {one.id for one in changes.changed if one.state is NodeActionState.LOST}
    others = {one.id for one in changes.changed if one.digest != before[one.id].digest}
    assert {line.action_id for line in changes.lines} == lost | others
    assert all(before[line.action_id].digest in line.reason for line in changes.lines if line.action_id in others)
    assert changes.told.keys() == {one.id for one in (*changes.adopted, *changes.changed)} - lost
    assert {line.origin for line in changes.lines} <= {"server"}
    assert {line.origin for lines in changes.told.values() for line in lines} <= {"agent"}
