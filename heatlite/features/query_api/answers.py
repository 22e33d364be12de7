"""Answers of the query API in XML, or in JSON for older clients.

The elements are Heat's and have no namespace: os-collect-config searches for bare names.
"""

import re
from http import HTTPStatus
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

import falcon
from falcon import Response

from heatlite.core.json import Json, JsonMap, dump

AS_JSON: Final = frozenset({"Metadata", "TemplateBody", "ResourceProperties", "OutputValue"})
"""Elements whose structure is written as JSON text in XML."""

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may contain, not even escaped."""


def answer(action: str, result: JsonMap, request_id: str) -> JsonMap:
    """Return the body of an action's answer."""
    return {f"{action}Response": {f"{action}Result": result, "ResponseMetadata": {"RequestId": request_id}}}


def write(resp: Response, body: JsonMap, as_json: bool, status: HTTPStatus = HTTPStatus.OK) -> None:
    """Set the response to a body with one root."""
    resp.status = status
    resp.content_type = falcon.MEDIA_JSON if as_json else falcon.MEDIA_XML
    resp.data = dump(body).encode(errors="replace") if as_json else to_xml(body)


def to_xml(body: JsonMap) -> bytes:
    """Return a body with one root as an XML document in ASCII.

    Null values are left out. It has no declaration: os-collect-config gives the parser text, for which a declaration is
    an error.
    """
    ((name, value),) = body.items()
    root = Element(name)
    _fill(root, value)
    content: bytes = tostring(root)
    return content


def _fill(element: Element, value: Json) -> None:
    if element.tag in AS_JSON and not isinstance(value, str):
        element.text = _clean(dump(value))
    elif isinstance(value, dict):
        for name, item in value.items():
            if item is not None:
                _fill(SubElement(element, name), item)
    elif isinstance(value, list):
        for item in value:
            _fill(SubElement(element, "member"), item)
    elif isinstance(value, bool):
        element.text = "true" if value else "false"
    else:
        element.text = _clean(str(value))


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
