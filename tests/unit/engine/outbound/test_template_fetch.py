"""Template downloads: only from listed hosts, within limits."""

import http.server
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from heatlite.core.errors import HTTPBadRequest, RequestLimitExceeded, Unavailable
from heatlite.core.runtime.bulkhead import Bulkhead
from heatlite.engine.outbound.template_fetch import Fetcher
from tests.tables import table


class Answers(http.server.BaseHTTPRequestHandler):
    """One behaviour for each path."""

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/good":
                self._send(200, f"path: {self.path}\nhost: {self.headers['Host']}\n".encode())
            case "/big":
                self._send(200, b"x" * 1001)
            case "/chunks":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for _ in range(11):
                    self.wfile.write(b"64\r\n" + b"x" * 100 + b"\r\n")
                self.wfile.write(b"0\r\n\r\n")
            case "/short":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx: 1")
            case "/binary":
                self._send(200, b"\xff\xfe")
            case "/garbage":
                self.wfile.write(b"hello\r\n\r\n")
            case "/slow-body":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                self._drip()
            case "/slow-head":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                self._drip()
            case "/relative":
                self._redirect("good?from=relative")
            case "/round":
                self._redirect("/round")
            case "/to":
                self._redirect(self.path.partition("?")[2])
            case _:
                self._send(404, b"")

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _drip(self) -> None:
        """A byte now and then: never silent for long, never done."""
        try:
            while True:
                self.wfile.write(b"x")
                time.sleep(0.02)
        except OSError:
            pass

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The host and the port of a server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as host:
        yield f"http://{host}"


LISTED = Fetcher(("127.0.0.1",), 1000, 240.0)
ENDLESS = 1 << 30
"""Bytes of a body that never comes to its end."""


def refused(fetcher: Fetcher, url: str) -> str:
    with pytest.raises(HTTPBadRequest) as error:
        fetcher.text(url)
    assert error.value.message.startswith("Could not retrieve template ")
    return error.value.message


def test_a_listed_host_is_asked(url: str) -> None:
    port = url.rpartition(":")[2]
    assert LISTED.text(f"{url}/good?a=b") == f"path: /good?a=b\nhost: 127.0.0.1:{port}\n"
    assert replace(LISTED, hosts=("other", f"127.0.0.1:{port}")).text(f"{url}/good").startswith("path: /good\n")
    assert LISTED.text(f"{url}/relative").startswith("path: /good?from=relative\n")
    assert LISTED.text(f"{url}/to?{url}/good").startswith("path: /good\n")


@pytest.mark.parametrize("hosts", [(), ("example.org",), ("127.0.0.1:1",), ("27.0.0.1",), ("127.0.0.1.example.org",)])
def test_nobody_else_is(url: str, hosts: tuple[str, ...]) -> None:
    message = refused(replace(LISTED, hosts=hosts), f"{url}/good")
    assert 'the setting template_hosts does not list "127.0.0.1"' in message


@table(
    ("address", "reason"),
    [
        ("file:///etc/passwd", "only http and https"),
        ("ftp://127.0.0.1/x", "only http and https"),
        ("127.0.0.1/x", "only http and https"),
        ("", "only http and https"),
        ("http:///x", "no address of a host"),
        ("http://user:word@127.0.0.1/x", "no address of a host"),
        ("http://127.0.0.1/a b", "no address of a host"),
        ("http://127.0.0.1/a\r\nX: y", "Could not retrieve"),
        ("http://127.0.0.1:port/", "Port"),
        ("http://127.0.0.1:99999/", "Port"),
        ("http://[::1/", "Invalid IPv6 URL"),
        ("http://0x7f000001/", "does not list"),
        ("http://2130706433/", "does not list"),
    ],
)
def test_odd_addresses(address: str, reason: str) -> None:
    assert reason in refused(LISTED, address)


def test_no_secret_of_an_address_is_shown(url: str) -> None:
    shown = refused(LISTED, f"{url.replace('//', '//mia:sesame@')}/there?key=s3cret")
    assert "sesame" not in shown
    assert "s3cret" not in shown
    assert f"{url}/there" in shown


def test_a_redirect_leads_nowhere_else(url: str) -> None:
    assert 'does not list "localhost"' in refused(LISTED, f"{url}/to?{url.replace('127.0.0.1', 'localhost')}/good")
    assert "only http and https" in refused(LISTED, f"{url}/to?file:///etc/passwd")
    assert "does not list" in refused(LISTED, f"{url}/to?//example.org/x")
    assert "Invalid IPv6 URL" in refused(LISTED, f"{url}/to?http://[::1")
    assert "more than 5 redirects" in refused(LISTED, f"{url}/round")


def test_a_name_does_not_lead_to_an_inner_address(url: str) -> None:
    """This machine's name stands for one with foreign DNS records."""
    name = socket.gethostname().lower()
    try:
        inner = socket.gethostbyname(name)
    except OSError:
        pytest.skip("this machine's name leads to no address")
    there = url.replace("127.0.0.1", name)
    by_name = replace(LISTED, hosts=(name,))
    assert f'"{name}" leads to {inner}, which is not public' in refused(by_name, f"{there}/good")
    if inner == "127.0.0.1":
        both = replace(LISTED, hosts=(name, inner))
        assert f"host: {name}:" in both.text(f"{there}/good")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/absent", "the answer is 404"),
        ("/binary", "no UTF-8 text (byte 0)"),
        ("/short", "IncompleteRead"),
        ("/garbage", "hello"),
    ],
)
def test_answers_that_are_none(url: str, path: str, reason: str) -> None:
    assert reason in refused(LISTED, url + path)


@pytest.mark.parametrize("path", ["/big", "/chunks"])
def test_the_size_is_limited(url: str, path: str) -> None:
    with pytest.raises(RequestLimitExceeded, match=r"exceeds maximum allowed size \(1000 bytes\)"):
        LISTED.text(url + path)
    assert len(replace(LISTED, most_bytes=1100).text(url + path)) in (1001, 1100)


@pytest.mark.parametrize("path", ["/slow-body", "/slow-head"])
def test_the_time_is_limited_as_a_whole(url: str, path: str) -> None:
    fetcher = replace(LISTED, timeout=0.2, most_bytes=ENDLESS)
    assert "it took longer than 0.2 seconds" in refused(fetcher, url + path)


def test_nobody_listens() -> None:
    assert "refused" in refused(LISTED, "http://127.0.0.1:1/x")


def test_a_slow_resolver_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def slow(*args: object, **more: object) -> list[object]:
        over.wait()
        raise socket.gaierror("too late")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    try:
        message = refused(replace(LISTED, hosts=("example.org",), timeout=0.05), "http://example.org/x")
    finally:
        over.set()
    assert message.endswith("it took longer than 0.05 seconds.")


def test_a_host_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: object, **more: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    message = refused(replace(LISTED, hosts=("example.org",)), "http://example.org/x")
    assert 'the host "example.org" cannot be found: ' in message
    assert "Name or service not known" in message


# -- https -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes certificates: of a CA that is its own, or one for a name, signed by a CA."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make certificates with")
    folder = tmp_path_factory.mktemp("certificates")

    def make(file: str, extension: str, *words: str | Path) -> Path:
        path = folder / file
        command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        names = ["-subj", f"/CN={file}", "-addext", extension]
        subprocess.run([*command, "-keyout", path, "-out", path, *names, *words], check=True, capture_output=True)
        return path

    return make


@pytest.fixture(scope="module")
def authority(certificate: Callable[..., Path]) -> Path:
    return certificate("authority", "keyUsage=critical,keyCertSign")


@pytest.fixture(scope="module")
def secure(certificate: Callable[..., Path], authority: Path) -> Iterator[str]:
    """The address of a server whose certificate the authority has signed."""
    with serving(_tls(certificate, authority, "IP:127.0.0.1")) as host:
        yield f"https://{host}"


def _tls(certificate: Callable[..., Path], authority: Path, name: str) -> ssl.SSLContext:
    words = "-CA", authority, "-CAkey", authority, "-addext", "basicConstraints=CA:FALSE"
    file = certificate(name, f"subjectAltName={name}", *words)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch, authority: Path) -> None:
    """An operator adds an authority with the variable that OpenSSL reads by itself."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))


@pytest.mark.usefixtures("trusting")
def test_a_good_certificate(secure: str, url: str) -> None:
    assert LISTED.text(f"{secure}/good").startswith("path: /good\nhost: 127.0.0.1:")
    assert LISTED.text(f"{secure}/relative").startswith("path: /good?from=relative\n")
    assert LISTED.text(f"{url}/to?{secure}/good").startswith("path: /good\n")


def test_a_certificate_of_an_authority_that_nobody_trusts(secure: str) -> None:
    assert "CERTIFICATE_VERIFY_FAILED" in refused(LISTED, f"{secure}/good")


@pytest.mark.usefixtures("trusting")
def test_a_certificate_of_another_host(certificate: Callable[..., Path], authority: Path) -> None:
    with serving(_tls(certificate, authority, "DNS:example.org")) as host:
        message = refused(LISTED, f"https://{host}/good")
    assert "CERTIFICATE_VERIFY_FAILED" in message
    assert "not valid for '127.0.0.1'" in message


@pytest.mark.usefixtures("trusting")
def test_no_redirect_leads_out_of_https(secure: str, url: str) -> None:
    assert f"it redirects from https to {url}/good" in refused(LISTED, f"{secure}/to?{url}/good")


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize("path", ["/slow-body", "/slow-head"])
def test_the_time_is_limited_over_https_too(secure: str, path: str) -> None:
    fetcher = replace(LISTED, timeout=0.2, most_bytes=ENDLESS)
    assert "it took longer than 0.2 seconds" in refused(fetcher, secure + path)


def test_a_host_that_never_greets() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"https://127.0.0.1:{silent.getsockname()[1]}/x"
        assert "it took longer than 0.05 seconds" in refused(replace(LISTED, timeout=0.05), address)


def test_a_host_that_speaks_no_tls(url: str) -> None:
    assert "SSL" in refused(LISTED, url.replace("http:", "https:") + "/good")


def test_hosts_that_hang_leave_threads_to_others() -> None:
    """A request beyond the waiting line is refused with a later retry."""
    fetcher = Fetcher(("127.0.0.1",), 1000, 240.0, Bulkhead(1, 0, 0.0, lambda: Unavailable(service="s", reason="r")))
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/t.yaml"
        first = pool.submit(fetcher.text, url)
        with silent.accept()[0], pytest.raises(Unavailable):
            fetcher.text(url)
        assert isinstance(first.exception(), HTTPBadRequest)
