"""The environment files of an installation."""

from pathlib import Path

import pytest

from heatlite.core.config import Settings, load
from heatlite.plugin.installation import DEFAULT_REGISTRY, BadEnvironmentFile, read_installation
from heatlite.plugin.registry import Registry
from heatlite.resources import BUILTIN
from heatlite.template.environment import Environment, TypeMapping
from heatlite.template.types import Installation
from heatlite.wiring import installed_types

CHILD = "heat_template_version: rocky\n"


def test_no_folder_and_an_empty_one(tmp_path: Path) -> None:
    default = Installation({**DEFAULT_REGISTRY, "resources": {}})
    assert read_installation(tmp_path / "gone") == read_installation(tmp_path) == default


@pytest.mark.parametrize(
    ("written", "mapped"),
    [
        ("OS::Quantum::Net", "OS::Neutron::Net"),
        ("Old::Value", "OS::Heat::Value"),
        ("OS::Quantum::NoSuch", "OS::Quantum::NoSuch"),
    ],
)
def test_old_names_are_mapped(tmp_path: Path, written: str, mapped: str) -> None:
    types = Registry(BUILTIN, read_installation(tmp_path, {"Old::Value": "OS::Heat::Value"}))
    assert TypeMapping(Environment(), types).target("r", written).name == mapped
    assert set(DEFAULT_REGISTRY.values()) - {"OS::Neutron*"} <= set(types.names())


def test_old_names_can_be_taken_away(tmp_path: Path) -> None:
    content = 'resource_registry: {"OS::Quantum*": null, "Old::Value": "OS::Heat::None"}'
    (tmp_path / "a.yaml").write_text(content)
    found = read_installation(tmp_path, {"Old::Value": "OS::Heat::Value"}).resource_registry
    assert "OS::Quantum*" not in found
    assert found["Old::Value"] == "OS::Heat::None"


def test_files_are_merged_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "resource_registry: {A: X, B: Y, C: t.template}\nevent_sinks: [{type: zaqar-queue}]\n"
    )
    (tmp_path / "b.json").write_text('{"resource_registry": {"A": "Z", "B": null}}')
    (tmp_path / ".b.json.swp").write_text("{")
    (tmp_path / "more").mkdir()
    (tmp_path / "t.template").write_text("resource_registry: {}")
    with pytest.raises(BadEnvironmentFile, match="Template format version not found"):
        read_installation(tmp_path)
    (tmp_path / "t.template").unlink()
    with pytest.raises(BadEnvironmentFile, match="No such file"):
        read_installation(tmp_path)
    outside = tmp_path / "more" / "t.yaml"
    outside.write_text(CHILD)
    content = f"resource_registry: {{A: X, C: more/t.yaml, resources: {{r: {{D: '{outside.as_uri()}'}}}}, E: 'http://x/y.yaml'}}"
    (tmp_path / "a.yaml").write_text(content)
    found = read_installation(tmp_path)
    assert found.resource_registry == {
        **DEFAULT_REGISTRY,
        "A": "Z",
        "C": "more/t.yaml",
        "E": "http://x/y.yaml",
        "resources": {"r": {"D": outside.as_uri()}},
    }
    assert found.files == {"more/t.yaml": CHILD, outside.as_uri(): CHILD}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"resource_registry: [", "Environment not in valid format"),
        (b"zz: {}", 'wrong section "zz"'),
        (b"parameters: {a: 1}", 'the section "parameters" means nothing for an installation'),
        (b"resource_registry: {A: gone.yaml}", "No such file"),
        (b"\xff", "no UTF-8 text"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    with pytest.raises(BadEnvironmentFile) as caught:
        read_installation(tmp_path)
    assert told in caught.value.message
    assert str(tmp_path) in caught.value.message


def test_a_folder_that_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadEnvironmentFile, match="x: File name too long"):
        read_installation(tmp_path / (300 * "x"))


def test_the_folder_is_a_setting(tmp_path: Path) -> None:
    own = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_DATA_HOME": str(tmp_path)}
    assert load(list, environ=own).environment_dir == "/etc/heatlite/environment.d"
    folder = tmp_path / "config" / "heatlite" / "environment.d"
    folder.mkdir(parents=True)
    assert load(list, environ=own).environment_dir == str(folder)
    assert load(list, environ={**own, "HEATLITE_ENVIRONMENT_DIR": "/x"}).environment_dir == "/x"
    (folder / "a.yaml").write_text("resource_registry: {My::A: OS::Heat::None}")
    types = installed_types(Settings(database="", environment_dir=str(folder)))
    assert types.installation.resource_registry["My::A"] == "OS::Heat::None"
