"""The store of guards."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import to_builtins

from heatlite.core.clock import DAY, to_text
from heatlite.core.config import Settings
from heatlite.core.json import JsonMap, dump, parser
from heatlite.core.status import ENDED_ACTIONS, Verb
from heatlite.features.guards.store.records import FiredAlert, GuardRecord, StandingAlert, alert_id
from heatlite.features.guards.store.tables import GuardAlert, UpdateGuard
from heatlite.features.guards.wire import GuardPhase, StackGuard, view
from heatlite.store.database.sql import chunks, marks
from heatlite.store.feature_store import ConsistencyRule, FeatureStore, OldRows, RootRows, Series
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import ProjectValues

_ROWS = Rows(GuardRecord, UpdateGuard)
_ALERTS = Rows(StandingAlert, GuardAlert)
MOST_ALERTS = 10_000
"""Standing alerts of a project. Further ones are not kept."""


class GuardStore(FeatureStore):
    """Guards of updates, by the ids of their actions."""

    tables = (UpdateGuard, GuardAlert)
    series = Series("guards", Path(__file__).parent)
    of_stacks = {"update_guard": "root_id"}
    stack_rows = RootRows("update_guard", "root_id")
    rules = (
        ConsistencyRule(
            "a guard has a stack",
            "guard",
            "SELECT action_id, root_id FROM update_guard WHERE NOT EXISTS"
            " (SELECT 1 FROM stack WHERE stack.id = update_guard.root_id)",
        ),
    )

    def __init__(self, encryption: FieldEncryption, values: ProjectValues) -> None:
        super().__init__(encryption, values)
        self._table = Table(encryption, _ROWS, key="action_id", fixed=("project", "root_id", "document"))
        self._alerts = Table(encryption, _ALERTS)

    # -- guards ------------------------------------------------------------------------------------

    def insert(self, record: GuardRecord) -> None:
        """Add the guard of an update."""
        self._table.insert([record])

    def get(self, action_id: str) -> GuardRecord | None:
        """Return the guard of an update."""
        return self._table.first("WHERE action_id = ?", (action_id,))

    def of(self, action_ids: Sequence[str]) -> list[GuardRecord]:
        """Return the guards of updates."""
        return self._table.select_in("WHERE action_id IN ()", action_ids)

    def open(self, project: str) -> list[GuardRecord]:
        """Return the guards of a project that may take an update back.

        In the order in which to lock them.
        """
        return self._table.select("WHERE project = ? AND is_open = ? ORDER BY action_id", (project, True))

    def hear(self, action_id: str, source: str) -> None:
        """Note that a source was heard."""
        held = self._table.first(f"WHERE action_id = ?{self.database.backend.for_update}", (action_id,))
        if held is not None and source not in held.heard:
            sql = "UPDATE update_guard SET heard = ? WHERE action_id = ?"
            self.database.write(sql, (dump((*held.heard, source)), action_id))

    def fire(self, action_id: str, fired: FiredAlert) -> bool:
        """Note the alert that takes an update back.

        Returns False if nothing takes it back any more.
        """
        sql = "UPDATE update_guard SET fired = ?, is_open = ? WHERE action_id = ? AND is_open = ?"
        return self.database.write(sql, (dump(fired), False, action_id, True)) > 0

    def bake(self, action_id: str, until: float) -> None:
        """Note until when an update bakes."""
        self.database.send("UPDATE update_guard SET bakes_until = ? WHERE action_id = ?", (until, action_id))

    def close(self, action_id: str) -> None:
        """Note that nothing takes the update back any more."""
        self.database.send("UPDATE update_guard SET is_open = ? WHERE action_id = ?", (False, action_id))

    def end(self, action_id: str, now: float) -> None:
        """Note the end of the action."""
        sql = "UPDATE update_guard SET is_open = ?, ended_at = ? WHERE action_id = ?"
        self.database.send(sql, (False, now, action_id))

    # -- alerts ------------------------------------------------------------------------------------

    def standing(self, project: str, now: float) -> list[StandingAlert]:
        """Return the alerts of a project that are not over."""
        return self._alerts.select("WHERE project = ? AND expires_at > ?", (project, now))

    def note(
        self,
        project: str,
        source: str,
        over: Sequence[str],
        prefixes: Sequence[str],
        standing: Sequence[StandingAlert],
    ) -> None:
        """Replace what is known of some keys of a source.

        So it does of all that begin with the prefixes.
        """
        for some in chunks([alert_id(project, source, key) for key in dict.fromkeys(over)]):
            self.database.write(f"DELETE FROM guard_alert WHERE id IN ({marks(some)})", some)
        column = self.database.quote("key")
        for prefix in prefixes:
            sql = f"DELETE FROM guard_alert WHERE project = ? AND source = ? AND substr({column}, 1, ?) = ?"
            self.database.write(sql, (project, source, len(prefix), prefix))
        if standing:
            ((count,),) = self.database.read("SELECT COUNT(*) FROM guard_alert WHERE project = ?", (project,))
            self._alerts.insert(standing[: max(0, MOST_ALERTS - int(count))])

    def old_rows(self, settings: Settings, now: float, limit: int) -> Iterator[OldRows]:
        rows = self.database.read(f"SELECT id FROM guard_alert WHERE expires_at < ? LIMIT {limit}", (now,))
        yield self._alerts.delete, [key for (key,) in rows]
        sql = f"SELECT action_id FROM update_guard WHERE ended_at < ? LIMIT {limit}"
        rows = self.database.read(sql, (now - settings.action_days * DAY,))
        yield self._table.delete, [key for (key,) in rows]
        sql = (
            "SELECT action_id FROM update_guard WHERE ended_at IS NULL AND NOT EXISTS (SELECT 1 FROM action"
            f" WHERE action.id = update_guard.action_id AND status NOT IN ({marks(ENDED_ACTIONS)})) LIMIT {limit}"
        )
        rows = self.database.read(sql, [*ENDED_ACTIONS])
        yield partial(self._end_all, now), [key for (key,) in rows]  # they ended while the feature was off

    def _end_all(self, now: float, action_ids: Sequence[str]) -> None:
        for one in action_ids:
            self.end(one, now)

    # -- stacks ------------------------------------------------------------------------------------

    def stack_facts(self, root_ids: Sequence[str], noted: Sequence[str]) -> Mapping[str, JsonMap]:
        found: dict[str, JsonMap] = {}
        sql = (
            "SELECT update_guard.root_id, bakes_until, is_open, heard, fired, stack.verb FROM update_guard"
            " JOIN stack ON stack.id = update_guard.root_id"
            " WHERE ended_at IS NULL AND update_guard.root_id IN ()"
        )
        for root_id, until, is_open, heard, fired, verb in self.database.read_in(sql, noted):
            if is_open:
                phase = GuardPhase.UPDATE if until is None else GuardPhase.BAKE
            else:
                phase = GuardPhase.ROLLBACK
            if is_open or verb == Verb.ROLLBACK:  # else its clean-up runs
                shown = StackGuard(
                    phase=phase,
                    until=to_text(until),
                    heard=parser(list[str])(heard) if heard else [],
                    fired=view(parser(FiredAlert)(fired)) if fired else None,
                )
                found[root_id] = {"guard": to_builtins(shown)}
        return found
