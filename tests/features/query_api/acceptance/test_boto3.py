"""The query API with the unmodified boto3."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import need
from tests.acceptance.processes import START_SECONDS, Server, environment


@pytest.mark.slow
def test_boto3_makes_changes_and_deletes_a_stack(server: Server, tmp_path: Path) -> None:
    need("boto3", "boto3")
    key = server.request("POST", "/access_keys").data["access_key"]  # type: ignore[index]
    given = json.dumps([server.url, key["id"], key["secret"]])  # type: ignore[index]
    program = [sys.executable, str(Path(__file__).with_name("boto3_program.py"))]
    done = subprocess.run(
        program, input=given, text=True, capture_output=True, cwd=tmp_path, env=environment(tmp_path),
        timeout=START_SECONDS, check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr
