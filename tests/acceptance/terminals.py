"""A terminal that a command runs on, and whose questions are answered."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

TEMPLATES = Path(__file__).parents[2] / "templates"


def on_terminal(columns: int, *words: str, answer: str = "y", **variables: str) -> tuple[int, str]:
    """Run a command on a terminal, and give the same answer to each of its questions.

    Returns exit code and output.
    """
    terminal, inside = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "heatlite", *words],
        cwd=TEMPLATES.parent,
        env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "NO_COLOR": "1", **variables},
        stdin=inside,
        stdout=inside,
        stderr=inside,
    )
    os.close(inside)
    out, answered = b"", 0
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the child has closed the terminal
            break
        out += chunk
        while out.count(b"[y/N]") > answered:
            answered += 1
            os.write(terminal, answer.encode() + b"\n")
    os.close(terminal)
    return process.wait(), re.sub(r"\x1b\[\d*m", "", out.decode())
