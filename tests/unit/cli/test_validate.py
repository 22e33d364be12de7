"""``heatlite validate`` on real files, with the types that are installed."""

from pathlib import Path

import pytest

from heatlite.__main__ import main

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
  o: {value: {get_resource: nope}}
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
    (place / "t.yaml").write_text(BROKEN.split("resources:")[0].replace("default: a", "default: abc"))
    assert main(["validate", "t.yaml", "-P", "size=3"]) == 0
    assert capsys.readouterr().out == "t.yaml: no problems\n"


def test_a_parameter_that_is_asked_for_is_no_error(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "t.yaml").write_text("heat_template_version: 2018-08-31\nparameters:\n  size: {type: number}\n")
    assert main(["validate", "t.yaml"]) == 0
    out, err = capsys.readouterr()
    assert out == "t.yaml:3:3: warning: The Parameter (size) was not provided.\n"
    assert err == ""
    assert main(["validate", "t.yaml", "-P", "size=many"]) == 1
    assert capsys.readouterr().out.startswith("-P: error: Parameter 'size' is invalid: ")


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
        ("a: 1\n", "error: The template version is invalid"),
        ("", "t.yaml: error: Template not in valid format"),
        ("heat_template_version: 2999-01-01\n", "error: The template version is invalid"),
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
    assert capsys.readouterr().err == "heatlite: note.txt: no such file (named in t.yaml)\n"
    (place / "note.txt").write_text("hello")
    assert main(["validate", "t.yaml"]) == 0


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[3] / "templates").glob("*.yaml")), ids=lambda p: p.stem)
def test_our_own_templates(path: Path) -> None:
    assert main(["validate", str(path)]) == 0
