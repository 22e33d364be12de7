"""Bodies compared with the OpenAPI document."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tools.openapi.__main__ import text
from tools.openapi.reference import Operation

SOURCE = Path(__file__).parents[2] / "api-ref" / "source" / "v1"
DOCUMENT = json.loads(text(SOURCE))


def closed(schema: Any) -> Any:
    """Close the schema against other keys, so that a missing key is a fault."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    shut = {key: closed(one) for key, one in schema.items()}
    return {"additionalProperties": False, **shut} if "properties" in shut and "required" in shut else shut


SCHEMAS = closed(DOCUMENT["components"]["schemas"])


@cache
def validator(path: str, method: str, code: int | None) -> Draft202012Validator | None:
    """Return the schema of an answer by code, or of the request for None.

    None if no JSON is described.
    """
    described = DOCUMENT["paths"][path][method.lower()]
    place = described["requestBody"] if code is None else described["responses"][str(code)]
    content = place.get("content", {}).get("application/json")
    if content is None:
        return None
    schema = content["schema"] if code is None else closed(content["schema"])
    return Draft202012Validator({**schema, "components": {"schemas": SCHEMAS}})


def unlike(operation: Operation, body: object, name: str = "", code: int | None = None) -> list[str]:
    """Return the differences of a body from its description.

    `name` is that of a sample, `code` that of a real answer.
    """
    if code is None and not name.endswith("-request"):
        code = next(iter(operation.codes["success"]))
    checked = validator(operation.paths()[0], operation.method, code)
    if checked is None:
        return [] if body is None else ["describes no body"]
    return [f"{error.json_path}: {error.message[:300]}" for error in checked.iter_errors(body)]
