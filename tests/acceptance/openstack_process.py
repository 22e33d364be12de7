"""Runs command lines of `openstack`.

A line of stdin is a JSON list of words, a line of stdout the result.
"""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout

from openstackclient import shell


def run(words: list[str]) -> dict[str, object]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = shell.main(words)
        except SystemExit as end:  # argparse
            code = end.code if isinstance(end.code, int) else 1
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
