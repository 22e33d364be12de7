"""`files_container`: files on the server, for every request with a template."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from tests.databases import sqlite
from tests.tables import few

from .conftest import Heat, template, value

CONTENT = {
    "scripts/run.sh": "echo run",
    "base.yaml": "parameters: {size: 1, name: base}\n",
    "more.yaml": "parameters: {name: more}\nresource_registry: {'A::B': types/pair.yaml}\n",
    "types/pair.yaml": (
        "heat_template_version: 2018-08-31\n"
        "parameters: {size: {type: number}}\n"
        "resources: {x: {type: OS::Heat::RandomString, properties: {length: {get_param: size}}}}\n"
    ),
}
TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "parameters": {"size": {"type": "number"}, "name": {"type": "string"}},
    "resources": {
        "script": value({"get_file": "scripts/run.sh"}),
        "label": value({"get_param": "name"}),
        "amount": value({"get_param": "size"}),
    },
}
BODY = {
    "stack_name": "s",
    "template": TEMPLATE,
    "files_container": "c",
    "environment_files": ["base.yaml", "more.yaml"],
}


def fill(container: Path) -> None:
    for name, text in CONTENT.items():
        path = container / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the containers of all projects.

    The project `demo`, which no test uses, has one, `c`.
    """
    folder = tmp_path_factory.mktemp("containers")
    fill(folder / "demo" / "c")
    return folder


@pytest.fixture(scope="module")
def with_containers(tmp_path_factory: pytest.TempPathFactory, containers: Path) -> Iterator[wiring.Embedded]:
    database = sqlite(tmp_path_factory.mktemp("server"))
    server = wiring.embedded(Settings(database, files_containers=str(containers), max_template_size=2000))
    yield server
    server.close()


@pytest.fixture
def server(with_containers: wiring.Embedded) -> wiring.Embedded:
    return with_containers


@pytest.fixture
def heat(heat: Heat, containers: Path) -> Heat:
    """A project that has a container, `c`."""
    fill(containers / heat.project / "c")
    return heat


@pytest.fixture
def root(heat: Heat, containers: Path) -> Path:
    """Folder of the containers of the project."""
    return containers / heat.project


def created(heat: Heat, body: dict[str, object]) -> str:
    stack_id = heat.call("POST", "/stacks", body, code=201).json["stack"]["id"]
    path = f"/stacks/{body['stack_name']}/{stack_id}"
    heat.settle(path, "CREATE_COMPLETE")
    return path


def values(heat: Heat, path: str) -> dict[str, object]:
    """The values of a stack's OS::Heat::Value."""
    resources = heat.get(f"{path}/resources")["resources"]
    names = [one["resource_name"] for one in resources]
    return {name: heat.get(f"{path}/resources/{name}")["resource"]["attributes"]["value"] for name in names}


def test_files_and_environments_come_from_the_container(heat: Heat) -> None:
    path = created(heat, BODY)
    assert values(heat, path) == {"script": "echo run", "label": "more", "amount": 1}
    assert heat.get(f"{path}/files") == CONTENT


def test_files_of_the_body_win(heat: Heat) -> None:
    own = {"more.yaml": "parameters: {name: own}\n", "other": "x"}
    path = created(heat, {**BODY, "files": own})
    assert values(heat, path) == {"script": "echo run", "label": "own", "amount": 1}
    assert heat.get(f"{path}/files") == {**CONTENT, **own}


def test_an_update_reads_the_container_anew(heat: Heat, root: Path) -> None:
    path = created(heat, BODY)
    (root / "c" / "scripts" / "run.sh").write_text("echo 2")
    (root / "c" / "base.yaml").write_text("parameters: {size: 2, name: base}\n")

    changes = heat.call("PUT", f"{path}/preview", BODY, code=200).json["resource_changes"]
    assert sorted(one["resource_name"] for one in changes["updated"]) == ["amount", "script"]
    heat.call("PUT", path, BODY, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert values(heat, path) == {"script": "echo 2", "label": "more", "amount": 2}


def test_a_patch_goes_on_from_the_files_that_are_there(heat: Heat, root: Path) -> None:
    """With the old and a new template; container files replace those of the same name.

    Files of the old environment go with the new template: nothing names them any more.
    """
    path = created(heat, BODY)
    other = root / "d"
    other.mkdir()
    (other / "env.yaml").write_text("parameters: {name: other}\n")
    heat.call("PATCH", path, {"files_container": "d", "environment_files": ["env.yaml"]}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert values(heat, path) == {"script": "echo run", "label": "other", "amount": 1}
    (other / "scripts").mkdir()
    (other / "scripts" / "run.sh").write_text("echo d")
    heat.call("PATCH", path, {"files_container": "d", "template": TEMPLATE}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert values(heat, path) == {"script": "echo d", "label": "other", "amount": 1}
    brought = {"env.yaml": "parameters: {name: other}\n", "scripts/run.sh": "echo d"}
    assert heat.get(f"{path}/files") == {"types/pair.yaml": CONTENT["types/pair.yaml"], **brought}


def test_templates_for_types_come_from_the_container(heat: Heat, root: Path) -> None:
    """A validation looks into them, and tells their places."""
    two = template(a={"type": "A::B", "properties": {"size": 3}}, b={"type": "types/pair.yaml"})
    body = {**BODY, "template": {**two, "parameters": TEMPLATE["parameters"]}}
    assert "resources.b.properties: Property size not assigned" in heat.fault("POST", "/stacks", body)[1]
    two["resources"]["b"]["properties"] = {"size": 4}  # type: ignore[index]
    shown = heat.call("POST", "/validate?show_nested=true", body, code=200).json
    assert shown["NestedParameters"]["a"]["Parameters"]["size"]["Type"] == "Number"
    path = root / "c" / "types" / "pair.yaml"
    path.write_text(path.read_text().replace("length:", "lenght:"))
    problems = heat.call("POST", "/validate?all_errors=true", body, code=200).json["problems"]
    found = [(one["file"], one["line"]) for one in problems if "lenght" in one["message"]]
    assert found == [("types/pair.yaml", 3)]


def test_a_preview_reads_it_too(heat: Heat) -> None:
    resources = heat.call("POST", "/stacks/preview", BODY, code=200).json["stack"]["resources"]
    assert {one["resource_name"]: one["properties"]["value"] for one in resources}["script"] == "echo run"
    assert heat.get("/stacks") == {"stacks": []}


def remove(container: Path) -> None:
    (container / "more.yaml").unlink()


def make_large(container: Path) -> None:
    (container / "large").write_text("x" * 2001)


def make_binary(container: Path) -> None:
    (container / "image").write_bytes(b"\xff")


def make_link(container: Path) -> None:
    (container / "link").symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("make", "body", "kind", "message"),
    few(
        [
            (None, {"files_container": "d"}, "HTTPBadRequest", 'There is no container "d".'),
            (None, {"files_container": "../demo/c"}, "HTTPBadRequest", 'There is no container "../demo/c".'),
            (None, {"files_container": 5}, "HTTPBadRequest", "files_container: must be text or null, not a number."),
            (remove, {}, "HTTPBadRequest", "Environment file more.yaml is not among the files of the request."),
            (make_large, {}, "RequestLimitExceeded", '"large" has more than 2000 bytes.'),
            (make_binary, {}, "HTTPBadRequest", '"image" cannot be used: it is no UTF-8 text (byte 0).'),
            (make_link, {}, "HTTPBadRequest", '"link" cannot be used: it cannot be read: '),
        ]
    ),
)
def test_what_is_refused(
    heat: Heat, root: Path, make: Callable[[Path], None] | None, body: dict[str, object], kind: str, message: str
) -> None:
    path = heat.create(template(a=value()), name="there")
    if make is not None:
        make(root / "c")
    for method, url in (
        ("POST", "/stacks"),
        ("POST", "/stacks/preview"),
        ("POST", "/validate"),
        ("PUT", path),
        ("PATCH", path),
        ("PATCH", f"{path}/preview"),
    ):
        found = heat.fault(method, url, {**BODY, **body})
        assert found[0] == kind
        assert message in found[1]
    assert len(heat.get("/stacks")["stacks"]) == 1


def test_a_container_belongs_to_a_project(heat: Heat) -> None:
    assert heat.other.fault("POST", "/stacks", BODY)[1] == 'There is no container "c".'
    for project in ("..", ".", f"{heat.project}%2F..%2F{heat.project}", "%00"):
        response = heat.of(project).call("POST", "/validate", BODY)
        assert response.status_int in (400, 404)


def test_a_request_that_a_lock_refused_reads_it_when_replayed(heat: Heat, root: Path) -> None:
    path = created(heat, BODY)
    heat.call("POST", f"{path}/actions", {"lock": None}, code=200)
    heat.settle(path, "LOCK_COMPLETE")
    heat.call("PUT", path, BODY, code=409)
    (suppressed,) = heat.get(f"{path}/lock")["suppressed"]
    heat.call("POST", f"{path}/actions", {"unlock": None}, code=200)
    heat.settle(path, "UNLOCK_COMPLETE")
    (root / "c" / "scripts" / "run.sh").write_text("echo later")
    heat.call("POST", f"{path}/lock/suppressed/{suppressed['id']}/replay", code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert values(heat, path)["script"] == "echo later"


def test_without_the_setting_there_are_none(refusing: Heat) -> None:
    for path in ("/stacks", "/stacks/preview", "/validate", "/validate?all_errors=true"):
        kind, message = refusing.fault("POST", path, BODY)
        assert kind == "NotSupported"
        assert message.startswith("files_container is not supported: send the template and its files in the body.")
