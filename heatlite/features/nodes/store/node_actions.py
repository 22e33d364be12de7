"""Node actions and their history."""

from collections.abc import Collection, Mapping, Sequence

from heatlite.core.json import JsonMap, canonical
from heatlite.core.status import Status, Verb
from heatlite.features.nodes.states import AT_AGENT, ENDED, OPEN, NodeActionState
from heatlite.features.nodes.store.records import NodeActionRecord, NodeTransitionRecord, RunStep
from heatlite.features.nodes.store.tables import NodeAction, NodeTransition
from heatlite.store.actions.table import OPEN as OPEN_ACTION
from heatlite.store.database.sql import chunks, marks
from heatlite.store.database.statements import Value
from heatlite.store.records import ActionRecord
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import ProjectValues
from heatlite.store.writes.record_store import RecordStore

_ROWS = Rows(NodeActionRecord, NodeAction)
_STEPS = Rows(RunStep, NodeAction)
_TRANSITIONS = Rows(NodeTransitionRecord, NodeTransition)
_FIXED = ("project", "stack_id", "root_id", "node_id", "node", "created_at", "run_id", "stage", "deployment_id")


def _any_of(states: Collection[NodeActionState]) -> str:
    return f"state IN ({', '.join(repr(str(state)) for state in sorted(states))})"


_OPEN = _any_of(OPEN)

_REMOVABLE = f"NOT {_OPEN} AND NOT EXISTS (SELECT 1 FROM action WHERE action.id = run_id AND action.{OPEN_ACTION})"
"""Ended, and not part of a playbook's run that has not."""


class NodeActions(RecordStore[NodeActionRecord]):
    """Node actions, ordered by creation (`seq`)."""

    def __init__(self, encryption: FieldEncryption, values: ProjectValues) -> None:
        super().__init__(encryption, Table(encryption, _ROWS, fixed=_FIXED, large_values=values))
        self._encryption = encryption
        self._steps = Table(encryption, _STEPS, large_values=values)
        self._transitions = Table(encryption, _TRANSITIONS)
        self._for_update = self._database.backend.for_update

    def digest(self, kind: str, args: JsonMap, node_id: str) -> str:
        """Return the digest of kind, arguments and node; 64 characters."""
        return self._encryption.digest(canonical({"kind": kind, "args": args, "node_id": node_id}))

    def add_history(self, lines: Sequence[NodeTransitionRecord]) -> None:
        """Add lines to the histories of node actions."""
        self._transitions.insert(lines)

    def replace_agent_history(self, lines_of: Mapping[str, Sequence[NodeTransitionRecord]]) -> None:
        """Replace the lines from agents in the histories of node actions, by id."""
        for some in chunks(list(lines_of)):
            sql = f"DELETE FROM node_transition WHERE action_id IN ({marks(some)}) AND origin = 'agent'"
            self._database.write(sql, some)
        self.add_history([line for lines in lines_of.values() for line in lines])

    def history(self, action_id: str) -> list[NodeTransitionRecord]:
        """Return the lines of a node action, oldest first.

        Server and agent write lines, each by its own clock.
        """
        return self._transitions.select("WHERE action_id = ? ORDER BY id", (action_id,))

    def lock(self, action_id: str) -> NodeActionRecord | None:
        """Return a node action, locked until the transaction ends. Lock its root first."""
        return self._table.first(f"WHERE id = ?{self._for_update}", (action_id,))

    def existing(self, action_ids: Sequence[str]) -> list[NodeActionRecord]:
        """Return the existing node actions of the ids, by creation."""
        return sorted(self._table.select_in("WHERE id IN ()", action_ids), key=lambda action: action.seq)

    def states(self, action_ids: Sequence[str]) -> dict[str, NodeActionState]:
        """Return the states of the existing node actions of the ids."""
        rows = self._database.read_in("SELECT id, state FROM node_action WHERE id IN ()", action_ids)
        return {action_id: NodeActionState(state) for action_id, state in rows}

    def count_open(self, node_id: str) -> int:
        """Return the number of open node actions of a node."""
        sql = f"SELECT COUNT(*) FROM node_action WHERE node_id = ? AND {_OPEN}"
        ((count,),) = self._database.read(sql, (node_id,))
        return int(count)

    def open_of_root(self, root_id: str) -> list[NodeActionRecord]:
        """Return the open node actions of a tree, by creation."""
        return self._table.select(f"WHERE root_id = ? AND {_OPEN} ORDER BY seq", (root_id,))

    def unapproved(self, root_id: str | None = None) -> list[NodeActionRecord]:
        """Return the node actions that wait for approval, or those of a tree, by creation."""
        where, values = ("", ()) if root_id is None else (" AND root_id = ?", (root_id,))
        return self._table.select(f"WHERE state = 'PENDING_APPROVE'{where} ORDER BY seq", values)

    def at_agents(self, root_id: str) -> list[str]:
        """Return the open node actions that reachable agents may have, as ids."""
        sql = (
            f"SELECT node_action.id FROM node_action JOIN node ON node.id = node_id WHERE node_action.root_id = ?"
            f" AND node_action.{_OPEN} AND (sent_at IS NOT NULL OR node_action.{_any_of(AT_AGENT)})"
            " AND node.state <> 'UNREACHABLE' ORDER BY seq"
        )
        return [found for (found,) in self._database.read(sql, (root_id,))]

    def waiting_for_unhealthy(self, runs: Sequence[ActionRecord]) -> set[str]:
        """Return the ids of those of some runs that wait for CHECK_FAILED nodes only.

        Nothing of these is at an agent, or may be sent.
        """
        stages = {run.id: run.inputs.stages or () for run in runs}
        resource, found = self._database.quote("resource"), dict[str, bool]()
        sql = (
            "SELECT run_id, stage, state, sent_at, cancel_asked, verb, status FROM node_action"
            f" LEFT JOIN {resource} ON {resource}.id = node_id WHERE run_id IN ()"
            f" AND turn AND node_action.{_OPEN}"
        )
        for run_id, stage, state, sent_at, cancel_asked, verb, status in self._database.read_in(sql, list(stages)):
            is_unsent = state == NodeActionState.PENDING_SCHEDULE and sent_at is None and not cancel_asked
            is_unwell = (verb, status) == (Verb.CHECK, Status.FAILED)
            waits = is_unsent and is_unwell and stages[run_id][stage].unhealthy != "skip"
            found[run_id] = waits and found.get(run_id, True)
        return {run_id for run_id, waits in found.items() if waits}

    def results(self, ids: Sequence[str], root_id: str) -> dict[str, bool | None]:
        """Return the success of those of the ids that are node actions.

        It is None while one has not ended. A transaction that ends a node action, or enqueues an action, holds the lock
        of its tree. Node actions of other trees than that of `root_id` are locked here.
        """
        found: dict[str, bool | None] = {}
        elsewhere: list[tuple[int, str]] = []
        sql = "SELECT id, root_id, state, seq FROM node_action WHERE id IN ()"
        for one, root, state, seq in self._database.read_in(sql, ids):
            found[one] = _succeeded(state)
            if root != root_id:
                elsewhere.append((seq, one))
        for _, one in sorted(elsewhere):
            sql = f"SELECT state FROM node_action WHERE id = ?{self._for_update}"
            for (state,) in self._database.read(sql, (one,)):
                found[one] = _succeeded(state)
        return found

    def open_deployed(self, root_id: str) -> list[NodeActionRecord]:
        """Return the open node actions of a tree that carry out software deployments."""
        rest = f"WHERE root_id = ? AND {_OPEN} AND deployment_id IS NOT NULL ORDER BY seq"
        return self._table.select(rest, (root_id,))

    def open_of_nodes(self, node_ids: Sequence[str]) -> list[NodeActionRecord]:
        """Return the open node actions of some nodes, by creation."""
        found = self._table.select_in(f"WHERE node_id IN () AND {_OPEN}", node_ids)
        return sorted(found, key=lambda action: action.seq)

    def open_counts(self, node_ids: Sequence[str]) -> dict[str, dict[NodeActionState, int]]:
        """Return the numbers of open node actions by node and state."""
        found: dict[str, dict[NodeActionState, int]] = {}
        sql = (
            "SELECT node_id, state, COUNT(*) FROM node_action WHERE node_id IN ()"
            f" AND {_OPEN} GROUP BY node_id, state"
        )
        for node_id, state, count in self._database.read_in(sql, node_ids):
            found.setdefault(node_id, {})[NodeActionState(state)] = int(count)
        return found

    def of_run(self, run_id: str) -> list[NodeActionRecord]:
        """Return the node actions of a playbook's run, stage by stage."""
        return self._table.select("WHERE run_id = ? ORDER BY seq", (run_id,))

    def steps(self, run_id: str) -> list[RunStep]:
        """Return the steps of a playbook's run, stage by stage."""
        return self._steps.select("WHERE run_id = ? ORDER BY seq", (run_id,))

    def page(
        self,
        project: str,
        stack_ids: Sequence[str] | None = None,
        filters: dict[str, Sequence[str]] | None = None,
        sort: Sequence[tuple[str, bool]] = (("seq", True),),
        limit: int | None = None,
        marker: NodeActionRecord | None = None,
    ) -> list[NodeActionRecord]:
        """Return a page of a project's node actions, or of some of its stacks.

        `filters` maps columns to accepted values; a value for `node` may also be a node's id. `sort` has columns with
        True for descending; `seq` breaks ties. `marker` is the last node action of the page before.
        """
        where, values = ["project = ?"], [project]
        for column, wanted in [*([] if stack_ids is None else [("stack_id", stack_ids)]), *(filters or {}).items()]:
            if not wanted:
                return []
            columns = ("node", "node_id") if column == "node" else (column,)
            one_of = f"IN ({marks(wanted)})"
            where.append(f"({' OR '.join(f'{self._database.quote(one)} {one_of}' for one in columns)})")
            values += [*wanted] * len(columns)
        keys = [*sort, *([] if any(column == "seq" for column, _ in sort) else [("seq", True)])]
        parameters: list[Value] = [*values]
        if marker is not None:
            later = []
            for at, (column, down) in enumerate(keys):
                same = [f"{self._database.quote(name)} = ?" for name, _ in keys[:at]]
                later.append(" AND ".join([*same, f"{self._database.quote(column)} {'<' if down else '>'} ?"]))
                parameters += [getattr(marker, name) for name, _ in keys[: at + 1]]
            where.append(f"({' OR '.join(later)})")
        order = ", ".join(f"{self._database.quote(column)} {'DESC' if down else 'ASC'}" for column, down in keys)
        cut = "" if limit is None else f" LIMIT {int(limit)}"
        return self._table.select(f"WHERE {' AND '.join(where)} ORDER BY {order}{cut}", parameters)

    def older_than(self, moment: float, limit: int) -> list[str]:
        """Return the ids of removable node actions without changes since a moment."""
        sql = f"SELECT id FROM node_action WHERE {_REMOVABLE} AND updated_at < ? ORDER BY seq LIMIT {int(limit)}"
        return [found for (found,) in self._database.read(sql, (moment,))]

    def over_limit(self, most: int, limit: int) -> list[str]:
        """Return the ids of the oldest removable node actions of a node with too many."""
        sql = "SELECT node_id FROM node_action GROUP BY node_id HAVING COUNT(*) > ? ORDER BY node_id"
        for (node_id,) in self._database.read(sql, (most,)):
            kept = "SELECT seq FROM node_action WHERE node_id = ? ORDER BY seq DESC LIMIT 1 OFFSET ?"
            for (first,) in self._database.read(kept, (node_id, most - 1)):
                old = f"node_id = ? AND seq < ? AND {_REMOVABLE} ORDER BY seq LIMIT {int(limit)}"
                found = self._database.read(f"SELECT id FROM node_action WHERE {old}", (node_id, first))
                if found:  # else none of this node can go yet
                    return [one for (one,) in found]
        return []

    def remove(self, action_ids: Sequence[str]) -> None:
        """Remove node actions with their histories."""
        self._database.write_in("DELETE FROM node_transition WHERE action_id IN ()", action_ids)
        self._database.write_in("DELETE FROM node_action WHERE id IN ()", action_ids)


def _succeeded(state: str) -> bool | None:
    """Return the success of a node action in a state; None while it has not ended."""
    return state == NodeActionState.DONE if state in ENDED else None
