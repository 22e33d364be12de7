"""Sources of settings, and invalid settings."""

from pathlib import Path

import pytest
from msgspec import Struct

from heatlite.core.config import BadSetting, FeatureSettings, Settings, default_database, load, unknown_variables
from tests.tables import table


def test_later_places_win(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    assert load(list, environ=home) == Settings(
        database=f"sqlite:///{tmp_path}/data/heatlite/heatlite.db",
        users_file=f"{tmp_path}/heatlite/users",
        tokens_file=f"{tmp_path}/heatlite/tokens.toml",
    )
    (tmp_path / "heatlite").mkdir()
    (tmp_path / "heatlite" / "heatlite.toml").write_text('port = 1\nhost = "file"\nlease_seconds = 2\nthreads = 3\n')
    environ = {**home, "HEATLITE_PORT": "11", "HEATLITE_THREADS": "13", "HEATLITE_ENDPOINT": "http://no-setting"}
    found = load(list, {"port": 111, "host": None}, environ=environ)
    assert (found.port, found.host, found.threads, found.lease_seconds) == (111, "file", 13, 2.0)


def test_a_named_file_stands_for_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "heatlite").mkdir()
    (tmp_path / "heatlite" / "heatlite.toml").write_text("port = 1\n")
    other = tmp_path / "other.toml"
    other.write_text("threads = 3\n")
    found = load(list, file=other, environ={"XDG_CONFIG_HOME": str(tmp_path)})
    assert (found.port, found.threads) == (8004, 3)
    with pytest.raises(BadSetting, match=r"absent\.toml: cannot be read: No such file"):
        load(list, file=tmp_path / "absent.toml", environ={})


def test_folders_without_xdg_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_database({"XDG_DATA_HOME": ""}) == f"sqlite:///{tmp_path}/.local/share/heatlite/heatlite.db"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("prot = 1", r"there is no setting 'prot'; did you mean port\? "),
        ("zzz = 1", r"there is no setting 'zzz'; `heatlite config show --config /dev/null` lists all\.$"),
        ('port = "x"', r"port must be a number, not 'x'"),
        ("port = 1.5", r"port must be a whole number, not 1\.5"),
        ("port = true", r"port must be a number, not True"),
        ("threads = 0", r"threads must be greater than 0, not 0"),
        ("lease_seconds = nan", r"lease_seconds must be greater than 0"),
        ("port = -1", r"port must be"),
        ("port = 65536", r"a port is at most 65535"),
        ("host = 1", r"host must be text, not 1"),
        ("host = ['a']", r"host must be text"),
        ("port = ", r"not valid TOML: "),
    ],
)
def test_bad_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "heatlite.toml"
    path.write_text(content)
    with pytest.raises(BadSetting, match=message) as error:
        load(list, file=path, environ={})
    assert str(path) in error.value.message


def test_a_list_is_one_in_the_file_and_has_commas_in_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "heatlite.toml"
    path.write_text('template_hosts = ["a.example", "b.example:8080"]\n')
    assert load(list, file=path, environ={}).template_hosts == ("a.example", "b.example:8080")
    assert load(list, file=path, environ={"HEATLITE_TEMPLATE_HOSTS": "c.example, d.example,"}).template_hosts == (
        "c.example",
        "d.example",
    )
    assert load(list, environ={"XDG_CONFIG_HOME": str(tmp_path)}).template_hosts == ()
    for wrong in ('"a.example"', "[1]", "{}"):
        path.write_text(f"template_hosts = {wrong}\n")
        with pytest.raises(BadSetting, match="template_hosts must be a list of texts"):
            load(list, file=path, environ={})


def test_a_switch_is_true_or_false(tmp_path: Path) -> None:
    path = tmp_path / "heatlite.toml"
    path.write_text("observe_on_update = true\n")
    assert load(list, file=path, environ={}).observe_on_update is True
    assert load(list, file=path, environ={"HEATLITE_OBSERVE_ON_UPDATE": "False"}).observe_on_update is False
    for wrong in ("1", '"yes"', "[]"):
        path.write_text(f"observe_on_update = {wrong}\n")
        with pytest.raises(BadSetting, match="observe_on_update must be true or false"):
            load(list, file=path, environ={})


def test_a_bad_variable_is_named() -> None:
    with pytest.raises(BadSetting, match=r"^HEATLITE_PORT: port must be a number"):
        load(list, environ={"HEATLITE_PORT": "http", "XDG_CONFIG_HOME": "/nowhere"})


class Tuning(FeatureSettings, frozen=True):
    """Settings of a feature."""

    tuning_rate: float = 1.5

    def check(self, settings: Settings) -> None:
        if self.tuning_rate > settings.threads:
            raise BadSetting("tuning_rate: more than threads.")


class Tuner(Struct):
    """A feature."""

    name: str = "tuner"
    settings: type[FeatureSettings] = Tuning


def test_settings_of_a_feature() -> None:
    calls = []

    def features() -> list[Tuner]:
        calls.append(1)
        return [Tuner()]

    home = {"XDG_CONFIG_HOME": "/nowhere"}
    core = {"HEATLITE_PORT": "1", "HEATLITE_ENDPOINT": "e", "HEATLITE_KEYSTONE_AUTH_URL": "u"}
    assert load(features, environ={**home, **core}).of(Tuning) == Tuning()
    assert unknown_variables(features, core) == {}
    assert calls == [], "features are imported where a name is none of the core's"
    rate = {**home, "HEATLITE_TUNING_RATE": "2"}
    assert load(features, environ=rate).of(Tuning) == Tuning(2.0)
    assert calls == [1]
    assert load(features, environ={**rate, "HEATLITE_FEATURES": "other"}).of(Tuning) == Tuning()
    for wrong, message in (("x", r"^HEATLITE_TUNING_RATE: tuning_rate must be a number"), ("9", r"more than threads")):
        with pytest.raises(BadSetting, match=message):
            load(features, environ={**rate, "HEATLITE_TUNING_RATE": wrong})
    assert load(features, environ={**rate, "HEATLITE_TUNING_RATE": "9", "HEATLITE_FEATURES": "other"})


def test_no_setting_has_the_name_of_what_features_state(tmp_path: Path) -> None:
    path = tmp_path / "heatlite.toml"
    path.write_text("of_features = 1\n")
    with pytest.raises(BadSetting, match="there is no setting 'of_features'"):
        load(list, file=path, environ={})


@table(
    ("url", "shown"),
    [
        ("sqlite:////home/mia/a:b@c.db", "sqlite:////home/mia/a:b@c.db"),
        ("postgresql://mia:s3:cr@t@db.example:5432/heat", "postgresql://mia@db.example:5432/heat"),
        ("mysql://root@127.0.0.1:3306/heat", "mysql://root@127.0.0.1:3306/heat"),
        ("postgresql:///heat?password=s3cr@t", "postgresql:///heat"),
    ],
)
def test_a_database_is_shown_without_its_password(url: str, shown: str) -> None:
    assert Settings(database=url).shown_database == shown


def test_some_limits_can_be_switched_off(tmp_path: Path) -> None:
    path = tmp_path / "heatlite.toml"
    path.write_text("max_stacks_per_tenant = -1\nmax_snapshots_per_stack = 7\n")
    found = load(list, file=path, environ={})
    assert found.max_stacks_per_tenant > 10**9
    assert found.max_snapshots_per_stack == 7
    assert Settings(database="", max_resources_per_stack=-1).max_resources_per_stack > 10**9
    for wrong in ("max_stacks_per_tenant = -2", "max_nested_stack_depth = -1", "max_template_size = -1"):
        path.write_text(wrong)
        with pytest.raises(BadSetting, match="must be greater than 0"):
            load(list, file=path, environ={})


def test_the_form_of_the_log_is_one_of_two(tmp_path: Path) -> None:
    path = tmp_path / "heatlite.toml"
    assert load(list, environ={"HEATLITE_LOG_FORMAT": "json", "XDG_CONFIG_HOME": "/nowhere"}).log_format == "json"
    for wrong in ('"xml"', "true", "1"):
        path.write_text(f"log_format = {wrong}\n")
        with pytest.raises(BadSetting, match="log_format must be text or json, not"):
            load(list, file=path, environ={})


def test_the_table_of_keystone(tmp_path: Path) -> None:
    file = tmp_path / "heatlite.toml"
    file.write_text('auth = "keystone"\n[keystone]\nauth_url = "http://k/v3"\nport = 1\ninsecure = true\n')
    found = load(list, file=file, environ={"HEATLITE_KEYSTONE_PASSWORD": "sesame", "HEATLITE_KEYSTONE_AUTH_URL": "http://e"})
    assert found.auth == "keystone"
    assert found.keystone == {"auth_url": "http://e", "port": "1", "insecure": "True", "password": "sesame"}
    assert "sesame" not in repr(found)
    for wrong in ("keystone = 1", "[keystone]\npassword = ['sesame']", "token = 1", "auth = 'ldap'"):
        file.write_text(wrong)
        with pytest.raises(BadSetting) as caught:
            load(list, file=file, environ={})
        assert "sesame" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("encryption_keys = []", "encryption_keys"),
        ('token = "t"\npassword = "p"', "password, token"),
        ('database = "postgresql://mia:sesame@h/n"', "database"),
        ('broker = "amqp://mia:sesame@h/n"', "broker"),
        ('[keystone]\npassword = "p"', "keystone"),
        ('port = 1\ndatabase = "postgresql://h/n@x"', None),
    ],
)
def test_secrets_that_others_may_read_get_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, named: str | None
) -> None:
    file = tmp_path / "heatlite.toml"
    file.write_text(text)
    for mode, warns in ((0o600, False), (0o640, True), (0o604, True)):
        caplog.clear()
        file.chmod(mode)
        load(list, file=file, environ={})
        told = [f"{file}: other users may read {named} in it: chmod 600 {file}"] if warns and named else []
        said = [record.getMessage() for record in caplog.records if record.name == "heatlite.core.config"]
        assert said == told
    assert "sesame" not in caplog.text
