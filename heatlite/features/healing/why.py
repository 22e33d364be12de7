"""Facts on what is reported, and on what holds its repair."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec.structs import replace

from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.core.status import Verb
from heatlite.core.wire.why import Fact, words
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.ways_out import stack_path
from heatlite.engine.why.tree import ExplainedTree, Told
from heatlite.engine.why.ways import PREVIEW, WayCall, Ways, with_first
from heatlite.features.healing.reports import DRIFT
from heatlite.features.healing.store.records import HealingScopeRecord, HealthSourceRecord, IncidentRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import BY_CALLER, IGNORABLE, Brake, IncidentState

if TYPE_CHECKING:
    from heatlite.api.components import Components

SHOWS, SHOWS_SCOPES = "health:show", "stacks:show_healing"
WORKED_ON = frozenset({IncidentState.REPAIRING, IncidentState.SETTLING})
OF_STACK = frozenset({Brake.LOCKED, Brake.BUSY, Brake.STACK_SUSPENDED})
"""Brakes that the steps lift which a refused operation needs first."""


def read(components: "Components", tree: ExplainedTree, told: Sequence[Told]) -> list[Told]:
    """Read the incidents and the brakes of a tree, and return all facts."""
    rows, root = components.store.of(HealingStore), tree.root
    paths = [one.fact.path for one in told if one.fact.code == "marked" and one.fact.path is not None]
    incidents = rows.incidents.open_of_root(root.id)
    if not paths and not incidents:
        return facts(tree, told, (), rows.scopes.of_root(root.id), (), {})
    from heatlite.features.healing.parts import Healing  # the loop takes long to import

    healing, storms = components.of(Healing), rows.sources.storms()
    stormy = frozenset(one.name for one in storms if one.project == root.project)
    scene = healing.loop.glance(tree, incidents, stormy)
    held = healing.by_hand.brakes(scene, [*paths, *(one.path for one in incidents)])
    return facts(tree, told, incidents, scene.tree.scopes, storms, held)


def facts(
    tree: ExplainedTree,
    told: Sequence[Told],
    incidents: Sequence[IncidentRecord],
    scopes: Mapping[str, HealingScopeRecord],
    storms: Sequence[HealthSourceRecord],
    held: Mapping[str, frozenset[Brake]],
) -> list[Told]:
    """Return the facts on a tree with those of healing.

    `incidents` are the open ones. A mark gets its repair as the best way out. `held`: by path, what holds a repair.
    """
    found = [_with_repair(tree, one, held) for one in told]
    reporting = {(one.project, one.source) for one in incidents}
    found += [_storm(tree, one) for one in storms if (one.project, one.name) in reporting]
    for scope in scopes.values():
        found += _scope(tree, scope)
    for incident in incidents:
        found += _incident(tree, incident, held)
    return found


def _with_repair(tree: ExplainedTree, told: Told, held: Mapping[str, frozenset[Brake]]) -> Told:
    if told.fact.code != "marked" or told.fact.path is None:
        return told
    ways = Ways(tree)
    _heal(tree, ways, told.stack_id, told.fact.path, held)
    return replace(told, fact=with_first(told.fact, ways.steps))


def _heal(
    tree: ExplainedTree, ways: Ways, stack_id: str, path: str, held: Mapping[str, frozenset[Brake]]
) -> None:
    """Add the repair of a resource, where its brakes can be ignored.

    It is left out where something else refuses it. What reads it may be replaced with it. Only a plan tells, so it is
    shown before.
    """
    name = path.rpartition("/")[2]
    if path not in held or _stops(tree, held[path]) or tree.is_kept(stack_id, name):
        return
    readers = tree.readers(stack_id, name)
    brakes = held[path] & IGNORABLE | ({Brake.SPREADS} if readers else set())
    ignored = [brake for brake in Brake if brake in brakes]
    options = "".join(f" --ignore {one}" for one in ignored)
    command = f"heatlite heal{options} {tree.root.name} {words(path)}"
    asked: JsonMap = {"heal": {"resources": [path], **({"ignore": [*ignored]} if ignored else {})}}
    if any(tree.is_held(*one) for one in readers):
        look = WayCall("PATCH", stack_path(tree.root, PREVIEW), asked)
        ways.look(look, more=": it may touch what is locked or restricted")
        return
    ways.unprotect(path)
    ways.unprotect_readers(stack_id, name)
    text = "repairs it" + (", and what has to be replaced with it" if readers else "")
    others = [one for one in ignored if one in held[path]]
    text += f", although held by: {', '.join(others)}" if others else ""
    after = len(ways.steps) - 1 if ways.steps else None
    ways.planned(Operation.HEAL, tree.root, text, command, asked, after=after)


def _stops(tree: ExplainedTree, held: frozenset[Brake]) -> frozenset[Brake]:
    """Return the brakes that neither a person can ignore nor a step before lifts."""
    is_refused = tree.refusal(Operation.HEAL, tree.root) is not None
    return held - IGNORABLE - BY_CALLER - (OF_STACK if is_refused else frozenset())


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


def _incident(
    tree: ExplainedTree, incident: IncidentRecord, held: Mapping[str, frozenset[Brake]]
) -> Iterator[Told]:
    if incident.state in WORKED_ON or incident.stack_id not in tree.by_id:
        return
    brakes = [one for one in (incident.reason, *incident.also) if one is not None]
    if incident.state is IncidentState.PROPOSED:
        others = {*brakes, *held.get(incident.path, ())} - {Brake.AWAITING_APPROVAL}
        yield _proposed(tree, incident, [one for one in Brake if one in others])
    elif brakes:
        ways = Ways(tree)
        if incident.source != DRIFT:
            _heal(tree, ways, incident.stack_id, incident.path, held)
        _close(tree, ways, incident)
        text = f"{incident.path} is reported by {incident.source}: {incident.summary}. Nothing repairs it yet:"
        yield _told("incident_held", "incident", incident, f"{text} {', '.join(brakes)}", ways)


def _proposed(tree: ExplainedTree, incident: IncidentRecord, others: Sequence[Brake]) -> Told:
    ways, command = Ways(tree), f"heatlite incident approve {incident.id}"
    path = f"/v1/{incident.project}/incidents/{incident.id}/approve"
    call = WayCall("POST", path, {"plan_digest": incident.plan_digest})
    held = f"; it is also held by: {', '.join(others)}" if others else ""
    after = ways.tell(f"wait until nothing else holds it: {', '.join(others)}") if others else None
    ways.operation(Operation.HEAL, tree.root, "begins the repair", command, call, after)
    _close(tree, ways, incident)
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
