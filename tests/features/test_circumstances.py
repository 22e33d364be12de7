"""Operations on drift, owners and members, in each circumstance that may refuse.

What is expected is written down here after docs/reference/lock.md and the guides, not taken from the code.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import combinations_with_replacement, count
from threading import Barrier
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.json import JsonMap
from heatlite.core.status import LockLevel, Status, Verb
from heatlite.features.healing.store.store import HELD as HELD_TEXT
from heatlite.store.records import LockRecord, ResourceRecord, StackRecord
from heatlite.store.tables.actions import Action
from tests.api.conftest import Heat
from tests.databases import sqlite
from tests.engine.conftest import template
from tests.tables import sampled
from tests.waiting import eventually

NET = "OS::Neutron::Net"
NAMES = count()

DONE, LOCKED, BUSY, ELSEWHERE = "done", "StackLocked", "ResourceIsLocked", "OtherCloud"
PROTECTED, HELD, WRONG, SPREADS = "DeletionProtected", "ActionConflict", "InvalidStackState", "RepairSpreads"
OFF = "NotSupported"

OPERATIONS: dict[str, tuple[str, str, JsonMap]] = {
    # name: (key, path of a group, body without a digest)
    "revert": ("revert_drift", "", {"resources": ["a"]}),
    "accept": ("accept_drift", "", {"resources": ["a"]}),
    "import": ("import", "", {"resources": {"new": {"type": NET, "id": "FREE"}}}),
    "import below": ("import", "", {"resources": {"n/new": {"type": NET, "id": "FREE"}}}),
    "detach": ("detach", "", {"resources": ["b"]}),
    "detach below": ("detach", "", {"resources": ["n/b"]}),
    "move": ("move", "", {"moved": [{"from": "b", "to": "other"}]}),
    "move below": ("move", "", {"moved": [{"from": "b", "to": "n/other"}]}),
    "move elsewhere": ("move", "", {"moved": [{"from": "b", "to": "other"}], "to_stack": "OTHER"}),
    "join": ("join", "g", {"members": [{"id": "FREE"}]}),
    "leave": ("leave", "g", {"members": ["1"]}),
}
"""Operations on a stack with networks `a`, which has drifted, and `b`, a nested stack `n` and a group `g`."""
NEED_DIGESTS = {name for name, (key, _, _) in OPERATIONS.items() if key not in ("revert_drift", "leave")}


class Bench:
    """A server on a simulated cloud."""

    def __init__(self, server: wiring.Embedded) -> None:
        self.heat = Heat(server.app)
        self.store, self.clock = server.store, server.components.clock
        self.clouds = server.components.engine_services.services.clouds

    @cached_property
    def first(self) -> "Town":
        """A town that no test changes."""
        return Town(self, pytest.MonkeyPatch())


class Town:
    """A project: a stack with drift, another stack, a network of no stack."""

    def __init__(
        self, bench: Bench, patch: pytest.MonkeyPatch, names: Mapping[str, str] = MappingProxyType({}), hidden: str = ""
    ) -> None:
        """Make it.

        `names` are others for its resources; `hidden` is a name for its networks.
        """
        self.name, self.names = f"t{next(NAMES)}", names
        self.heat, self.store, self.patch = bench.heat.of(self.name), bench.store, patch
        self.cloud: Any = bench.clouds.of(self.name).cloud
        lan = {"type": NET, "properties": {"name": {"get_param": "p"} if hidden else self.name}}
        group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": lan}}
        nested = {"type": "inner.yaml", "properties": {"p": {"get_param": "p"}}}
        parameters = {"p": {"type": "string", "default": "", "hidden": True}}
        parts = template(parameters=parameters, **self.named({"a": lan, "b": lan, "n": nested, "g": group}))
        inner = json.dumps(template(parameters=parameters, **self.named({"a": lan, "b": lan})))
        given = {"files": {"inner.yaml": inner}, "parameters": {"p": hidden}}
        self.path = self.heat.create(parts, self.name, **given)
        self.other = self.heat.create(template(z={"type": NET}), f"{self.name}-other")
        self.free = str(self.cloud.call("network.create_network", name=self.name)["id"])
        changed = self.physical_id(self.named("a"))
        self.cloud.call("network.update_network", changed, name=f"changed {hidden}")
        self.heat.call("POST", f"{self.path}/actions", {"check": None}, 200)
        self.heat.settle(self.path, "CHECK_COMPLETE")

    def named(self, value: Any) -> Any:
        """Return a value with the names that its resources have here."""
        if isinstance(value, dict):
            return {self.names.get(key, self.named(key)): self.named(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.named(one) for one in value]
        return "/".join(self.names.get(one, one) for one in value.split("/")) if isinstance(value, str) else value

    def physical_id(self, name: str) -> str:
        return str(self.heat.get(f"{self.path}/resources/{quote(name)}")["resource"]["physical_resource_id"])

    @property
    def root(self) -> StackRecord:
        return self.of(self.path)

    def of(self, path: str) -> StackRecord:
        found = self.store.stacks.get(path.rpartition("/")[2])
        assert found is not None
        return found

    def below(self, name: str) -> str:
        """The path of the nested stack of a resource."""
        (one,) = [one for one in self.store.stacks.descendants(self.root) if one.parent_resource == self.named(name)]
        return f"/stacks/{quote(one.name)}/{one.id}"

    def act(self, path: str, action: JsonMap, ends: str | None = None) -> None:
        self.heat.call("POST", f"{path}/actions", action, 200)
        self.heat.settle(path, ends)

    def body(self, name: str) -> tuple[str, str, JsonMap]:
        key, group, body = OPERATIONS[name]
        text = json.dumps(body).replace("FREE", self.free).replace("OTHER", f"{self.name}-other")
        return key, self.named(group), self.named(json.loads(text))

    def plan(self, name: str) -> Any:
        """The answer to the preview of an operation."""
        key, group, body = self.body(name)
        asked = {**body, "resource": group} if group else body
        return self.heat.call("PATCH", f"{self.path}/preview?plan=true", {key: asked})

    def ask(self, name: str, digest: str) -> Any:
        """The answer to an operation."""
        key, group, body = self.body(name)
        place = f"{self.path}/resources/{quote(group)}" if group else self.path
        return self.heat.call("POST", f"{place}/actions", {key: {**body, "plan_digest": digest}})

    @property
    def stacks(self) -> list[StackRecord]:
        return [self.root, self.of(self.other), *self.store.stacks.descendants(self.root)]

    def settle(self) -> None:
        for one in self.stacks:
            self.heat.settle(f"/stacks/{quote(one.name)}/{one.id}")

    def first_plan(self) -> dict[str, str]:
        """The changes of the next update with the stored definition."""
        plan = self.heat.call("PATCH", f"{self.path}/preview?plan=true", {}, 200).json["plan"]
        return {"/".join(one["path"]): one["action"] for one in plan["resources"] if one["action"] != "keep"}

    def content(self) -> dict[str, Any]:
        """All that a refusal must leave as it is."""
        keys = {"stack": "id", **dict.fromkeys(("resource", "action", "event", "drift", "revision"), "stack_id")}
        mine = "IN (SELECT id FROM stack WHERE project = ?)"
        rows = {name: f"SELECT * FROM {name} WHERE {key} {mine} ORDER BY 1" for name, key in keys.items()}
        kept = self.store.database.quote(*(name for name in Action._meta.columns if name != "lease_until"))
        rows["action"] = rows["action"].replace("*", kept)  # the engine renews the lease of what runs
        return {name: self.store.database.read(sql, [self.name]) for name, sql in rows.items()}

    def row(self, name: str) -> tuple[object, ...]:
        """The facts of a resource that stay when it moves."""
        (row,) = [one for one in self.store.resources.of(self.root.id) if one.name == name]
        return self.kept(row)

    def kept(self, row: ResourceRecord) -> tuple[object, ...]:
        return row.id, row.physical_id, row.verb, row.status, row.status_reason, row.created_at, row.protection

    def moved(self, row: tuple[object, ...]) -> tuple[object, ...]:
        """The same of that resource, wherever it is now."""
        rows = [one for stack in self.stacks for one in self.store.resources.of(stack.id)]
        (found,) = [self.kept(one) for one in rows if one.id == row[0]]
        return found

    def suppressed(self) -> list[str]:
        return [one.request for one in self.store.suppressed.list(self.root.id)]


def said(answer: Any) -> str:
    return str(answer.json["error"]["type"]) if answer.status_int >= 400 else DONE


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    server = wiring.embedded(Settings(database=sqlite(tmp_path_factory.mktemp("bench")), cloud="simulated"))
    yield Bench(server)
    server.close()


# -- circumstances -----------------------------------------------------------------------------------


def locked(path: Callable[[Town], str], level: str = "all") -> Callable[[Town], None]:
    return lambda town: town.act(path(town), {"lock": {"level": level}}, "LOCK_COMPLETE")


def held(path: Callable[[Town], str], verb: Verb, status: Status) -> Callable[[Town], None]:
    """In a state of a lock that a lock or an unlock of its own has left, or is in."""

    def hold(town: Town) -> None:
        stack = replace(town.of(path(town)), verb=verb, status=status)
        with town.store.transaction():
            lock = LockRecord(LockLevel.ALL, "anonymous", False, 1.0)
            town.store.stacks.save(replace(stack, lock=lock, before_lock="CREATE_COMPLETE"))

    return hold


def failed_before(town: Town) -> None:
    """The last change of the group has failed; it was locked and unlocked since."""
    group = town.of(town.below("g"))
    with town.store.transaction():
        unlocked = replace(group, verb=Verb.UNLOCK, status=Status.COMPLETE, before_lock="UPDATE_FAILED")
        town.store.stacks.save(unlocked)


def marked(name: str) -> Callable[[Town], None]:
    def mark(town: Town) -> None:
        town.heat.call("PATCH", f"{town.path}/resources/{name}", {"mark_unhealthy": True}, 200)

    return mark


def protected(name: str | None) -> Callable[[Town], None]:
    def protect(town: Town) -> None:
        group, _, member = (name or "").rpartition("/")
        path = town.below(group) if group else town.path
        town.act(path, {"protect": {"resource": town.named(member)} if member else {}})

    return protect


def failed(town: Town) -> None:
    with town.store.transaction():
        town.store.stacks.save(replace(town.root, verb=Verb.UPDATE, status=Status.FAILED))


def suspended(town: Town) -> None:
    town.act(town.path, {"suspend": None}, "SUSPEND_COMPLETE")


def busy(town: Town) -> None:
    """An update waits, for an hour."""
    waits = {"type": "OS::Heat::Delay", "properties": {"min_wait": 3600}}
    parts = town.heat.get(f"{town.path}/template")
    parts["resources"]["wait"] = waits
    town.heat.call("PATCH", town.path, {"template": parts}, 202)

    def under_way() -> list[str]:
        stacks = [town.root, *town.store.stacks.descendants(town.root)]
        rows = [row for stack in stacks for row in town.store.resources.of(stack.id)]
        live = town.store.actions.live([stack.id for stack in stacks])
        return [*(one.stack_id for one in live), *(row.name for row in rows if row.status is Status.IN_PROGRESS)]

    eventually(lambda: under_way() == [town.root.id, "wait"], "nothing else is under way")


def repaired(town: Town) -> None:
    """Healing repairs each resource."""
    text = HELD_TEXT.format("i-1", "REPAIRING")
    town.patch.setattr(town.store, "held_resources", lambda ids: dict.fromkeys(ids, text))


def elsewhere(town: Town) -> None:
    with town.store.transaction():
        cloud = town.root.cloud
        assert cloud is not None
        town.store.stacks.record_cloud(town.root.id, replace(cloud, auth_url="https://elsewhere.example/v3"))


ALL = [*OPERATIONS]
NAMED = [name for name, (key, _, _) in OPERATIONS.items() if key in ("import", "detach", "move", "accept_drift")]
"""Operations that change the definition of the whole tree."""
B_MOVES, B_LEAVES = ("move", "move below", "move elsewhere"), ("detach", "detach below")
HELD_STATES = [
    (Verb.LOCK, Status.IN_PROGRESS), (Verb.LOCK, Status.FAILED), (Verb.UNLOCK, Status.IN_PROGRESS),
    (Verb.UNLOCK, Status.FAILED),
]  # fmt: skip
"""States of a lock that no request leads to by itself."""
OF_GROUP = dict.fromkeys((*NAMED, "join", "leave"), LOCKED)

CIRCUMSTANCES: Mapping[str, tuple[Callable[[Town], None], Mapping[str, str], Mapping[str, str]]] = {
    # name: (how it comes about, the refusals of operations, those of their previews)
    "nothing": (lambda _: None, {}, {}),
    **{
        f"locked: {level}": (locked(lambda town: town.path, level), dict.fromkeys(ALL, LOCKED), {})
        for level in LockLevel
    },
    **{
        f"{verb}_{status}": (held(lambda town: town.path, verb, status), dict.fromkeys(ALL, LOCKED), {})
        for verb, status in HELD_STATES
    },
    **{
        f"group {verb}_{status}": (held(lambda town: town.below("g"), verb, status), OF_GROUP, {})
        for verb, status in HELD_STATES
    },
    "group failed before": (failed_before, dict.fromkeys(("join", "leave"), WRONG), {"join": WRONG, "leave": WRONG}),
    "nested stack locked": (locked(lambda town: town.below("n")), dict.fromkeys(NAMED, LOCKED), {}),
    "group locked": (locked(lambda town: town.below("g")), OF_GROUP, {}),
    "other stack locked": (locked(lambda town: town.other), {"move elsewhere": LOCKED}, {}),
    "busy": (busy, dict.fromkeys(ALL, BUSY), {}),
    "drifted one marked": (marked("a"), {"revert": SPREADS, "accept": WRONG}, {"accept": WRONG}),
    "another marked": (marked("b"), {}, {}),
    "resource protected": (protected("b"), {"detach": PROTECTED}, {"detach": PROTECTED}),
    "drifted one protected": (protected("a"), {}, {}),
    "member protected": (protected("g/1"), {"leave": PROTECTED}, {"leave": PROTECTED}),
    "stack protected": (protected(None), {}, {}),
    "failed": (failed, dict.fromkeys(NAMED, WRONG), {}),
    "suspended": (suspended, dict.fromkeys(ALL, OFF), {}),
    "under repair": (repaired, dict.fromkeys((*B_MOVES, *B_LEAVES, "leave"), HELD),
                     dict.fromkeys((*B_MOVES, *B_LEAVES, "leave"), HELD)),
    # What reads or touches no object goes on; a move to another stack needs one cloud.
    "in another cloud": (elsewhere,
                         dict.fromkeys(("revert", "accept", "import", "import below", "join", "leave",
                                        "move elsewhere"), ELSEWHERE),
                         dict.fromkeys(("revert", "accept", "import", "import below", "join", "move elsewhere"),
                                       ELSEWHERE)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("circumstance", sampled(CIRCUMSTANCES, 5))
def test_operations(bench: Bench, monkeypatch: pytest.MonkeyPatch, circumstance: str) -> None:
    """A refusal changes nothing; that of a lock is listed."""
    prepare, refusals, hidden = CIRCUMSTANCES[circumstance]
    town = None
    for name in OPERATIONS:
        if town is None:
            town = Town(bench, monkeypatch)
            digests = {one: town.plan(one).json.get("plan", {}).get("digest", "") for one in hidden}
            prepare(town)
        plan = town.plan(name)
        assert said(plan) == hidden.get(name, DONE), f"plan of {name}: {plan.text}"
        digest = digests[name] if name in hidden else plan.json["plan"]["digest"]
        before, listed, b = town.content(), town.suppressed(), town.row("b")
        answer = town.ask(name, digest)
        assert said(answer) == refusals.get(name, DONE), f"{name}: {answer.text}"
        if said(answer) != DONE:
            assert town.content() == before, name
            assert len(town.suppressed()) - len(listed) == (said(answer) == LOCKED), name
            continue
        town.heat.settle(town.path)
        if name in B_MOVES:
            assert town.moved(b) == b
        town = None  # it is no more what it was


@pytest.mark.parametrize("name", OPERATIONS)
def test_digests(bench: Bench, name: str) -> None:
    """Another plan than the approved one is refused; some need a digest."""
    town, before = bench.first, bench.first.content()
    answer = town.ask(name, "0" * 64)
    assert (said(answer), town.content()) == ("PlanChanged", before)
    key, group, body = town.body(name)
    place = f"{town.path}/resources/{group}" if group else town.path
    if name in NEED_DIGESTS:
        assert "plan_digest" in town.heat.fault("POST", f"{place}/actions", {key: body}, code=400)[1]
    mixed = {key: {**body, **({"resource": group} if group else {})}, "parameters": {}}
    assert "takes no other key" in town.heat.fault("PATCH", f"{town.path}/preview?plan=true", mixed)[1]
    if group:
        assert f"{key}.resource" in town.heat.fault("PATCH", f"{town.path}/preview?plan=true", {key: body})[1]
    assert town.content() == before


@pytest.mark.parametrize("name", OPERATIONS)
def test_bodies_are_closed(bench: Bench, name: str) -> None:
    """All faults of a body are told at once, and those of its digest among them."""
    town, before = bench.first, bench.first.content()
    key, group, body = town.body(name)
    place = f"{town.path}/resources/{group}" if group else town.path
    wrong = {**dict.fromkeys(body, 7), "no_such_key": 1, "another": None}
    told = town.heat.fault("POST", f"{place}/actions", {key: wrong})[1]
    shown = {**wrong, "resource": group} if group else wrong
    for text in (told, town.heat.fault("PATCH", f"{town.path}/preview?plan=true", {key: shown})[1]):
        assert "unknown key another, no_such_key" in text
        assert [one for one in body if f"{key}.{one}:" not in text] == [], text
    assert ("needs plan_digest" in told) == (name in NEED_DIGESTS), told
    assert town.content() == before


@pytest.mark.slow
def test_bodies_of_heat_have_no_operations(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of operations are unknown there, as other keys are, and ignored."""
    town = Town(bench, monkeypatch)
    keys = {key: body for key, _, body in map(town.body, OPERATIONS)}
    for method, more in (("PATCH", {}), ("PUT", {"template": template(a={"type": NET})})):
        town.heat.call(method, town.path, {**keys, **more}, 202)
        town.heat.settle(town.path, "UPDATE_COMPLETE")
    assert {row.name for row in town.store.resources.of(town.root.id)} == {"a"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other"), sampled(combinations_with_replacement(OPERATIONS, 2), 11, pytest.mark.thorough)
)
def test_two_clients_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch, one: str, other: str) -> None:
    """One of them gets its way, and the other is refused or comes later."""
    town, ready = Town(bench, monkeypatch), Barrier(2)
    before = bench.store.inconsistencies(bench.clock.now(), 0.0)  # other tests write states that nothing leads to
    digests = {name: town.plan(name).json["plan"]["digest"] for name in (one, other)}

    def ask(name: str) -> Any:
        ready.wait()
        return town.ask(name, digests[name])

    with ThreadPoolExecutor(2) as pool:
        answers = [*pool.map(ask, (one, other))]
    assert DONE in map(said, answers)
    later = (400, 404, 409) if one == other else (409,)  # what it names may be gone
    assert all(said(answer) == DONE or answer.status_int in later for answer in answers), answers
    town.settle()
    owned = [row.physical_id for stack in town.stacks for row in town.store.resources.of(stack.id) if row.type == NET]
    assert len(owned) == len({*owned}), "each object has one owner"
    assert town.first_plan() == {}
    assert town.store.inconsistencies(bench.clock.now(), 0.0) == before


@pytest.mark.slow
def test_names_in_unicode(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"a": "größe", "b": "Ω b", "n": "ñandú", "g": "группа", "new": "新しい", "other": "آخر"}
    for name in OPERATIONS:
        town = Town(bench, monkeypatch, names)
        answer = town.ask(name, town.plan(name).json["plan"]["digest"])
        assert said(answer) == DONE, f"{name}: {answer.text}"
        town.settle()
        assert town.first_plan() == {}, name
        assert "?" not in str(town.heat.get(f"{town.path}/drift"))


@pytest.mark.slow
@pytest.mark.parametrize("circumstance", ["nested stack locked", "group locked", "resource protected", "busy"])
def test_ways_out_of_names_that_are_no_words(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, circumstance: str
) -> None:
    """Commands, which `Heat.call` checks, are for a shell, and paths for requests."""
    names = {one: f"-{one} it's \"é\"; `id` #?%2F&" for one in ("a", "b", "n", "g", "new", "other")}
    prepare, refusals, _ = CIRCUMSTANCES[circumstance]
    town = Town(bench, monkeypatch, names)
    digests = {name: town.plan(name).json["plan"]["digest"] for name in refusals}
    prepare(town)
    for name, refusal in refusals.items():
        answer = town.ask(name, digests[name])
        assert said(answer) == refusal, answer.text
        paths = [way["path"] for way in answer.json["error"]["way_out"] if way["path"] is not None]
        assert paths
        for path in paths:
            assert town.heat.call("POST", path, {}).status_int == 400, path


@pytest.mark.slow
def test_nothing_hidden_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in plans, answers, definitions, actions, events, lists or the audit log."""
    for name in OPERATIONS:
        town = Town(bench, monkeypatch, hidden="swordfish")
        plan = town.plan(name)
        answer = town.ask(name, plan.json.get("plan", {}).get("digest", "0"))
        town.settle()
        read = ["/actions", "/audit", "/drift", "/history"]
        for path in (town.path, town.other):
            read += [path + rest for rest in ("", "/template", "/environment", "/files", "/drift", "/resources")]
            read += [f"{path}/events?nested_depth=3"]
        for shown in (plan, answer, *(town.heat.call("GET", one) for one in read)):
            assert "swordfish" not in shown.text, (name, shown.request.path)
        if name not in ("accept", "join", "move below", "move elsewhere"):  # values or references are in the way
            assert said(answer) == DONE, f"{name}: {answer.text}"


# -- ways out ----------------------------------------------------------------------------------------


def put_back(town: Town) -> None:
    """Somebody has ended the drift in the cloud."""
    town.cloud.call("network.update_network", town.physical_id(town.named("a")), name=town.name)


def restricted(*actions: str) -> Callable[[Town], None]:
    """The environment forbids what would be done to the drifted resource."""

    def restrict(town: Town) -> None:
        blocks = {"resources": {town.named("a"): {"restricted_actions": [*actions]}}}
        town.heat.call("PATCH", town.path, {"environment": {"resource_registry": blocks}}, 202)
        town.heat.settle(town.path, "UPDATE_COMPLETE")

    return restrict


def both(*prepare: Callable[[Town], None]) -> Callable[[Town], None]:
    def prepared(town: Town) -> None:
        for one in prepare:
            one(town)

    return prepared


# A lock in progress has an action, which those of no request lack: nothing ends them.
REASONS: Mapping[str, Callable[[Town], None]] = {
    **{
        name: prepare for name, (prepare, _, _) in CIRCUMSTANCES.items() if not name.endswith("_IN_PROGRESS")
    },
    "in another cloud, and locked": both(locked(lambda town: town.path), elsewhere),
    "in another cloud, and marked": both(marked("a"), elsewhere),
    "in another cloud, and failed": both(failed, elsewhere),
    "put back": put_back,
    "put back, and locked": both(put_back, locked(lambda town: town.path)),
    "restricted": restricted("update", "replace"),
    "marked and restricted": both(restricted("replace"), marked("a")),
    "marked and protected": both(marked("a"), protected("a")),
    "failed and protected": both(protected("a"), failed),
    "marked, protected, and locked": both(marked("a"), protected("a"), locked(lambda town: town.path)),
    "failed, protected, and locked": both(protected("a"), failed, locked(lambda town: town.path)),
}


def ways_out(town: Town) -> Iterator[tuple[str, list[Any]]]:
    """Each request that leads on, with its fact and the steps before it."""
    for fact in town.heat.get(f"{town.path}/why")["facts"]:
        for way in fact["way_out"]:
            chain = [way]
            while chain[0]["after"] is not None:
                chain.insert(0, fact["way_out"][chain[0]["after"]])
            if all(one["path"] is not None for one in chain):
                yield f"{fact['code']} {fact['path']}", chain


@pytest.mark.slow
def test_the_way_to_another_cloud_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    town = Town(bench, monkeypatch)
    both(marked("a"), elsewhere)(town)
    ways = [way for fact in town.heat.get(f"{town.path}/why")["facts"] for way in fact["way_out"]]
    assert f"heatlite up FILE -n {town.root.name} --adopt-cloud" in [one["command"] for one in ways]


@pytest.mark.slow
@pytest.mark.parametrize("reason", sampled(REASONS, 4))
def test_each_way_out_is_open(bench: Bench, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """Once the steps before it are done, and as long as its fact is one."""
    town = Town(bench, monkeypatch)
    REASONS[reason](town)
    for number in range(len([*ways_out(town)])):
        fact, chain = [*ways_out(town)][number]
        for step in chain:
            if fact not in [known for known, _ in ways_out(town)]:
                break  # the step before has ended it
            answer = town.heat.call(step["method"], step["path"], step["body"])
            assert answer.status_int not in (400, 404, 405, 409), (fact, step, answer.text)
            if step["method"] != "GET" and "/preview" not in step["path"]:
                town.settle()
        if any(one["method"] != "GET" and "/preview" not in one["path"] for one in chain):
            town = Town(bench, monkeypatch)
            REASONS[reason](town)
