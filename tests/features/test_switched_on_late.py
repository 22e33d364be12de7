"""Each feature is switched on late, or off and on again, with work waiting.

Then its laws hold as if it had always been on.
"""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.administration import upgrade
from heatlite.core.config import Settings
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.feature import installed
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.database.backend import Dialect
from heatlite.store.store import Store
from tests.api.conftest import Heat, template
from tests.databases import EACH_SERVER, SERVERS
from tests.features.approvals.api.test_work_of_features import SUBJECTS, THING, Work
from tests.waiting import eventually

FEATURES = [one.name for one in installed() if one.name != "simulator"]
OF_ACTIONS = ("guards", "healing", "nodes", "quota")
"""Features with rows that end with actions."""
WAITS = {"handle": {"get_resource": "handle"}, "timeout": 3600}
HANGS: dict[str, object] = {
    "handle": {"type": "OS::Heat::WaitConditionHandle"},
    "c": {"type": "OS::Heat::WaitCondition", "properties": WAITS},
}
VOLUME = {"v": {"type": "OS::Cinder::Volume", "properties": {"size": 1}}}
ANEW = {"type": "OS::Heat::TestResource", "properties": {"value": "two", "update_replace": True}}
GRACE = 3600.0
"""Seconds in which rows may follow a deletion."""
LATER = "2099-01-01T00:00:00Z"
OF_FEATURE = {"node_action": "nodes", "playbook_run": "nodes", "repair": "healing"}
ASKS = {"change_policy": "2026-11-28", "approve": "always"}
CRON = {"name": "sleep", "cron": "0 20 * * *", "do": {"suspend": {}}}
EXPIRY = {"expires_at": LATER, "then": "delete", "warn_before": [3600]}


class Life:
    """A project with work of all kinds that the features of a server let wait."""

    def __init__(self, server: wiring.Embedded, off: str | None, word: str) -> None:
        self.project, self._word, self._has = f"project-{word}", word, {*FEATURES} - {off}
        self.paths: list[str] = []
        self.works: list[Work] = []
        self.server = server
        for subject in SUBJECTS:
            if OF_FEATURE[subject] in self._has:
                self.works.append(Work(server, subject, self.heat))
                self.paths.append(self.works[-1].path)
        has_quotas = server.components.settings.cloud is not None
        runs = self._stack("runs", {**HANGS, **(VOLUME if has_quotas else {})}, wait=False)
        eventually(lambda: len(self.heat.get(f"{runs}/resources")["resources"]) == 2 + has_quotas, "it waits")
        due = self._stack("due", {"a": THING})
        self.heat.call("POST", f"{due}/actions", {"delete": {"not_before": LATER}}, code=200)
        if "guards" in self._has:
            body = {"template": template(a=ANEW), "guard": {"bake": 3600, "unknown": "pass"}}
            bakes = self._stack("bakes", {"a": THING})
            self.heat.call("PUT", bakes, body, code=202)
            eventually(lambda: "guard" in self.heat.get(bakes)["stack"], "it bakes")
        if {"approvals", "change_policy"} <= self._has:
            waits = self._stack("waits", {"a": THING})
            self.heat.call("PUT", f"{waits}/change_policy", ASKS, code=200)
            self.heat.call("PUT", f"{waits}?approval=wait", {"template": template(b=THING)}, code=202)
            self.heat.call("DELETE", f"{waits}/change_policy", code=204)
        if "schedules" in self._has:
            sleeps = self._stack("sleeps", {"a": THING})
            self.heat.call("POST", f"{sleeps}/schedules", CRON, code=201)
            self.heat.call("PUT", f"{sleeps}/expiry", EXPIRY, code=200)

    @property
    def heat(self) -> Heat:
        return Heat(self.server.app, self.project)

    def _stack(self, name: str, resources: dict[str, object], wait: bool = True) -> str:
        self.paths.append(self.heat.create(template(**resources), f"{name}-{self._word}", wait=wait))
        return self.paths[-1]

    def decide(self, off: str) -> None:
        """Reject what waits, by the routes of the features that are on."""
        for work in self.works:
            if OF_FEATURE[work.subject] != off:
                work.heat = self.heat
                work.old("reject", 200)

    def approve(self) -> None:
        """Approve what waits."""
        for work in self.works:
            work.heat = self.heat
            work.new("approve", 202)

    def delete(self) -> None:
        """Delete each stack."""
        for path in self.paths:
            self.heat.call("DELETE", path, code=204)
        eventually(lambda: self.heat.get("/stacks")["stacks"] == [], "the stacks are gone")


WAITING = """
SELECT subject, work.id FROM stack JOIN (
  SELECT 'node_action' AS subject, root_id, id FROM node_action WHERE state = 'PENDING_APPROVE' AND run_id IS NULL
  UNION ALL SELECT 'playbook_run', root_id, id FROM action WHERE verb = 'PLAYBOOK' AND status = 'INIT'
  UNION ALL SELECT 'repair', root_id, id FROM incident WHERE state = 'PROPOSED'
) AS work ON work.root_id = stack.id WHERE stack.deleted_at IS NULL
"""
PENDING = """
SELECT subject, COALESCE(node_action_id, incident_id, action_id) FROM approval
WHERE state = 'PENDING' AND subject IN ('node_action', 'playbook_run', 'repair')
"""


def _marks(kind: Dialect, name: str, course: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a row. Approvals know the work of other features."""
    often = name == "approvals" or kind is Dialect.SQLITE and course == "again" and name in OF_ACTIONS
    return [] if often else [pytest.mark.thorough]


@pytest.fixture
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without tables."""
    if request.param is Dialect.SQLITE:
        yield f"sqlite:///{tmp_path}/heat.db"
        return
    found = SERVERS[request.param]
    with ExitStack() as ends:
        try:
            yield ends.enter_context(found.database(f"heatlite_late_{os.getpid()}"))
        except (DatabaseUnavailable, MissingLibrary) as error:
            pytest.skip(f"no {request.param} to test with ({found.variable} names one): {error}")


ROWS = [
    pytest.param(kind, name, course, id=f"{kind}-{name}-{course}", marks=[*one.marks, *_marks(kind, name, course)])
    for one in (pytest.param(Dialect.SQLITE), *EACH_SERVER)
    for kind in one.values
    for name in FEATURES
    for course in ("late", "again")
]


@pytest.mark.slow
@pytest.mark.parametrize("empty_url, name, course", ROWS, indirect=["empty_url"])
def test_it_is_as_if_it_had_been_on(empty_url: str, name: str, course: str) -> None:
    cloud = "simulated" if empty_url.startswith("sqlite") else None  # it needs a file
    whole = Settings(database=empty_url, cloud=cloud)
    without = replace(whole, features=tuple(one for one in [*FEATURES, "simulator"] if one != name))
    lives = list[Life]()
    with started(whole if course == "again" else without) as server:
        lives += [Life(server, name if course == "late" else None, word) for word in ("stays", "decided", "deleted")]
    if course == "again":
        with started(without) as server:
            for life in lives:
                life.server = server
            off = Life(server, name, "off")
            lives[1].decide(name)
            lives[2].delete()
            lives = [*lives[:2], off]
    with started(whole) as server:
        store = server.store
        eventually(lambda: pairs(store, PENDING) == pairs(store, WAITING) != [], "each has one approval")
        with store.transaction():
            store.of(NodeStore).orchestrations.expire_all()  # those that `registered` holds
        eventually(lambda: store.inconsistencies(time.time(), GRACE) == [], "what ended is cleared away")
        for life in lives:
            life.server = server
        lives[-1].approve()
        for life in lives:
            for path in life.paths:
                life.heat.get(f"{path}/why")
            life.delete()
        assert store.inconsistencies(time.time(), GRACE) == []
        assert pairs(store, PENDING) == []


def pairs(store: Store, sql: str) -> list[tuple[str, str]]:
    return sorted((str(subject), str(target)) for subject, target in store.database.read(sql))


@contextmanager
def started(settings: Settings) -> Iterator[wiring.Embedded]:
    """A server, whose database its operator has upgraded."""
    upgrade(settings)
    server = wiring.embedded(settings)
    try:
        yield server
    finally:
        server.close()
