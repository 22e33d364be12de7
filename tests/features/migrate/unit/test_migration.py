"""Documents, findings and moves, from the recorded answers of a Heat 27."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.errors import ErrorAnswer
from heatlite.core.json import Json
from heatlite.features.migrate.document import document
from heatlite.features.migrate.findings import FindingKind, judged
from heatlite.features.migrate.ledger import MigrationLedger, MigrationState, StackMove, load
from heatlite.features.migrate.moves import Migration
from heatlite.features.migrate.retaining import retaining
from heatlite.features.migrate.source import FoundStack, read

RECORDED = Path(__file__).with_name("recorded")
SECRET = {"secret": "swordfish"}
PARENTS = "My::Pair", "pair.yaml", "deep.yaml"


class Recorded:
    """Answers as the Heat did; changes are kept in `written`, and answered as told."""

    def __init__(self, *names: str, **answers: Any) -> None:
        self.answers: dict[str, Any] = {}
        for name in names:
            self.answers |= json.loads((RECORDED / f"{name}.json").read_text())
        self.answers |= answers
        self.written: list[tuple[str, Json]] = []

    def request(self, method: str, path: str, body: Json = None, query: Mapping[str, str] | None = None) -> Json:
        key = f"{method} {path}" + ("?" + "&".join(f"{name}={one}" for name, one in query.items()) if query else "")
        if method != "GET":
            self.written.append((key, body))
        answer = self.answers.get(key, {"refused": 404})
        if callable(answer):
            answer = answer(self)
        if isinstance(answer, dict) and "refused" in answer:
            raise ErrorAnswer("refused", answer["refused"])
        return answer  # type: ignore[no-any-return]


def found(name: str) -> FoundStack:
    return read(Recorded(name), name)


def entries(name: str) -> Any:
    return document(found(name), SECRET)["resources"]


def types(*names: str) -> set[str]:
    return {one.type for name in names for _, one in found(name).walk()}


def test_a_flat_stack() -> None:
    made: Any = document(found("flat"), SECRET)
    shown = {name: (one["type"], one["resource_id"]) for name, one in made["resources"].items()}
    assert shown["net"] == ("OS::Neutron::Net", "84b0afba-5115-4f7a-a922-e7c97217e3ce")
    assert len(shown) == 13
    assert made["environment"]["parameters"] == SECRET
    assert made["environment"].keys() == {"resource_registry", "parameters", "parameter_defaults"}
    assert made["resources"]["password"]["resource_data"] == {"value": "cPiIlSIDFb8tgDqxp9Zq"}
    assert made["resources"]["server"]["physical_name"] == "flat-server-2ciugofarjn3"


def test_nested_stacks() -> None:
    made = entries("nested")
    assert made["first"]["type"] == "My::Pair"
    assert made["first"]["resources"].keys() == {"one", "net", "deeper"}
    assert made["first"]["resources"]["deeper"]["resources"]["port"]["resource_id"].startswith("e932e8a0")
    assert "template" not in made["first"]


def test_groups() -> None:
    made = entries("groups")
    assert made["ports"]["resources"].keys() == {"0", "1"}
    assert (made["ports"]["resource_data"], "template" in made["ports"]) == ({}, False)
    scaled = made["scaled"]
    assert scaled["resources"].keys() == scaled["template"]["resources"].keys() == {"k7s2bssyiri2", "hmdk4jvkzgs3"}
    assert scaled["template"].keys() == {"heat_template_version", "resources"}


def test_names_that_a_group_has_removed() -> None:
    source = Recorded("groups")
    for key, answer in source.answers.items():
        if "nested_depth" in key:
            for one in answer["resources"]:
                if (one.get("parent_resource"), one["resource_name"]) == ("ports", "1"):
                    one["resource_name"] = "3"
    made: Any = document(read(source, "groups"), {})["resources"]
    assert made["ports"]["resource_data"] == {"removed": {"1": "1", "2": "2"}}


def test_software() -> None:
    made = entries("software")
    assert made["config"]["resource_id"] == "60fd0abf-9cb9-4190-a0ae-f250507ab583"
    deployment = made["deployment"]["resource_data"]["deployment"]
    assert (deployment["status"], deployment["output_values"]["answer"]) == ("COMPLETE", "yes")
    assert made["everywhere"]["resources"]["one"]["resource_data"]["deployment"]["action"] == "CREATE"


def test_signals() -> None:
    made = entries("waiting")
    assert made["handle"]["resource_data"]["signals"]["b"] == {"status": "SUCCESS", "reason": "fine", "data": "two"}
    assert made["cfn_handle"]["resource_data"]["signals"] == {"u1": {"status": "SUCCESS", "reason": "r", "data": "d"}}
    assert made["condition"]["resource_id"].startswith("waiting-condition-")  # a Heat has none


def test_an_export_record_has_more() -> None:
    export = {
        "environment": {"parameters": SECRET},
        "resources": {"keypair": {"resource_data": {"private_key": "k"}}},
    }
    path = next(key for key in Recorded("flat").answers if key.endswith("/export"))
    made: Any = document(read(Recorded("flat", **{path: export}), "flat"), {})
    assert made["environment"]["parameters"] == SECRET
    assert made["resources"]["keypair"]["resource_data"] == {"private_key": "k"}


def test_a_signed_url_keeps_its_signature() -> None:
    signed = {"signature": "s", "expires": "2030", "paths": ["/v2/q"], "methods": ["GET"], "project": "p"}
    listed = [_listed("url", "OS::Zaqar::SignedQueueURL", "waiting-url-abcdefghijkl")]
    taken = read(_one_stack(listed, url={**signed, "query_str": "q"}), "waiting")
    made: Any = document(taken, {})["resources"]
    assert made["url"]["resource_data"] == {"signed": signed}
    assert judged(taken, {"OS::Zaqar::SignedQueueURL"}, {}) == []


def test_a_swift_signal_keeps_its_url() -> None:
    url = "http://swift/v1/AUTH_p/id/waiting-handle-abcdefghijkl?temp_url_sig=s&temp_url_expires=2"
    listed = [
        _listed("handle", "OS::Heat::SwiftSignalHandle", "waiting-handle-abcdefghijkl"),
        _listed("signal", "OS::Heat::SwiftSignal", ""),
    ]
    taken = read(_one_stack(listed, handle={"endpoint": url, "token": ""}), "waiting")
    made: Any = document(taken, {})["resources"]
    assert made["handle"]["resource_data"] == {"endpoint": url}
    assert made["handle"]["physical_name"] == made["handle"]["resource_id"] == "waiting-handle-abcdefghijkl"
    assert made["signal"]["resource_id"].startswith("waiting-signal-")  # a Heat has none
    assert judged(taken, {"OS::Heat::SwiftSignalHandle", "OS::Heat::SwiftSignal"}, {}) == []


def _listed(name: str, kind: str, physical_id: str) -> dict[str, Any]:
    link = {"rel": "stack", "href": "http://heat/v1/p/stacks/waiting/id"}
    return {"resource_name": name, "resource_type": kind, "links": [link], "physical_resource_id": physical_id,
            "resource_status": "CREATE_COMPLETE"}  # fmt: skip


def _one_stack(listed: list[dict[str, Any]], **attributes: Any) -> Recorded:
    """A Heat with a stack of these resources, and the attributes of some."""
    path = "/stacks/waiting/id"
    shown = {"stack": {"stack_name": "waiting", "id": "id", "stack_status": "CREATE_COMPLETE"}}
    details = {f"GET {path}/resources/{name}": {"resource": {"attributes": one}} for name, one in attributes.items()}
    return Recorded(**{
        "GET /stacks/waiting": shown, f"GET {path}/resources?nested_depth=99": {"resources": listed},
        f"GET {path}/environment": {}, f"GET {path}/files": {}, f"GET {path}/template": {}, **details,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("name", "without", "expected"),
    [
        ("flat", (), {(FindingKind.SECRET, "secret")}),
        ("nested", (), set()),
        (
            "nested",
            ("OS::Neutron::Port",),
            {(FindingKind.MISSING_TYPE, f"{one}/deeper/port") for one in ("first", "second")},
        ),
        ("groups", (), {(FindingKind.ADDRESS, "more")}),
        ("software", (), {(FindingKind.AGENT, "server")}),
        ("waiting", (), {(FindingKind.ADDRESS, "handle"), (FindingKind.ADDRESS, "cfn_handle")}),
    ],
)
def test_findings(name: str, without: tuple[str, ...], expected: set[tuple[FindingKind, str]]) -> None:
    findings = judged(found(name), types(name) - {*without}, {})
    assert {(one.kind, one.path) for one in findings} == expected


@pytest.mark.parametrize(
    ("status", "blocks"), [("CREATE_COMPLETE", False), ("CREATE_FAILED", True), ("SUSPEND_COMPLETE", True)]
)
def test_states(status: str, blocks: bool) -> None:
    source = Recorded("nested")
    for answer in source.answers.values():
        if "stack" in answer:
            answer["stack"]["stack_status"] = status
    findings = judged(read(source, "nested"), types("nested"), {})
    assert any(one.kind is FindingKind.STATE and one.blocks for one in findings) == blocks


PATH = "/stacks/nested/t"


def heatlite(*plan: str, status: str = "ADOPT_COMPLETE", outputs: Any = None) -> Recorded:
    """A heatlite without stacks; `plan` is the first plan after the adoption."""
    shown = {"stack": {"id": "t", "stack_status": status, "stack_status_reason": "why", "outputs": outputs}}
    resources = [{"path": ["group", str(number)], "action": action} for number, action in enumerate(plan)]
    gone = {"stack": {"stack_status": "DELETE_COMPLETE"}}

    def current(api: Recorded) -> Any:
        return gone if any(key.endswith("/abandon") for key, _ in api.written) else shown

    return Recorded(
        **{
            "GET /resource_types": {"resource_types": [*types("nested", "flat"), *PARENTS]},
            "POST /validate?all_errors=true": {"problems": []},
            "POST /stacks": {"stack": {"id": "t"}},
            f"GET {PATH}": current,
            f"PATCH {PATH}/preview?plan=True": {"plan": {"resources": resources}},
            f"DELETE {PATH}/abandon": {},
        }
    )


BOTH = [{"output_key": "both", "output_value": ["Rdr3q6HBcfuC", "QaCMvsdz5"]}]


@pytest.mark.parametrize(
    ("target", "state", "differs"),
    [
        (heatlite("keep", outputs=BOTH), MigrationState.TAKEN, []),
        (heatlite("keep"), MigrationState.TAKEN, ["both"]),
        (heatlite("keep", "replace"), MigrationState.UNDONE, ["group/1 (replace)"]),
        (heatlite(status="ADOPT_FAILED"), MigrationState.UNDONE, []),
    ],
    ids=["taken", "another output", "a first plan with changes", "failed"],
)
def test_run(target: Recorded, state: MigrationState, differs: list[str], tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    move = Migration(Recorded("nested"), target, load(file), {}).run("nested")
    assert (move.state, [*move.changes, *move.outputs]) == (state, differs)
    assert (f"DELETE {PATH}/abandon" in dict(target.written)) == (state is MigrationState.UNDONE)
    assert load(file).moves == {"nested": move}


def test_it_continues_after_an_answer_that_was_lost(tmp_path: Path) -> None:
    target = heatlite(outputs=BOTH)
    ledger = load(tmp_path / "record.json")
    migration = Migration(Recorded("nested"), target, ledger, {})
    planned = migration.plan("nested")
    assert (planned.state, [key for key, _ in target.written]) == (
        MigrationState.PLANNED, ["POST /validate?all_errors=true"]
    )
    target.answers["POST /stacks"] = {"refused": 504}
    with pytest.raises(ErrorAnswer):
        migration.run("nested")
    assert load(ledger.file).moves["nested"].state is MigrationState.ADOPTING
    target.answers["GET /stacks/nested"] = target.answers[f"GET {PATH}"]
    assert Migration(Recorded("nested"), target, load(ledger.file), {}).run("nested").state is MigrationState.TAKEN


@pytest.mark.parametrize("status", ["CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_FAILED"])
def test_a_stack_of_another_client_is_not_abandoned(status: str, tmp_path: Path) -> None:
    """A stack of that name came before the request, or the adopted one was changed."""
    target = heatlite(status=status)
    ledger = load(tmp_path / "record.json")
    target.answers["POST /stacks"] = {"refused": 504}
    with pytest.raises(ErrorAnswer):
        Migration(Recorded("nested"), target, ledger, {}).run("nested")
    target.answers["GET /stacks/nested"] = target.answers[f"GET {PATH}"]
    for _ in range(2):
        move = Migration(Recorded("nested"), target, load(ledger.file), {}).run("nested")
        assert (move.state, status in move.reason) == (MigrationState.ADOPTING, True)
    assert [key for key, _ in target.written if "DELETE" in key] == []


def test_a_stack_that_is_gone_meanwhile_is_undone(tmp_path: Path) -> None:
    target = heatlite(status="DELETE_COMPLETE")
    target.answers[f"DELETE {PATH}/abandon"] = {"refused": 404}
    migration = Migration(Recorded("nested"), target, load(tmp_path / "record.json"), {})
    assert migration.run("nested").state is MigrationState.UNDONE
    assert migration.plan("nested").state is MigrationState.PLANNED


def test_what_is_planned_again_was_not_written(tmp_path: Path) -> None:
    target = heatlite()
    target.answers["POST /validate?all_errors=true"] = {
        "problems": [{"path": "resources.first", "message": "wrong", "severity": "error"}]
    }
    target.answers["GET /stacks/nested"] = {"stack": {"id": "other"}}
    move = Migration(Recorded("nested"), target, load(tmp_path / "record.json"), {}).run("nested")
    assert (move.state, {one.kind for one in move.findings}) == (
        MigrationState.BLOCKED, {FindingKind.NAME_TAKEN, FindingKind.INVALID}
    )
    assert [key for key, _ in target.written] == ["POST /validate?all_errors=true"]


SOURCE = "/stacks/nested/5f48a51d-9101-46dc-9841-326389cac741"


@pytest.mark.parametrize(
    (
        "abandon",
        "state"), [({}, MigrationState.RELEASED),
        ({"refused": 400}, MigrationState.RETAINED),
        ({"refused": 403}, MigrationState.RETAINED),
    ]
)
def test_finish(abandon: Any, state: MigrationState, tmp_path: Path) -> None:
    source, target = Recorded("nested"), heatlite(outputs=BOTH)
    migration = Migration(source, target, load(tmp_path / "record.json"), {})
    assert migration.finish("nested").reason == "it is not planned: run comes first"
    assert migration.plan("nested").state is MigrationState.PLANNED
    assert migration.finish("nested").reason == "it is planned: run comes first"
    assert migration.run("nested").state is MigrationState.TAKEN
    can_update(source, abandon)
    assert migration.finish("nested").state is state
    assert all(key.startswith((f"DELETE {SOURCE}/abandon", f"PATCH {SOURCE}")) for key, _ in source.written)


def can_update(source: Recorded, abandon: Any, begins: bool = True) -> None:
    """Let the Heat answer an abandon, and update its stack, if it `begins` to."""
    shown = {"stack": {**source.answers["GET /stacks/nested"]["stack"], "stack_status": "UPDATE_COMPLETE"}}
    before = source.answers[f"GET {SOURCE}/template"]

    def template(api: Recorded) -> Any:
        sent: list[Any] = [body for key, body in api.written if key == f"PATCH {SOURCE}"]
        return sent[-1]["template"] if sent and begins else before

    source.answers |= {
        f"DELETE {SOURCE}/abandon": abandon, f"PATCH {SOURCE}": "", f"GET {SOURCE}": shown,
        f"GET {SOURCE}/template": template,
    }  # fmt: skip


def test_objects_are_retained_once_the_heat_has_updated_the_stack(tmp_path: Path) -> None:
    """It may begin after its answer: the stack is UPDATE_COMPLETE of an earlier one."""
    source = Recorded("nested")
    migration = Migration(source, heatlite(outputs=BOTH), load(tmp_path / "record.json"), {})
    assert migration.run("nested").state is MigrationState.TAKEN
    can_update(source, {"refused": 403}, begins=False)
    move = migration.finish("nested")
    assert (move.state, "not retained" in move.reason) == (MigrationState.TAKEN, True)


def test_what_heatlite_has_given_up_stays_with_the_heat(tmp_path: Path) -> None:
    source, target = Recorded("nested"), heatlite(outputs=BOTH)
    migration = Migration(source, target, load(tmp_path / "record.json"), {})
    assert migration.run("nested").state is MigrationState.TAKEN
    target.request("DELETE", f"{PATH}/abandon")
    can_update(source, {})
    assert migration.finish("nested").state is MigrationState.UNDONE
    assert source.written == []


def test_a_stack_has_one_entry_by_name_and_by_id(tmp_path: Path) -> None:
    source, target = Recorded("nested"), heatlite(outputs=BOTH)
    identifier = SOURCE.rpartition("/")[2]
    source.answers[f"GET /stacks/{identifier}"] = source.answers["GET /stacks/nested"]
    migration = Migration(source, target, load(tmp_path / "record.json"), {})
    assert migration.run(identifier).state is MigrationState.TAKEN
    target.answers["GET /stacks/nested"] = target.answers[f"GET {PATH}"]
    for step in (migration.plan, migration.run):
        assert step(identifier).state is MigrationState.TAKEN
    assert [*load(tmp_path / "record.json").moves] == ["nested"]
    can_update(source, {})
    assert migration.finish(identifier).state is MigrationState.RELEASED


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("flat", {"net", "subnet", "router", "interface", "rules", "port", "floating", "keypair", "server", "volume",
                  "attachment"}),
        ("nested", {"first", "second"}),
        ("groups", {"net", "subnet", "ports", "trees", "scaled", "chain"}),
        ("software", {"net", "subnet", "server"}),
        ("waiting", set()),
    ],
)  # fmt: skip
def test_retaining(name: str, changed: set[str]) -> None:
    before = found(name)
    after: Any = retaining(before)["resources"]
    own: Any = before.template["resources"]
    assert {key for key, one in after.items() if one != own[key]} == changed
    assert {after[key]["deletion_policy"] for key in changed} <= {"Retain"}


def test_retaining_keeps_the_size_of_a_group() -> None:
    before = found("groups")
    own: Any = before.template["resources"]
    own["scaled"]["properties"]["desired_capacity"] = {"get_param": "size"}
    after: Any = retaining(before)["resources"]
    assert after["scaled"]["properties"]["desired_capacity"] == 2


def test_another_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    file.write_text("[]")
    with pytest.raises(ValueError, match="is no record of a migration"):
        load(file)
    assert MigrationLedger(file).to_json() == {"format": 1, "heat": "", "stacks": []}


def test_commands_at_the_same_time_lose_no_stack(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    names = {f"s{number}" for number in range(16)}
    ledgers = {name: MigrationLedger(file) for name in names}

    def put(name: str) -> None:
        for state in (MigrationState.ADOPTING, MigrationState.TAKEN):
            ledgers[name].put(StackMove(name, "1", state))

    with ThreadPoolExecutor(len(names)) as pool:
        assert [*pool.map(put, names)] == [None] * len(names)
    assert {name: move.state for name, move in load(file).moves.items()} == dict.fromkeys(names, MigrationState.TAKEN)
    assert [*tmp_path.iterdir()] == [file]
