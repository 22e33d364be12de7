"""Both transports against a small WSGI application: socket and in-process."""

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from heatlite.cli.client import Client, split_endpoint
from heatlite.cli.errors import CommandError, RefusedRequest
from heatlite.cli.transport import ApiTransport, HTTPTransport, Unreachable, WSGITransport, credentials
from heatlite.core.config import Settings
from tests.tables import table


def app(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Echoes requests; ``/name/…`` redirects to ``/full/…`` as Heat's look-up does."""
    method, path, query = (str(environ[key]) for key in ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING"))
    length = int(str(environ.get("CONTENT_LENGTH") or 0))
    body = environ["wsgi.input"].read(length)  # type: ignore[attr-defined]

    def answer(status: str, data: object) -> Iterable[bytes]:
        start_response(status, [("Content-Type", "application/json; charset=UTF-8")])
        return [json.dumps(data).encode()]

    if path.startswith("/name/"):
        tail = path.removeprefix("/name") + (f"?{query}" if query else "")
        start_response("302 Found", [("Location", f"http://elsewhere.example:1{'/full' + tail}")])
        return [b""]
    if path == "/loop":
        start_response("307 Temporary Redirect", [("Location", "/loop")])
        return [b""]
    if path == "/nothing":
        start_response("204 No Content", [])
        return []
    if path == "/text":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"plain ", b"words"]
    if path == "/broken":
        start_response("200 OK", [("Content-Type", "application/json")])
        return [b'{"a": ']
    if path.startswith("/v1/p/missing"):
        return answer("404 Not Found", {"code": 404, "error": {"type": "EntityNotFound", "message": "No such thing."}})
    if path.startswith("/v1/p/silent"):
        return answer("400 Bad Request", {"code": 400, "error": {"type": "ValueError", "traceback": None}})
    return answer(
        "200 OK",
        {
            "method": method,
            "path": path.encode("latin-1").decode(),
            "query": query,
            "body": json.loads(body) if body else None,
            "type": environ.get("CONTENT_TYPE") or None,
            "accept": environ.get("HTTP_ACCEPT"),
        },
    )


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        pass


@pytest.fixture(params=["http", "wsgi"])
def transport(request: pytest.FixtureRequest) -> Iterator[ApiTransport]:
    if request.param == "wsgi":
        yield WSGITransport(app)
        return
    with make_server("127.0.0.1", 0, app, handler_class=_Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield HTTPTransport(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()


def test_a_body_travels_as_json(transport: ApiTransport) -> None:
    answer = transport.request("POST", "/x?a=1&b=2", {"ä": [1, None]})
    assert answer.status == 200
    assert answer.data == {
        "method": "POST",
        "path": "/x",
        "query": "a=1&b=2",
        "body": {"ä": [1, None]},
        "type": "application/json",
        "accept": "application/json",
    }


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "POST", "DELETE"])
def test_a_redirect_keeps_method_body_query_and_the_way_to_the_server(transport: ApiTransport, method: str) -> None:
    body = None if method in ("GET", "DELETE") else {"n": 1}
    data = transport.request(method, "/name/a?limit=1", body).data
    assert isinstance(data, dict)
    assert (data["method"], data["path"], data["query"], data["body"]) == (method, "/full/a", "limit=1", body)


def test_endless_redirects_end(transport: ApiTransport) -> None:
    with pytest.raises(CommandError, match="redirected more than"):
        transport.request("GET", "/loop")


def test_quoted_names_arrive_whole(transport: ApiTransport) -> None:
    data = transport.request("GET", "/r/%C3%A4%20b").data
    assert isinstance(data, dict)
    assert data["path"] == "/r/ä b"


def test_answers_without_json(transport: ApiTransport) -> None:
    assert transport.request("DELETE", "/nothing").status == 204
    assert transport.request("GET", "/text").data == "plain words"
    with pytest.raises(CommandError, match="JSON that cannot be read"):
        transport.request("GET", "/broken")


def test_the_client_raises_what_the_server_says(transport: ApiTransport) -> None:
    client = Client(transport, "/v1/p")
    with pytest.raises(RefusedRequest, match=r"^No such thing\.$") as refused:
        client.request("GET", "/missing")
    assert refused.value.status == 404
    with pytest.raises(RefusedRequest, match="ValueError"):  # Heat leaves the message out of some errors
        client.request("GET", "/silent")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "asks for a login, and none was given: set HEATLITE_USERNAME and HEATLITE_PASSWORD, or HEATLITE_TOKEN."),
        ({"username": "mia:x", "password": "p:w"}, "mia was refused at "),
        ({"username": "zoë", "password": "hush"}, "zoë was refused at "),
        ({"token": "hush"}, "The token was refused at "),
    ],
)
def test_a_401_says_who_was_refused_where(given: dict[str, str], says: str) -> None:
    def refuses(_environ: object, start_response: Callable[..., object]) -> Iterable[bytes]:
        start_response("401 Unauthorized", [("Content-Type", "application/json")])
        return [b'{"error": {"message": "The request you have made requires authentication."}}']

    with make_server("127.0.0.1", 0, refuses, handler_class=_Quiet) as server:  # type: ignore[arg-type]
        url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.handle_request).start()
        headers = credentials(Settings(database="sqlite://", **given))  # type: ignore[arg-type]
        with pytest.raises(RefusedRequest) as refused:
            Client(HTTPTransport(url, headers), "/v1/p").stacks()
    assert says in str(refused.value) and url in str(refused.value) and "hush" not in str(refused.value)


def test_a_wsgi_application_is_closed_even_if_it_writes() -> None:
    closed = []

    class Body:
        def __iter__(self) -> Iterator[bytes]:
            return iter([b" returned"])

        def close(self) -> None:
            closed.append("body")

    def writer(environ: dict[str, object], start_response: Callable[..., Callable[[bytes], object]]) -> Body:
        start_response("200 OK", [])(b"written")
        return Body()

    with WSGITransport(writer, lambda: closed.append("engine")) as transport:  # type: ignore[arg-type]
        assert transport.request("GET", "/").data == "written returned"
        assert closed == ["body"]
    assert closed == ["body", "engine"]


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: refuses
        port = taken.getsockname()[1]
        with pytest.raises(Unreachable, match=rf"^No server answers at http://127.0.0.1:{port}\. Start one"):
            HTTPTransport(f"http://127.0.0.1:{port}").request("GET", "/")


def test_no_such_host() -> None:
    with pytest.raises(Unreachable, match=r"^http://nohost\.invalid: no host of this name is found \([^\[\]]+\)\. "):
        HTTPTransport("http://nohost.invalid").request("GET", "/")


@pytest.mark.parametrize("transport", ["http"], indirect=True)
def test_a_server_without_tls(transport: HTTPTransport) -> None:
    with pytest.raises(Unreachable, match=r"does not speak TLS\. Is it an address with http://\?$"):
        HTTPTransport(transport.url.replace("http:", "https:")).request("GET", "/")


@table("url", ["127.0.0.1:8004", "ftp://h", "http://", "http://h:port", "http://h:99999"])
def test_no_address(url: str) -> None:
    with pytest.raises(CommandError, match="is not the address of a server"):
        HTTPTransport(url)


@table(
    ("url", "project", "server", "prefix"),
    [
        ("http://h:8004", None, "http://h:8004", "/v1/default"),
        ("http://h:8004/", "p", "http://h:8004", "/v1/p"),
        ("http://h:8004/v1/p", None, "http://h:8004", "/v1/p"),
        ("http://h:8004/v1/p/", "q", "http://h:8004", "/v1/q"),
        ("https://h/heat/v1/p", None, "https://h", "/heat/v1/p"),
        ("h:8004", "a b", "http://h:8004", "/v1/a%20b"),
    ],
)
def test_endpoints(url: str, project: str | None, server: str, prefix: str) -> None:
    assert split_endpoint(url, project) == (server, prefix)


@pytest.mark.parametrize("url", ["http://mia:sesame@127.0.0.1:1", "ftp://mia:sesame@h?key=sesame", "http://[mia:sesame@h"])
def test_a_password_in_the_address_is_not_shown(url: str) -> None:
    with pytest.raises(CommandError) as error:
        HTTPTransport(url).send("GET", "/", {}, b"")
    assert "sesame" not in str(error.value)


def test_an_unknown_stack_stays_unknown_to_callers_who_may_not_list() -> None:
    def refuses(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
        may_not = str(environ["PATH_INFO"]).endswith("/stacks")
        start_response("403 Forbidden" if may_not else "404 Not Found", [("Content-Type", "application/json")])
        return [json.dumps({"error": {"message": "forbidden" if may_not else "no such stack"}}).encode()]

    for ask in (Client.find, Client.show):
        with pytest.raises(RefusedRequest, match="no such stack") as refused:
            ask(Client(WSGITransport(refuses), "/v1/p"), "wbe")
        assert refused.value.status == 404
