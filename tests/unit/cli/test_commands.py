"""Commands that need no server, arguments, and how answers are printed."""

import argparse
import io
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from heatlite.cli.client import Stack
from heatlite.cli.commands.changes import same_again, stack_name
from heatlite.cli.commands.maintenance import moment
from heatlite.cli.errors import CommandError
from heatlite.cli.files import parameters
from heatlite.cli.main import build_parser, parse, run
from heatlite.cli.output import progress, render
from heatlite.cli.session import StatedFeature
from heatlite.cli.transport import ApiTransport, HTTPTransport
from heatlite.core.clock import Clock, from_text
from heatlite.core.config import Settings
from heatlite.feature import installed
from heatlite.template.types import TypeCatalog
from tests.commands import every_command
from tests.tables import table


class HeldClock(Clock):
    def now(self) -> float:
        return from_text("2026-11-21T02:44:00Z")


class Recorder:
    """A program that notes what it is asked for, and whose server is nowhere."""

    def __init__(self) -> None:
        self.served: list[Settings] = []
        self.applied = False

    def features(self) -> Sequence[StatedFeature]:
        return installed()

    def running_server(self, settings: Settings) -> str | None:
        return None

    def connect(self, settings: Settings, reads_only: bool) -> ApiTransport:
        return HTTPTransport("http://127.0.0.1:1")

    def serve(self, settings: Settings) -> None:
        self.served.append(settings)

    def upgrade(self, settings: Settings) -> None:
        self.applied = True

    def migration_status(self, settings: Settings) -> Sequence[tuple[str, bool]]:
        return [("0001_version_0_1_0", self.applied)]

    def new_key(self) -> str:
        return "a-key"

    def reencrypt(self, settings: Settings) -> tuple[int, Sequence[str], Sequence[str], bool]:
        return (2, [], [], True) if settings.encryption_keys else (1, ["action one", "stack two"], [], False)

    def inconsistencies(self, settings: Settings) -> Sequence[tuple[str, str, str, str]]:
        return [("a rule", "action", "a1", "x")] if settings.database.endswith("bad.db") else []

    def types(self) -> TypeCatalog:
        raise NotImplementedError


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and an environment without the user's settings."""
    for name in list(os.environ):
        if name.startswith(("OS_", "HEATLITE_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- arguments -------------------------------------------------------------------------------------


@table(
    "line",
    [
        "up hello.yaml -e a.yaml -e b.yaml -P a=1 -P b=2 -n x --timeout 5 --rollback --tags a,b -y -f json --no-wait",
        "plan hello.yaml -f json -c change",
        "events -f story --endpoint http://h:1 --project p",
        "events story --format json -c id",
        "lock story --level stacks --reason why --expires +2h",
        "check story --every 10m --at +2h",
        "action-lock story",
        "action-unlock story",
        "lock-status story --replay 7",
        "mark-healthy story db --reason fixed",
        "types show OS::Heat::Value -f yaml",
        "action list --status FAILED,CANCELLED --status RUNNING --action STACK_CHECK --target a --target b --name n",
        "ls --status FAILED",
        "ls --status unlock_complete",
        "ls --status INIT_COMPLETE",
        "action list --sort status:desc,name --limit 0 -f json -c id",
        "action show stack_update_1a2b3c4d --history -f yaml",
        "action signal 1a2b cancel --force",
        "action wait 1a2b --timeout 0.5 --endpoint http://h:1 --project p",
        "serve --host 127.0.0.1 --port 0 --database sqlite:///x.db --config c.toml",
        "db status -f json",
        "db backup copy.db --force",
        "db backup --force copy.db",
        "group resize story web -10%",
        "group resize story web -1.5% --min-step 2",
    ],
)
def test_command_lines_are_understood(line: str) -> None:
    assert callable(parse(line.split()).run)


def test_the_seeds_names_are_the_same_commands() -> None:
    parse = build_parser().parse_args
    assert parse(["action-lock", "s"]).run is parse(["lock", "s"]).run
    assert parse(["action-unlock", "s"]).run is parse(["unlock", "s"]).run
    assert parse(["lock", "s"]).level == "all"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("shwo s", "heatlite: error: there is no command 'shwo'; did you mean show?"),
        ("create a.yaml", "heatlite: error: there is no command 'create'; did you mean up?"),
        ("snapshot list s", "there is no command 'snapshot'; snapshots are made with: openstack stack snapshot"),
        ("nonsense", "there is no command 'nonsense'; its help lists all\nSee: heatlite --help"),
        ("--database sqlite:///x.db ls", "options come after the command: heatlite COMMAND --database …"),
        ("node lst", "heatlite node: error: there is no command 'lst'; did you mean list?"),
        ("up a.yaml --no-wat", "heatlite up: error: unrecognized arguments: --no-wat; did you mean --no-wait?"),
        ("up a.yaml --bogus", "heatlite up: error: unrecognized arguments: --bogus\n"),
        ("up", "the following arguments are required: FILE"),
        ("up a.yaml --timeout 0", "'0' is not a whole number of minutes from 1"),
        ("lock s --level some", "invalid choice: 'some'"),
        ("lock-status s --replay 1 --drop 2", "not allowed with argument"),
        ("ls -f xml", "invalid choice: 'xml'"),
        ("action", "the following arguments are required: COMMAND"),
        ("ls --watch 0", "argument --watch: '0' is too short: at least 0.1 seconds"),
        ("ls --status FAILD", "'FAILD' is no status: IN_PROGRESS, COMPLETE, FAILED, or such as CREATE_FAILED"),
        ("action list --limit -1", "'-1' is not a whole number"),
        ("action signal 1a2b STOP", "invalid choice: 'STOP'"),
        ("action wait 1a2b --timeout nan", "'nan' is not a number of seconds"),
        ("action wait 1a2b --timeout -1", "'-1' is not a number of seconds"),
        ("serve --port -1", "argument --port: '-1' is not a whole number"),
    ],
)
def test_misuse_is_explained(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        run(line.split(), Recorder())
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@table("number", ["1_0", " 10", "10 ", "\u0661\u0660"])
def test_a_number_has_digits_only(
    number: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`int` and `float` read all of these as 10."""
    for line in (
        f"up a.yaml --timeout '{number}'", f"action list --limit '{number}'", f"ls --watch '{number}'",
        f"action wait 1a --timeout '{number}'", f"group scale-out s g --count '{number}'",
        f"group resize s g +10% --min-step '{number}'", f"group scale-in s g --grace-period '{number}s'",
        f"serve --port '{number}'", f"serve --processes '{number}'", f"resources s --nested '{number}'",
    ):  # fmt: skip
        with pytest.raises(SystemExit) as exit_:
            run(shlex.split(line), Recorder())
        assert (exit_.value.code, repr(number)[:3] in capsys.readouterr().err) == (2, True), line
    for line in (
        f"group resize s g '{number}'", f"group resize s g '+{number}'", f"group resize s g '{number}%'",
        f"check s --every '{number}m'", f"lock s --expires '+{number}m'",
    ):  # fmt: skip
        assert (run(shlex.split(line), Recorder()), number in capsys.readouterr().err) == (2, True), line


@pytest.mark.parametrize(
    ("line", "which"),
    [
        ("show ''", "STACK"),
        ("action list ''", "STACK"),
        ("action list --target ''", "--target"),
        ("action signal '' cancel", "ACTION"),
        ("heal s web/0 '' -y", "PATH"),
        ("group resize s g ''", "SIZE"),
        ("protect s ''", "RESOURCE"),
        ("up a.yaml -y -n ''", "-n/--name"),
        ("up '' -y", "FILE"),
        ("audit --stack ''", "--stack"),
    ],
)
def test_an_empty_name_means_nothing(line: str, which: str, capsys: pytest.CaptureFixture[str]) -> None:
    # as of `heatlite action list "$STACK"` where the variable is not set
    with pytest.raises(SystemExit) as exit_:
        run(shlex.split(line), Recorder())
    assert exit_.value.code == 2
    said = capsys.readouterr().err
    assert f"argument {which}: is empty" in said


@pytest.mark.parametrize("line", ["", "help", "--help"])
def test_the_help_lists_all_commands_in_sections(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        run(line.split(), Recorder())
    shown = capsys.readouterr().out
    assert exit_.value.code == 0
    assert "\nStacks:\n  up " in shown and "\nServer and clients:\n  serve " in shown


def commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield parser.prog.partition(" ")[2]
    for group in groups:
        for child in set(group.choices.values()):
            yield from commands(child)


def test_each_help_has_examples_and_they_are_valid() -> None:
    parser = every_command()
    for one in parser.below():
        assert one.commands or one.examples, one.prog
        for example in one.examples:
            assert f"heatlite {example}".startswith(one.prog), example
            assert parser.parse_args(shlex.split(example)).run, example


def test_the_help_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["help", "lock"], Recorder())
    shown = capsys.readouterr().out
    assert "usage: heatlite lock " in shown and "\nexamples:\n  heatlite lock web " in shown


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("up absent.yaml", 2, "heatlite: absent.yaml: no such file"),
        ("up 1.yaml", 2, "heatlite: No stack name can be made from 1.yaml. Use -n NAME."),
        ("up 1.yaml -n one -P a", 2, "heatlite: -P a: a parameter is given as NAME=VALUE."),
        ("ls", 1, "heatlite: No server answers at http://127.0.0.1:1. Start one with: heatlite serve"),
        ("ls --endpoint http://127.0.0.1:1/v1/p", 1, "heatlite: No server answers at http://127.0.0.1:1."),
        ("ls --endpoint http://[::1:8004", 2, "heatlite: 'an address that cannot be read' is not the address"),
        ("show \udcff", 2, "heatlite: An argument is not valid UTF-8."),
        ("ls --endpoint nonsense://x", 2, "heatlite: 'nonsense://x' is not the address of a server"),
        ("db restore absent.db", 2, "heatlite: absent.db: No such file or directory"),
        ("db restore .", 2, "heatlite: .: Is a directory"),
        ("ls --config absent.toml", 2, "heatlite: absent.toml: cannot be read: No such file or directory."),
        ("serve --port 70000", 2, "heatlite: --port: a port is at most 65535, not 70000."),
        ("lock s --expires soon", 2, "heatlite: --expires soon: a time is given as 2026-11-21T18:00:00Z"),
        ("user token ci --expires 2020-01-01T00:00:00Z", 2, "heatlite: --expires 2020-01-01T00:00:00Z: 2020-01-01T00"),
        ("health token create a --expires-at +0m", 2, "heatlite: --expires-at +0m: 20"),
        ("check s --at soon", 2, "heatlite: --at soon: a time is given as 2026-11-21T18:00:00Z"),
        ("check s --every often", 2, "heatlite: --every often: a pause is given as 30s, 10m, 1h or 1d."),
        ("types OS::Heat::Value", 2, "heatlite: Either: heatlite types list, or: heatlite types show TYPE"),
    ],
)
def test_a_users_mistake_is_one_line(
    line: str, code: int, message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "1.yaml").write_text("heat_template_version: 2018-08-31\n")
    assert run(line.split(), Recorder()) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(message)
    assert err.count("\n") == 1


@pytest.mark.parametrize("token", ["sesame\r", "sesame\n", "sesame\udcff"])
def test_a_token_that_no_header_can_have_is_not_shown(
    token: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of variables may have been written on Windows."""
    monkeypatch.setenv("HEATLITE_TOKEN", token)
    assert run(["ls", "--endpoint", "http://127.0.0.1:1"], Recorder()) == 2
    told = capsys.readouterr().err
    assert told == "heatlite: The token has characters that no token has, such as the end of a line.\n"


def test_serve_and_db_get_the_settings(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = Recorder()
    assert run(["serve", "--port", "1234", "--database", "sqlite:///x.db"], program) == 0
    assert [(one.port, one.host, one.database) for one in program.served] == [(1234, "127.0.0.1", "sqlite:///x.db")]
    assert run(["db", "status", "-f", "value"], program) == 0
    assert run(["db", "upgrade", "-f", "value"], program) == 0
    assert capsys.readouterr().out == "0001_version_0_1_0 false\n0001_version_0_1_0 true\n"


def test_fsck(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fsck"], Recorder()) == 0
    assert capsys.readouterr().out == "No orphaned rows.\n"
    assert run(["fsck", "-f", "json"], Recorder()) == 0
    assert capsys.readouterr().out == "[]\n"
    assert run(["fsck", "--database", "sqlite:///bad.db", "-f", "value"], Recorder()) == 1
    assert capsys.readouterr().out == "action a1 x a rule\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("command", ["up", "plan"])
def test_files_from_elsewhere_are_sent_with_consent_only(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (place / "private").mkdir()
    (place / "private" / "id_rsa").write_text("sesame")
    (place / "work").mkdir()
    template = place / "work" / "t.yaml"
    template.write_text("heat_template_version: 2018-08-31\noutputs: {o: {value: {get_file: ../private/id_rsa}}}\n")
    words = [command, str(template)]
    for stdin, sent in ((io.StringIO("y\n"), False), (Terminal("n\n"), False), (Terminal("y\n"), True)):
        monkeypatch.setattr("sys.stdin", stdin)
        assert run(words, Recorder()) == 1
        shown = capsys.readouterr().err
        assert f"  {place}/private/id_rsa (named in {template})" in shown
        assert ("Send them? [y/N]" in shown) == stdin.isatty()
        assert ("No server answers" in shown) == sent
        refusal = f"Nothing was sent. If you trust the template with these files: --send-from {place}/private"
        assert (refusal in shown) != sent
    monkeypatch.setattr("sys.stdin", Terminal())
    assert run([*words, "--send-from", "private"], Recorder()) == 1
    assert capsys.readouterr().err.startswith("heatlite: No server answers")


@pytest.mark.parametrize("words", [["db", "backup"], ["db", "restore"], ["db", "upgrade", "copy.db"]])
def test_a_backup_has_a_file_and_nothing_else_has(
    place: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    with pytest.raises(SystemExit):
        run(words, Recorder())
    assert re.search("required: FILE|unrecognized arguments: copy.db", capsys.readouterr().err)


def test_keys(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["keys", "new"], Recorder()) == 0
    assert capsys.readouterr().out == "a-key\n"
    assert run(["keys", "rotate"], Recorder()) == 1
    shown = capsys.readouterr()
    assert shown.out == (
        "Rows encrypted with the first key: 1\n"
        "Old secrets may remain in the file: another process uses it, or the disk is full. Run it again alone.\n"
    )
    assert "No key decrypts action one, stack two. Add the key" in shown.err
    monkeypatch.setenv("HEATLITE_ENCRYPTION_KEYS", "a,b")
    assert run(["keys", "rotate"], Recorder()) == 0
    assert capsys.readouterr() == ("Rows encrypted with the first key: 2\n", "")


@pytest.mark.parametrize(
    ("file", "name"), [("hello.yaml", "hello"), ("/x/my stack.v1.yaml", "my-stack.v1"), ("a/ä.json", None)]
)
def test_a_stack_is_named_after_its_file(file: str, name: str | None) -> None:
    arguments = build_parser().parse_args(["up", file])
    if name is None:
        with pytest.raises(CommandError, match="-n NAME"):
            stack_name(arguments)
    else:
        assert stack_name(arguments) == name


def test_the_command_that_continues_names_all_that_it_needs_and_no_values() -> None:
    parse = build_parser().parse_args
    assert same_again(parse(["up", "web.yaml", "-y"])) == "heatlite up web.yaml -n web"
    given = parse(["up", "my web.yaml", "-e", "prod.yaml", "-P", "password=s3cret", "-P", "size=3", "-n", "w"])
    assert same_again(given) == "heatlite up 'my web.yaml' -n w -e prod.yaml -P …"
    given = parse(["up", "web.yaml", "--cloud", "lab", "--project", "p"])
    assert same_again(given) == "heatlite up web.yaml -n web --project p --cloud lab"


def test_parameters_may_hold_anything_after_the_first_equals_sign() -> None:
    assert parameters(["a=b=c", 'j={"x": 1}', "empty="]) == {"a": "b=c", "j": '{"x": 1}', "empty": ""}


@table(
    ("given", "meant"),
    [
        ("+2h", "2026-11-21T04:44:00Z"),
        ("30m", "2026-11-21T03:14:00Z"),
        ("1d", "2026-11-22T02:44:00Z"),
        ("+45s", "2026-11-21T02:44:45Z"),
        ("2026-12-01T12:00:00Z", "2026-12-01T12:00:00Z"),
        ("2026-12-01T12:00:00+02:00", "2026-12-01T10:00:00Z"),
        ("2026-12-01", "2026-12-01T00:00:00Z"),
    ],
)
def test_expiry(given: str, meant: str) -> None:
    assert moment(given, HeldClock()) == meant


@table("given", ["", "2", "h", "+2w", "-2h", "tomorrow", "2026-13-01", "9999999d"])
def test_no_expiry(given: str) -> None:
    with pytest.raises(CommandError, match="a time is given as"):
        moment(given, HeldClock())


# -- pointing openstack at the server ---------------------------------------------------------------


def test_env_is_shell_that_leaves_only_two_variables(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OS_PROJECT_NAME", "stale")
    monkeypatch.setenv("OS_AUTH_URL", "http://stale")
    assert run(["env", "--project", "my project"], Recorder()) == 0
    script = capsys.readouterr().out
    shell = subprocess.run(["bash", "-c", f"{script}\nenv"], capture_output=True, text=True, check=True)
    found = sorted(line for line in shell.stdout.splitlines() if line.startswith("OS_"))
    assert found == ["OS_AUTH_TYPE=none", "OS_ENDPOINT=http://127.0.0.1:8004/v1/my%20project"]


def test_env_follows_settings_and_endpoint(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEATLITE_PORT", "9")
    run(["env"], Recorder())
    monkeypatch.setenv("HEATLITE_ENDPOINT", "https://heat.example/v1/p")
    run(["env"], Recorder())
    lines = [line for line in capsys.readouterr().out.splitlines() if "ENDPOINT" in line]
    assert lines == [
        "export OS_ENDPOINT=http://127.0.0.1:9/v1/default",
        "export OS_ENDPOINT=https://heat.example/v1/p",
    ]


@pytest.mark.parametrize("command", ["env", "clouds"])
def test_without_the_credentials_that_the_server_needs_nothing_is_written(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for auth, needed in (("basic", "HEATLITE_USERNAME and HEATLITE_PASSWORD"), ("tokens", "HEATLITE_TOKEN")):
        monkeypatch.setenv("HEATLITE_AUTH", auth)
        assert run([command], Recorder()) == 2
        assert capsys.readouterr() == ("", f"heatlite: The server has auth = {auth}: set {needed}.\n")
    assert not (place / "clouds.yaml").exists()
    assert run([command, "--endpoint", "https://heat.example/v1/p"], Recorder()) == 0, "another server"
    monkeypatch.setenv("HEATLITE_TOKEN", "sesame")
    assert run([command], Recorder()) == 0


def test_clouds_writes_a_cloud_and_spares_what_is_not_ours(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["clouds"], Recorder()) == 0
    assert run(["clouds", "--project", "p"], Recorder()) == 0  # ours, so it may be written again
    path = place / "clouds.yaml"
    assert yaml.safe_load(path.read_text()) == {
        "clouds": {"heatlite": {"auth_type": "none", "auth": {"endpoint": "http://127.0.0.1:8004/v1/p"}}}
    }
    assert capsys.readouterr().err == ""
    path.write_text("clouds: {}\n")
    assert run(["clouds"], Recorder()) == 1
    assert path.read_text() == "clouds: {}\n"
    assert "--force" in capsys.readouterr().err
    monkeypatch.setenv("OS_PROJECT_NAME", "stale")
    assert run(["clouds", "--force"], Recorder()) == 0
    assert "unset OS_PROJECT_NAME" in capsys.readouterr().err
    assert "127.0.0.1:8004" in path.read_text()


# -- printing ---------------------------------------------------------------------------------------

STACK = Stack("story", "5b1f", "UPDATE_COMPLETE", "", {})


@table(
    ("event", "line"),
    [
        (
            {"resource_name": "db", "resource_status": "CREATE_COMPLETE", "resource_status_reason": "state changed"},
            "2026-11-21 02:44:00Z [story.db]: CREATE_COMPLETE  state changed",
        ),
        (
            {"resource_name": "story", "resource_status": "CREATE_IN_PROGRESS", "physical_resource_id": "5b1f"},
            "2026-11-21 02:44:00Z [story]: CREATE_IN_PROGRESS",
        ),
        (  # a resource that is called like its stack
            {
                "resource_name": "story",
                "resource_status": "CREATE_IN_PROGRESS",
                "physical_resource_id": "story-story-1",
            },
            "2026-11-21 02:44:00Z [story.story]: CREATE_IN_PROGRESS",
        ),
        (
            {"resource_name": "db", "resource_status": "DELETE_COMPLETE", "resource_status_reason": None},
            "2026-11-21 02:44:00Z [story.db]: DELETE_COMPLETE",
        ),
    ],
)
def test_an_event_is_a_line(event: dict[str, str | None], line: str) -> None:
    assert progress.line(STACK, {"event_time": "2026-11-21T02:44:00Z", **event}) == line


ROWS: list[dict[str, str | int | list[int] | None]] = [
    {"name": "a", "n": 1, "text": None, "hidden": "x"},
    {"name": "long name", "n": [1, 2], "text": "ä\nb", "hidden": "y"},
]
NAMES = ("name", "n", "text")


def test_a_suspension_and_its_end_are_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    notice, action = progress.SuspensionNotice("web"), {"id": "1a", "action": "STACK_UPDATE"}
    for seen in (None, action, action, None, None, action):
        notice.update(seen)
    first, over, again = capsys.readouterr().err.splitlines()
    assert first == again
    assert first.startswith("web: STACK_UPDATE 1a is SUSPENDED. Continue it with: heatlite action signal 1a RESUME;")
    assert over == "web: STACK_UPDATE 1a continues."


def test_rows_as_json_and_yaml_are_data(capsys: pytest.CaptureFixture[str]) -> None:
    expected = [{"name": "a", "n": 1, "text": None}, {"name": "long name", "n": [1, 2], "text": "ä\nb"}]
    render.rows(ROWS, NAMES, "json", ())
    assert json.loads(capsys.readouterr().out) == expected
    render.rows(ROWS, NAMES, "yaml", ())
    assert yaml.safe_load(capsys.readouterr().out) == expected


def test_rows_as_values_and_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    render.rows(ROWS, NAMES, "value", ("n", "name"))
    assert capsys.readouterr().out == "1 a\n[1, 2] long name\n"
    render.rows(ROWS, NAMES, "table", ())
    assert capsys.readouterr().out == ("name       n       text\na          1\nlong name  [1, 2]  ä b\n")
    render.rows([], NAMES, "table", ())
    render.rows([], NAMES, "value", ())
    assert capsys.readouterr() == ("", "There are none.\n")


def test_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    item = {"stack_name": "a", "outputs": [{"k": 1}]}
    render.one(item, "json", ())
    assert json.loads(capsys.readouterr().out) == item
    render.one(item, "yaml", ("outputs",))
    assert yaml.safe_load(capsys.readouterr().out) == {"outputs": [{"k": 1}]}
    render.one(item, "value", ("stack_name",))
    assert capsys.readouterr().out == "a\n"
    render.one(item, "table", ())
    assert capsys.readouterr().out == 'stack_name  a\noutputs     {"k": 1}\n'


def test_a_column_is_named_as_in_the_heading_too(capsys: pytest.CaptureFixture[str]) -> None:
    items = [{"stack_name": "a", "creation_time": None, "id": "1"}]
    render.rows(items, ("stack_name", "creation_time", "id"), "value", ("name", "id"))
    assert capsys.readouterr().out == "a 1\n"


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(CommandError, match="No column 'nme'; there are: name, n, text"):
        render.rows(ROWS, NAMES, "table", ("nme",))


@table(
    ("widths", "words", "room", "kept"),
    [
        ((5, 15, 3), (5, 15, 3), 80, [5, 15, 3]),
        ((5, 15, 36, 36, 36), (5, 15, 36, 36, 36), 80, [5, 15, 36]),
        ((5, 90, 36), (5, 9, 36), 80, [5, 73]),
        ((30, 90), (30, 9), 80, [30, 48]),
        ((60, 90), (6, 9), 80, [40, 38]),
        ((60, 90), (60, 9), 80, [60, 18]),
        ((60, 90), (60, 19), 80, []),
        ((60, 90), (73, 2), 80, []),
        ((200,), (20,), 80, [80]),
    ],
)
def test_columns_fit_the_terminal(widths: tuple[int, ...], words: tuple[int, ...], room: int, kept: list[int]) -> None:
    assert render.fit(widths, words, room) == kept


@table(
    ("seconds", "shown"),
    [(0, "0s"), (119, "119s"), (125, "2m"), (7300, "2h"), (200_000, "2d"), (-3700, "in 61m"), (-0.4, "0s")],
)
def test_ages(seconds: float, shown: str) -> None:
    assert render.age("2026-11-21T02:44:00Z", from_text("2026-11-21T02:44:00Z") + seconds) == shown


def test_rows_as_csv(capsys: pytest.CaptureFixture[str]) -> None:
    render.rows(ROWS, NAMES, "csv", ())
    assert capsys.readouterr().out == 'name,n,text\na,1,\nlong name,"[1, 2]","ä\nb"\n'
