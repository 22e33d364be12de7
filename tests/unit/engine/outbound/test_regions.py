"""Requests to regions: settings, trust, and invalid answers."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from heatlite.core.config import BadSetting, Settings
from heatlite.core.errors import EntityNotFound
from heatlite.engine.outbound.regions import Endpoint, Regions, endpoints
from heatlite.plugin.ports import RegionUnavailable
from tests.tables import table
from tests.unit.engine.outbound.test_template_fetch import _tls, authority, certificate

__all__ = ["authority", "certificate"]


class Answers(BaseHTTPRequestHandler):
    """Tells what it was asked, or behaves as the path says."""

    def do_POST(self) -> None:
        kind = self.path.rpartition("/")[2]
        if kind == "silent":
            return
        if kind == "short":
            self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"a": 1}')
            return
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        told = {"path": self.path, "token": self.headers["X-Auth-Token"], "host": self.headers["Host"], "body": text}
        answer = b"no JSON" if kind == "text" else json.dumps(told).encode()
        self.send_response(int(kind) if kind.isdigit() else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as found:
        yield found


def there(url: str, token: str | None = None) -> Regions:
    return Regions({"far": Endpoint(f"{url}/base/v1/{{project}}", token)}, url)


def test_what_is_sent(url: str) -> None:
    status, body = there(url, "secret").ask("far", "a/b", "POST", "/stacks?name=x", {"k": "ü"})
    host = url.removeprefix("http://")
    sent = {"path": "/base/v1/a%2Fb/stacks?name=x", "token": "secret", "host": host, "body": '{"k":"ü"}'}
    assert (status, body) == (200, sent)


def test_without_a_region_it_is_this_server(url: str) -> None:
    _, body = Regions({}, url).ask(None, "demo", "POST", "/stacks")
    assert isinstance(body, dict)
    assert (body["path"], body["token"]) == ("/v1/demo/stacks", None)


def test_an_answer_that_is_no_json_has_no_body(url: str) -> None:
    assert there(url).ask("far", "demo", "POST", "/text") == (200, None)
    assert there(url).ask("far", "demo", "POST", "/404")[0] == 404


@pytest.mark.parametrize("path", ["/503", "/silent", "/short"])
def test_no_answer_after_which_something_may_have_come_of_it(url: str, path: str) -> None:
    with pytest.raises(RegionUnavailable, match=rf"^Region far \({url}\) is not available now: .") as caught:
        there(url).ask("far", "demo", "POST", path)
    assert caught.value.sent


def test_nobody_is_there() -> None:
    with pytest.raises(RegionUnavailable, match=r"^Region far \(http://127.0.0.1:1\) is not available") as caught:
        there("http://127.0.0.1:1").ask("far", "demo", "POST", "/stacks")
    assert not caught.value.sent


def test_a_region_that_is_not_listed_any_more(url: str) -> None:
    with pytest.raises(EntityNotFound, match="near"):
        there(url).ask("near", "demo", "POST", "/stacks")


def test_only_who_is_trusted_is_sent_anything(certificate: Callable[..., Path], authority: Path) -> None:
    with serving(_tls(certificate, authority, "IP:127.0.0.1")) as url:
        with pytest.raises(RegionUnavailable, match="certificate verify failed") as caught:
            there(url).ask("far", "demo", "POST", "/stacks")
        assert not caught.value.sent
        text = authority.read_text()
        pem = text[text.index("-----BEGIN CERTIFICATE") :]
        assert there(url).ask("far", "demo", "POST", "/stacks", ca_cert=pem)[0] == 200
        assert there(url).ask("far", "demo", "POST", "/stacks", insecure=True)[0] == 200


def test_the_settings() -> None:
    listed = ("one=https://a.example:8004/v1/{project}/", "two=http://b.example/v1/{project}?=")
    with pytest.raises(BadSetting, match=r"regions: the address of two \(http://b.example"):
        endpoints(Settings(database="", regions=listed))
    settings = Settings(database="", regions=listed[:1], region_tokens=("one=a=b",))
    assert endpoints(settings) == {"one": Endpoint("https://a.example:8004/v1/{project}", "a=b")}


@table("entry", ["", "one", "one=", "=http://a", "one=ftp://a.example", "one=http://u@h", "one=/x"])
def test_a_region_without_an_address(entry: str) -> None:
    with pytest.raises(BadSetting, match=r"^regions: "):
        endpoints(Settings(database="", regions=(entry,)))


def test_a_password_in_the_address_of_a_region_is_not_shown() -> None:
    with pytest.raises(BadSetting, match=r"^regions: .*region_tokens") as caught:
        endpoints(Settings(database="", regions=("one=https://mia:sesame@a.example/v1?key=s3cret",)))
    assert "sesame" not in caught.value.message
    assert "s3cret" not in caught.value.message


def test_a_token_for_nobody_is_refused_and_not_shown() -> None:
    with pytest.raises(BadSetting, match=r"^region_tokens: there is no region two") as caught:
        endpoints(Settings(database="", region_tokens=("two=s3cret",)))
    assert "s3cret" not in caught.value.message
    with pytest.raises(BadSetting, match=r"^region_tokens: ") as caught:
        endpoints(Settings(database="", region_tokens=("s3cret",)))
    assert "s3cret" not in caught.value.message
