"""The OpenAPI document, and a page that sends requests."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from falcon import MEDIA_HTML, MEDIA_JSON, Response

from heatlite.api.request import Request

FOLDER = files("heatlite.api") / "openapi"


class Description:
    """/openapi.json."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Return the document."""
        resp.content_type = MEDIA_JSON
        resp.data = _read("openapi.json")


class Page:
    """/docs."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Return the page. It loads nothing but the document, from this server."""
        resp.content_type = MEDIA_HTML
        resp.data = _read("page.html")
        resp.set_header("Content-Security-Policy", _policy())
        resp.set_header("X-Content-Type-Options", "nosniff")
        resp.set_header("Referrer-Policy", "no-referrer")


@cache
def _read(name: str) -> bytes:
    return FOLDER.joinpath(name).read_bytes()


@cache
def _policy() -> str:
    """Return the content security policy of the page.

    It allows the page's script and style, and requests to this server."""
    page = _read("page.html").decode()
    script, style = (_digest(page, tag) for tag in ("script", "style"))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _digest(page: str, tag: str) -> str:
    (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
