"""Optional libraries: the error of a missing one, and how to install it."""

import shlex
import sys
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from heatlite.core.errors import Invalid
from heatlite.core.json import parse


class MissingLibrary(Invalid):
    """A function needs a library of an extra that is not installed."""

    text = "{what} needs {library}, which is not installed: {command}"

    def __init__(self, what: str, library: str | None, extra: str) -> None:
        """Name `library`, the name of an ImportError.

        None: a part of a library is missing, such as libpq of psycopg.
        """
        super().__init__(what=what, library=library or "a library", command=install_command(extra))


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation.

    Names the folder that heatlite was installed from (PEP 610, ``direct_url.json``).
    """
    pip = f"{shlex.quote(sys.executable)} -m pip install"
    try:
        recorded = metadata.distribution("heatlite").read_text("direct_url.json") or "{}"
    except metadata.PackageNotFoundError:
        recorded = "{}"
    origin = parse(recorded)
    folder = unquote(urlsplit(origin.get("url", "")).path)
    if "dir_info" not in origin or not Path(folder).is_dir():
        return f"in the folder of heatlite's source, {pip} '.[{extra}]'"
    editable = " -e" if origin["dir_info"].get("editable") else ""
    return f"{pip}{editable} {shlex.quote(f'{folder}[{extra}]')}"
