"""Parameters of the query API, from the URL or a form."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from heatlite.api.request import Request
from heatlite.api.wire import bodies
from heatlite.core.json import JsonMap
from heatlite.features.query_api.errors import Code, QueryError
from heatlite.features.query_api.signatures import Message, Pairs

FORM: Final = "application/x-www-form-urlencoded"
MAX_PAIRS: Final = 10_000
"""Parameters of a URL or a form. A client needs no key to have them parsed."""
ON_FAILURE: Final = {"DO_NOTHING": True, "ROLLBACK": False, "DELETE": False}
"""Values of OnFailure → whether a failed stack stays as it is."""
_MEMBER: Final = re.compile(r"([A-Za-z]+)\.member\.([0-9]{1,6})(?:\.([A-Za-z]+))?", re.ASCII)


class QueryParameters:
    """Parameters by name."""

    def __init__(self, pairs: Pairs) -> None:
        self._given = dict(pairs)

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str) -> str | None:
        """Return a parameter; None if it is missing or empty."""
        return self._given.get(name) or None

    def needed(self, name: str) -> str:
        """Return a parameter. Raises QueryError."""
        found = self.text(name)
        if found is None:
            raise QueryError(Code.MissingParameter, name=name)
        return found

    def members(self, name: str) -> list[Mapping[str, str]]:
        """Return the entries of a list, in order: fields with their values.

        An entry without fields has the field "".
        """
        found: dict[int, dict[str, str]] = {}
        for key, value in self._given.items():
            match = _MEMBER.fullmatch(key)
            if match and match[1] == name:
                found.setdefault(int(match[2]), {})[match[3] or ""] = value
        return [found[number] for number in sorted(found)]


def message_of(req: Request) -> Message:
    """Return the request with its body.

    Raises HTTPBadRequest, RequestLimitExceeded, QueryError.
    """
    body = bodies.raw(req)
    is_form = (req.content_type or FORM).partition(";")[0].strip().lower() == FORM
    query = _pairs(req.query_string.encode())
    if req.method == "POST" and body and not is_form and any(name == "Action" for name, _ in query):
        text = f"The body of an action is a form ({FORM}), not {req.content_type}."
        raise QueryError(Code.InvalidParameterValue, text)
    form = _pairs(body) if req.method == "POST" and is_form else []
    headers = {name.lower(): value for name, value in req.headers.items()}
    # Falcon's path lacks the slash at the end, which is signed.
    path = str(req.env.get("PATH_INFO", "")).encode("latin-1").decode("utf-8", "replace")
    return Message(req.method, path, query, form, headers, body)


def _pairs(raw: bytes) -> Pairs:
    if raw.count(b"&") >= MAX_PAIRS:
        raise QueryError(Code.MalformedQueryString, reason=f"there are more than {MAX_PAIRS}")
    try:
        pairs = parse_qsl(raw.decode("utf-8"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise QueryError(Code.MalformedQueryString, reason="they are not UTF-8") from None
    if any("\0" in text for pair in pairs for text in pair):
        raise QueryError(Code.MalformedQueryString, reason="they contain a NUL character")
    return pairs


def definition(given: QueryParameters) -> JsonMap:
    """Return the body of the REST API for a create, an update or a validation.

    A replay after a maintenance lock sends the same body. Raises QueryError.
    """
    body: JsonMap = {}
    url = given.text("TemplateURL") or given.text("TemplateUrl")
    if "TemplateBody" in given:
        body["template"] = given.needed("TemplateBody")
    elif url is not None:
        body["template_url"] = url
    values = given.members("Parameters")
    if values:
        body["parameters"] = {
            one["ParameterKey"]: one["ParameterValue"]
            for one in values
            if "ParameterKey" in one and "ParameterValue" in one
        }
    if "DisableRollback" in given and "OnFailure" in given:
        raise QueryError(Code.InvalidParameterCombination, first="DisableRollback", second="OnFailure")
    if "DisableRollback" in given:
        body["disable_rollback"] = given.needed("DisableRollback")
    elif "OnFailure" in given:
        wanted = given.needed("OnFailure")
        if wanted not in ON_FAILURE:
            text = f"OnFailure is {' or '.join(ON_FAILURE)}, not {wanted}."
            raise QueryError(Code.InvalidParameterValue, text)
        body["disable_rollback"] = ON_FAILURE[wanted]
    if "TimeoutInMinutes" in given:
        body["timeout_mins"] = given.needed("TimeoutInMinutes")
    return body
