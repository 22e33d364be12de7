"""`heatlite test`: what it says of good and of bad templates."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from heatlite.__main__ import main
from tests.tables import few, sampled

TEMPLATES = Path(__file__).parents[3] / "templates"
GOOD = TEMPLATES / "trials" / "network.yaml"

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `heatlite test` on files and texts; return its exit code and output."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "network.yaml").write_text((TEMPLATES / "network.yaml").read_text())

    def run(*words: object) -> tuple[int, str]:
        files = []
        for number, word in enumerate(words):
            if isinstance(word, str) and "\n" in word:
                (tmp_path / f"{number}.yaml").write_text(word)
                word = tmp_path / f"{number}.yaml"
            files.append(str(word))
        code = main(["test", *files])
        out, err = capsys.readouterr()
        return code, out + err

    return run


@pytest.mark.slow
def test_a_good_template(run: Run, tmp_path: Path) -> None:
    code, out = run(GOOD, "--junit", tmp_path / "report.xml")
    assert code == 0, out
    lines = out.splitlines()
    assert lines[0] == "The cloud is simulated: nothing in it is real."
    assert len(lines) == 8
    assert all(line.endswith(": ok") for line in lines[1:])
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("7", "0", "0")
    assert suite.find("properties/property[@name='cloud']").get("value") == "simulated"  # type: ignore[union-attr]
    assert not list(tmp_path.glob("**/heatlite.db")), "nothing is kept"


def expecting(what: str) -> str:
    return f"template: network.yaml\nsteps:\n- {{do: create, expect: {what}}}\n- {{do: delete}}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "told"),
    sampled(
        [
            ("{status: CREATE_FAILED}", "the stack is CREATE_COMPLETE, not CREATE_FAILED"),
            ("{reason: bananas}", "it was to say: bananas"),
            ("{refused: bananas}", "it was to be refused: bananas"),
            ("{outputs: {address: 10.9.9.9}}", "output address is '10.0.0.2', not '10.9.9.9'"),
            ("{outputs: {address: {matches: '^11'}}}", "output address is '10.0.0.2'; it was to match ^11"),
            ("{outputs: {bananas: 1}}", "there is no output bananas"),
            ("{resources: {bananas: {}}}", "resource bananas is not there"),
            ("{resources: {net: {there: false}}}", "resource net is there"),
            ("{resources: {net: {status: X}}}", "resource net: its status is CREATE_COMPLETE, not X"),
            ("{resources: {net: {type: X}}}", "resource net: its type is OS::Neutron::Net, not X"),
            ("{resources: {net: {replaced: false}}}", "resource net was replaced"),
            ("{resources: {net: {attributes: {mtu: 9}}}}", "resource net: attribute mtu is '1450', not '9'"),
            ("{cloud: {network.port: 7}}", "the cloud has 1 of network.port, not 7"),
            ("{cloud: {network.prot: 0}}", "there is no kind network.prot of objects; did you mean network.port?"),
            ("{cloud: {block_storage.gigabytes: 0}}", "there is no kind block_storage.gigabytes of objects"),
        ],
        4,
        pytest.mark.thorough,
    ),
)
def test_what_is_not_as_expected(run: Run, what: str, told: str, tmp_path: Path) -> None:
    code, out = run(expecting(what), "--junit", tmp_path / "report.xml")
    assert code == 1
    assert told in out
    assert out.splitlines()[-1].endswith("2 delete: skipped")
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "1")
    assert told in str(suite.find("testcase/failure").text)  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_fault_of_the_cloud(run: Run) -> None:
    code, out = run(
        "template: network.yaml\n"
        "cloud: {faults: [{verb: network.create_port, raises: refused, message: no more bananas}]}\n"
        "steps: [{do: create, expect: {status: CREATE_FAILED, reason: no more bananas,"
        " resources: {port: {status: CREATE_FAILED, reason: no more bananas}}}}]\n"
    )
    assert code == 0, out


@pytest.mark.parametrize(
    ("text", "told"),
    few(
        [
            ("template: network.yaml\nsteps: []\n", "$.steps: "),
            ("template: network.yaml\nsteps: [{do: dance}]\n", "$.steps[0].do: 'dance' is not one of"),
            ("template: network.yaml\nsteps: [{do: mark_unhealthy}]\n", "'resource' is a required property"),
            ("template: network.yaml\nsteps: [{do: delete}]\n", "the first step must create the stack"),
            (
                "template: network.yaml\ncloud: {latency: soon}\nsteps: [{do: create}]\n",
                "$.latency: 'soon' is not of type",
            ),
            ("template: bananas.yaml\nsteps: [{do: create}]\n", "bananas.yaml"),
            ("{\n", "no valid YAML"),
            (
                expecting("{outputs: {address: {matches: '('}}}"),
                "$.steps[0].expect.outputs.address.matches: '(' is not a",
            ),
            (
                expecting("{resources: {net: {attributes: {mtu: {matches: '['}}}}}"),
                "attributes.mtu.matches: '[' is not a",
            ),
            ("template: network.yaml\ncloud: {latency: soon}\nsteps: [{do: create}]\n", "0.yaml: cloud: $.latency: "),
        ]
    ),
)
def test_a_file_that_makes_no_sense(run: Run, text: str, told: str) -> None:
    code, out = run(text)
    assert code in (1, 2)
    assert told in out


@pytest.mark.slow
def test_dates_are_texts_as_in_templates(run: Run, tmp_path: Path) -> None:
    template = "{type: OS::Heat::Value, properties: {value: {get_param: day}}}"
    (tmp_path / "day.yaml").write_text(
        "heat_template_version: 2018-08-31\nparameters: {day: {type: string}}\n"
        f"resources: {{a: {template}}}\noutputs: {{day: {{value: {{get_attr: [a, value]}}}}}}\n"
    )
    code, out = run(
        "template: day.yaml\nparameters: {day: 2026-01-02}\n"
        "steps:\n- {do: create, expect: {outputs: {day: 2026-01-02}}}\n"
    )
    assert code == 0, out


@pytest.mark.slow
def test_a_step_that_takes_too_long_has_failed(run: Run, tmp_path: Path) -> None:
    """The results of the other steps and files are told, too."""
    slow = "template: network.yaml\ntimeout: 0.2\ncloud: {latency: 1}\nsteps: [{do: create}, {do: delete}]\n"
    code, out = run(slow, GOOD, "--junit", tmp_path / "report.xml")
    assert code == 1
    assert "1 create: FAILED\n    the stack is still CREATE_IN_PROGRESS after 0.2 s" in out
    assert "2 delete: skipped" in out
    assert out.splitlines()[-1].endswith("nothing is left: ok")
    suites = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert [suite.get("failures") for suite in suites] == ["1", "0"]


DRIFT = """
template: network.yaml
steps:
- {do: create}
- do: drift
  object: {kind: network.network, name: lan, set: {name: wan}}
- {do: check, expect: {calls: {"network.update_*": 0}}}
- {do: update, converge: true, expect: {calls: {"network.update_*": 1}}}
- {do: drift, object: {kind: network.network, name: lan, remove: true}}
- {do: check, expect: {status: CHECK_FAILED, cloud: {network.network: 0}, calls: {"network.update_*": 3}}}
"""


@pytest.mark.slow
def test_changes_from_outside_and_calls(run: Run, tmp_path: Path) -> None:
    net = "net: {type: OS::Neutron::Net, properties: {name: lan}}"
    (tmp_path / "network.yaml").write_text(f"heat_template_version: 2021-04-16\nresources:\n  {net}\n")
    code, out = run(DRIFT)
    assert code == 1
    assert "calls of network.update_*: none; there were to be 3" in out, out
    told = [line.rpartition(": ")[2] for line in out.splitlines() if line.startswith("/")]
    assert told == ["ok"] * 5 + ["FAILED"], out
    code, out = run(DRIFT.replace("name: lan, set", "name: other, set"))
    assert (code, "has 0 objects other of the kind network.network, not 1" in out) == (1, True)
