"""Services, custom kinds, and TLS: one agent configured by a file."""

import http.client
import json
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL

import pytest

from heatlite.agent import signature
from heatlite.agent.kinds import kinds
from heatlite.agent.settings import BadSettings, Limits, check, load
from tests.agent.agents import ROOT, Agent, Registry, lives
from tests.tables import table
from tests.waiting import PATIENCE, eventually

pytest.importorskip("cryptography", reason="certificates are made with cryptography")
certificates = pytest.importorskip("tests.agent.certificates")

SETTINGS = """
listen = "127.0.0.1:0"
register = "{register}"
server_authority = "{folder}/authority.pem"

[tls]
certificate = "{folder}/agent.pem"
key = "{folder}/agent.key"
authority = "{folder}/authority.pem"

[limits]
grace_seconds = 0.3

[services]
command = ["{folder}/service", "{{verb}}", "{{service}}"]
allowed = ["web", "database"]

[kinds."site/drain"]
description = "Moves what runs here elsewhere."
start = ["{folder}/drain", "start"]
check = ["{folder}/drain", "check"]
"""

SERVICE = """#!/bin/sh
echo "$1 $2" >> {folder}/services
[ "$1" = stop ] && exit 5
(setsid sleep 300 >/dev/null 2>&1 & echo $! >> {folder}/left)
"""

DRAIN = """#!/bin/sh
cat > {folder}/record.$1
case $1 in
start) [ -e {folder}/refuse ] && exit 9
       (echo begun >> {folder}/begun; exec sleep 300) & echo $! >> {folder}/left ;;
check) cat {folder}/says 2>/dev/null || echo '{{"status": "running"}}' ;;
esac
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    authority = certificates.Authority(folder, "authority")
    for name in ("agent", "server"):
        authority.certificate(name)
    certificates.Authority(folder, "stranger").certificate("strange")
    for name, text in (("service", SERVICE), ("drain", DRAIN)):
        (folder / name).write_text(text.format(folder=folder))
        (folder / name).chmod(0o755)
    (folder / "left").touch()
    return folder


@pytest.fixture(scope="module")
def registry(folder: Path) -> Iterator[Registry]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    with Registry(tls=context) as registry:
        yield registry


@pytest.fixture(scope="module")
def agent(folder: Path, registry: Registry) -> Iterator[Agent]:
    settings = SETTINGS.format(folder=folder, register=registry.url("/nodes/3"))
    agent = Agent(folder / "queue", settings=settings).start()
    yield agent
    agent.stop()
    for process in left(folder):
        if lives(process):
            os.kill(process, SIGKILL)


def left(folder: Path) -> list[int]:
    """Return the processes that commands have left running, oldest first."""
    return [int(line) for line in (folder / "left").read_text().split()]


@pytest.mark.slow
def test_beyond_this_machine_both_sides_need_a_certificate(agent: Agent, registry: Registry, folder: Path) -> None:
    eventually(lambda: registry.requests)
    url = registry.requests[0][2]["url"]
    assert url.startswith("https://127.0.0.1:")

    def ask(name: str | None) -> int:
        context = ssl.create_default_context(cafile=str(folder / "authority.pem"))
        if name is not None:
            context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        connection = http.client.HTTPSConnection(url.removeprefix("https://"), timeout=PATIENCE, context=context)
        nonce = signature.new_nonce()
        right = signature.of_request(agent.secret, "GET", "/v1/agent", nonce, b"")
        try:
            connection.request("GET", "/v1/agent", headers={signature.NONCE: nonce, signature.SIGNATURE: right})
            return connection.getresponse().status
        finally:
            connection.close()

    assert ask("server") == 200
    for name in (None, "strange"):
        with pytest.raises(OSError):
            ask(name)


@pytest.mark.slow
def test_services_are_started_and_stopped(agent: Agent, folder: Path) -> None:
    assert agent.ended(agent.schedule("service.restart", {"service": "web"}))["state"] == "DONE"
    record = agent.ended(agent.schedule("service.stop", {"service": "database"}))
    assert (record["state"], record["error"], record["outputs"]["deploy_status_code"]) == ("FAILED", "exit status 5", 5)
    assert (folder / "services").read_text() == "restart web\nstop database\n"
    assert lives(left(folder)[-1])
    answer = agent.ask("POST", "/v1/actions", {"kind": "service.start", "args": {"service": "ssh"}})
    assert (answer.status, answer.body["error"]) == (400, "InvalidRequest")
    assert "web, database" in answer.body["message"]


@pytest.mark.slow
def test_a_kind_of_the_operators_own(agent: Agent, folder: Path) -> None:
    def say(text: str) -> None:
        (folder / "new").write_text(text)
        (folder / "new").replace(folder / "says")

    assert {"kind": "site/drain", "description": "Moves what runs here elsewhere."} in agent.get("/v1/kinds")["kinds"]
    action = agent.schedule("site/drain", {"to": "elsewhere"})
    eventually(lambda: (folder / "record.check").exists() and agent.action(action)["progress"] == {"phase": "check"})
    assert json.loads((folder / "record.start").read_text())["args"] == {"to": "elsewhere"}
    # The machine goes down and comes back, as such an action may have it: the check says what has become of it.
    agent.stop(SIGKILL)
    for claim in agent.folder.glob("work/*/*/*/claim"):
        os.kill(int(claim.read_text()), SIGKILL)
    say('{"status": "finished", "outputs": {"moved": 3}}')
    agent.start()
    record = agent.ended(action)
    assert (record["state"], record["outputs"]) == ("DONE", {"moved": 3})
    assert (folder / "begun").read_text() == "begun\n"

    say('{"status": "failed", "error": "no room elsewhere"}')
    record = agent.ended(agent.schedule("site/drain"))
    assert (record["state"], record["error"]) == ("FAILED", "no room elsewhere")
    say("done!")
    record = agent.ended(agent.schedule("site/drain"))
    assert (record["state"], "check printed no JSON object" in record["error"]) == ("FAILED", True)
    say(f'{{"status": "finished", "outputs": {{"found": {"[" * 200}{"]" * 200}}}}}')
    record = agent.ended(agent.schedule("site/drain"))
    assert (record["state"], "deeper than 100 levels" in record["error"]) == ("FAILED", True)
    (folder / "refuse").touch()
    record = agent.ended(agent.schedule("site/drain"))
    assert (record["state"], record["error"]) == ("FAILED", "exit status 9")
    (folder / "refuse").unlink()

    # Cancelled: what `start` has left running is ended.
    say('{"status": "running"}')
    (folder / "record.check").unlink()
    action = agent.schedule("site/drain")
    eventually((folder / "record.check").exists)
    job = left(folder)[-1]
    assert lives(job)
    agent.cancel(action)
    assert agent.ended(action)["state"] == "CANCELLED"
    assert not lives(job)


@pytest.mark.slow
def test_the_settings_in_the_docs_are_settings(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "agent.md").read_text().split("```toml\n")[1].split("```")[0]
    file = tmp_path / "agent.toml"
    file.write_text(text.replace("\n# ", "\n"))
    settings = check(load(file))
    assert (settings.host, settings.port, settings.limits) == ("192.0.2.17", 8780, Limits())
    assert {"service.restart", "site/drain"} <= kinds(settings).keys()


@pytest.mark.slow
@table(
    ("text", "message"),
    [
        ("listen =", "is no TOML"),
        ('lisen = "127.0.0.1:1"', "there is no setting lisen"),
        ('listen = "somewhere"', "listen: 'somewhere' is no address and port"),
        ('listen = "127.0.0.1:70000"', "listen: '70000' is no port"),
        ('listen = "192.0.2.1:80"', "listen: 192.0.2.1 is not loopback"),
        ('listen = "0.0.0.0:80"\ntls = {certificate = "a", key = "b", authority = "c"}', "url: the server cannot"),
        ('tls = {certificate = "a"}', "tls.key is missing"),
        ('register = "ftp://example.org"', "register is no http or https URL"),
        ('register = "http://example.org/x"', "register is plain http to example.org: the agent's secret goes there"),
        ("limits = 3", "limits must be a table"),
        ("[limits]\nseconds = 0", "limits.seconds must be a number above 0"),
        ("[limits]\noutput_kib = 65", "limits.output_kib must be a whole number from 1 to 64"),
        ('[services]\ncommand = ["x"]\nallowed = ["web"]', "services.command must have {service} in it"),
        ('[services]\ncommand = "systemctl"', "services.command must be a list of texts"),
        ('[kinds."a b"]\nstart = ["a"]\ncheck = ["b"]', "kinds: 'a b' is no name of a kind"),
        ('[kinds."script"]\nstart = ["a"]\ncheck = ["b"]', "kinds: 'script' is a kind of the agent's own"),
        ('[kinds."mine"]\nstart = ["a"]', "kinds.mine.check must be a list of texts"),
    ],
)
def test_a_bad_setting_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(text)
    with pytest.raises(BadSettings) as caught:
        kinds(check(load(file)))
    assert message in str(caught.value)
