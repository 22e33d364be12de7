"""Types of the identity service on the simulated cloud, through the engine."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.context import Context
from heatlite.core.errors import StackValidationFailed
from heatlite.core.json import JsonMap
from heatlite.resources.keystone.users import User
from heatlite.store.records import StackRecord
from tests.engine.conftest import ref, resource
from tests.tables import few, sampled
from tests.types.conftest import Cloudy

K = "OS::Keystone::"


def keystone(kind: str, **properties: object) -> Any:
    return resource(K + kind, **properties)


BASE = {
    "role": keystone("Role", name="watcher"),
    "project": keystone("Project", name="red"),
    "group": keystone("Group", name="team"),
}
"""Objects that others refer to."""

ROLE = {"role": ref("role"), "project": ref("project")}

UPDATES = [
    ("Domain", {}, {"name": "d2", "description": "new", "enabled": False}, {}),
    ("Project", {}, {"name": "p2", "description": "new", "enabled": False, "tags": ["a"]}, {}),
    ("User", {}, {"name": "u2", "description": "new", "enabled": False, "email": "a@b.c"}, {}),
    ("User", {}, {"default_project": ref("project")}, {"default_project": "default_project_id"}),
    ("Group", {}, {"name": "g2", "description": "new"}, {}),
    ("Role", {}, {"name": "r2"}, {}),
    ("Service", {"type": "t"}, {"name": "s2", "type": "t2", "description": "new", "enabled": False}, {}),
    (
        "Endpoint",
        {"service": "nova", "interface": "public", "url": "http://a"},
        {"name": "e2", "interface": "admin", "url": "http://b", "enabled": False},
        {},
    ),
    (
        "Endpoint",
        {"service": "nova", "interface": "public", "url": "http://a"},
        {"service": "keystone", "region": "RegionOne"},
        {"service": "service_id", "region": "region_id"},
    ),
    ("Region", {}, {"description": "new"}, {}),
    ("Region", {}, {"parent_region": "RegionOne"}, {"parent_region": "parent_region_id"}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "given", "new", "names"),
    sampled(UPDATES, 3, pytest.mark.thorough),
    ids=lambda value: str(value)[:30],
)
def test_each_property_that_may_change_is_changed_in_place(
    cloudy: Cloudy, kind: str, given: JsonMap, new: JsonMap, names: dict[str, str]
) -> None:
    before = cloudy.census()
    stack = cloudy.made({**BASE, "it": keystone(kind, **given)})
    old = cloudy.row(stack, "it").physical_id
    cloudy.changed(stack, {**BASE, "it": keystone(kind, **{**given, **new})})
    assert cloudy.row(stack, "it").physical_id == old
    thing = cloudy.thing(stack, "it")
    for name, value in new.items():
        if name == "service":
            value = cast(JsonMap, cloudy.admin.call("identity.find_service", value))["id"]
        if isinstance(value, dict):
            value = cloudy.row(stack, "project").physical_id
        assert thing[names.get(name, name)] == value
    cloudy.delete(stack)
    assert cloudy.census() == before


@pytest.mark.parametrize(
    ("kind", "given", "new"),
    few(
        [
            ("Project", {}, {"parent": "demo"}),
            ("Role", {}, {"domain": "default"}),
            ("Region", {"id": "north"}, {"id": "south"}),
        ]
    ),
)
def test_what_may_not_change_makes_another(cloudy: Cloudy, kind: str, given: JsonMap, new: JsonMap) -> None:
    stack = cloudy.made({"it": keystone(kind, **given)})
    old = cloudy.row(stack, "it").physical_id
    cloudy.changed(stack, {"it": keystone(kind, **{**given, **new})})
    assert cloudy.row(stack, "it").physical_id != old


@pytest.mark.slow
def test_a_domain_does_not_change(cloudy: Cloudy) -> None:
    """The property may be updated, says Heat; the service says no."""
    domain = {"domain": keystone("Domain", name="other")}
    stack = cloudy.made({**domain, "it": keystone("Project")})
    after = {"domain": domain["domain"], "it": keystone("Project", domain=ref("domain"))}
    stack = cloudy.put(stack, {"heat_template_version": "2021-04-16", "resources": after})
    assert (stack.status, cloudy.row(stack, "it").status) == ("FAILED", "FAILED")
    assert "Cannot change Domain ID (HTTP 400)" in cloudy.row(stack, "it").status_reason


def roles_of(cloudy: Cloudy, grantee: str, key: str | None) -> set[tuple[str, str]]:
    """The place and name of the role."""
    found = set()
    for one in cast(list[Any], cloudy.admin.call("identity.role_assignments", **{f"{grantee}_id": key})):
        role = cast(JsonMap, cloudy.admin.call("identity.get_role", one["role"]["id"]))
        found.add((next(iter(one["scope"])), str(role["name"])))
    return found


def test_a_name_may_come_with_its_domain(cloudy: Cloudy) -> None:
    domain = str(cast(JsonMap, cloudy.admin.call("identity.create_domain", name="dom1"))["id"])
    ids = [
        str(cast(JsonMap, cloudy.admin.call("identity.create_user", name="us1", domain_id=one))["id"])
        for one in ("default", domain)
    ]
    project = str(cast(JsonMap, cloudy.admin.call("identity.create_project", name="p1", domain_id=domain))["id"])
    roles = [{"role": "member", "project": "p1{dom1}"}]
    cloudy.made({"it": keystone("UserRoleAssignment", user="us1{dom1}", roles=roles)})
    given = {
        who: [one["scope"] for one in cast(list[Any], cloudy.admin.call("identity.role_assignments", user_id=who))]
        for who in ids
    }
    assert given == {ids[0]: [], ids[1]: [{"project": {"id": project}}]}
    with pytest.raises(StackValidationFailed, match=r"The KeystoneDomain \(nowhere\) could not be found"):
        cloudy.made({"it": keystone("UserRoleAssignment", user="us1{nowhere}", roles=roles)}, "t")


GIVERS = [
    ("user", lambda roles: keystone("User", roles=roles)),
    ("group", lambda roles: keystone("Group", roles=roles)),
    ("user", lambda roles: keystone("UserRoleAssignment", user="admin", roles=roles)),
    ("group", lambda roles: keystone("GroupRoleAssignment", group=ref("group"), roles=roles)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("grantee", "made_of"), few(GIVERS), ids=["User", "Group", "UserRole", "GroupRole"])
def test_roles_are_given_and_taken(cloudy: Cloudy, grantee: str, made_of: Callable[[Any], Any]) -> None:
    before = cloudy.census()
    here = [ROLE, {"role": "reader", "domain": "default"}]
    stack = cloudy.made({**BASE, "it": made_of(here)})
    who = cloudy.row(stack, "it").physical_id
    assert roles_of(cloudy, grantee, who) == {("project", "watcher"), ("domain", "reader")}
    cloudy.changed(stack, {**BASE, "it": made_of([ROLE, {"role": "member", "project": ref("project")}])})
    assert cloudy.row(stack, "it").physical_id == who
    assert roles_of(cloudy, grantee, who) == {("project", "watcher"), ("project", "member")}
    role, project = (cloudy.row(stack, name).physical_id for name in ("role", "project"))
    cloudy.admin.call(f"identity.unassign_project_role_from_{grantee}", project, who, role)
    stack = cloudy.check(stack)
    assert stack.status == "COMPLETE"
    assert "roles/0 is absent" in cloudy.row(stack, "it").status_reason
    cloudy.delete(stack)
    assert cloudy.census() == before


def test_roles_move_to_another_user(cloudy: Cloudy) -> None:
    users = {**BASE, "one": keystone("User"), "two": keystone("User")}
    stack = cloudy.made({**users, "it": keystone("UserRoleAssignment", user=ref("one"), roles=[ROLE])})
    cloudy.changed(stack, {**users, "it": keystone("UserRoleAssignment", user=ref("two"), roles=[ROLE])})
    one, two = (cloudy.row(stack, name).physical_id for name in ("one", "two"))
    assert (roles_of(cloudy, "user", one), roles_of(cloudy, "user", two)) == (set(), {("project", "watcher")})


@pytest.mark.slow
@pytest.mark.parametrize("new", few([[ROLE], [{"role": "reader", "project": ref("project")}]]))
def test_roles_that_are_given_anew_stay(cloudy: Cloudy, new: list[Any]) -> None:
    """The old assignment goes after the new one has come."""
    before = {**BASE, "it": keystone("UserRoleAssignment", user="admin", roles=[ROLE])}
    stack = cloudy.made(before)
    cloudy.mark(stack, "it")
    cloudy.changed(stack, {**BASE, "it": keystone("UserRoleAssignment", user="admin", roles=new)})
    who = cloudy.row(stack, "it").physical_id
    assert roles_of(cloudy, "user", who) == {("project", "watcher" if new == [ROLE] else "reader")}


def groups_of(cloudy: Cloudy, stack: StackRecord) -> list[str]:
    user = cloudy.row(stack, "it").physical_id
    return [str(group["name"]) for group in cast(list[JsonMap], cloudy.admin.call("identity.user_groups", user))]


def test_a_user_is_in_its_groups(cloudy: Cloudy) -> None:
    more = {**BASE, "other": keystone("Group", name="others")}
    stack = cloudy.made({**more, "it": keystone("User", password="s3cret", groups=[ref("group")])})
    assert groups_of(cloudy, stack) == ["team"]
    assert "password" not in cast(JsonMap, cloudy.admin.call("identity.get_user", cloudy.row(stack, "it").physical_id))
    cloudy.changed(stack, {**more, "it": keystone("User", password="changed", groups=["others"])})
    assert groups_of(cloudy, stack) == ["others"]
    assert cloudy.thing(stack, "it")["_password"] == "changed"


@pytest.mark.parametrize("where", [{}, {"project": "demo", "domain": "default"}])
def test_a_role_is_given_in_one_place(where: JsonMap) -> None:
    faults = User.check_properties({"roles": [{"role": "reader", **where}]})
    assert [fault.text for fault in faults] == ["The role must be given in a project or in a domain, and not in both."]


@pytest.mark.parametrize(
    ("kind", "given"),
    sampled(
        [
            ("Domain", {}),
            ("Project", {}),
            ("User", {"roles": [ROLE], "groups": [ref("group")]}),
            ("Group", {"roles": [ROLE]}),
            ("Role", {}),
            ("Service", {"type": "t"}),
            ("Endpoint", {"service": "nova", "interface": "public", "url": "http://a"}),
            ("Region", {}),
        ],
        2,
        pytest.mark.thorough,
    ),
)
def test_what_was_made_unheard_is_found_again(troubled: Callable[..., Cloudy], kind: str, given: JsonMap) -> None:
    """And what comes after the making is done."""
    noun, others = kind.lower(), [definition["type"] for definition in BASE.values()].count(K + kind)
    cloudy = troubled(faults=[{"verb": f"identity.create_{noun}", "number": others + 1, "raises": "lost"}])
    before = cloudy.count(f"identity.{noun}")
    stack = cloudy.made({**BASE, "it": resource(K + kind, depends_on=list(BASE), **given)})
    assert cloudy.count(f"identity.{noun}") == before + others + 1
    if "roles" in given:
        assert roles_of(cloudy, noun, cloudy.row(stack, "it").physical_id) == {("project", "watcher")}
    if "groups" in given:
        assert groups_of(cloudy, stack) == ["team"]


@pytest.mark.parametrize("kind", few(["Domain", "Project", "User", "Group", "Role", "Service", "Region"]))
def test_what_is_gone_is_missed_and_deleted(cloudy: Cloudy, kind: str) -> None:
    stack = cloudy.made({"it": keystone(kind, **({"type": "t"} if kind == "Service" else {}))})
    noun, key = kind.lower(), cloudy.row(stack, "it").physical_id
    if kind == "Domain":
        cloudy.admin.call("identity.update_domain", key, enabled=False)
    cloudy.admin.call(f"identity.delete_{noun}", key)
    with pytest.raises(CloudNotFound):
        cloudy.thing(stack, "it")
    assert cloudy.check(stack).status == "FAILED"
    assert cloudy.row(stack, "it").status == "FAILED"
    assert cloudy.delete(stack).status == "COMPLETE"


def test_attributes(cloudy: Cloudy) -> None:
    user = keystone("User", name="ann", default_project=ref("p"))
    stack = cloudy.made({"p": keystone("Project", name="red"), "u": user})
    read = cloudy.components.reader.attributes
    project, user = (read(Context("p"), cloudy.get(stack), cloudy.row(stack, name), ()) for name in "pu")
    assert {key: project[key] for key in project if key != "show"} == {
        "name": "red", "domain_id": "default", "parent_id": "default", "enabled": True, "is_domain": False,
    }  # fmt: skip
    assert {key: user[key] for key in user if key != "show"} == {
        "name": "ann", "domain_id": "default", "default_project_id": cloudy.row(stack, "p").physical_id,
        "enabled": True, "password_expires_at": None,
    }  # fmt: skip
