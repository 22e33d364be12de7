"""`--files-container` of the unmodified client: names that the server resolves."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import need
from tests.acceptance.processes import OpenStack, Server

pytestmark = pytest.mark.slow

TEMPLATE = """\
heat_template_version: 2018-08-31
parameters: {name: {type: string}}
resources:
  script: {type: OS::Heat::Value, properties: {value: {get_file: scripts/run.sh}}}
outputs:
  all: {value: {list_join: [' ', [{get_attr: [script, value]}, {get_param: name}]]}}
"""


@pytest.fixture
def openstack(serve: Callable[[], Server], tmp_path: Path) -> Iterator[OpenStack]:
    """A process of its own: the client keeps the first address; the server has files."""
    need("openstackclient", "python-openstackclient")
    need("heatclient", "python-heatclient")
    settings = tmp_path / ".config" / "heatlite" / "heatlite.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'files_containers = "{tmp_path}/containers"\n')
    started = OpenStack(tmp_path, {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": f"{serve().url}/v1/demo"})
    yield started
    started.close()


def test_a_stack_from_a_container(openstack: OpenStack, tmp_path: Path) -> None:
    container = tmp_path / "containers" / "demo" / "mine"
    (container / "scripts").mkdir(parents=True)
    (container / "scripts" / "run.sh").write_text("run")
    (container / "env.yaml").write_text("parameters: {name: first}\n")
    (tmp_path / "main.yaml").write_text(TEMPLATE)
    files = ("-t", str(tmp_path / "main.yaml"), "--files-container", "mine", "-e", "env.yaml")

    def output() -> str:
        return openstack.ok("stack", "output", "show", "s", "all", "-f", "value", "-c", "output_value").out

    assert "first" in openstack.ok("orchestration", "template", "validate", *files).out
    openstack.ok("stack", "create", *files, "--wait", "--poll", "0", "s")
    assert output() == "run first\n"
    (container / "env.yaml").write_text("parameters: {name: second}\n")
    openstack.ok("stack", "update", *files, "--wait", "s")
    assert output() == "run second\n"
    absent = openstack("stack", "create", *files, "--files-container", "absent", "t")
    assert absent.code == 1
    assert 'There is no container "absent".' in absent.err
