"""Writer of the document.

``python -m tools.openapi > heatlite/api/openapi/openapi.json`` in a checkout, after a change of the reference.
"""

import sys
from pathlib import Path

from heatlite.core.json import pretty
from tools.openapi.document import document
from tools.openapi.reference import Reference

SOURCE = Path("api-ref/source/v1")


def text(source: Path = SOURCE) -> str:
    """Return the document, a line for each path. Raises OSError outside a checkout."""
    found = document(Reference(source).operations(), source / "samples")
    paths = found.pop("paths")
    assert isinstance(paths, dict)
    rest = pretty(found, 0)
    lines = ",\n".join(f'"{path}": {pretty(methods, 0)}' for path, methods in paths.items())
    return f'{rest[:-1]}, "paths": {{\n{lines}\n}}}}\n'


if __name__ == "__main__":
    sys.stdout.write(text())
