"""The command line over TLS with an authority of one's own, and through a proxy."""

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks.ports import free_port
from tests.acceptance.processes import TEMPLATES, CommandLine, Server
from tests.agent.certificates import HOST, Authority
from tests.waiting import eventually

NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(NGINX is None, reason="nginx is not installed")]
HELLO = str(TEMPLATES / "hello.yaml")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "ours")


@pytest.fixture(scope="module")
def port(server: Server, authority: Authority) -> Iterator[int]:
    """The port of an nginx that speaks TLS for the server."""
    folder, port = authority.folder, free_port()
    certificate, key = authority.certificate("machine")
    http = f"""
        access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
        fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
        server {{
            listen 127.0.0.1:{port} ssl; ssl_certificate {certificate}; ssl_certificate_key {key};
            location / {{ proxy_pass {server.url}; proxy_set_header Host 127.0.0.1:{server.port}; }}
        }}"""
    user = "user root;" if os.geteuid() == 0 else ""
    config = folder / "nginx.conf"
    config.write_text(f"{user} daemon off; pid {folder}/nginx.pid; events {{}} http {{ {http} }}")
    assert NGINX is not None
    with subprocess.Popen([NGINX, "-p", str(folder), "-c", str(config), "-e", str(folder / "nginx.log")]) as process:
        try:
            eventually(lambda: _listens(port), "nginx listens")
            yield port
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Proxy(ThreadingHTTPServer):
    """A proxy that knows `HOST`, and keeps the requests to it."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Tunnel)


class _Tunnel(BaseHTTPRequestHandler):
    server: Proxy

    def do_CONNECT(self) -> None:
        """Relay both directions until both have ended."""
        self.server.asked.append(self.path)
        host, _, port = self.path.partition(":")
        if host != HOST:
            self.send_error(403)
            return
        with socket.create_connection(("127.0.0.1", int(port))) as target:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=_relay, args=(target, self.connection))
            back.start()
            _relay(self.connection, target)
            back.join()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def _relay(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(65536):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        yield proxy
        proxy.shutdown()
        thread.join()


def test_an_authority_of_ones_own(heatlite: CommandLine, authority: Authority, port: int) -> None:
    heatlite.variables["HEATLITE_ENDPOINT"] = f"https://127.0.0.1:{port}/v1/demo"
    refused = heatlite("ls")
    assert refused.code == 1
    message = " ".join(refused.err.split())
    assert f"https://127.0.0.1:{port}: the certificate is rejected: " in message
    assert message.endswith("Name the file of its authority with --cacert FILE or HEATLITE_CACERT.")
    made = heatlite("up", "--yes", HELLO, "-n", "tls", "--cacert", str(authority.file))
    assert (made.code, made.err) == (0, "")
    assert "[tls]: CREATE_COMPLETE" in made.out
    assert "tls" in heatlite("ls", HEATLITE_CACERT=str(authority.file)).out
    assert heatlite("down", "--yes", "tls", "--cacert", str(authority.file)).code == 0


def test_a_certificate_of_another_machine(heatlite: CommandLine, authority: Authority, port: int) -> None:
    words = ("ls", "--endpoint", f"https://localhost:{port}/v1/demo", "--cacert", str(authority.file))
    refused = heatlite(*words)
    assert (refused.code, "--cacert" in refused.err) == (1, False)
    assert "the certificate is rejected: Hostname mismatch" in " ".join(refused.err.split())


def test_a_proxy(heatlite: CommandLine, authority: Authority, port: int, proxy: Proxy) -> None:
    heatlite.variables |= {
        "HEATLITE_ENDPOINT": f"https://{HOST}:{port}/v1/demo",
        "HEATLITE_CACERT": str(authority.file),
        "HTTPS_PROXY": f"http://127.0.0.1:{proxy.server_port}",
    }
    made = heatlite("up", "--yes", HELLO, "-n", "tunnelled")
    assert (made.code, made.err) == (0, "")
    assert set(proxy.asked) == {f"{HOST}:{port}"}
    assert heatlite("down", "--yes", "tunnelled").code == 0

    proxy.asked.clear()
    past = heatlite("ls", NO_PROXY=HOST)  # which has no address
    assert (past.code, proxy.asked) == (1, [])
    refused = heatlite("ls", "--endpoint", f"https://other.test:{port}/v1/demo")
    assert "403" in refused.err
    assert proxy.asked == [f"other.test:{port}"]


def test_a_proxy_that_is_not_there(heatlite: CommandLine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: refuses
        port = taken.getsockname()[1]
        proxy = f"http://127.0.0.1:{port}"
        refused = heatlite("ls", "--endpoint", f"https://{HOST}/v1/demo", HTTPS_PROXY=proxy)
    assert refused.code == 1
    assert refused.err == f"heatlite: The proxy of https_proxy refuses connections: 127.0.0.1, port {port}.\n"
