"""Example::Local::File of another package: the model for type authors."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heatlite.plugin import Change, ResourceType, Unhealthy
from heatlite.plugin.registry import Registry

EXAMPLE = Path(__file__).parents[1] / "example_plugin"
Build = Callable[..., Any]


@pytest.fixture
def file_type() -> Iterator[ResourceType]:
    sys.path.insert(0, str(EXAMPLE))
    yield Registry({}).get("Example::Local::File")
    sys.path.remove(str(EXAMPLE))
    sys.modules.pop("example_heatlite_plugin", None)


@pytest.fixture
def make(file_type: ResourceType, build: Build, tmp_path: Path) -> Callable[..., Any]:
    def make(**properties: Any) -> Any:
        return build(file_type, {"directory": str(tmp_path)} | properties)

    return make


def test_a_file_is_made_once_and_noted(make: Build, tmp_path: Path) -> None:
    resource = make(content="hello")
    assert resource.find() is None
    assert resource.check_create_complete(resource.handle_create()) is True
    assert resource.reference() == resource.find() == str(tmp_path / resource.physical_name)
    assert resource.attributes() == {"path": resource.reference(), "content": "hello"}
    assert (tmp_path / "journal").read_text() == f"{resource.physical_name}\n"
    with pytest.raises(FileExistsError):
        resource.handle_create()


def test_a_slow_one_is_ready_later(make: Build, clock: Any) -> None:
    resource = make(slow_secs=3)
    token = resource.handle_create()
    assert resource.check_create_complete(token) == 3
    clock.time += 3
    assert resource.check_create_complete(token) is True


def test_one_that_was_found_after_a_crash_is_ready(make: Build) -> None:
    make(slow_secs=3).handle_create()
    again = make(slow_secs=3)
    assert again.find() is not None
    assert again.check_create_complete(None) is True


def test_it_fails_as_told(make: Build) -> None:
    resource = make(fail=True)
    token = resource.handle_create()
    with pytest.raises(ValueError, match="Example file failed a"):
        resource.check_create_complete(token)
    resource.handle_delete()
    assert resource.find() is None


def test_content_changes_in_place(make: Build, file_type: ResourceType) -> None:
    make(content="old").handle_create()
    resource = make(content="new")
    resource.handle_update(Change(frozenset({"content"}), {"content": "old"}, {"content": "new"}))
    assert resource.attribute("content") == "new"
    assert file_type.schema.updatable == {"content", "slow_secs", "fail"}


def test_delete_of_what_is_gone_is_done(make: Build) -> None:
    resource = make()
    resource.handle_create()
    resource.handle_delete()
    resource.handle_delete()
    assert resource.find() is None


def test_check_fails_when_the_file_is_gone(make: Build) -> None:
    resource = make()
    resource.handle_create()
    resource.handle_check()
    resource.path.unlink()
    with pytest.raises(Unhealthy, match="is gone"):
        resource.handle_check()


@pytest.mark.parametrize("before", [False, True])
def test_unlock_restores_what_lock_found(make: Build, before: bool) -> None:
    resource = make()
    resource.handle_create()
    if before:
        resource.flag.touch()
    for _ in range(2):
        resource.handle_lock()
        resource.check_lock_complete(None)
        assert resource.flag.exists()
    resource.handle_unlock()
    resource.handle_unlock()
    assert resource.check_unlock_complete(None) is True
    assert resource.flag.exists() is before
    assert resource.data == {}


def test_the_directory_may_come_from_the_environment(
    file_type: ResourceType, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EXAMPLE_FILES", raising=False)
    assert [fault.text for fault in file_type.check_properties({})] == [
        "Give directory, or set EXAMPLE_FILES where the engine runs"
    ]
    monkeypatch.setenv("EXAMPLE_FILES", str(tmp_path))
    build(file_type).handle_create()
    assert (tmp_path / "s-a-abcdefghijkl").exists()
