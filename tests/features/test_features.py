"""The seam of features: what is off, and what is taken out."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from msgspec import NODEFAULT, Struct, defstruct
from msgspec.structs import replace
from webtest import TestApp

from heatlite import wiring
from heatlite.__main__ import main
from heatlite.administration import migration_status, open_store, upgrade
from heatlite.api.access.factory import create_access_control
from heatlite.api.access.policy import Table
from heatlite.core.clock import Clock
from heatlite.core.config import (
    BadSetting,
    FeatureSettings,
    Settings,
    all_values,
    check_stated,
    load,
    unknown_variables,
)
from heatlite.core.context import Context
from heatlite.engine.execution.retention import Retention
from heatlite.feature import active, finders, installed, registry, series_off
from heatlite.serving import preflight
from heatlite.store.secrets.cipher import new_key
from heatlite.store.writes.large_values import LARGE, LARGE_VALUE_GRACE
from heatlite.template.parameters.constraints import constraint_fault
from tests.databases import sqlite
from tests.engine.conftest import HeldClock
from tests.example_feature.feature import ReportSettings
from tests.example_feature.store import EXAMPLE, Report, ReportStore
from tests.tables import few, sampled, table

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


WORDS = re.compile(r"dashboard|healing|incident|node.?actions?|playbook|query.?api|simulator", re.IGNORECASE)
"""Words of features. `migrate` and `schedules` are words of the core, too."""
PAYLOADS = "the values of the wire and of the database stay"
HINTS = "words of the command line, shown if their feature is on"
KEPT = {
    "api/wire/health_views.py": PAYLOADS,
    "cli/commands/actions.py": HINTS,
    "cli/commands/validate.py": HINTS,
    "cli/output/progress.py": PAYLOADS,
    "cli/output/render.py": PAYLOADS,
    "cli/output/tally.py": PAYLOADS,
    "core/actions/payloads.py": PAYLOADS,
    "core/actions/repairs.py": PAYLOADS,
    "core/status.py": PAYLOADS,
    "core/wire/resources.py": PAYLOADS,
    "core/wire/stacks.py": PAYLOADS,
    "engine/state/conflict_rules.py": PAYLOADS,
    "store/records.py": PAYLOADS,
}
"""Modules of the core that have such words, with the reason."""


@pytest.mark.slow
def test_the_core_has_no_word_of_a_feature() -> None:
    package = ROOT / "heatlite"
    core = [one for one in package.rglob("*.py") if one.relative_to(package).parts[0] not in ("features", "agent")]
    texts = {one.relative_to(package).as_posix(): one.read_text() for one in core if one.parent.name != "migrations"}
    assert sorted(name for name, text in texts.items() if WORDS.search(text)) == sorted(KEPT)
    names = [name for one in FEATURES.values() for name in one.settings.__struct_fields__]
    named = re.compile(rf"\b({'|'.join(names)})\b")
    assert [name for name, text in texts.items() if named.search(text)] == []


@pytest.mark.slow
def test_the_core_names_no_command_of_a_feature() -> None:
    """It may be off. A feature adds its own to facts and errors."""
    words = {word for _, word in COMMANDS}
    names = "|".join(FEATURES)
    off = re.compile(rf"\bfeatures? `?(?:{names})\b|\b(?:{names}) (?:is|are) off\b")
    named = [
        f"{name}:{line}: {text}"
        for name, line, text in texts_of_the_core()
        if words & {*re.findall(r"\bheatlite ([a-z][a-z-]+)", text)} or off.search(text)
    ]
    assert named == []


def texts_of_the_core() -> Iterator[tuple[str, int, str]]:
    """The strings of the core, with their places."""
    package = ROOT / "heatlite"
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if name.parts[0] in ("features", "agent") or path.parent.name == "migrations":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield str(name), node.lineno, node.value


def test_the_dashboard_has_no_word_of_another_feature() -> None:
    """Their pages, and their cards on pages of the core, come by `Feature.pages`."""
    others = re.compile(r"healing|incident|node.?actions?|playbook|schedule[sd]|drift", re.IGNORECASE)
    folder = ROOT / "heatlite" / "features" / "dashboard"
    texts = [one for kind in ("*.py", "*.html") for one in folder.rglob(kind)]
    assert [one.name for one in texts if others.search(one.read_text())] == []


def test_a_setting_is_stated_once() -> None:
    core = {*Settings.__struct_fields__}
    names = [*core, *(name for one in FEATURES.values() for name in one.settings.__struct_fields__)]
    assert {name for name, count in Counter(names).items() if count > 1} == set()
    check_stated(FEATURES.values())
    assert all_values(Settings(database=""), installed).keys() == {*names} - {"of_features"}
    for one in FEATURES.values():
        one.settings()  # each has a default


GIVEN = [
    ("dashboard", "ui_session_hours", 2.5),
    ("healing", "incident_days", 7),
    ("nodes", "node_hosts", ["a.example", "10.0.0.0/8"]),
    ("nodes", "node_approval_by_another", True),
    ("simulator", "simulation", "cloud.yaml"),
]


@table("name, setting, value", GIVEN)
def test_the_setting_of_a_feature(name: str, setting: str, value: object, tmp_path: Path) -> None:
    file = tmp_path / "heatlite.toml"
    text = f'auth = "tokens"\n{setting} = {json.dumps(value)}\n'
    file.write_text(text)
    variable = {f"HEATLITE_{setting.upper()}": ",".join(value) if isinstance(value, list) else str(value)}
    expected = tuple(value) if isinstance(value, list) else value
    for found in (load(installed, file=file, environ={}), load(installed, {"auth": "tokens"}, environ=variable)):
        assert getattr(found.of(FEATURES[name].settings), setting) == expected
        assert all_values(found, installed)[setting] == expected
    off = [one for one in FEATURES if one != name]
    for taken in (value, "a wrong one", -1):
        file.write_text(f"features = {off}\n{setting} = {json.dumps(taken)}\n")
        found = load(installed, file=file, environ={})
        assert found.of_features == tuple(FEATURES[one].settings() for one in sorted(off))
        assert setting not in all_values(found, installed)
    file.write_text(f"{setting[:-1]}x = 1\n")
    with pytest.raises(BadSetting, match=f"there is no setting '{setting[:-1]}x'; did you mean {setting}\\?"):
        load(installed, file=file, environ={})
    wrong = f"HEATLITE_{setting[:-1].upper()}X"
    assert unknown_variables(installed, {**variable, wrong: ""}) == {wrong: f"HEATLITE_{setting.upper()}"}


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
    with pytest.raises(BadSetting, match=r"features: there is no feature 'dashbord'; there are: .*dashboard, "):
        preflight.check_servable(settings)


def test_a_cloud_of_a_feature_that_is_off_starts_no_server(tmp_path: Path) -> None:
    settings = Settings(database=sqlite(tmp_path), cloud="simulated", features=())
    with pytest.raises(BadSetting, match=r"Features that are off: .*simulator"):
        preflight.check_servable(settings)


@pytest.mark.slow
@table("path", ["/ui", "/v1/demo/access_keys", "/v1/demo/incidents", "/v1/demo/health/generic"])
def test_the_routes_of_features_that_are_off(path: str, tmp_path: Path) -> None:
    environ = {"HEATLITE_DATABASE": sqlite(tmp_path), "HEATLITE_UI": "true", "HEATLITE_FEATURES": ","}
    server = wiring.embedded(load(installed, environ=environ))
    try:
        answer = TestApp(server.app).get(path, status=404)
        names = ", ".join(sorted(FEATURES))
        assert f"Features that are off here: {names} (setting `features`)." in answer.json["error"]["message"]
        assert TestApp(server.app).get("/v1").json["versions"], "the document has the path of the query API"
    finally:
        server.close()


EXAMPLE_FEATURE = "tests.example_feature.feature:"


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **places: str) -> None:
    """Install a package with features, by the names of their entry points."""
    info = folder / f"{'_'.join(places)}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {'_'.join(places)}\nVersion: 1.0\n")
    lines = (f"{name} = {place}\n" for name, place in places.items())
    (info / "entry_points.txt").write_text(f"[heatlite.features]\n{''.join(lines)}")
    monkeypatch.syspath_prepend(folder)


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the feature of another package."""
    install(tmp_path, monkeypatch, reports=f"{EXAMPLE_FEATURE}feature")


UNLOADABLE = {
    "gone": "AttributeError: .*gone",
    "Reports": "Reports is no object of heatlite.feature.Feature",
    "feature": "states the name 'reports', and its entry point has to have the same name",
}


def test_features_of_other_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, reports=f"{EXAMPLE_FEATURE}feature", nowhere="tests.no_such_module:feature")
    install(tmp_path, monkeypatch, **{f"bad_{name.lower()}": EXAMPLE_FEATURE + name for name in UNLOADABLE})
    assert [one.name for one in active(Settings(database="", features=("reports",)))] == ["reports"]
    for name, reason in {**UNLOADABLE, "nowhere": "ModuleNotFoundError"}.items():
        known = name if name == "nowhere" else f"bad_{name.lower()}"
        with pytest.raises(BadSetting, match=rf"features: {known} cannot be loaded: .*{reason}"):
            active(Settings(database="", features=("reports", known)))
    install(tmp_path, monkeypatch, taken=f"{EXAMPLE_FEATURE}taken")
    with pytest.raises(BadSetting, match="taken cannot have the setting port: the core has one of this name"):
        active(Settings(database="", features=("taken",)))
    loaded = [one.name for one in installed() if one.settings.is_known]
    assert {*loaded} == {*FEATURES, "reports", "taken"}
    file = tmp_path / "heatlite.toml"
    file.write_text('features = ["reports"]\nnowhere_days = 3\nreport_days = 4\n')
    found = load(installed, file=file, environ={})
    assert found.of_features == (ReportSettings(report_days=4),), "a setting of a feature that cannot be loaded is left"


def test_a_secret_setting_of_a_feature(
    reports: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    file = tmp_path / "heatlite.toml"
    file.write_text('report_token = "xyzzy"\n')
    file.chmod(0o644)
    assert "xyzzy" not in repr(load(installed, file=file, environ={}))
    assert "may read report_token in it" in caplog.text
    assert main(["config", "show", "--config", str(file), "-f", "csv"]) == 0
    assert "report_token,(set)," in capsys.readouterr().out
    file.write_text("report_token = 4711\n")
    with pytest.raises(BadSetting, match="report_token must be text\\.") as wrong:
        load(installed, file=file, environ={})
    assert "4711" not in str(wrong.value)


class Odd(Struct):
    """A feature, as far as its settings are concerned."""

    name: str
    settings: type[FeatureSettings]


def odd(name: str, secrets: Collection[str] = (), default: object = NODEFAULT, kind: object = str) -> Odd:
    """A feature with one setting."""
    fields = [(name, kind) if default is NODEFAULT else (name, kind, default)]
    made = defstruct("Made", fields, bases=(FeatureSettings,), frozen=True)
    made.secret_fields = frozenset(secrets)
    return Odd("odd", made)


@table(
    ("stated", "fault"),
    [
        ([odd("port", default="")], "odd cannot have the setting port: the core has one of this name"),
        ([odd("odd_a", default=""), odd("odd_a", default="")], "the setting odd_a: odd has one of this name"),
        ([odd("odd_a")], "it needs a default"),
        ([odd("odd_a", default={}, kind=dict)], "a setting is a text, a number"),
        ([odd("odd_a", default=None, kind=float | None)], "a setting is a text, a number"),
        ([odd("odd_a", ["odd_a"], 1, int)], "a secret is a text"),
    ],
)
def test_settings_that_no_file_can_have(stated: list[Odd], fault: str) -> None:
    with pytest.raises(BadSetting, match=fault):
        check_stated(stated)
    if len(stated) == 1:
        with pytest.raises(BadSetting, match=fault):
            load(lambda: stated, {}, environ={"HEATLITE_ODD_A": "1", "HEATLITE_ODD_B": "1"})


@pytest.mark.usefixtures("reports")
def test_the_types_of_a_feature_of_another_package() -> None:
    on, off = (Settings(database="", features=features) for features in (("reports",), ()))
    assert registry(on).get("Example::Report").schema.check({"subject": "any"}) == []
    assert "example.subject" in finders(on)
    assert wiring.rules(on)["resource_types:Example::Report"] == {"admin"}
    assert "Example::Report" not in registry(off).names()
    assert "example.subject" not in finders(off)


@pytest.mark.usefixtures("reports")
def test_the_tables_of_a_feature_of_another_package(tmp_path: Path) -> None:
    """They come with the first start that has it on; its rows go with their stacks."""
    settings = Settings(database=f"sqlite:///{tmp_path}/heat.db", features=())
    open_store(settings).close()
    assert [step.name for step in migration_status(settings) if not step.applied or step.name in EXAMPLE] == []
    on = replace(settings, features=("reports",))
    assert [step.name for step in migration_status(on) if not step.applied] == EXAMPLE
    store = open_store(on)
    with store.transaction():
        store.database.change(Report.insert(id="r", stack_id="s", text="fine"))
        store.stacks.remove(["t"])
    assert store.of(ReportStore).texts() == ["fine"]
    with store.transaction():
        store.stacks.remove(["s"])
    assert store.of(ReportStore).texts() == []
    with store.transaction():
        store.database.change(Report.insert(id="r", stack_id="s", text="fine"))
    store.close()
    assert [step for step in migration_status(on) if not step.applied] == []
    store = open_store(settings)
    with store.transaction():
        store.stacks.remove(["s"])
    assert store.database.read("SELECT COUNT(*) FROM report") == [(0,)], "also while it is off"
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("how", few(["uninstalled", "cannot be imported", "cannot be loaded", "lacks a migration"]))
def test_rows_of_a_feature_that_cannot_be_read_are_left_alone(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Retention and rotation go on with the rest, and say so."""
    settings = Settings(database=sqlite(tmp_path), features=())
    with monkeypatch.context() as context:
        install(tmp_path, context, reports=f"{EXAMPLE_FEATURE}feature")
        store = open_store(replace(settings, features=("reports",)))
        values = dict[tuple[str, bool], dict[str, str]]()
        note = store.project_values.extract(json.dumps({"a": "x" * LARGE}), "acme", True, {}, values)
        with store.transaction():
            store.project_values.put(values)
            store.database.change(
                Report.insert(id="r", stack_id="s", text="", project="acme", note=store.encryption.encrypt(note))
            )
            if how == "lacks a migration":
                store.database.write("DELETE FROM schema_migration WHERE name = ?", (EXAMPLE[-1],))
        kept = store.database.read("SELECT note FROM report")
        store.close()
    if how != "uninstalled":
        (tmp_path / "again").mkdir()
        name = "gone" if how == "cannot be loaded" else "feature"
        install(tmp_path / "again", monkeypatch, reports=f"{EXAMPLE_FEATURE}{name}")
    if how == "cannot be imported":
        monkeypatch.setitem(sys.modules, "tests.example_feature.store", None)
    store = open_store(settings)
    clock = HeldClock()
    with clock.held():
        for _ in range(3):
            clock.pass_(2 * LARGE_VALUE_GRACE)
            Retention(store, clock, settings).sweep()
    with store.transaction():
        store.stacks.remove(["s"])
    assert store.database.read("SELECT COUNT(*) FROM project_value") == [(1,)]
    assert store.reencrypt().lost == ("reports",)
    assert store.database.read("SELECT note FROM report") == kept
    store.close()
    assert "has tables of features that this program cannot read: reports" in caplog.text
    old = (tmp_path / "heatlite.key").read_text().strip()
    host = ["keys", "rotate", "--database", settings.database]
    monkeypatch.setenv("HEATLITE_ENCRYPTION_KEYS", f"{new_key()},{old}")
    monkeypatch.setenv("HEATLITE_FEATURES", ",")
    assert main(host) == 1


@pytest.mark.usefixtures("reports")
def test_an_upgrade_brings_the_tables_of_features_that_are_off(tmp_path: Path) -> None:
    """Those that the database has: their rows go with stacks meanwhile."""
    settings = Settings(database=f"sqlite:///{tmp_path}/heat.db", features=())
    open_store(replace(settings, features=("reports",))).close()
    store = open_store(settings)
    with store.transaction():
        store.database.write("ALTER TABLE report DROP COLUMN note")
        store.database.write("ALTER TABLE report DROP COLUMN project")
        store.database.write("ALTER TABLE report DROP COLUMN author")
        store.database.write("DELETE FROM schema_migration WHERE name = ?", (EXAMPLE[-1],))
    store.close()
    assert [step.name for step in migration_status(settings) if not step.applied] == EXAMPLE[-1:]
    assert upgrade(settings) == EXAMPLE[-1:]
    store = open_store(settings)
    assert store.features_lost() == []
    assert any(isinstance(one, ReportStore) for one in store.stores_off())
    store.close()


def test_a_start_brings_the_tables_of_own_features_that_are_off(tmp_path: Path) -> None:
    """On a SQLite file, after an upgrade of the program."""
    settings = Settings(database=sqlite(tmp_path), features=())
    last = max(step.name for step in migration_status(replace(settings, features=("schedules",))) if "." in step.name)
    store = open_store(settings)
    with store.transaction():
        store.database.write("DROP TABLE delegation")
        store.database.write("DELETE FROM schema_migration WHERE name = ?", (last,))
    store.close()
    assert last.startswith("schedules.0003")
    store = open_store(settings)
    assert "delegation" in store.database.tables()
    assert store.features_lost() == []
    store.close()
    for name, one in FEATURES.items():
        known = [kind.series for kind in one.stores() if kind.series is not None]
        ours = [series for series in series_off(settings) if series.feature == name]
        assert known == [] or {*known} == {*ours}, "the migrations are where the start looks for them"


def test_an_unknown_constraint_names_the_features_that_are_off() -> None:
    registry(Settings(database="", features=("nodes",)))
    fault = constraint_fault("rare.thing", "x")
    assert '"x" does not validate rare.thing (constraint not found). Features that are off here: ' in fault
    registry(Settings(database=""))
    assert constraint_fault("rare.thing", "x").endswith("(constraint not found)")


class TestPolicyFile:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        pytest.importorskip("oslo_policy", reason="oslo.policy is not installed (extra `keystone`)")
        return tmp_path / "policy.yaml"

    @pytest.mark.slow
    def test_no_feature_replaces_a_rule_of_the_core(self, file: Path) -> None:
        from heatlite.api.access.policy_file import PolicyFile

        file.write_text("{}")
        reader, more = Context("demo", roles=frozenset({"reader"})), {"stacks:create": frozenset({"reader"})}
        assert not PolicyFile(file, more).allows("stacks:create", reader)
        assert not Table(more).allows("stacks:create", reader)

    def test_a_rule_of_a_feature_that_is_off(self, file: Path, caplog: pytest.LogCaptureFixture) -> None:
        file.write_text('"stacks:create": "role:x or rule:stacks:schedule"\n"stacks:expire": "role:x"\n')
        settings = Settings(database="", policy_file=str(file), features=())
        access = create_access_control(settings, Clock(), {}, rules_off=lambda: wiring.rules_off(settings))
        assert "refer to stacks:schedule, of features that are off" in caplog.text
        assert access._policy.allows("stacks:create", Context("demo", roles=frozenset({"x"})))
        assert not access._policy.allows("stacks:create", Context("demo", roles=frozenset({"member"})))
        file.write_text('"stacks:create": "rule:nothing"\n')
        with pytest.raises(BadSetting, match="refers to an unknown rule"):
            create_access_control(settings, Clock(), {}, rules_off=lambda: wiring.rules_off(settings))


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
HELP = """
from heatlite.__main__ import main
main(["help"])
"""


def run(folder: Path, *words: str) -> str:
    """Run Python where `folder` has the package."""
    environ = {"PYTHONPATH": str(folder), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_a_server_imports_no_feature_that_is_off(tmp_path: Path) -> None:
    (tmp_path / "heatlite").symlink_to(ROOT / "heatlite")
    run(tmp_path, "-c", START.format(features=(), name="s"))  # makes the tables of all features
    imported = run(tmp_path, "-c", START.format(features=(), name="t")).split()
    assert [name for name in imported if name.split(".")[2] in OWN] == []


FORKED = """
import sys
from importlib import import_module
from heatlite import wiring
from heatlite.serving import preflight, server
from heatlite.core.config import load
from heatlite.feature import active, installed
settings = load(installed, environ={"HEATLITE_DATABASE": "sqlite:///own.db", "HEATLITE_UI": "true"})
preflight.check_servable(settings)
for name in (*server.COMMON, *(name for one in active(settings) for name in one.shared_modules())):
    import_module(name)
shared = {*sys.modules}
api = wiring.api(settings)
api.app
print(*(name for name in sys.modules.keys() - shared if name.startswith("heatlite.")))
api.close()
"""


@pytest.mark.slow
def test_processes_of_the_api_share_the_modules_of_features(tmp_path: Path) -> None:
    (tmp_path / "heatlite").symlink_to(ROOT / "heatlite")
    assert run(tmp_path, "-c", FORKED).split() == []


def without(names: Collection[str], folder: Path) -> None:
    """Link the package without some features. The compiled modules are shared."""
    package, features = folder / "heatlite", folder / "heatlite" / "features"
    features.mkdir(parents=True)
    for one in (ROOT / "heatlite").iterdir():
        if one.name != "features":
            (package / one.name).symlink_to(one)
    for one in (ROOT / "heatlite" / "features").iterdir():
        if one.name not in names:
            (features / one.name).symlink_to(one)


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(OWN, len(OWN)))
def test_a_product_without_a_feature_starts(name: str, tmp_path: Path) -> None:
    """Some features read a public module of another."""
    without({name}, tmp_path)
    started, shown = run(tmp_path, "-c", START.format(features=None, name="s") + HELP).split("\n", 1)
    assert {one.split(".")[2] for one in started.split()} == {*OWN} - {name}
    words = [word for owner, word in COMMANDS if owner == name]
    assert [word for word in words if f"\n  {word} " in shown] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [pytest.param(OWN, id="all"), *(pytest.param([name], id=name, marks=pytest.mark.thorough) for name in OWN)],
)
def test_a_product_without_features_passes_its_unit_tests(names: list[str], tmp_path: Path) -> None:
    """Those of rooms that read features."""
    without(names, tmp_path)
    # With what is compiled, but for files that another process is writing.
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("*.pyc.*", "features"))
    for kept in ("setup.cfg", "benchmarks", "docs", "templates", "tools"):
        (tmp_path / kept).symlink_to(ROOT / kept)
    tested = (f"tests/unit/{one}" for one in ("api", "cli/test_configuration.py", "core", "engine"))
    run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tested)
