"""The distributions built from the repository, and their contents."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from .processes import ROOT, environment

pytest.importorskip("setuptools")


def built(source: Path, folder: Path, kind: str) -> Path:
    """Build without the network, in a copy that lacks what is not committed."""
    command = [sys.executable, "-c", f"from setuptools.build_meta import *; print(build_{kind}({str(folder)!r}))"]
    ran = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return folder / ran.stdout.split()[-1]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    return folder


@pytest.mark.slow
def test_the_wheel_has_what_runs(checkout: Path, tmp_path: Path) -> None:
    wheel = built(checkout, tmp_path, "wheel")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read("heatlite-0.1.0.dist-info/METADATA").decode()
        archive.extractall(tmp_path / "site")
    wanted = {
        "py.typed", "api/openapi/openapi.json", "api/openapi/page.html", "examples/hello.yaml",
        "store/admin/schema.sql",
    }  # fmt: skip
    assert {f"heatlite/{name}" for name in wanted} <= names
    assert not any(name.startswith("tools/") for name in names)
    shared = {
        "man/man1/heatlite.1",
        "bash-completion/completions/heatlite",
        "zsh/site-functions/_heatlite",
        "fish/vendor_completions.d/heatlite.fish",
    }
    assert {f"heatlite-0.1.0.data/data/share/{name}" for name in shared} <= names
    assert "Provides-Extra: test" not in metadata
    assert re.findall(r"\]\((?!https?:)[^)]*\)", metadata) == []  # an index has no page of the repository
    assert "\n# heatlite\n" in metadata and "\n## Documents\n" in metadata
    command = [sys.executable, "-P", "-m", "heatlite", "init"]
    subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "site")}, check=True, capture_output=True)
    assert (tmp_path / "hello.yaml").read_text() == (ROOT / "templates" / "hello.yaml").read_text()


@pytest.mark.slow
def test_the_sdist_has_what_packagers_need(checkout: Path, tmp_path: Path) -> None:
    with tarfile.open(built(checkout, tmp_path, "sdist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "CHANGELOG.md", "tox.ini", "docs/tour.md", "api-ref/source/v1/index.rst", "templates/hello.yaml",
        "tests/api/test_stacks.py", "deploy/compose.yaml", "requirements/test.txt", "benchmarks/__main__.py",
        "tools/manual.py",
    }  # fmt: skip
    assert wanted <= names


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "library"), [("ui", "jinja2"), ("metrics", "prometheus_client")])
def test_a_missing_library_of_the_server_is_one_line(setting: str, library: str, tmp_path: Path) -> None:
    code = f"import sys; sys.modules['{library}'] = None; from heatlite.__main__ import main; sys.exit(main(['serve']))"
    variables = environment(tmp_path, HEATLITE_PORT="0", **{f"HEATLITE_{setting.upper()}": "true"})
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1), ran.stderr
    assert f"The setting {setting} needs {library}, which is not installed: " in ran.stderr


@pytest.mark.slow
def test_the_agent_is_one_program(checkout: Path, tmp_path: Path) -> None:
    wheel = built(checkout / "packaging" / "agent", tmp_path, "wheel")
    with zipfile.ZipFile(wheel) as archive:
        (program,) = [name for name in archive.namelist() if "dist-info" not in name]
        assert program.endswith("/data/bin/heatlite-agent")
        archive.extract(program, tmp_path)
    shown = subprocess.run([sys.executable, "-I", tmp_path / program, "--version"], capture_output=True, text=True)
    assert shown.stdout.startswith("heatlite-agent ")
