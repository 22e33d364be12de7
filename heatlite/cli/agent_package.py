"""Packaging of the agent as one file for Python 3.11 or newer."""

import io
import zipfile
from importlib.resources import files
from pathlib import Path

_MAIN = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("heatlite-agent needs Python 3.11 or newer")

from heatlite.agent.program import main

sys.exit(main())
"""


def write(file: Path) -> None:
    """Write the agent as an executable zip file, replacing an existing one.

    The output is reproducible: equal sources give equal bytes. Raises OSError.
    """
    content = io.BytesIO(b"")
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _MAIN)
        _add(archive, "heatlite/__init__.py", files("heatlite").joinpath("__init__.py").read_text())
        for source in sorted(files("heatlite.agent").iterdir(), key=lambda source: source.name):
            if source.name.endswith(".py"):
                _add(archive, f"heatlite/agent/{source.name}", source.read_text())
    new = file.with_name(f"{file.name}.new")
    new.write_bytes(b"#!/usr/bin/env python3\n" + content.getvalue())
    new.chmod(0o755)
    new.replace(file)


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
