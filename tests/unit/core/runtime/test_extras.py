"""The command that installs a missing library."""

import json
import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

from heatlite.core.runtime.extras import MissingLibrary, install_command

PIP = f"{shlex.quote(sys.executable)} -m pip install"


@pytest.mark.parametrize("editable", [True, False])
def test_it_names_the_folder_of_the_installation(
    editable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my source"
    folder.mkdir()
    record(tmp_path, {"url": folder.as_uri(), "dir_info": {"editable": editable}}, monkeypatch)
    assert install_command("server") == f"{PIP}{' -e' if editable else ''} {shlex.quote(f'{folder}[server]')}"


@pytest.mark.parametrize(
    "origin",
    [
        {"url": "file:///no/such/folder", "dir_info": {}},
        {"url": "file:///heatlite-0.1.0-py3-none-any.whl", "archive_info": {}},
        None,
    ],
)
def test_without_a_folder_it_says_where_to_be(
    origin: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, origin, monkeypatch)
    assert install_command("cli") == f"in the folder of heatlite's source, {PIP} '.[cli]'"


def record(folder: Path, origin: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `folder` the record of the only installation."""
    if origin is not None:
        (folder / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.setattr(metadata, "distribution", lambda _name: metadata.PathDistribution(folder))


def test_a_library_that_cannot_load_its_parts_gets_no_name() -> None:
    """As psycopg without libpq: its ImportError has no name."""
    assert "PostgreSQL needs a library, which is not installed" in str(MissingLibrary("PostgreSQL", None, "postgres"))
