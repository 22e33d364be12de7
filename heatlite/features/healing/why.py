"""Facts on what is reported, and on what holds its repair."""

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from msgspec.structs import replace

from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.core.status import Verb
from heatlite.core.wire.why import Fact, words
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.ways_out import stack_path
from heatlite.engine.why.tree import ExplainedTree, Told
from heatlite.engine.why.ways import WayCall, Ways, with_first
from heatlite.features.healing.loop.tree import has_failed
from heatlite.features.healing.reports import API, DRIFT
from heatlite.features.healing.rules.policy import DEFAULT, TreePolicy, read_policy
from heatlite.features.healing.store.records import HealingScopeRecord, HealthSourceRecord, IncidentRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import IGNORABLE, Brake, IncidentState, Mode
from heatlite.store.store import Store

SHOWS, SHOWS_SCOPES = "health:show", "stacks:show_healing"
WORKED_ON = frozenset({IncidentState.REPAIRING, IncidentState.SETTLING})


def read(store: Store, tree: ExplainedTree, told: Sequence[Told]) -> list[Told]:
    """Read the incidents and the brakes of a tree, and return all facts."""
    rows = store.of(HealingStore)
    incidents = rows.incidents.open_of_root(tree.root.id)
    policy: TreePolicy | None = DEFAULT
    if has_failed(store, tree.root):
        policy = None
    elif incidents or any(one.fact.code == "marked" for one in told):
        stored = rows.policies.get(tree.root.id)
        policy = DEFAULT if stored is None else read_policy(stored.document)
    scopes = rows.scopes.of_root(tree.root.id)
    storms = rows.sources.storms() if incidents else ()
    return facts(tree, told, incidents, scopes, storms, policy)


def facts(
    tree: ExplainedTree,
    told: Sequence[Told],
    incidents: Sequence[IncidentRecord],
    scopes: Mapping[str, HealingScopeRecord],
    storms: Sequence[HealthSourceRecord],
    policy: TreePolicy | None,
) -> list[Told]:
    """Return the facts on a tree with those of healing.

    `incidents` are the open ones. A mark gets its repair as the best way out. `policy` None: a failed change holds
    all repairs.
    """
    found = [_with_repair(tree, one, policy) for one in told]
    reporting = {(one.project, one.source) for one in incidents}
    found += [_storm(tree, one) for one in storms if (one.project, one.name) in reporting]
    for scope in scopes.values():
        found += _scope(tree, scope)
    for incident in incidents:
        found += _incident(tree, incident, policy)
    return found


def _with_repair(tree: ExplainedTree, told: Told, policy: TreePolicy | None) -> Told:
    if told.fact.code != "marked" or told.fact.path is None or policy is None:
        return told
    ways = Ways(tree)
    _heal(tree, ways, told.fact.path, _switched_off(policy, told.fact.path, API))
    return replace(told, fact=with_first(told.fact, ways.steps))


def _switched_off(policy: TreePolicy, path: str, source: str) -> list[Brake]:
    """Return the brake of a policy that repairs nothing by itself: a person may."""
    return [Brake.MODE_OFF] if policy.at(path).mode_of(source) is Mode.OFF else []


def _heal(tree: ExplainedTree, ways: Ways, path: str, ignored: Sequence[Brake] = ()) -> None:
    options = "".join(f" --ignore {one}" for one in ignored)
    command = f"heatlite heal{options} {tree.root.name} {words(path)}"
    asked: JsonMap = {"resources": [path], **({"ignore": [*ignored]} if ignored else {})}
    ways.planned(Operation.HEAL, tree.root, "repairs it, as far as the brakes allow", command, {"heal": asked})


def _storm(tree: ExplainedTree, source: HealthSourceRecord) -> Told:
    ways, path = Ways(tree), f"/v1/{source.project}/health/{quote(source.name, safe='')}/acknowledge"
    command = f"heatlite health source acknowledge {words(source.name)}"
    ways.send("ends the storm; its incidents need a new report", command, WayCall("POST", path))
    text = f"{source.name} reports many resources at once: nothing that it reports is marked or repaired"
    fact = Fact(
        code="storm", what="source", id=source.name, since=to_text(source.storm_since), text=text, way_out=ways.steps
    )
    return Told(fact, tree.root.id, SHOWS)


def _scope(tree: ExplainedTree, record: HealingScopeRecord) -> Iterator[Told]:
    root, scope = tree.root, record.scope
    if record.open_since is not None:
        ways = Ways(tree)
        ways.tell("shows members and limits", f"heatlite health show {root.name}")
        text = f"too many members of {scope} are unhealthy: nothing of it is marked or repaired"
        since = to_text(record.open_since)
        fact = Fact(code="breaker", what="scope", id=scope, since=since, text=text, way_out=ways.steps)
        yield Told(fact, root.id, SHOWS_SCOPES)
    if record.is_suspended:
        ways, path = Ways(tree), stack_path(root, "/healing/acknowledge")
        command = f"heatlite healing acknowledge {root.name} {words(scope)}"
        if root.state_without_lock[0] is not Verb.DELETE:
            ways.send("lets it be repaired again", command, WayCall("POST", path, {"scope": scope}))
        text = f"{scope} is repaired no more: {record.failures} repairs have failed in a row"
        fact = Fact(code="scope_suspended", what="scope", id=scope, text=text, way_out=ways.steps)
        yield Told(fact, root.id, SHOWS_SCOPES)


def _incident(tree: ExplainedTree, incident: IncidentRecord, policy: TreePolicy | None) -> Iterator[Told]:
    if incident.state in WORKED_ON or incident.stack_id not in tree.by_id:
        return
    brakes = [one for one in (incident.reason, *incident.also) if one is not None]
    if incident.state is IncidentState.PROPOSED:
        yield _proposed(tree, incident, [one for one in brakes if one is not Brake.AWAITING_APPROVAL])
    elif brakes:
        ways = Ways(tree)
        if incident.source != DRIFT and policy is not None:
            ignored = [*_switched_off(policy, incident.path, incident.source), *brakes]
            _heal(tree, ways, incident.path, [*dict.fromkeys(one for one in ignored if one in IGNORABLE)])
        _close(tree, ways, incident)
        text = f"{incident.path} is reported by {incident.source}: {incident.summary}. Nothing repairs it yet:"
        yield _told("incident_held", "incident", incident, f"{text} {', '.join(brakes)}", ways)


def _proposed(tree: ExplainedTree, incident: IncidentRecord, others: Sequence[Brake]) -> Told:
    ways, command = Ways(tree), f"heatlite incident approve {incident.id}"
    path = f"/v1/{incident.project}/incidents/{incident.id}/approve"
    call = WayCall("POST", path, {"plan_digest": incident.plan_digest})
    if others:
        look = WayCall("GET", f"/v1/{incident.project}/incidents/{incident.id}")
        ways.after_look(Operation.HEAL, tree.root, "begins the repair, once nothing holds it", command, call, look)
    else:
        ways.operation(Operation.HEAL, tree.root, "begins the repair", command, call)
    _close(tree, ways, incident)
    held = f"; it is also held by: {', '.join(others)}" if others else ""
    text = f"{incident.path}: its repair waits for an approval: {incident.summary}{held}"
    return _told("approval", "approval", incident, text, ways)


def _close(tree: ExplainedTree, ways: Ways, incident: IncidentRecord) -> None:
    path, command = f"/v1/{incident.project}/incidents/{incident.id}/close", f"heatlite incident close {incident.id}"
    told = "closes it, and mutes its alerts until they have resolved once"
    ways.operation(Operation.HEAL, tree.root, told, command, WayCall("POST", path, {"reason": ""}))


def _told(code: str, what: str, incident: IncidentRecord, text: str, ways: Ways) -> Told:
    fact = Fact(
        code=code,
        what=what,
        path=incident.path,
        id=incident.id,
        by=incident.source,
        since=to_text(incident.created_at),
        text=text,
        way_out=ways.steps,
    )
    return Told(fact, incident.stack_id, SHOWS)
