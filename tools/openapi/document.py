"""The OpenAPI 3.1 document of the API."""

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path

from heatlite import __version__
from heatlite.api import query
from heatlite.api.handlers.resources import resource_list
from heatlite.api.wire import views
from heatlite.core.json import Json, JsonMap, parse
from heatlite.core.status import ActionStatus, Cause, Verb
from heatlite.features.drift.states import DriftState
from heatlite.features.healing.terms import ClosedAs, IncidentState
from heatlite.features.nodes.api import node_actions
from heatlite.features.nodes.states import NodeActionState, Requester
from heatlite.features.quota.feature import MODES as QUOTA_MODES
from heatlite.plugin.registry import SUPPORT_STATUSES
from heatlite.store.actions import listing
from heatlite.store.audit import AuditOutcome
from tools.openapi.answers import ANSWERS
from tools.openapi.reference import Operation, Parameter
from tools.openapi.requests import BODIES, OPTIONAL
from tools.openapi.schemas import NULL, SCHEMAS, record, ref

S = "/v1/{tenant_id}/stacks/{stack_name}/{stack_id}"
SHARED = {
    ("POST", f"{S}/actions"): "Start stack action",
    ("POST", f"{S}/resources/{{resource_name}}/actions"): "Start resource action",
    ("POST", "/v1/{tenant_id}/validate"): "Validate template",
}
"""Titles of operations that have several sections in the reference, for what the body asks."""
NO_BODY = frozenset({"Orchestrate nodes", "Tell of a change at a node"})
"""Operations that answer 202 without a body."""
TEXT_ANSWERS = {"Check health": "text/plain", "Show API page": "text/html", "Run query action": "application/xml"}
"""Content types of operations that answer in text, faults too."""

GENERAL = {
    400: "The request is not valid; the message says where.",
    401: "The caller is not known.",
    403: "The caller lacks the right, or the page in a browser is another site's.",
    404: "There is no such thing in the project.",
    429: "Too many failed logins.",
    503: "The database, Keystone or the cloud does not answer.",
}
"""Faults of every operation, unless the reference says more."""

_TYPES: dict[str, JsonMap] = {
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer", "minimum": 0, "maximum": query.MAX_INTEGER},
}
_SORT_DIR: JsonMap = {"type": "string", "enum": ["asc", "desc", ""]}
_WORDS: dict[str, JsonMap] = {
    "sort_dir": _SORT_DIR,
    "template_type": {"type": "string", "enum": ["cfn", "hot"]},
    "support_status": {"type": "string", "enum": sorted(SUPPORT_STATUSES)},
    "approval": {"type": "string", "enum": ["refuse", "wait"]},
    "quota_check": {"type": "string", "enum": [*QUOTA_MODES]},
    "ignore_errors": {"type": "string", "enum": ["99001"]},
    "since": {"type": "string", "format": "date-time"},
    "until": {"type": "string", "format": "date-time"},
}
"""Schemas of text parameters by name."""
_SEVERAL: JsonMap = {"type": "string", "pattern": "[^,]"}
"""Of a list with commas between, which has at least one value."""
_LISTS: dict[tuple[str, str], Iterable[str]] = {
    ("List actions", "action"): [views.action_word(verb) for verb in Verb if verb is not Verb.INIT],
    ("List actions", "cause"): [*Cause],
    ("List actions", "status"): [*ActionStatus],
    ("List audit log", "outcome"): [*AuditOutcome],
    ("List drift", "state"): [*DriftState],
    ("List incidents", "state"): [*IncidentState],
    ("List incidents", "closed_as"): [*ClosedAs],
    ("List node actions", "state"): [*NodeActionState],
    ("List node actions", "requester"): [*Requester],
    ("List node actions of a stack", "state"): [*NodeActionState],
    ("List node actions of a stack", "requester"): [*Requester],
    ("List resources", "health"): resource_list.HEALTH,
    ("Show drift", "state"): [*DriftState],
}
"""Words of such lists, by operation and parameter."""
_SORTS = {
    "List actions": listing.SORTED_BY,
    "List node actions": node_actions.SORTED_BY,
    "List node actions of a stack": node_actions.SORTED_BY,
}
"""Keys of `sort` by operation."""
_IS_LIST = re.compile(r"several with commas between")
_TEXTS = frozenset({"timeout_mins", "disable_rollback"})
"""Filters of the list of stacks, which match any text."""


def document(operations: Iterable[Operation], samples: Path) -> JsonMap:
    """Return the document. `samples` is the folder of the reference's samples."""
    by_place: dict[tuple[str, str], list[Operation]] = {}
    for operation in operations:
        for path in operation.paths():
            by_place.setdefault((path, operation.method), []).append(operation)
    paths: dict[str, Json] = {}
    for (path, method), sections in by_place.items():
        place = paths.setdefault(path, {})
        assert isinstance(place, dict)
        place[method.lower()] = _operation(path, sections, samples)
    groups = dict.fromkeys(one.group for sections in by_place.values() for one in sections)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "heatlite",
            "version": __version__,
            "summary": "The OpenStack Heat v1 API, with locks, plans, actions, healing and work on machines.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "./"}],
        "security": [{}, {"password": []}, {"token": []}, {"bearer": []}],
        "tags": [{"name": group} for group in groups],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "responses": {str(code): _fault(text) for code, text in GENERAL.items()},
            "securitySchemes": {
                "password": {"type": "http", "scheme": "basic"},
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(path: str, sections: Sequence[Operation], samples: Path) -> JsonMap:
    first = sections[0]
    title = SHARED.get((first.method, path), first.title)
    last = path.rpartition("/")[2]
    name = f"{title} {last}" if first.parts else title
    described: JsonMap = {
        "operationId": name.lower().replace(" ", "_"),
        "summary": title,
        "description": first.description if len(sections) == 1 else _joined(sections),
        "tags": [first.group],
        "parameters": [*_parameters(path, sections)],
        "responses": _responses(sections, samples),
    }
    content = _body(sections, samples)
    if content is not None:
        described["requestBody"] = {
            "content": {"application/json": content},
            "required": not any(one.title in OPTIONAL for one in sections),
        }
    return described


def _joined(sections: Sequence[Operation]) -> str:
    return "\n\n".join(f"**{one.title}.** {one.description}" for one in sections)


def _parameters(path: str, sections: Sequence[Operation]) -> Iterable[JsonMap]:
    named = {(one.name, one.place): one for section in sections for one in section.request}
    for name in re.findall(r"\{(\w+)\}", path):
        known = named.get((name, "path"))
        shown: JsonMap = {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        yield {**shown, **({} if known is None else {"description": known.description})}
    for one in named.values():
        if one.place in ("query", "header"):
            schema = None if one.name in _TEXTS else _WORDS.get(one.name, _TYPES.get(one.type))
            schema = _list_schema(sections[0].title, one) or schema
            yield {
                "name": one.name,
                "in": one.place,
                "required": one.required and len(sections) == 1,
                "description": one.description,
                "schema": schema or {"type": "string"},
            }


def _list_schema(title: str, parameter: Parameter) -> JsonMap | None:
    """Return the schema of a parameter with a list; None for others."""
    words, end = _LISTS.get((title, parameter.name)), ""
    if parameter.name == "sort" and title in _SORTS:
        words, end = _SORTS[title], "(:asc|:desc)?"
    if words is not None:
        word = f"({'|'.join(words)}){end}"
        return {"type": "string", "pattern": f"^{word}(,{word})*$"}
    return _SEVERAL if _IS_LIST.search(parameter.description) else None


def _body(sections: Sequence[Operation], samples: Path) -> JsonMap | None:
    """Return the content of the request, or None. Several sections are alternatives."""
    schemas: list[Json] = []
    for one in sections:
        assert one.title in BODIES or one.sample("request") is None, f"requests.py lacks the body of {one.title}"
        if one.title in BODIES:
            schema = _with_descriptions(BODIES[one.title], one.request)
            if one.title in OPTIONAL and schema.get("type") == "object":
                schema = {**schema, "type": ["object", "null"]}
            if schema not in schemas:
                schemas.append(schema)
    if not schemas:
        return None
    content: JsonMap = {"schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas}}
    examples = _examples(sections, samples)
    return {**content, "examples": examples} if examples else content


def _with_descriptions(schema: JsonMap, fields: Iterable[Parameter]) -> JsonMap:
    """Return the schema of a body with the descriptions of the reference."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    described: JsonMap = dict(properties)
    is_open = schema.get("additionalProperties") is not False
    for one in fields:
        known = described.get(one.name)
        if one.place == "body" and (isinstance(known, dict) or (known is None and is_open)):
            described[one.name] = {**(known or {}), "description": one.description}
    return {**schema, "properties": described}


def _responses(sections: Sequence[Operation], samples: Path) -> JsonMap:
    responses: dict[str, Json] = {}
    for code in sorted({code for one in sections for code in one.codes["success"]}):
        responses[str(code)] = _success(code, sections)
    for one in sections:
        sample = one.sample("response")
        shown = sample is not None and parse((samples / f"{sample}.json").read_text()) is not None
        is_described = one.title in ANSWERS or one.path in {path for _, path in SHARED}
        assert is_described or not shown, f"answers.py lacks the answer of {one.title}"
    faults: dict[int, list[str]] = {}
    for one in sections:
        for code, text in one.codes["error"].items():
            faults.setdefault(code, []).append(text)
    if "{tenant_id}" in sections[0].path or "{resource_arn}" in sections[0].path:
        for code in GENERAL:
            faults.setdefault(code, [])
    for code, texts in sorted(faults.items()):
        told = " ".join(dict.fromkeys(texts))
        kind = TEXT_ANSWERS.get(sections[0].title)
        if kind is not None:
            responses[str(code)] = {"description": told, "content": {kind: {"schema": {"type": "string"}}}}
        else:
            responses[str(code)] = _fault(told) if told else {"$ref": f"#/components/responses/{code}"}
    return responses


def _success(code: int, sections: Sequence[Operation]) -> JsonMap:
    first = sections[0]
    texts = dict.fromkeys(one.codes["success"][code] for one in sections if code in one.codes["success"])
    shown: JsonMap = {"description": " ".join(texts) or HTTPStatus(code).phrase}
    headers: JsonMap = {
        one.name: {"description": one.description, "schema": {"type": "string"}}
        for section in sections
        for one in section.response
        if one.place == "header"
    }
    if headers:
        shown["headers"] = headers
    if code == HTTPStatus.NO_CONTENT or first.title in NO_BODY:
        return shown
    if first.title in TEXT_ANSWERS:
        return {**shown, "content": {TEXT_ANSWERS[first.title]: {"schema": {"type": "string"}}}}
    answers: list[Json] = []
    for section in sections:
        if _answer(code, section) not in answers:
            answers.append(_answer(code, section))
    schema = _answer(code, first) if len(answers) == 1 else {"anyOf": answers}
    kinds: JsonMap = {"application/json": {"schema": schema}}
    if first.title == "List events":
        kinds["text/event-stream"] = {"schema": {"type": "string"}}
    return {**shown, "content": kinds}


def _answer(code: int, operation: Operation) -> JsonMap:
    if code == HTTPStatus.FOUND:
        return ref("Accepted")
    if operation.path.endswith("/resources/{resource_name}/actions"):
        return record(action=ref("BegunAction"))
    return ANSWERS.get(operation.title, NULL)


def _fault(text: str) -> JsonMap:
    return {"description": text, "content": {"application/json": {"schema": ref("Fault")}}}


def _examples(sections: Sequence[Operation], samples: Path) -> Mapping[str, Json]:
    """Return the requests that the reference shows, by the titles of their sections."""
    found: dict[str, Json] = {}
    for one in sections:
        name = one.sample("request")
        if name is not None:
            value = parse((samples / f"{name}.json").read_text())
            if all(value != known["value"] for known in found.values() if isinstance(known, dict)):
                found[one.title] = {"value": value}
    return found
