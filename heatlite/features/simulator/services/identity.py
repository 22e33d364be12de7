"""Simulated identity service (Keystone)."""

from typing import Final, cast

from heatlite.clients.cloud import CloudConflict, CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.simulation import SimulatedProject, Verb

ASSIGNMENT: Final = "identity.role_assignment"
EC2_CREDENTIAL: Final = "identity.ec2_credential"
DEFAULT: Final = "default"
"""Id of the initial domain."""


def _thing(view: SimulatedProject, noun: str, key: Json, verb: str) -> JsonMap:
    """Return an object by id. Raises CloudNotFound."""
    found = view.simulation.all(f"identity.{noun}").get(str(key))
    if found is None:
        raise CloudNotFound(verb, f"Could not find {noun}: {key}.")
    return found


class IdentityKind(Collection, frozen=True):
    """Kind of identity object: without a project and without times."""

    owned: bool = False
    dated: bool = False

    def _one(self, view: SimulatedProject, what: str, key: Json, whole: tuple[Json, ...]) -> JsonMap:
        return _thing(view, self.noun, key, f"{self.service}.{what}_{self.noun}")


def _refuse_twin(view: SimulatedProject, verb: str, kind: str, thing: JsonMap) -> None:
    """Reject a name that is taken in its domain. Raises CloudConflict."""
    for one in view.simulation.all(kind).values():
        if one["id"] != thing["id"] and all(one.get(key) == thing.get(key) for key in ("name", "domain_id")):
            noun, name = kind.partition(".")[2], thing["name"]
            why = f"Duplicate entry found with name {name}"
            if noun in ("user", "group"):
                why += f" at domain ID {thing['domain_id']}"
            if noun == "domain":
                noun, why = (
                    "project",
                    (f"it is not permitted to have two projects acting as domains with the same name: {name}"),
                )
            elif noun == "project":
                why = (
                    "it is not permitted to have two projects with either the same name or same id in the same domain: "
                    f"name is {name}, project id {one['id']}"
                )
            raise CloudConflict(verb, f"Conflict occurred attempting to store {noun} - {why}.")


def _refuse_unknown(view: SimulatedProject, verb: str, noun: str, key: Json) -> None:
    """Reject a reference to a missing object. Raises CloudError."""
    if key is not None and str(key) not in view.simulation.all(f"identity.{noun}"):
        text = (
            f"Expecting to find endpoint {noun}_id in {noun} table. The server could not comply with the request since"
            " it is either malformed or otherwise incorrect. The client is assumed to be in error."
        )
        raise CloudError(verb, text, 400)


def _made(view: SimulatedProject, thing: JsonMap, kind: str) -> None:
    verb = kind.replace(".", ".create_")
    if thing.get("domain_id") is not None:
        _thing(view, "domain", thing["domain_id"], verb)
    _refuse_twin(view, verb, kind, thing)


def _changed(view: SimulatedProject, thing: JsonMap, asked: JsonMap, kind: str) -> None:
    verb = kind.replace(".", ".update_")
    if asked.get("domain_id", thing.get("domain_id")) != thing.get("domain_id"):
        raise CloudError(verb, "Cannot change Domain ID", 400)
    _refuse_twin(view, verb, kind, {**thing, **asked})


def _drop_assignments(view: SimulatedProject, noun: str, key: Json) -> None:
    for one in list(view.simulation.all(ASSIGNMENT).values()):
        scope = cast(dict[str, JsonMap], one["scope"])
        if (cast(JsonMap, one.get(noun)) or scope.get(noun) or {}).get("id") == key:
            view.drop(ASSIGNMENT, one)


def _domain_removed(view: SimulatedProject, thing: JsonMap) -> None:
    if thing["enabled"]:
        text = "Cannot delete a domain that is enabled, please disable it first."
        raise CloudError("identity.delete_domain", text, 403)
    for noun in ("user", "group", "project", "role"):
        for one in list(view.simulation.all(f"identity.{noun}").values()):
            if one.get("domain_id") == thing["id"]:
                _drop_assignments(view, noun, one["id"])
                view.drop(f"identity.{noun}", one)
    _drop_assignments(view, "domain", thing["id"])


def _project_made(view: SimulatedProject, thing: JsonMap) -> None:
    thing.setdefault("parent_id", thing["domain_id"])
    if thing["parent_id"] != thing["domain_id"]:
        _thing(view, "project", thing["parent_id"], "identity.create_project")
    _made(view, thing, "identity.project")


def _project_removed(view: SimulatedProject, thing: JsonMap) -> None:
    if any(one["parent_id"] == thing["id"] for one in view.simulation.all("identity.project").values()):
        text = f"Cannot delete the project {thing['id']} since it is not a leaf in the hierarchy. Use the cascade"
        text += " option if you want to delete a whole subtree."
        raise CloudError("identity.delete_project", text, 403)
    _drop_assignments(view, "project", thing["id"])


def _user_made(view: SimulatedProject, thing: JsonMap) -> None:
    thing["_password"] = thing.pop("password", None)
    _made(view, thing, "identity.user")


def _user_changed(view: SimulatedProject, thing: JsonMap, asked: JsonMap) -> None:
    if "password" in asked:
        asked["_password"] = asked.pop("password")
    _changed(view, thing, asked, "identity.user")


def _user_removed(view: SimulatedProject, thing: JsonMap) -> None:
    _drop_assignments(view, "user", thing["id"])
    for one in list(view.simulation.all(EC2_CREDENTIAL).values()):
        if one["user_id"] == thing["id"]:
            view.drop(EC2_CREDENTIAL, one)
    for group in view.simulation.all("identity.group").values():
        if thing["id"] in _members(group):
            _members(group).remove(thing["id"])
            view.put("identity.group", group)


def _credential_made(view: SimulatedProject, thing: JsonMap) -> None:
    _thing(view, "user", thing["user_id"], "identity.create_ec2_credential")
    thing["id"] = thing["access"] = view.simulation.new_id("access").replace("-", "")  # stored by id
    thing["secret"] = view.simulation.new_id("secret").replace("-", "")


def _members(group: JsonMap) -> list[Json]:
    return cast(list[Json], group.setdefault("_users", []))


def _add_user(view: SimulatedProject, user: Json, group: Json) -> Json:
    _thing(view, "user", user, "identity.add_user_to_group")
    thing = _thing(view, "group", group, "identity.add_user_to_group")
    if user not in _members(thing):
        _members(thing).append(user)
        view.put("identity.group", thing)
    return None


def _remove_user(view: SimulatedProject, user: Json, group: Json) -> Json:
    verb = "identity.remove_user_from_group"
    _thing(view, "user", user, verb)
    thing = _thing(view, "group", group, verb)
    if user not in _members(thing):
        raise CloudNotFound(verb, f"User '{user}' not found in group '{group}'.")
    _members(thing).remove(user)
    view.put("identity.group", thing)
    return None


def _user_groups(view: SimulatedProject, user: Json) -> Json:
    _thing(view, "user", user, "identity.user_groups")
    return [group for group in view.things("identity.group") if user in _members(group)]


def _assign(where: str, grantee: str, give: bool) -> Verb:
    verb = f"identity.assign_{where}_role_to_{grantee}" if give else f"identity.unassign_{where}_role_from_{grantee}"

    def carry_out(view: SimulatedProject, target: Json, who: Json, role: Json) -> Json:
        for noun, key in ((where, target), (grantee, who), ("role", role)):
            _thing(view, noun, key, verb)
        assignment: JsonMap = {
            "id": f"{where}/{target}/{grantee}/{who}/{role}",
            "role": {"id": role},
            grantee: {"id": who},
            "scope": {where: {"id": target}},
        }
        if give:
            view.put(ASSIGNMENT, assignment)
        elif assignment["id"] not in view.simulation.all(ASSIGNMENT):
            text = (
                f"Could not find role assignment with role: {role}, user or group: {who}, project, domain, or system:"
            )
            raise CloudNotFound(verb, f"{text} {target}.")
        else:
            view.drop(ASSIGNMENT, assignment)
        return None

    return carry_out


def _assignments(view: SimulatedProject, **query: Json) -> Json:
    found: list[Json] = []
    for one in view.things(ASSIGNMENT):
        scope = cast(dict[str, JsonMap], one["scope"])
        told = {f"{noun}_id": cast(JsonMap, one[noun])["id"] for noun in ("user", "group", "role") if noun in one}
        told |= {f"scope_{noun}_id": thing["id"] for noun, thing in scope.items()}
        if all(told.get(key) == value for key, value in query.items()):
            found.append({key: value for key, value in one.items() if key != "id"})
    return found


def _service_removed(view: SimulatedProject, thing: JsonMap) -> None:
    for one in list(view.simulation.all("identity.endpoint").values()):
        if one["service_id"] == thing["id"]:
            view.drop("identity.endpoint", one)


def _endpoint_made(view: SimulatedProject, thing: JsonMap) -> None:
    _refuse_unknown(view, "identity.create_endpoint", "service", thing["service_id"])
    _refuse_unknown(view, "identity.create_endpoint", "region", thing.get("region_id"))


def _endpoint_changed(view: SimulatedProject, _thing: JsonMap, asked: JsonMap) -> None:
    _refuse_unknown(view, "identity.update_endpoint", "service", asked.get("service_id"))
    _refuse_unknown(view, "identity.update_endpoint", "region", asked.get("region_id"))


def _region_made(view: SimulatedProject, thing: JsonMap) -> None:
    if thing["id"] in view.simulation.all("identity.region"):
        text = f"Conflict occurred attempting to store region - Duplicate ID, {thing['id']}.."
        raise CloudConflict("identity.create_region", text)
    if thing.get("parent_region_id") is not None:
        _thing(view, "region", thing["parent_region_id"], "identity.create_region")


def _region_removed(view: SimulatedProject, thing: JsonMap) -> None:
    if any(one.get("region_id") == thing["id"] for one in view.simulation.all("identity.endpoint").values()):
        text = f"Unable to delete region {thing['id']} because it or its child regions have associated endpoints."
        raise CloudError("identity.delete_region", text, 403)


def _find_project(view: SimulatedProject, name_or_id: Json, ignore_missing: bool = True, **query: Json) -> Json:
    """Find a project. The caller's own project always exists, and has that name."""
    if name_or_id == view.project and name_or_id not in view.simulation.all("identity.project"):
        return {**PROJECTS.defaults, "id": view.project, "name": view.project, "parent_id": DEFAULT}
    found = PROJECTS.find(view, name_or_id, ignore_missing=True, **query)
    return found if found is not None or ignore_missing else PROJECTS.get(view, name_or_id)


PROJECTS: Final = IdentityKind(
    "identity.project",
    {"description": "", "domain_id": DEFAULT, "enabled": True, "is_domain": False, "tags": [], "options": {}},
    required=("name",),
    made=_project_made,
    changed=lambda view, thing, asked: _changed(view, thing, asked, "identity.project"),
    removed=_project_removed,
)

COLLECTIONS: list[Collection] = [
    IdentityKind(
        "identity.domain",
        {"description": "", "enabled": True, "options": {}},
        required=("name",),
        made=lambda view, thing: _refuse_twin(view, "identity.create_domain", "identity.domain", thing),
        changed=lambda view, thing, asked: _changed(view, thing, asked, "identity.domain"),
        removed=_domain_removed,
    ),
    PROJECTS,
    IdentityKind(
        "identity.user",
        {"description": "", "domain_id": DEFAULT, "enabled": True, "password_expires_at": None, "options": {}},
        required=("name",),
        made=_user_made,
        changed=_user_changed,
        removed=_user_removed,
    ),
    IdentityKind(
        "identity.group",
        {"description": "", "domain_id": DEFAULT},
        required=("name",),
        made=lambda view, thing: _made(view, thing, "identity.group"),
        changed=lambda view, thing, asked: _changed(view, thing, asked, "identity.group"),
        removed=lambda view, thing: _drop_assignments(view, "group", thing["id"]),
    ),
    IdentityKind(
        "identity.role",
        {"domain_id": None, "description": None, "options": {}},
        required=("name",),
        made=lambda view, thing: _made(view, thing, "identity.role"),
        changed=lambda view, thing, asked: _changed(view, thing, asked, "identity.role"),
        removed=lambda view, thing: _drop_assignments(view, "role", thing["id"]),
    ),
    IdentityKind(EC2_CREDENTIAL, {}, within="user_id", lacks=("update",), key="access", made=_credential_made),
    IdentityKind("identity.service", {"enabled": True}, required=("type",), removed=_service_removed),
    IdentityKind(
        "identity.endpoint",
        {"enabled": True},
        required=("service_id", "interface", "url"),
        made=_endpoint_made,
        changed=_endpoint_changed,
    ),
    IdentityKind(
        "identity.region",
        {"description": "", "parent_region_id": None},
        made=_region_made,
        removed=_region_removed,
    ),
]

VERBS: dict[str, Verb] = {
    "identity.find_project": _find_project,
    "identity.add_user_to_group": _add_user,
    "identity.remove_user_from_group": _remove_user,
    "identity.user_groups": _user_groups,
    "identity.role_assignments": _assignments,
    **{
        f"identity.{'assign' if give else 'unassign'}_{where}_role_{'to' if give else 'from'}_{grantee}": _assign(
            where, grantee, give
        )
        for where in ("domain", "project")
        for grantee in ("user", "group")
        for give in (True, False)
    },
}

SERVICES: Final = {"keystone": "identity", "glance": "image", "nova": "compute", "neutron": "network"}
"""Services in the initial catalog: name → type."""


def furnish(view: SimulatedProject) -> None:
    """Create the objects of Keystone's bootstrap."""
    view.call("identity.create_domain", id=DEFAULT, name="Default", description="The default domain")
    view.call("identity.create_region", id="RegionOne")
    for name in ("admin", "member", "reader"):
        view.call("identity.create_role", name=name)
    for name in ("admin", "demo"):
        view.call("identity.create_project", id=name, name=name)
    view.call("identity.create_user", name="admin")
    for name, kind in SERVICES.items():
        view.call("identity.create_service", name=name, type=kind)
