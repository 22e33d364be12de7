"""Writer of the document.

``python -m heatlite.api.openapi > heatlite/api/openapi/openapi.json`` in a checkout, after a change of the reference.
"""

import json
import sys
from pathlib import Path

from heatlite.api.openapi.document import document
from heatlite.api.openapi.reference import Reference

SOURCE = Path("api-ref/source/v1")


def text(source: Path = SOURCE) -> str:
    """Return the document, a line for each path. Raises OSError outside a checkout."""
    found = document(Reference(source).operations(), source / "samples")
    paths = found.pop("paths")
    assert isinstance(paths, dict)
    rest = json.dumps(found, ensure_ascii=False)
    lines = ",\n".join(f'"{path}": {json.dumps(methods, ensure_ascii=False)}' for path, methods in paths.items())
    return f'{rest[:-1]}, "paths": {{\n{lines}\n}}}}\n'


if __name__ == "__main__":
    sys.stdout.write(text())
