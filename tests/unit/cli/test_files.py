"""Files that are sent with a template."""

import base64
import json
import os
import threading
from pathlib import Path

import pytest
import yaml

from heatlite.cli.errors import CommandError
from heatlite.cli.files import MAX_FILE_SIZE, gather

TEMPLATE = """
heat_template_version: 2018-08-31
resources:
  script: {type: OS::Heat::Value, properties: {value: {get_file: data/setup.sh}}}
  child: {type: child.yaml}
  group: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: child.yaml}}}
  elsewhere: {type: "https://example.org/t.yaml", properties: {type: json}}
  nowhere: {type: "http://[::1/t.yaml"}
"""
CHILD = """
heat_template_version: 2018-08-31
resources:
  inner: {type: OS::Heat::Value, properties: {value: {get_file: inner.bin}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "main.yaml").write_text(TEMPLATE)
    (tmp_path / "child.yaml").write_text(CHILD)
    (tmp_path / "data" / "setup.sh").write_text("#!/bin/sh\necho 'ä'\n")
    (tmp_path / "inner.bin").write_bytes(b"\xff\x00\xfe")
    return tmp_path


def test_paths_become_addresses_and_contents_travel(folder: Path) -> None:
    bundle = gather(folder / "main.yaml")
    child, script, inner = ((folder / name).as_uri() for name in ("child.yaml", "data/setup.sh", "inner.bin"))
    resources = bundle.template.data["resources"]
    assert isinstance(resources, dict)
    assert resources["script"]["properties"]["value"] == {"get_file": script}
    assert resources["child"]["type"] == child
    assert resources["group"]["properties"]["resource_def"]["type"] == child
    assert resources["elsewhere"] == {"type": "https://example.org/t.yaml", "properties": {"type": "json"}}
    assert bundle.files.keys() == {child, script, inner}
    assert bundle.files[script] == "#!/bin/sh\necho 'ä'\n"
    assert base64.b64decode(bundle.files[inner]) == b"\xff\x00\xfe"
    sent = json.loads(bundle.files[child])
    assert sent["heat_template_version"] == "2018-08-31"
    assert sent["resources"]["inner"]["properties"]["value"] == {"get_file": inner}


def test_the_source_keeps_the_places_of_the_file(folder: Path) -> None:
    source = gather(folder / "main.yaml").template
    assert source.locate(("resources", "child", "type"))[0] == 5


def test_a_template_that_names_itself_does_not_hang(tmp_path: Path) -> None:
    path = tmp_path / "loop.yaml"
    path.write_text("heat_template_version: 2018-08-31\nresources: {a: {type: loop.yaml}}\n")
    assert list(gather(path).files) == [path.as_uri()]


def test_environments_are_merged_in_order_and_their_templates_travel(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "one.yaml").write_text(
        "parameters: {a: 1, b: {x: 1}}\n"
        "resource_registry:\n"
        "  My::A: child.yaml\n"
        "  My::B: OS::Heat::None\n"
        "  resources: {r: {hooks: pre-create, My::C: child.yaml}}\n"
    )
    (folder / "sub" / "two.yaml").write_text(
        "parameters: {b: {y: 2}, c: 3}\n"
        "resource_registry: {base_url: .., My::B: child.yaml, resources: {r: {My::D: OS::Heat::None}}}\n"
    )
    bundle = gather(folder / "main.yaml", [folder / "one.yaml", folder / "sub" / "two.yaml"])
    child = (folder / "child.yaml").as_uri()
    assert bundle.environment == {
        "parameters": {"a": 1, "b": {"y": 2}, "c": 3},
        "resource_registry": {
            "My::A": child,
            "My::B": child,
            "resources": {"r": {"hooks": "pre-create", "My::C": child, "My::D": "OS::Heat::None"}},
        },
    }
    body = bundle.body({"a": "9"})
    assert body["parameters"] == {"a": "9"}
    assert "environment_files" not in body


def test_what_is_no_type_is_no_file(folder: Path) -> None:
    block = {
        "hooks": "pre-delete",
        "restricted_actions": "replace",
        "replacement": {"order": "delete_first"},
        "lifecycle_hook": {"timeout": 600},
        "protect": {"reason": "the only copy"},
    }
    (folder / "env.yaml").write_text(yaml.safe_dump({"resource_registry": {"resources": {"g": {"*": block}}}}))
    bundle = gather(folder / "main.yaml", [folder / "env.yaml"])
    assert bundle.environment["resource_registry"] == {"resources": {"g": {"*": block}}}


def test_merge_strategies_are_the_servers_work(folder: Path) -> None:
    (folder / "one.yaml").write_text("parameters: {a: 1}\n")
    (folder / "two.yaml").write_text("parameters: {a: 2}\nparameter_merge_strategies: {a: merge}\n")
    paths = [folder / "one.yaml", folder / "two.yaml"]
    body = gather(folder / "main.yaml", paths).body({})
    files = body["files"]
    assert isinstance(files, dict)
    assert body["environment_files"] == [path.as_uri() for path in paths]
    assert json.loads(files[paths[0].as_uri()]) == {"parameters": {"a": 1}}
    assert "environment" not in body


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.yaml", None, r"absent\.yaml: no such file$"),
        ("latin.yaml", b"a: \xe4\n", r"latin\.yaml: error: not UTF-8 text \(byte 3\)$"),
        ("list.yaml", b"- a\n", r"list\.yaml: error: .*not a JSON object or YAML mapping"),
        ("yaml.yaml", b"a: 1\nb: [1\n", r"yaml\.yaml:3:1: error: "),
        ("asks.yaml", b"a: {get_file: gone.sh}\n", r"gone\.sh: no such file \(named in .*asks\.yaml\)$"),
        ("large.yaml", b"#" * (MAX_FILE_SIZE + 1), r"large\.yaml: larger than 4 MiB$"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CommandError, match=message):
        gather(path)


def test_a_folder_is_no_template(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="Is a directory"):
        gather(tmp_path)


@pytest.fixture
def elsewhere(folder: Path) -> Path:
    """A folder beside the template's, in which the user has something."""
    private = folder.parent / f"{folder.name}-private"
    private.mkdir()
    (private / "id_rsa").write_text("sesame")
    (private / "clouds.yaml").write_text("clouds: {}")
    return private


@pytest.mark.parametrize(
    "named",
    [
        "a: {get_file: ../X/id_rsa}",
        "a: {get_file: /X/id_rsa}",
        "a: {get_file: 'file:///X/id_rsa'}",
        "a: {get_file: data/../../X/id_rsa}",
        "a: {get_file: link}",
        "resources: {a: {type: ../X/clouds.yaml}}",
        "resources: {a: {type: below.yaml}}",
    ],
)
def test_what_lies_outside_of_the_folder_is_told(folder: Path, elsewhere: Path, named: str) -> None:
    (folder / "link").symlink_to(elsewhere / "id_rsa")
    (folder / "below.yaml").write_text(f"a: {{get_file: {elsewhere}/id_rsa}}")
    named = named.replace("/X", str(elsewhere) if "../" not in named else f"/{elsewhere.name}").replace("////", "///")
    (folder / "bad.yaml").write_text(f"heat_template_version: 2018-08-31\n{named}\n")
    bundle = gather(folder / "bad.yaml")
    (path,) = bundle.outside
    assert path.parent == elsewhere
    assert bundle.outside[path] == folder / ("below.yaml" if "below" in named else "bad.yaml")
    assert gather(folder / "bad.yaml", folders=[elsewhere]).outside == {}
    assert gather(folder / "bad.yaml", folders=[elsewhere / "id"]).outside != {}


def test_what_lies_below_a_file_of_the_command_line_is_not(folder: Path, elsewhere: Path) -> None:
    """The user has named both; but neither may name what lies beside the other."""
    (elsewhere / "env.yaml").write_text("resource_registry: {OS::A: own.yaml}")
    (elsewhere / "own.yaml").write_text("a: {get_file: id_rsa}")
    assert gather(folder / "main.yaml", [elsewhere / "env.yaml"]).outside == {}
    (folder / "main.yaml").write_text(f"a: {{get_file: ../{elsewhere.name}/clouds.yaml}}")
    assert [*gather(folder / "main.yaml", [elsewhere / "env.yaml"]).outside] == [elsewhere / "clouds.yaml"]


@pytest.mark.parametrize("named", ["pipe", "/dev/zero", "data"])
def test_only_a_regular_file_is_read(folder: Path, named: str) -> None:
    """Nobody writes into the pipe."""
    os.mkfifo(folder / "pipe")
    (folder / "asks.yaml").write_text(f"a: {{get_file: {named}}}")
    (folder / "env.yaml").write_text(f"resource_registry: {{OS::A: {named}}}")
    reason = rf"{named}: (not a regular file|Is a directory) \(named in .*(asks|env)\.yaml\)$"
    with pytest.raises(CommandError, match=reason):
        gather(folder / "asks.yaml")
    with pytest.raises(CommandError, match=reason):
        gather(folder / "main.yaml", [folder / "env.yaml"])


def test_a_user_may_name_a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    writer = threading.Thread(target=(folder / "pipe").write_text, args=("heat_template_version: 2018-08-31\n",))
    writer.start()
    assert gather(folder / "pipe").template.data == {"heat_template_version": "2018-08-31"}
    writer.join()
