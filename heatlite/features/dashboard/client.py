"""Requests of the pages to the API of this process.

They carry the visitor's credentials. So the access policy, locks and limits hold for a page as for any other client.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import quote, unquote, urlencode
from wsgiref.types import WSGIApplication

from msgspec import Struct

from heatlite.core.json import Json, JsonMap, as_map, as_maps, dump, parse

Environ: TypeAlias = dict[str, object]

Query: TypeAlias = Mapping[str, str | int | Sequence[str]]

NOTHING: Query = MappingProxyType({})

KEPT = frozenset({"HTTP_HOST", "HTTP_FORWARDED", "HTTP_USER_AGENT"})
"""Headers of the browser that the API gets, besides ``X-Forwarded-…``. The cookie is none of them."""


class ApiError(Exception):
    """An answer of the API with an error."""

    def __init__(self, status: int, data: Json) -> None:
        fault = data if isinstance(data, Mapping) else {}
        error = fault.get("error")
        message = error.get("message") if isinstance(error, Mapping) else None
        self.status = status
        self.kind = str(error.get("type")) if isinstance(error, Mapping) else ""
        self.message = str(message or fault.get("title") or f"The API answered {status}.")
        super().__init__(self.message)


class ApiResponse(Struct, frozen=True):
    """A response of the API, with its body still unread."""

    status: int
    headers: Mapping[str, str]
    chunks: Iterable[bytes]


class ProjectApi:
    """The API of one project for one visitor."""

    def __init__(
        self,
        app: WSGIApplication,
        environ: Environ,
        project: str,
        credentials: Mapping[str, str],
        note: Callable[[bytes], object],
    ) -> None:
        """`environ` is that of the browser's request.

        `credentials` are keys of a WSGI environment. `note` gets each answer.
        """
        self._app = app
        self._note = note
        self._environ = {**api_environ(environ), **credentials}
        self.project = project

    def get(self, path: str, **query: str | int) -> JsonMap:
        """Return the JSON object at a path below the project. Raises ApiError."""
        return as_map(self.send("GET", path, query=query))

    def send(self, method: str, path: str, body: Json = None, query: Query = NOTHING) -> Json:
        """Send a request with a JSON body, and return the JSON of the answer.

        Raises ApiError.
        """
        payload = b"" if body is None else dump(body).encode()
        size = str(len(payload))
        changes = {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": size, "wsgi.input": BytesIO(payload)}
        answer = self.open(method, path, query, changes)
        raw = b"".join(answer.chunks)
        self._note(raw)
        data: Json = parse(raw) if raw else None
        if answer.status >= 400:
            raise ApiError(answer.status, data)
        return data

    def open(self, method: str, path: str, query: Query, changes: Mapping[str, object]) -> ApiResponse:
        """Send a request, and return the answer with its body unread.

        The parts of the path are quoted.
        """
        whole = f"/v1/{self.project}{unquote(path)}"
        environ = {
            **self._environ,
            "REQUEST_METHOD": method,
            "PATH_INFO": whole.encode().decode("latin-1"),
            "QUERY_STRING": urlencode(query, doseq=True),
            **changes,
        }
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(
            status: str, headers: list[tuple[str, str]], exc_info: object = None, /
        ) -> Callable[[bytes], object]:
            started.append((status, headers))
            return lambda _chunk: None

        chunks = self._app(environ, start_response)
        status, headers = started[-1]
        return ApiResponse(int(status[:3]), {name.lower(): value for name, value in headers}, chunks)


def api_environ(environ: Environ) -> Environ:
    """Return an environment without the headers that the API must not get."""
    kept = {
        key: value
        for key, value in environ.items()
        if not key.startswith("HTTP_") or key in KEPT or key.startswith("HTTP_X_FORWARDED_")
    }
    return {**kept, "SCRIPT_NAME": environ.get("SCRIPT_NAME", "")}


# -- parts of answers ----------------------------------------------------------------------------------


def text(value: Json) -> str:
    """Return a value as text; null as an empty one."""
    return "" if value is None else str(value)


def number(value: Json) -> int:
    """Return a number, and 0 for any other value."""
    return value if isinstance(value, int) else 0


def href(links: Json, rel: str) -> str:
    """Return the address of a link with this relation, or an empty text."""
    return next((text(one.get("href")) for one in as_maps(links) if one.get("rel") == rel), "")


def quoted(part: str) -> str:
    """Quote a part of a path."""
    return quote(part, safe="")
