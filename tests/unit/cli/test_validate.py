"""``heatlite validate`` on real files, with the types that are installed."""

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from heatlite.__main__ import main
from tests.tables import table

BROKEN = """\
heat_template_version: 2018-08-31
parameters:
  size: {type: number}
  p: {type: string, default: a, constraints: [{length: {min: 3}}]}
resources:
  a:
    type: OS::Heat::RandomStrin
  b:
    type: OS::Heat::RandomString
    properties:
      lenght: 3
      length: 9999
  c:
    type: OS::Heat::Value
    depends_on: zz
    properties:
      value: {get_attr: [b, valu]}
outputs:
  o: {value: {get_attr: [nope, value]}}
  used: {value: [{get_param: size}, {get_param: p}]}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_problems_at_once_with_their_places(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "t.yaml").write_text(BROKEN)
    (place / "e.yaml").write_text("parameters:\n  size: 3\n  nme: x\n")
    assert main(["validate", "t.yaml", "-e", "e.yaml", "-P", "q=1"]) == 1
    out, err = capsys.readouterr()
    assert err == "9 errors\n"
    found = out.splitlines()
    for place_, words, hint in (
        ("-P: ", "The Parameter (q) was not defined", ""),
        ("e.yaml:3:3: ", "The Parameter (nme) was not defined", ""),
        ("t.yaml:4:", "Parameter 'p' is invalid", ""),
        ("t.yaml:7:", "(OS::Heat::RandomStrin) could not be found", 'did you mean "OS::Heat::RandomString"?'),
        ("t.yaml:11:", "Unknown Property lenght", "length"),
        ("t.yaml:12:7: ", "9999 is out of range (min: 1, max: 512)", ""),
        ("t.yaml:15:", '"zz" (in c)', ""),
        ("t.yaml:17:", "(b valu)", 'did you mean "value"?'),
        ("t.yaml:19:", '"nope"', ""),
    ):
        lines = [line for line in found if line.startswith(place_) and words in line]
        assert len(lines) == 1, (place_, words, found)
        assert ": error: " in lines[0]
        assert hint in lines[0].partition("(")[2]
    assert len(found) == 9


def test_a_sound_template(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = BROKEN.split("resources:")[0].replace("default: a", "default: abc")
    (place / "t.yaml").write_text(sound + "outputs: {o: {value: [{get_param: size}, {get_param: p}]}}\n")
    assert main(["validate", "t.yaml", "-P", "size=3"]) == 0
    assert capsys.readouterr().out == "t.yaml: no problems\n"


def test_a_parameter_that_is_asked_for_is_no_error(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "t.yaml").write_text(
        "heat_template_version: 2018-08-31\nparameters:\n  size: {type: number}\n"
        "outputs: {o: {value: {get_param: size}}}\n"
    )
    assert main(["validate", "t.yaml", "--strict"]) == 0
    assert capsys.readouterr().out == "t.yaml: no problems\n"
    (place / "e.yaml").write_text("parameters: {}\n")
    assert main(["validate", "t.yaml", "-e", "e.yaml"]) == 0
    out, err = capsys.readouterr()
    assert out == "t.yaml:3:3: warning: The Parameter (size) was not provided. (-P size=…)\n"
    assert err == ""
    assert main(["validate", "t.yaml", "-P", "size=many"]) == 1
    assert capsys.readouterr().out.startswith("-P: error: Parameter 'size' is invalid: ")


def test_a_nested_file_that_is_not_there_is_told_once(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "t.yaml").write_text("heat_template_version: 2018-08-31\nresources: {a: {type: nosuch.yaml}}\n")
    assert main(["validate", "t.yaml"]) == 1
    out, err = capsys.readouterr()
    assert out == "t.yaml:2:17: error: nosuch.yaml: no such file (named in t.yaml)\n"
    assert err == "1 error\n"


def test_words_of_the_template_are_not_masked(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "t.yaml").write_text(
        "heat_template_version: 2018-08-31\nparameters:\n"
        "  pw: {type: string, hidden: true, default: password}\n"
        "  key: {type: string, hidden: true}\n"
        "  password_hint: {type: string}\n"
        "outputs: {o: {value: {str_split: [5, {get_param: key}]}}}\n"
    )
    assert main(["validate", "t.yaml", "-P", "key=outputs", "-P", "password_hint=x"]) == 0
    out = capsys.readouterr().out
    assert '"password_hint" is never used' in out
    assert "outputs.o.value: The delimiter" in out


def test_faults_of_environments_do_not_hide_those_of_the_template(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "t.yaml").write_text(BROKEN)
    (place / "one.yaml").write_text("parameter: {size: 3}\n")
    (place / "two.yaml").write_text("parameters: [1]\n")
    assert main(["validate", "t.yaml", "-e", "one.yaml", "-e", "two.yaml"]) == 1
    out = capsys.readouterr().out
    assert 'one.yaml:1:1: error: Environment not in valid format: environment has wrong section "parameter"' in out
    assert "two.yaml:1:1: error: Environment not in valid format: environment section" in out
    assert "t.yaml:7:" in out
    assert "was not provided" not in out  # nobody can tell


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: 1\nb: [1\n", "t.yaml:3:1: error: Template not in valid format"),
        ("a: 1\n", "t.yaml:1:1: error: The template version is invalid"),
        ("", "t.yaml:1:1: error: Template not in valid format"),
        ("# 2\nheat_template_version: 2999-01-01\n", "t.yaml:2:1: error: The template version is invalid"),
        ("heat_template_version: 2018-08-31\nresorces: {}\n", "t.yaml:2:1: error: The template section is invalid"),
    ],
)
def test_templates_that_are_none(place: Path, capsys: pytest.CaptureFixture[str], content: str, message: str) -> None:
    (place / "t.yaml").write_text(content)
    assert main(["validate", "t.yaml"]) == 1
    out, err = capsys.readouterr()
    assert message in out + err


def test_files_that_travel_are_found_and_their_absence_is_told(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "t.yaml").write_text(
        "heat_template_version: 2018-08-31\n"
        "resources:\n  a: {type: OS::Heat::Value, properties: {value: {get_file: note.txt}}}\n"
    )
    assert main(["validate", "t.yaml"]) == 1
    out, err = capsys.readouterr()
    assert out == "t.yaml:3:51: error: note.txt: no such file (named in t.yaml)\n"
    assert err == "1 error\n"
    (place / "note.txt").write_text("hello")
    assert main(["validate", "t.yaml"]) == 0


def test_every_fault_of_an_environment_and_of_the_templates_it_names(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "t.yaml").write_text(
        "heat_template_version: 2018-08-31\n"
        "resources:\n"
        "  a:\n    type: My::Type\n    properties: {size: big, zz: 1}\n"
        "  b: {type: child.yaml}\n"
    )
    (place / "child.yaml").write_text(
        "heat_template_version: 2018-08-31\n"
        "parameters:\n  size: {type: number, default: 0644}\n"
        "resources:\n  x:\n    type: OS::Heat::RandomStrin\n"
    )
    (place / "e.yaml").write_text(
        "resource_registry:\n"
        "  My::Type: child.yaml\n"
        "  My::Other: absent.yaml\n"
        "  resources:\n    a: {hooks: pre-creat, restricted_actions: zz}\n"
        "parameter_merge_strategies: {a: foo}\n"
        "zz: 1\n"
    )
    assert main(["validate", "t.yaml", "-e", "e.yaml"]) == 1
    found = capsys.readouterr().out.splitlines()
    assert [": ".join(line.split(": ")[:2]) for line in found] == [
        "child.yaml:3:33: warning",
        "child.yaml:6:5: error",
        "e.yaml:3:3: error",
        "e.yaml:5:9: error",
        "e.yaml:5:27: error",
        "e.yaml:6:30: error",
        "e.yaml:7:1: error",
        "t.yaml:5:18: error",
        "t.yaml:5:29: error",
    ]


def test_several_templates(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As pre-commit calls it; what is wrong with an environment is told once."""
    for name, content in (("a", "zz: 1\n"), ("b", ""), ("c", "yy: 1\n")):
        (place / f"{name}.yaml").write_text(f"heat_template_version: 2018-08-31\n{content}")
    (place / "e.yaml").write_text("parameter: {}\n")
    assert main(["validate", "a.yaml", "b.yaml", "c.yaml", "-e", "e.yaml"]) == 1
    found = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in found] == ["a.yaml:2:1", "c.yaml:2:1", "e.yaml:1:1"]
    assert main(["validate", "b.yaml", "b.yaml"]) == 0


def test_the_hook_calls_what_is_there() -> None:
    (hook,) = yaml.safe_load((Path(__file__).parents[3] / ".pre-commit-hooks.yaml").read_text())
    assert hook["id"] == "heatlite-validate"
    assert hook["entry"] == "heatlite validate"
    assert {"name", "language", "files"} <= hook.keys()


# -- forms -----------------------------------------------------------------------------------------


def test_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "t.yaml").write_text(BROKEN)
    assert main(["validate", "t.yaml", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)["problems"]
    assert [one["line"] for one in found] == sorted(one["line"] for one in found)
    for one in found:
        assert one.keys() == {"file", "line", "column", "severity", "type", "path", "message", "hint"}
        assert one["file"] == "t.yaml"
        assert one["line"] >= 1
        assert one["column"] >= 1
    assert {
        "file": "t.yaml",
        "line": 11,
        "column": 7,
        "severity": "error",
        "type": "StackValidationFailed",
        "path": "resources.b.properties.lenght",
        "message": "Property error: resources.b.properties: Unknown Property lenght",
        "hint": "Did you mean length?",
    } in found


def test_sarif(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Properties that SARIF 2.1.0 and code scanning require."""
    (place / "sub").mkdir()
    (place / "sub" / "a b.yaml").write_text(BROKEN)
    (place / "e.yaml").write_text("parameters: {size: 3, nme: x}\n")
    arguments = ["validate", "sub/a b.yaml", "-e", str(place / "e.yaml"), "-P", "q=1", "--format", "sarif"]
    assert main(arguments) == 1
    log = json.loads(capsys.readouterr().out)
    Draft7Validator(SARIF).validate(log)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules))
    places = set()
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        for location in result.get("locations", ()):
            assert location["physicalLocation"]["region"]["startLine"] >= 1
            places.add(location["physicalLocation"]["artifactLocation"]["uri"])
    assert places == {"sub/a%20b.yaml", "e.yaml"}
    assert [one["message"]["text"] for one in run["results"] if "locations" not in one] == [
        "The Parameter (q) was not defined in template."
    ]


def test_sarif_of_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "t.yaml").write_text("heat_template_version: 2018-08-31\n")
    assert main(["validate", "t.yaml", "--format", "sarif"]) == 0
    log = json.loads(capsys.readouterr().out)
    Draft7Validator(SARIF).validate(log)
    assert log["runs"][0]["results"] == []


def _required(*names: str, **properties: object) -> dict[str, object]:
    return {"type": "object", "required": list(names), "properties": properties}


def _list(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


TEXT: dict[str, object] = {"type": "string", "minLength": 1}
COUNT: dict[str, object] = {"type": "integer", "minimum": 1}
MESSAGE = _required("text", text=TEXT)
SARIF = _required(
    "version",
    "runs",
    version={"const": "2.1.0"},
    runs=_list(
        _required(
            "tool",
            columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
            tool=_required(
                "driver",
                driver=_required("name", name=TEXT, rules=_list(_required("id", id=TEXT, shortDescription=MESSAGE))),
            ),
            results=_list(
                _required(
                    "message",
                    message=MESSAGE,
                    ruleId=TEXT,
                    ruleIndex={"type": "integer", "minimum": 0},
                    level={"enum": ["none", "note", "warning", "error"]},
                    locations=_list(
                        _required(
                            physicalLocation=_required(
                                "artifactLocation",
                                artifactLocation=_required("uri", uri=TEXT),
                                region=_required("startLine", startLine=COUNT, startColumn=COUNT),
                            )
                        )
                    ),
                )
            ),
        )
    ),
)
"""The part of the standard's own schema that is about what we write."""


# -- exit codes ------------------------------------------------------------------------------------


def test_exit_codes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "clean.yaml").write_text("heat_template_version: 2018-08-31\n")
    (place / "warn.yaml").write_text("heat_template_version: 2018-08-31\nparameters: {p: {type: string, default: a}}\n")
    (place / "wrong.yaml").write_text("heat_template_version: 2018-08-31\nzz: 1\n")
    for name, code, strict in (("clean", 0, 0), ("warn", 0, 1), ("wrong", 1, 1)):
        assert main(["validate", f"{name}.yaml"]) == code
        assert main(["validate", f"{name}.yaml", "--strict"]) == strict
    capsys.readouterr()
    for arguments, message in (
        (["absent.yaml"], "absent.yaml: no such file"),
        (["clean.yaml", "-e", "absent.yaml"], "absent.yaml: no such file"),
        (["clean.yaml", "-P", "p"], "p"),
    ):
        assert main(["validate", *arguments]) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit) as error:
        main(["validate", "clean.yaml", "--format", "xml"])
    assert error.value.code == 2


def test_all_files_are_read_whatever_is_wrong_with_one(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "t.yaml").write_text("a: [\n")
    (place / "one.yaml").write_text("parameters: {\n")
    (place / "two.yaml").write_text("resource_registry:\n  A: absent.yaml\n  B: child.yaml\n")
    (place / "child.yaml").write_text("heat_template_version: [\n")
    assert main(["validate", "t.yaml", "-e", "one.yaml", "-e", "two.yaml"]) == 1
    found = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in found] == ["child.yaml:2:1", "one.yaml:2:1", "t.yaml:2:1", "two.yaml:2:3"]


TEMPLATES = (Path(__file__).parents[3] / "templates").glob("*.yaml")
OURS = sorted(path for path in TEMPLATES if not path.stem.endswith("-test"))
"""(Those that end in -test are steps of `heatlite test`.)"""


@table("path", OURS)
def test_our_own_templates(path: Path) -> None:
    assert main(["validate", str(path)]) == 0


def test_names_are_looked_up_in_the_cloud_that_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openstack")
    monkeypatch.setenv("HEATLITE_DATABASE", f"sqlite:///{place}/h.db")
    lines = [
        "heat_template_version: 2018-08-31",
        "parameters: {flavor: {type: string, constraints: [{custom_constraint: nova.flavor}]}}",
        "resources:",
        "  k: {type: OS::Nova::Server, properties: {flavor: {get_param: flavor}, image: nowhere, networks: []}}",
    ]
    (place / "t.yaml").write_text("\n".join(lines))
    command = ["validate", "t.yaml", "-P", "flavor=m1.none"]
    assert main(command) == 0
    assert not (place / "h.db").exists()
    capsys.readouterr()
    assert main([*command, "--cloud", "simulated"]) == 1
    out = capsys.readouterr().out
    assert "The Flavor ID (m1.none) could not be found" in out
    assert "t.yaml:4:" in out and "The Image (nowhere) could not be found" in out
    assert main([*command, "--cloud", "no-such-cloud"]) == 2
    assert "no-such-cloud" in capsys.readouterr().err
