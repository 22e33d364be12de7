"""The seam of features: what is off, and what is taken out."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from webtest import TestApp

from heatlite import preflight, wiring
from heatlite.__main__ import main
from heatlite.core.config import BadSetting, Settings
from heatlite.feature import active, installed
from tests.databases import sqlite
from tests.tables import table

ROOT = Path(__file__).parents[2]
FEATURES = {one.name: one for one in installed()}
OWN = [path.parent.name for path in sorted((ROOT / "heatlite" / "features").glob("*/feature.py"))]
COMMANDS = [
    (name, word)
    for name, one in FEATURES.items()
    for modules in one.commands.values()
    for words in modules.values()
    for word in words
]


@table("name", OWN)
def test_a_feature_is_named_as_its_folder(name: str) -> None:
    assert FEATURES[name].name == name
    modules = [module for named in FEATURES[name].commands.values() for module in named]
    assert all(module.startswith(f"heatlite.features.{name}.") for module in modules)
    assert (ROOT / "tests" / "features" / name).is_dir()


@table("name, command", COMMANDS)
def test_the_command_of_a_feature_that_is_off(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "heatlite.toml"
    file.write_text(f"features = {[one for one in FEATURES if one != name]}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HEATLITE_FEATURES", raising=False)  # of the row before
    assert main([command, "--help", "--config", str(file)]) == 1
    assert capsys.readouterr().err == f"heatlite: The feature {name} is off. Add it to `features` in heatlite.toml.\n"
    monkeypatch.setenv("HEATLITE_FEATURES", name)
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert f"usage: heatlite {command}" in capsys.readouterr().out


def test_the_help_lists_the_commands_of_features_that_are_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for features, listed in ((",".join(FEATURES), True), (",".join({*FEATURES} - {"migrate"}), False)):
        monkeypatch.setenv("HEATLITE_FEATURES", features)
        with pytest.raises(SystemExit):
            main(["help"])
        assert ("Moving from Heat:" in capsys.readouterr().out) == listed


def test_an_unknown_feature_starts_no_server(tmp_path: Path) -> None:
    settings = Settings(database=sqlite(tmp_path), features=("dashbord",))
    with pytest.raises(BadSetting, match="features: there is no feature 'dashbord'; there are: dashboard, "):
        preflight.check_servable(settings)


def test_a_cloud_of_a_feature_that_is_off_starts_no_server(tmp_path: Path) -> None:
    settings = Settings(database=sqlite(tmp_path), cloud="simulated", features=())
    with pytest.raises(BadSetting, match=r"Features that are off: .*simulator"):
        preflight.check_servable(settings)


@table("path", ["/ui", "/v1/demo/access_keys", "/v1/demo/incidents", "/v1/demo/health/generic"])
def test_the_routes_of_features_that_are_off(path: str, tmp_path: Path) -> None:
    server = wiring.embedded(Settings(database=sqlite(tmp_path), ui=True, features=()))
    try:
        answer = TestApp(server.app).get(path, status=404)
        names = ", ".join(sorted(FEATURES))
        assert f"Features that are off here: {names} (setting `features`)." in answer.json["error"]["message"]
        assert TestApp(server.app).get("/v1").json["versions"], "the document has the path of the query API"
    finally:
        server.close()


def test_a_feature_of_another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "reports-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: reports\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[heatlite.features]\nreports = reports_of_tests:feature\nbroken = reports_of_tests:gone\n"
    )
    (tmp_path / "reports_of_tests.py").write_text(
        "from heatlite.feature import Feature\nclass Reports(Feature):\n    name = 'reports'\nfeature = Reports()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert [one.name for one in active(Settings(database="", features=("reports",)))] == ["reports"]
    with pytest.raises(BadSetting, match=r"features: broken cannot be loaded: .*gone"):
        active(Settings(database=""))
    assert {one.name for one in installed()} == {*FEATURES, "reports"}


START = """
import sys
from pathlib import Path
from webtest import TestApp
from heatlite import wiring
from heatlite.core.config import Settings
chosen = {features!r}
server = wiring.embedded(Settings(database="sqlite:///own.db", features=chosen))
app = TestApp(server.app)
assert app.get("/healthcheck").text == "OK"
template = {{"heat_template_version": "2021-04-16"}}
app.post_json("/v1/demo/stacks", {{"stack_name": {name!r}, "template": template}}, status=201)
server.close()
print(*(name for name in sys.modules if name.startswith("heatlite.features.")))
"""


def run(folder: Path, *words: str) -> str:
    """Run Python where `folder` has the package."""
    environ = {"PYTHONPATH": str(folder), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_a_server_imports_no_feature_that_is_off(tmp_path: Path) -> None:
    (tmp_path / "heatlite").symlink_to(ROOT / "heatlite")
    run(tmp_path, "-c", START.format(features=(), name="s"))  # makes the tables of all features
    imported = run(tmp_path, "-c", START.format(features=(), name="t")).split()
    assert [name for name in imported if name.split(".")[2] in OWN] == []


FORKED = """
import sys
from importlib import import_module
from heatlite import preflight, server, wiring
from heatlite.core.config import Settings
from heatlite.feature import active
settings = Settings(database="sqlite:///own.db", ui=True)
preflight.check_servable(settings)
for name in (*server.COMMON, *(name for one in active(settings) for name in one.modules)):
    import_module(name)
shared = {*sys.modules}
api = wiring.api(settings)
api.app
print(*(name for name in sys.modules.keys() - shared if name.startswith("heatlite.")))
api.close()
"""


def test_processes_of_the_api_share_the_modules_of_features(tmp_path: Path) -> None:
    (tmp_path / "heatlite").symlink_to(ROOT / "heatlite")
    assert run(tmp_path, "-c", FORKED).split() == []


def without(name: str, folder: Path) -> None:
    """Copy the package without a feature."""
    out = f"{ROOT}/heatlite/features"

    def ignored(place: str, names: list[str]) -> set[str]:
        return {one for one in names if one == "__pycache__" or (place == out and one == name)}

    shutil.copytree(ROOT / "heatlite", folder / "heatlite", ignore=ignored)


@pytest.mark.share(4, whole=1)
@pytest.mark.parametrize("name", OWN)
def test_a_product_without_a_feature_starts(name: str, tmp_path: Path) -> None:
    without(name, tmp_path)
    assert f"heatlite.features.{name}" not in run(tmp_path, "-c", START.format(features=None, name="s")).split()
    shown = run(tmp_path, "-m", "heatlite", "help")
    words = [word for owner, word in COMMANDS if owner == name]
    assert [word for word in words if f"\n  {word} " in shown] == []


@pytest.mark.full
@pytest.mark.share(4, whole=1)
@pytest.mark.parametrize("name", OWN)
def test_a_product_without_a_feature_passes_its_unit_tests(name: str, tmp_path: Path) -> None:
    """Those of rooms that read features; `.ci/run` has the time for more."""
    without(name, tmp_path)
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__", "features"))
    for kept in ("setup.cfg", "benchmarks", "docs", "templates", "tools"):
        (tmp_path / kept).symlink_to(ROOT / kept)
    tested = (f"tests/unit/{one}" for one in ("api", "cli/test_configuration.py", "core", "engine"))
    run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tested)
