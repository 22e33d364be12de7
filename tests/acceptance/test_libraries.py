"""Programs that use python-heatclient or openstacksdk as a library, unmodified."""

import json
import subprocess
import sys
from pathlib import Path

from tests.acceptance.conftest import need
from tests.acceptance.processes import TEMPLATES, CommandLine, Server, environment


def run(program: str, server: Server, home: Path, **variables: str) -> None:
    """A program beside this file, in a process and a project of its own."""
    given = json.dumps([f"{server.url}/v1/{program}", str(TEMPLATES / "hello.yaml")])
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(f"{program}_program.py"))],
        input=given,
        cwd=home,
        env=environment(home, **variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout + done.stderr


def test_heatclient(server: Server, tmp_path: Path) -> None:
    need("heatclient", "python-heatclient")
    run("heatclient", server, tmp_path)


def test_openstacksdk(server: Server, tmp_path: Path, heatlite: CommandLine) -> None:
    """With auth_type none the SDK first wants a version document."""
    need("openstack", "openstacksdk")
    written = heatlite("clouds", "--endpoint", server.url, "--project", "openstacksdk")
    assert written.out == "Wrote clouds.yaml. Use it with: export OS_CLOUD=heatlite\n"
    run("openstacksdk", server, tmp_path)
