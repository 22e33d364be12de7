"""Containers as folders: their content is returned, and nothing else."""

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from heatlite.core.errors import HTTPBadRequest, RequestLimitExceeded
from heatlite.engine.outbound import file_containers
from heatlite.engine.outbound.file_containers import Folders


@pytest.fixture
def container(tmp_path: Path) -> Path:
    """The container `c` of the project `p`."""
    folder = tmp_path / "root" / "p" / "c"
    folder.mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return folder


@pytest.fixture
def folders(container: Path) -> Folders:
    return Folders(container.parents[1], 100, 250)


def refused(folders: Folders, name: str = "c", project: str = "p") -> str:
    with pytest.raises(HTTPBadRequest) as error:
        folders.files(project, name)
    return error.value.message


def too_large(folders: Folders) -> str:
    with pytest.raises(RequestLimitExceeded) as error:
        folders.files("p", "c")
    return error.value.message


def test_names_are_paths_and_contents_texts(container: Path, folders: Folders) -> None:
    written = {
        "main.yaml": "a: 1\n",
        "deep/er/ünï code.sh": "#!/bin/sh\r\necho ü\n",
        "deep/empty": "",
        ".hidden": "\ufeffx",
    }
    for name, text in written.items():
        (container / name).parent.mkdir(parents=True, exist_ok=True)
        (container / name).write_bytes(text.encode())
    (container / "no files").mkdir()
    (container.parent / "other").mkdir()
    (container.parent / "other" / "x").write_text("x")
    assert folders.files("p", "c") == written
    assert folders.files("p", "other") == {"x": "x"}
    (container / "main.yaml").write_text("a: 2\n")
    assert folders.files("p", "c")["main.yaml"] == "a: 2\n"


PARTS = st.sampled_from(["..", ".", "/", "p", "c", "outside", "root", "link", "\0", "\ud800", "\n", "~", "x" * 300])
NAMES = st.lists(PARTS, max_size=6).map("".join) | st.text(max_size=8)


@given(project=NAMES, name=NAMES)
def test_no_name_leads_elsewhere(project: str, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.getbasetemp() / "elsewhere" / "root"
    if not root.exists():
        (root / "p" / "c").mkdir(parents=True)
        (root / "secret").write_text("secret")
        (root.parent / "secret").write_text("secret")
        (root / "p" / "secret").write_text("secret")
        (root / "link").symlink_to(root / "p")
        (root / "p" / "link").symlink_to(root)
    folders = Folders(root, 100, 100)
    if (project, name) == ("p", "c"):
        assert folders.files(project, name) == {}
    else:
        assert "ontainer" in refused(folders, name, project)


def test_links_are_not_followed(container: Path, folders: Folders, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    for name, target in (("file", outside / "secret"), ("folder", outside), ("itself", container), ("no", "nowhere")):
        link = container / name
        link.symlink_to(target)
        assert f'Container "c": "{name}" cannot be used: it cannot be read: ' in refused(folders)
        link.unlink()
    (container.parent / "outside").symlink_to(outside)
    assert 'Container "outside" cannot be read: ' in refused(folders, "outside")
    (folders.root / "q").symlink_to(container.parent)
    assert 'Container "c" cannot be read: ' in refused(folders, "c", "q")


def test_the_root_may_be_a_link(container: Path, folders: Folders, tmp_path: Path) -> None:
    """It is the operator's."""
    (container / "a").write_text("b")
    (tmp_path / "link").symlink_to(folders.root)
    assert replace(folders, root=tmp_path / "link").files("p", "c") == {"a": "b"}


def test_what_is_no_container(container: Path, folders: Folders) -> None:
    assert refused(folders, "absent") == 'There is no container "absent".'
    assert refused(folders, "c", "absent") == 'There is no container "c".'
    assert refused(replace(folders, root=folders.root / "absent")) == 'There is no container "c".'
    assert refused(folders, "a\nb") == "There is no container 'a\\nb'."
    (container.parent / "file").write_text("x")
    assert refused(folders, "file") == 'Container "file" cannot be read: Not a directory.'


def test_what_is_no_text(container: Path, folders: Folders) -> None:
    path = container / "folder" / "binary"
    path.parent.mkdir()
    start = 'Container "c": "folder/binary" cannot be used: '
    path.write_bytes(b"a\xff")
    assert refused(folders) == f"{start}it is no UTF-8 text (byte 1)."
    path.write_bytes("ü\0".encode())
    assert refused(folders) == f"{start}it is no text: it holds a NUL character (byte 2)."
    path.unlink()
    Path(os.fsdecode(bytes(container) + b"/\xff")).write_text("x")
    assert refused(folders) == "Container \"c\": '\\udcff' cannot be used: its name is no UTF-8."


def test_what_is_no_file(container: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(container / "pipe")
    assert refused(folders) == 'Container "c": "pipe" cannot be used: it is no file.'
    (container / "pipe").unlink()
    monkeypatch.chdir(container)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        assert '"socket" cannot be used: it cannot be read: ' in refused(folders)


def test_limits(container: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container at the limit is read, one above it is refused."""
    (container / "a").write_text("x" * 100)
    assert len(folders.files("p", "c")["a"]) == 100
    (container / "a").write_text("x" * 101)
    assert too_large(folders).endswith('Container "c": "a" has more than 100 bytes.')
    for name, size in (("a", 100), ("b", 100), ("c", 50)):
        (container / name).write_text("x" * size)
    assert len(folders.files("p", "c")) == 3
    (container / "c").write_text("x" * 51)
    assert too_large(folders).endswith('Container "c": its objects have more than 250 bytes.')

    (container / "c").unlink()
    monkeypatch.setattr(file_containers, "MAX_OBJECTS", 3)
    (container / "folder").mkdir()
    assert len(folders.files("p", "c")) == 2
    (container / "folder" / "empty").mkdir()
    assert too_large(folders).endswith('Container "c": it has more than 3 objects.')


def test_the_deepest_folder(container: Path, folders: Folders) -> None:
    deepest = container.joinpath(*["d"] * (file_containers.MAX_LEVELS - 1))
    deepest.mkdir(parents=True)
    (deepest / "a").write_text("b")
    assert list(folders.files("p", "c").values()) == ["b"]
    (deepest / "d").mkdir()
    assert f"its folders are deeper than {file_containers.MAX_LEVELS}" in too_large(folders)


def test_nothing_stays_open(container: Path, folders: Folders) -> None:
    def still_open() -> list[str]:
        links = Path("/proc/self/fd").iterdir()
        return [path for path in map(os.path.realpath, links) if path.startswith(str(folders.root))]

    (container / "a" / "b").mkdir(parents=True)
    (container / "a" / "b" / "text").write_text("x")
    folders.files("p", "c")
    refused(folders, "absent")
    (container / "a" / "b" / "binary").write_bytes(b"\xff")
    refused(folders)
    assert still_open() == []
