"""Directives ``rest_body`` and ``rest_answer``: the fields of a body by OpenAPI.

``.. rest_body:: OPERATION_ID`` shows the request body of an operation, and ``.. rest_body:: OPERATION_ID ACTION`` that
of an action: the alternative whose key is ACTION. ``.. rest_answer:: NAME`` shows a schema, an object of answers.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

DOCUMENT = Path(__file__).parents[2] / "heatlite" / "api" / "openapi" / "openapi.json"
HEAD = ".. list-table::\n   :header-rows: 1\n   :widths: 25 8 15 52\n\n"


@cache
def document() -> Any:
    """Return the OpenAPI document."""
    return json.loads(DOCUMENT.read_text("utf-8"))


@cache
def bodies() -> dict[str, Any]:
    """Return the schemas of the request bodies, by operation."""
    paths = document()["paths"]
    return {
        operation["operationId"]: operation["requestBody"]["content"]["application/json"]["schema"]
        for methods in paths.values()
        for operation in methods.values()
        if "requestBody" in operation
    }


def rows(schema: Any, prefix: str = "", above: Mapping[str, Any] | None = None) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and description of the fields that have a description.

    Fields that the object `above` has, too, are left out.
    """
    for one in schema.get("anyOf", []):
        yield from rows(one, prefix)
    properties = schema.get("properties", {})
    for name, field in properties.items():
        if above is not None and above.get(name) == field:
            continue
        if "description" in field and field.get("type") != "null":
            optional = "" if name in schema.get("required", []) else " (Optional)"
            yield f"{prefix}{name}{optional}", type_of(field), told(field)
        yield from rows(field, f"{prefix}{name}.")
        yield from rows(field.get("items", {}), f"{prefix}{name}[].", properties)


def type_of(field: Any) -> str:
    """Return the types of a field but null."""
    kinds = field.get("type", "string" if "enum" in field else "any")
    return " or ".join(kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null")


def told(field: Any) -> str:
    """Return description, words and default of a field, as reStructuredText."""
    found = [re.sub(r"`([^`]*)`", r"``\1``", field["description"])]
    words = field.get("enum") or field.get("items", {}).get("enum") or []
    if words and not all(f"``{word}``" in found[0] for word in words if word is not None):
        found.append(f"One of {', '.join(f'``{word}``' for word in words if word is not None)}.")
    if field.get("default") not in (None, [], {}, ""):
        found.append(f"Default: ``{json.dumps(field['default']).strip(chr(34))}``.")
    return " ".join(found)


class RestBody(SphinxDirective):
    """Table of the fields of a body."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        self.env.note_dependency(str(DOCUMENT))
        schema = bodies()[self.arguments[0]]
        if len(self.arguments) > 1:
            key = self.arguments[1]
            schema = next(one for one in schema.get("oneOf", [schema]) if key in one["properties"])
            value = schema["properties"][key]
            first = value.get("anyOf", [value])[0]
            told_by_first = {part: first[part] for part in ("description", "type") if part in first}
            schema = {**schema, "properties": {key: told_by_first | value}}
        return self.parse_text_to_nodes(table(schema))


class RestAnswer(SphinxDirective):
    """Table of the fields of an object of answers."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        self.env.note_dependency(str(DOCUMENT))
        return self.parse_text_to_nodes(table(document()["components"]["schemas"][self.arguments[0]]))


def table(schema: Any) -> str:
    """Return the table of the fields of a schema, as reStructuredText."""
    cells = [("Name", "In", "Type", "Description"), *((name, "body", *rest) for name, *rest in rows(schema))]
    return HEAD + "\n".join("   * - " + "\n     - ".join(row) for row in cells)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives, as Sphinx demands."""
    app.add_directive("rest_body", RestBody)
    app.add_directive("rest_answer", RestAnswer)
    return {"parallel_read_safe": True}
