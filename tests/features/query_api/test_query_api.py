"""The query API: signatures, keys, rights, answers and errors."""

import hashlib
import hmac
import json
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.api.access.account_files import add_token
from heatlite.core.config import Auth, Settings
from heatlite.core.status import Verb
from heatlite.features.query_api import access_keys, actions
from heatlite.features.query_api.answers import to_xml
from heatlite.features.query_api.callers import for_keystone
from heatlite.features.query_api.errors import QueryError
from heatlite.features.query_api.parameters import FORM
from heatlite.features.query_api.signatures import Message, SignatureClaim
from heatlite.store.secrets.cipher import new_key
from heatlite.store.store import Store
from tests.api.conftest import Heat, new_project, template, value
from tests.databases import sqlite

HANDLE = {"type": "AWS::CloudFormation::WaitConditionHandle"}
SERVER = {"type": "OS::Heat::DeployedServer", "metadata": {"role": "web"}}
MACHINE_STACK = template(
    server=SERVER,
    other=SERVER,
    h=HANDLE,
    config={"type": "OS::Heat::SoftwareConfig", "properties": {"group": "script", "config": "x"}},
    apply={
        "type": "OS::Heat::SoftwareDeployment",
        "properties": {"server": {"get_resource": "server"}, "config": {"get_resource": "config"}},
    },
)


class Query:
    """A client that signs with version 2."""

    def __init__(self, heat: Heat, key: str, secret: str, timed: bool = True) -> None:
        self.heat, self.key, self.secret, self.timed = heat, key, secret, timed

    def __call__(self, action: str, code: int = 200, method: str = "GET", **given: str) -> Any:
        """The XML element of the answer, or the JSON."""
        sent = {"Action": action, "AWSAccessKeyId": self.key, "SignatureVersion": "2", **given}
        sent["SignatureMethod"] = "HmacSHA256"
        if self.timed:
            sent.setdefault("Timestamp", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        text = "&".join(f"{quote(name, safe='')}={quote(sent[name], safe='')}" for name in sorted(sent))
        signed = f"{method}\nlocalhost:80\n/v1/\n{text}".encode()
        sent["Signature"] = b64encode(hmac.digest(self.secret.encode(), signed, hashlib.sha256)).decode()
        if method == "GET":
            answer = self.heat.app.get("/v1/", sent, expect_errors=True)
        else:
            answer = self.heat.app.post("/v1/", sent, expect_errors=True)
        assert answer.status_int == code, answer.text
        if answer.content_type == "application/json":
            return answer.json
        return ElementTree.fromstring(answer.body)

    def refused(self, action: str, code: int = 400, **given: str) -> tuple[str, str]:
        """The code and the message of an error."""
        found = self(action, code, **given)
        assert (found.tag, found.findtext("Error/Type")) == ("ErrorResponse", "Sender")
        return found.findtext("Error/Code"), found.findtext("Error/Message")


def texts(element: Any, path: str) -> list[str]:
    return [one.text or "" for one in element.findall(path)]


Serve = Callable[..., Heat]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server that asks for tokens; gives a client without one."""
    started = []

    def start(**settings: Any) -> Heat:
        (tmp_path / "tokens").touch()
        chosen = Settings(
            database=sqlite(tmp_path),
            auth=Auth.TOKENS,
            tokens_file=str(tmp_path / "tokens"),
            encryption_keys=(new_key(),),
            **settings,
        )
        started.append(wiring.embedded(chosen))
        return Heat(started[-1].app)

    yield start
    for one in started:
        one.close()


def of(heat: Heat, folder: Path, user: str, role: str) -> Heat:
    token = add_token(folder / "tokens", user, {"demo": frozenset({role})}, None)
    return Heat(heat.wsgi, "demo", {"X-Auth-Token": token})


def with_key(heat: Heat) -> Query:
    made = heat.call("POST", "/access_keys", code=201).json["access_key"]
    return Query(heat, made["id"], made["secret"])


@pytest.mark.slow
def test_a_stack_lives_and_ends(heat: Heat) -> None:
    query = with_key(heat)
    made = {
        "Parameters": {"p": {"Type": "String"}, "q": {"Type": "String", "NoEcho": True, "Default": "hidden-value"}},
        "Resources": {"a": {"Type": "OS::Heat::Value", "Properties": {"value": {"Ref": "p"}}}},
        "Outputs": {"o": {"Value": {"Fn::GetAtt": ["a", "value"]}, "Description": "an output"}},
    }
    body = json.dumps({"HeatTemplateFormatVersion": "2012-12-12", **made})
    shown = query("ValidateTemplate", TemplateBody=body).find("ValidateTemplateResult")
    assert texts(shown, "Parameters/member/ParameterKey") == ["p", "q"]
    assert texts(shown, "Parameters/member/NoEcho") == ["false", "true"]
    given = {"Parameters.member.1.ParameterKey": "p", "Parameters.member.1.ParameterValue": "ä & <b>\x08"}
    answer = query("CreateStack", method="POST", StackName="s", TemplateBody=body, TimeoutInMinutes="5", **given)
    arn = answer.findtext("CreateStackResult/StackId")
    assert re.fullmatch(rf"arn:openstack:heat::{heat.project}:stacks/s/[0-9a-f-]{{36}}", arn)
    path = f"/stacks/s/{arn.rpartition('/')[2]}"
    heat.settle(path, "CREATE_COMPLETE")
    assert query.refused("CreateStack", StackName="s", TemplateBody=body, **given)[0] == "AlreadyExists"
    for name in ("s", arn, arn.rpartition("/")[2]):
        one = query("DescribeStacks", StackName=name).find("DescribeStacksResult/Stacks/member")
        assert (one.findtext("StackStatus"), one.findtext("TimeoutInMinutes")) == ("CREATE_COMPLETE", "5")
        assert (one.findtext("StackId"), one.findtext("LastUpdatedTime")) == (arn, None)
        assert texts(one, "Parameters/member/ParameterValue")[-2:] == ["ä & <b>\ufffd", "******"]
        assert texts(one, "Outputs/member/OutputValue") == ["ä & <b>\ufffd"]
    assert texts(query("DescribeStacks"), "DescribeStacksResult/Stacks/member/StackName") == ["s"]
    listed = query("ListStacks", **{"StackStatusFilter.member.1": "CREATE_COMPLETE"})
    assert texts(listed, "ListStacksResult/StackSummaries/member/StackId") == [arn]
    listed = query("ListStacks", **{"StackStatusFilter.member.1": "DELETE_COMPLETE"})
    assert texts(listed, "ListStacksResult/StackSummaries/member/StackId") == []
    template_body = query("GetTemplate", StackName="s").findtext("GetTemplateResult/TemplateBody")
    assert json.loads(template_body)["Parameters"] == made["Parameters"]
    assert "wikipedia" in query("EstimateTemplateCost", TemplateBody=body).findtext("EstimateTemplateCostResult/Url")
    events = query("DescribeStackEvents", StackName="s").find("DescribeStackEventsResult/StackEvents")
    assert texts(events, "member/ResourceStatus")[0] == "CREATE_COMPLETE"
    (row,) = query("ListStackResources", StackName="s").findall("ListStackResourcesResult/StackResourceSummaries/*")
    physical = row.findtext("PhysicalResourceId")
    for asked in ({"StackName": "s"}, {"PhysicalResourceId": physical}, {"StackName": "s", "LogicalResourceId": "a"}):
        (row,) = query("DescribeStackResources", **asked).findall("DescribeStackResourcesResult/StackResources/*")
        assert (row.findtext("StackName"), row.findtext("LogicalResourceId")) == ("s", "a")
    given["Parameters.member.1.ParameterValue"] = "new"
    query("UpdateStack", StackName=arn, TemplateBody=body, **given)
    heat.settle(path, "UPDATE_COMPLETE")
    given = {"Parameters.member.1.ParameterKey": "p", "Parameters.member.1.UsePreviousValue": "true"}
    query("UpdateStack", StackName="s", UsePreviousTemplate="true", **given)
    assert heat.settle(path, "UPDATE_COMPLETE")["parameters"]["p"] == "new"
    query("DeleteStack", StackName="s")
    heat.settle(path, "DELETE_COMPLETE")
    audit = heat.get("/audit")["audit"]
    assert [(one["operation"], one["outcome"], one["stack_name"]) for one in reversed(audit)][1:] == [
        ("stacks:create", "done", "s"), ("stacks:create", "refused", "s"), ("stacks:update", "done", "s"),
        ("stacks:update", "done", "s"), ("stacks:delete", "done", "s"),
    ]  # fmt: skip
    one = query("DescribeStacks", StackName=arn).find("DescribeStacksResult/Stacks/member")
    assert one.findtext("StackStatus") == "DELETE_COMPLETE"


@pytest.mark.parametrize(
    ("action", "given", "code", "text"),
    [
        ("Fly", {}, "InvalidAction", "there are: CancelUpdateStack, "),
        ("", {}, "MissingAction", "no Action"),
        ("DescribeStackResource", {"StackName": "x"}, "InvalidParameterValue", "x"),
        ("GetTemplate", {}, "MissingParameter", "StackName"),
        ("DescribeStacks", {"StackName": "x"}, "InvalidParameterValue", "The Stack (x) could not be found."),
        ("CreateStack", {"StackName": "x"}, "MissingParameter", "TemplateBody"),
        ("CreateStack", {"StackName": "x", "TemplateBody": "}"}, "InvalidParameterValue", ""),
        (
            "CreateStack",
            {"StackName": "x", "TemplateBody": "{}", "DisableRollback": "true", "OnFailure": "DELETE"},
            "InvalidParameterCombination",
            "DisableRollback and OnFailure",
        ),
        (
            "CreateStack",
            {"StackName": "x", "TemplateBody": "{}", "OnFailure": "do_nothing"},
            "InvalidParameterValue",
            "OnFailure is DO_NOTHING or ROLLBACK or DELETE, not do_nothing.",
        ),
        (
            "DescribeStackResources",
            {"StackName": "x", "PhysicalResourceId": "y"},
            "InvalidParameterCombination",
            "PhysicalResourceId",
        ),
        ("DescribeStackResources", {"PhysicalResourceId": "y"}, "InvalidParameterValue", "y"),
        ("ValidateTemplate", {"TemplateURL": "http://169.254.169.254/x"}, "InvalidParameterValue", "169.254.169.254"),
    ],
)
def test_what_is_wrong_has_heats_code(
    keyed: Query, action: str, given: dict[str, str], code: str, text: str
) -> None:
    found = keyed.refused(action, **given)
    assert found[0] == code
    assert text in found[1]


@pytest.fixture(scope="module")
def keyed(shared_server: wiring.Embedded) -> Query:
    """A key of a project that is shared by tests that change nothing."""
    return with_key(new_project(shared_server))


def test_a_signature_is_needed_and_must_be_right(keyed: Query) -> None:
    app = keyed.heat.app
    assert app.get("/v1").json["versions"][0]["id"] == "v1.0"
    malformed = app.post("/v1/", {"Action": "List\0Stacks"}, expect_errors=True)
    assert (malformed.status_int, "MalformedQueryString" in malformed.text) == (404, True)
    answer = app.get("/v1/?Action=ListStacks", expect_errors=True)
    assert (answer.status_int, "MissingAuthenticationToken" in answer.text) == (403, True)
    assert Query(keyed.heat, keyed.key, "x").refused("ListStacks", 403)[0] == "SignatureDoesNotMatch"
    assert Query(keyed.heat, "x", "x").refused("ListStacks", 403)[0] == "InvalidClientTokenId"
    untimed = Query(keyed.heat, keyed.key, keyed.secret, timed=False)
    assert untimed.refused("ListStacks", 403) == (
        "MissingAuthenticationToken",
        "A request that a user signs needs a Timestamp.",
    )
    assert keyed.refused("ListStacks", Timestamp="2020-01-01T00:00:00Z")[0] == "RequestExpired"
    as_json = Query(keyed.heat, keyed.key, "x")("ListStacks", 403, ContentType="JSON")
    assert as_json["ErrorResponse"]["Error"]["Code"] == "SignatureDoesNotMatch"


def test_wrong_signatures_delay_their_key_only(heat: Heat) -> None:
    right = with_key(heat)
    wrong = Query(heat, right.key, "x")
    for _ in range(6):
        assert wrong.refused("ListStacks", 403)[0] == "SignatureDoesNotMatch"
    code, text = right.refused("ListStacks")
    assert (code, "Try again in " in text) == ("Throttling", True)
    with_key(heat)("ListStacks")


@pytest.mark.parametrize(
    ("headers", "size", "code"),
    [
        ({"Origin": "https://elsewhere.example"}, 0, "AccessDenied"),
        ({"Host": "elsewhere.example"}, 0, "AccessDenied"),
        ({}, 5 * 1024 * 1024, "RequestLimitExceeded"),
    ],
)
def test_errors_before_the_handler_have_its_form(keyed: Query, headers: dict[str, str], size: int, code: str) -> None:
    given = {"Action": "ListStacks", "X": "x" * size}
    answer = keyed.heat.app.post("/v1/", given, headers=headers, expect_errors=True)
    found = ElementTree.fromstring(answer.body)
    assert (found.tag, found.findtext("Error/Code")) == ("ErrorResponse", code)
    assert found.findtext("RequestId") == answer.headers["X-Openstack-Request-Id"]
    version = keyed.heat.app.get("/v1", headers={"Origin": "https://elsewhere.example"}, expect_errors=True)
    assert version.json["code"] == 403, "the version document is not part of the query API"


def machine_of(heat: Heat, path: str, name: str = "server") -> Query:
    cfn = heat.get(f"{path}/resources/{name}/metadata")["metadata"]["os-collect-config"]["cfn"]
    return Query(heat, cfn["access_key_id"], cfn["secret_access_key"], timed=False)


@pytest.mark.slow
def test_the_key_of_a_machine_opens_its_own_resource(serve: Serve, tmp_path: Path) -> None:
    member = of(serve(), tmp_path, "mia", "member")
    path = member.create(MACHINE_STACK, wait=False)
    end = time.monotonic() + 240
    while '"deployments":[{' not in member.call("GET", f"{path}/resources/server/metadata").text:
        assert time.monotonic() < end
        time.sleep(0.003)
    machine = machine_of(member, path)
    member.create(template(server=SERVER), name="elsewhere")
    detail = machine("DescribeStackResource", StackName="s", LogicalResourceId="server").find(
        "DescribeStackResourceResult/StackResourceDetail"
    )
    metadata = json.loads(detail.findtext("Metadata"))
    assert (metadata["role"], metadata["deployments"][0]["group"]) == ("web", "script")
    inputs = {one["name"]: one["value"] for one in metadata["deployments"][0]["inputs"]}
    assert "Signature=" in inputs["deploy_signal_id"]
    shown = machine("DescribeStackResource", StackName="s", LogicalResourceId="server", ContentType="JSON")
    detail = shown["DescribeStackResourceResponse"]["DescribeStackResourceResult"]["StackResourceDetail"]
    assert detail["Metadata"] == metadata
    for given in (
        {"StackName": "s", "LogicalResourceId": "other"},
        {"StackName": "elsewhere", "LogicalResourceId": "server"},
        {"StackName": "none", "LogicalResourceId": "server"},
    ):
        assert machine.refused("DescribeStackResource", 403, **given)[0] == "AccessDenied"
    signal = {"StackName": "s", "LogicalResourceId": "h", "UniqueId": "1", "Status": "SUCCESS"}
    assert machine.refused("SignalResource", 403, **signal)[0] == "AccessDenied"
    for action in ("ListStacks", "DescribeStacks", "DeleteStack", "GetTemplate", "DescribeStackResources"):
        assert machine.refused(action, 403, StackName="s")[0] == "AccessDenied"
    # Readers do not see the secret of a machine.
    reader = of(member, tmp_path, "ron", "reader")
    assert machine.secret not in reader.call("GET", f"{path}/resources/server/metadata").text
    assert machine.secret not in reader.call("GET", f"{path}/resources/server").text
    # A signal with a user's key answers the deployment, and rotated keys end the machine's.
    with_key(member)("SignalResource", **{**signal, "LogicalResourceId": "apply"})
    member.settle(path, "CREATE_COMPLETE")
    member.call("POST", f"{path}/actions", {"rotate_keys": None})
    assert machine.refused("DescribeStackResource", 403, StackName="s", LogicalResourceId="server")[0] == (
        "SignatureDoesNotMatch"
    )
    assert machine_of(member, path)("DescribeStackResource", StackName="s", LogicalResourceId="server") is not None


def test_parameters_have_a_limit_before_anybody_is_known(keyed: Query) -> None:
    for answer in (
        keyed.heat.app.post("/v1/", "a=&" * 20_000, expect_errors=True),
        keyed.heat.app.get("/v1/?" + "a=&" * 20_000, expect_errors=True),
    ):
        assert (answer.status_int, "there are more than 10000" in answer.text) == (404, True)


def test_a_page_of_stacks_has_a_limited_size(heat: Heat, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        heat.create({**template(), "outputs": {"o": {"value": "x" * 1000}}}, name=f"s{number}")
    query, found, given = with_key(heat), [], {}
    monkeypatch.setattr(actions, "PAGE_SIZE", 3000)
    for size in (2, 1):
        shown = query("DescribeStacks", **given).find("DescribeStacksResult")
        found += texts(shown, "Stacks/member/StackName")
        assert len(shown.findall("Stacks/member")) == size
        given = {"NextToken": shown.findtext("NextToken")}
    assert (sorted(found), given["NextToken"]) == (["s0", "s1", "s2"], None)
    first = query("DescribeStackEvents", StackName="s0").find("DescribeStackEventsResult")
    assert first.findtext("NextToken") is None
    monkeypatch.setattr(actions, "PAGE_SIZE", 0)
    shown = query("DescribeStackEvents", StackName="s0").find("DescribeStackEventsResult")
    assert len(shown.findall("StackEvents/member")) == 1
    rest = query("DescribeStackEvents", StackName="s0", NextToken=shown.findtext("NextToken"))
    following = rest.findtext("DescribeStackEventsResult/StackEvents/member/EventId")
    assert following == texts(first, "StackEvents/member/EventId")[1]


def test_signals(heat: Heat) -> None:
    path = heat.create(template(h=HANDLE, native={"type": "OS::Heat::WaitConditionHandle"}, v=value()))
    query = with_key(heat)
    for name in ("h", "native"):
        query("SignalResource", StackName="s", LogicalResourceId=name, UniqueId="one", Status="FAILURE")
        mail = heat.get(f"{path}/resources/{name}/metadata")["metadata"]["one"]
        assert {key.lower(): found for key, found in mail.items()}["status"] == "FAILURE"
    for given in ({"Status": "FINE"}, {"LogicalResourceId": "v"}, {"LogicalResourceId": "none"}):
        sent = {"StackName": "s", "LogicalResourceId": "h", "UniqueId": "1", "Status": "SUCCESS", **given}
        assert query.refused("SignalResource", **sent)[0] == "InvalidParameterValue"


@pytest.mark.slow
def test_a_users_key_has_the_rights_that_the_user_had_and_has(serve: Serve, tmp_path: Path) -> None:
    nobody = serve()
    reader = of(nobody, tmp_path, "ron", "reader")
    member = of(nobody, tmp_path, "mia", "member")
    key, other = with_key(reader), with_key(member)
    of(nobody, tmp_path, "ron", "member")  # another token of the same user gives this key nothing
    key("ListStacks")
    sent = {"StackName": "x", "TemplateBody": json.dumps(template(a=value()))}
    assert key.refused("CreateStack", 403, **sent)[0] == "AccessDenied"
    other("CreateStack", **sent)
    listed = reader.get("/access_keys")["access_keys"]
    assert [(one["id"], one["user"], one["roles"]) for one in listed] == [(key.key, "ron", ["reader"])]
    assert "secret" not in listed[0]
    assert reader.fault("DELETE", f"/access_keys/{other.key}", code=404)[0] == "EntityNotFound"
    member.call("DELETE", f"/access_keys/{other.key}", code=204)
    assert other.refused("ListStacks", 403)[0] == "InvalidClientTokenId"
    raw = b"".join(file.read_bytes() for file in tmp_path.glob("heat.db*"))
    assert key.secret.encode() not in raw
    (tmp_path / "tokens").write_text("")
    assert key.refused("ListStacks", 403)[0] == "AccessDenied"


def test_a_user_has_a_limited_number_of_keys(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_keys, "MAX_KEYS", 2)
    nobody = serve()
    reader, admin = (of(nobody, tmp_path, name, name) for name in ("reader", "admin"))
    for heat in (reader, admin):  # an administrator sees the keys of others, too
        first, _ = with_key(heat), with_key(heat)
        kind, text = heat.fault("POST", "/access_keys", code=400)
        assert (kind, "2 access keys" in text) == ("RequestLimitExceeded", True)
        heat.call("DELETE", f"/access_keys/{first.key}", code=204)
        with_key(heat)


def test_a_lock_holds_and_replays_what_it_refused(heat: Heat) -> None:
    path = heat.create(template(a=value("old")))
    query = with_key(heat)
    heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks"}}, code=200)
    heat.settle(path)
    body = json.dumps(template(a=value("new")))
    code, message = query.refused("UpdateStack", StackName="s", TemplateBody=body)
    assert (code, "lock" in message.lower()) == ("InvalidAction", True)
    (kept,) = heat.get(f"{path}/lock")["suppressed"]
    heat.call("POST", f"{path}/actions", {"unlock": None}, code=200)
    heat.settle(path)
    heat.call("POST", f"{path}/lock/suppressed/{kept['id']}/replay")
    heat.settle(path, "UPDATE_COMPLETE")
    assert heat.get(f"{path}/resources/a")["resource"]["attributes"]["value"] == "new"


def test_xml_has_no_nulls_and_lists_have_members() -> None:
    made = {"R": {"a": None, "b": [1, {"c": True}], "Metadata": {"x": None}, "TemplateBody": ""}}
    assert to_xml(made).endswith(  # type: ignore[arg-type]
        b'<R><b><member>1</member><member><c>true</c></member></b><Metadata>{"x":null}</Metadata><TemplateBody /></R>'
    )


def test_the_key_of_a_template_opens_what_its_policies_allow(heat: Heat, store: Store) -> None:
    """The rows of user and key are written here: Keystone would make them."""
    policy = {"type": "OS::Heat::AccessPolicy", "properties": {"AllowedResources": ["h"]}}
    path = heat.create(template(policy=policy, h=HANDLE, other=value(), user=value(), key=value()))
    rows = {row.name: row for row in store.resources.of(path.rpartition("/")[2])}
    made = {
        "user": {"mapped_type": "AWS::IAM::User", "properties": {"Policies": ["policy"]}},
        "key": {
            "mapped_type": "AWS::IAM::AccessKey", "properties": {"UserName": "user"}, "physical_id": "AKIATEST",
            "data": {"secret": "of-the-key"},
        },
    }  # fmt: skip
    with store.transaction():
        store.resources.save_many([replace(rows[name], **more) for name, more in made.items()])  # type: ignore[arg-type]
    key = Query(heat, "AKIATEST", "of-the-key", timed=False)
    key("DescribeStackResource", StackName="s", LogicalResourceId="h")
    key("SignalResource", StackName="s", LogicalResourceId="h", UniqueId="1", Status="SUCCESS")
    assert heat.get(f"{path}/resources/h/metadata")["metadata"]["1"]["Status"] == "SUCCESS"
    assert key.refused("DescribeStackResource", 403, StackName="s", LogicalResourceId="other")[0] == "AccessDenied"
    assert key.refused("DescribeStacks", 403, StackName="s")[0] == "AccessDenied"
    wrong = Query(heat, "AKIATEST", "x")
    assert wrong.refused("ListStacks", 403)[0] == "SignatureDoesNotMatch"
    with store.transaction():
        store.resources.save_many([replace(rows["key"], **made["key"], verb=Verb.SUSPEND)])  # type: ignore[arg-type]
    assert key.refused("DescribeStackResource", 403, StackName="s", LogicalResourceId="h")[0] != "AccessDenied"


def test_of_keys_with_one_id_the_user_comes_first_and_then_the_one_that_fits(heat: Heat, store: Store) -> None:
    """Such rows may be older than the rule that an adoption takes no key."""
    user = with_key(heat)
    policy = {"type": "OS::Heat::AccessPolicy", "properties": {"AllowedResources": ["h"]}}
    stack = template(policy=policy, h=HANDLE, user=value(), shadow=value(), first=value(), second=value())
    path = heat.create(stack)
    rows = {row.name: row for row in store.resources.of(path.rpartition("/")[2])}
    machine: Any = {"mapped_type": "AWS::IAM::AccessKey", "properties": {"UserName": "user"}}
    made: Any = {
        "user": {"mapped_type": "AWS::IAM::User", "properties": {"Policies": ["policy"]}},
        "shadow": {**machine, "physical_id": user.key, "data": {"secret": "mine"}},
        "first": {**machine, "physical_id": "AKIATEST", "data": {"secret": "one"}},
        "second": {**machine, "physical_id": "AKIATEST", "data": {"secret": "two"}},
    }
    with store.transaction():
        store.resources.save_many([replace(rows[name], **more) for name, more in made.items()])
    user("ListStacks")
    assert Query(heat, user.key, "mine").refused("ListStacks", 403)[0] == "SignatureDoesNotMatch"
    for secret in ("one", "two"):
        key = Query(heat, "AKIATEST", secret, timed=False)
        key("DescribeStackResource", StackName="s", LogicalResourceId="h")
    wrong = Query(heat, "AKIATEST", "x", timed=False)
    code, _ = wrong.refused("DescribeStackResource", 403, StackName="s", LogicalResourceId="h")
    assert code == "SignatureDoesNotMatch"


def test_no_adoption_takes_the_key_of_a_user(serve: Serve, tmp_path: Path) -> None:
    nobody = serve(cloud="simulated")
    key, member = with_key(of(nobody, tmp_path, "ron", "reader")), of(nobody, tmp_path, "mia", "member")
    document = template(k={"type": "AWS::IAM::AccessKey", "properties": {"UserName": "heatlite"}})
    entry = {"resource_id": key.key, "resource_data": {"secret": "mine"}}
    body = {"stack_name": "s", "adopt_stack_data": {"template": document, "resources": {"k": entry}}}
    kind, text = member.fault("POST", "/stacks", body, code=409)
    assert (kind, text) == ("ObjectOwned", f"resources.k: {key.key} is the access key of a user.")
    key("ListStacks")


def test_a_body_that_is_no_form_has_no_action_in_its_url(heat: Heat) -> None:
    """A captured form of another action could be sent so."""
    for kind, expected in (("text/plain", "InvalidParameterValue"), (FORM, "MissingAuthenticationToken")):
        answer = heat.app.post(
            "/v1/?Action=DeleteStack&StackName=s", "Action=ListStacks", {"Content-Type": kind}, expect_errors=True
        )
        assert ElementTree.fromstring(answer.body).findtext("Error/Code") == expected


@pytest.mark.parametrize("query", ["Action=DeleteStack", "StackName=s", "Action=ListStacks&Action=DeleteStack"])
def test_a_post_that_keystone_checks_has_nothing_in_its_url(query: str) -> None:
    """Keystone leaves the query of a POST out of what is signed."""
    claim = SignatureClaim(4, "K", "signature", 0.0)
    sent = Message("POST", "/v1/", [("ContentType", "JSON")], [("Action", "ListStacks")], {}, b"Action=ListStacks")
    assert for_keystone(sent, claim)["params"] == {"ContentType": "JSON"}
    pairs = [*sent.query, *parse_qsl(query)]
    assert for_keystone(replace(sent, method="GET", query=pairs), claim)["params"] == dict(pairs)
    with pytest.raises(QueryError, match="in its body, not in its URL"):
        for_keystone(replace(sent, query=pairs), claim)
