"""Schemas of the structs of bodies and answers, with docstrings of fields."""

import ast
import inspect
from collections.abc import Mapping
from functools import cache

from heatlite.api.wire import bodies, group_bodies, scheduled_bodies
from heatlite.core import clouds
from heatlite.core.json import Json, JsonMap, as_map, as_texts
from heatlite.core.validation import schema_of
from heatlite.core.wire import actions, base, events, guards, locks, resources, stacks, why
from heatlite.engine.state import group_requests
from heatlite.features.approvals.api import handlers as decisions
from heatlite.features.change_policy import document
from heatlite.features.drift import accepting, reverting
from heatlite.features.healing import by_hand
from heatlite.features.healing.api import policies, sources
from heatlite.features.healing.intake import source_document
from heatlite.features.healing.rules import policy
from heatlite.features.nodes import playbooks as runs
from heatlite.features.nodes.agents import registration
from heatlite.features.nodes.api import node_actions, playbooks
from heatlite.features.ownership import bodies as ownership
from heatlite.features.parameter_sources import bodies as source_bodies
from heatlite.features.parameter_sources import wire as parameter_sources
from heatlite.features.revisions import undoing
from heatlite.features.revisions import wire as revisions
from heatlite.features.rules import wire as findings
from heatlite.features.schedules.api import bodies as schedules
from heatlite.features.schedules.api import expiry
from tools.openapi.reference import plain

MODULES = (
    base, clouds, actions, events, guards, locks, resources, stacks, why,
    accepting, bodies, decisions, document, group_bodies, scheduled_bodies, group_requests, by_hand, expiry, sources,
    findings, node_actions, ownership, playbooks, policies, registration, policy, reverting, revisions, runs, schedules,
    parameter_sources, source_bodies, source_document, undoing,
)  # fmt: skip
"""Modules with the structs, whose fields have docstrings."""


@cache
def _docs() -> Mapping[str, Mapping[str, str]]:
    """Return the docstrings of fields, by the names of struct and field."""
    found: dict[str, dict[str, str]] = {}
    for module in MODULES:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                bases = (ast.unparse(base).rpartition(".")[2] for base in node.bases)
                docs = {name: doc for base in bases for name, doc in found.get(base, {}).items()}
                for field, text in zip(node.body, node.body[1:], strict=False):
                    match field, text:
                        case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                            docs[name.rstrip("_")] = plain(" ".join(doc.split()))
                found[node.name] = docs
    return found


def _described(schema: Json) -> Json:
    """Return the schema of a struct with the docstrings of its fields."""
    if isinstance(schema, list):
        return [_described(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _described(one) for key, one in schema.items()}
    if isinstance(found.get("description"), str):
        found["description"] = plain(" ".join(str(found["description"]).split()))
    properties = found.get("properties")
    if isinstance(properties, dict):
        docs = _docs().get(str(found.get("title")), {})
        found["properties"] = {
            name: {**field, "description": docs[name]} if name in docs and isinstance(field, dict) else field
            for name, field in properties.items()
        }
    return found


def schema(kind: type) -> JsonMap:
    found = _described(schema_of(kind))
    assert isinstance(found, dict)
    return found


def answer(*kinds: type) -> JsonMap:
    """Return the schema of an object with the fields of these structs."""
    found = [as_map(_sent(schema(kind))) for kind in kinds]
    properties: JsonMap = {name: field for one in found for name, field in as_map(one["properties"]).items()}
    needed: list[Json] = [name for one in found for name in as_texts(one["required"])]
    return {"type": "object", "properties": properties, "required": needed}


def _sent(schema: Json) -> Json:
    """Return the schema of an object that is sent.

    It has the fields with a default, too, but for those that may be UNSET.
    """
    if isinstance(schema, list):
        return [_sent(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _sent(one) for key, one in schema.items() if key not in ("title", "default")}
    properties = schema.get("properties")
    if isinstance(properties, dict) and "title" in schema:
        needed = as_texts(schema.get("required"))
        found["required"] = [name for name, one in properties.items() if name in needed or "default" in as_map(one)]
    return found
