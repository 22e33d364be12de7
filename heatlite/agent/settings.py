"""Settings of the agent: a TOML file, and a few flags of the command line."""

import ipaddress
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from heatlite.agent import form
from heatlite.agent.log import log

FILE = Path("/etc/heatlite-agent.toml")
"""Default settings file, used if it exists and no other is named."""
FOLDER = Path("/var/lib/heatlite-agent")


class BadSettings(Exception):
    """A setting is wrong. The message names the setting, the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a command."""

    seconds: float = 3600.0
    memory_mib: int = 4096
    """Address space of each process of the command."""
    file_mib: int = 1024
    """Size of each file that the command writes."""
    output_kib: int = 64
    """KiB kept of each output."""
    grace_seconds: float = 10.0
    """Seconds from TERM to KILL."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificate and key of the agent, and the authority of client certificates."""

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True, slots=True)
class Services:
    """Command that starts and stops services, and the allowed services."""

    command: Sequence[str]
    """Placeholders: {verb} is start, stop or restart; {service} is the service's name."""
    allowed: Sequence[str]


@dataclass(frozen=True, slots=True)
class External:
    """Operator-defined kind of action: two commands.

    They get the action's record as JSON on stdin.
    """

    kind: str
    description: str
    start: Sequence[str]
    """Command that starts the work. It must exit with status 0 without waiting for the work."""
    check: Sequence[str]
    """Command that prints {"status": "running" | "finished" | "failed", "error"?, "outputs"?}."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """All settings of the agent."""

    folder: Path = FOLDER
    host: str = "127.0.0.1"
    port: int = 8780
    url: str | None = None
    """URL at which the server reaches the agent, if it is not the listening address."""
    register: str | None = None
    """URL to register at; it is a secret."""
    metadata: Path | None = None
    """JSON file with the URL at heatlite_agent.register. The file may appear later."""
    server_authority: Path | None = None
    """Authority of the server's certificate, if it is none of the machine's own."""
    deployments: bool = False
    """True if the agent executes software deployments."""
    script: bool = True
    """True if the agent runs scripts."""
    tls: Tls | None = None
    limits: Limits = field(default_factory=Limits)
    services: Services | None = None
    external: Sequence[External] = ()


def load(file: Path | None) -> AgentSettings:
    """Load the settings of a file, by default FILE if it exists. Raises BadSettings."""
    if file is None:
        if not FILE.exists():
            return AgentSettings()
        file = FILE
    try:
        with file.open("rb") as stream:
            given = tomllib.load(stream)
            mode = os.fstat(stream.fileno()).st_mode
    except OSError as error:
        raise BadSettings(f"{file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"{file} is no TOML: {error}") from None
    if "register" in given and mode & 0o044:
        log("settings-readable", file=str(file), warning="other users may read register, which is a secret: chmod 600")
    try:
        return _settings(_Table(given, ""))
    except BadSettings as error:
        raise BadSettings(f"{file}: {error}") from None


def check(settings: AgentSettings) -> AgentSettings:
    """Return the settings if they are consistent. Raises BadSettings."""
    if settings.tls is None and not is_loopback(settings.host):
        raise BadSettings(
            f"listen: {settings.host} is not loopback. Beyond it the agent listens with TLS only, to those that have a"
            " certificate: set certificate, key and authority under [tls], or listen on 127.0.0.1."
        )
    if settings.deployments and not settings.script:
        raise BadSettings("deployments: software deployments are scripts, and script is false. Set one of them.")
    if settings.url is None and settings.host in ("0.0.0.0", "::"):
        raise BadSettings(f"url: the server cannot connect to {settings.host}. Set url to an address of this machine.")
    return settings


def listening(text: str) -> tuple[str, int]:
    """Parse an address: "127.0.0.1:8780" or "[::1]:8780".

    Returns host and port; raises BadSettings.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        if host != "localhost":
            ipaddress.ip_address(host)
    except ValueError:
        raise BadSettings(f"listen: {text!r} is no address and port, such as 127.0.0.1:8780") from None
    if not port.isdecimal() or int(port) > 65535:
        raise BadSettings(f"listen: {port!r} is no port: 0 (any) to 65535")
    return "127.0.0.1" if host == "localhost" else host, int(port)


def web_address(name: str, text: str) -> str:
    """Return the text if it is an HTTP URL without credentials. Raises BadSettings."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good or not text.isascii() or any(character.isspace() for character in text):
        raise BadSettings(f"{name} is no http or https URL")
    if "@" in parts.netloc:
        raise BadSettings(f"{name}: no user and password belong into the URL")
    return text


def register_address(name: str, text: str) -> str:
    """Return the URL if the agent's secret may be sent there.

    It must be https or loopback. Raises BadSettings.
    """
    parts = urlsplit(web_address(name, text))
    host = parts.hostname or ""
    if parts.scheme == "http" and host != "localhost" and not (_is_address(host) and is_loopback(host)):
        raise BadSettings(f"{name} is plain http to {host}: the agent's secret goes there, so let it be https")
    return text


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """True if the address is loopback."""
    return ipaddress.ip_address(host).is_loopback


class _Table:
    """Table of the TOML file.

    Each method removes one setting; done() rejects the rest.
    """

    def __init__(self, given: Mapping[str, object], path: str) -> None:
        self._left = dict(given)
        self._path = path

    def text(self, name: str) -> str | None:
        value = self._left.pop(name, None)
        if value is not None and (not isinstance(value, str) or not value):
            raise self._wrong(name, "a text")
        return value

    def needed(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise BadSettings(f"{self._path}{name} is missing")
        return value

    def file(self, name: str) -> Path | None:
        value = self.text(name)
        return None if value is None else Path(value)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._left.pop(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def number(self, name: str, default: float, most: float) -> float:
        value = self._left.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise self._wrong(name, f"a number above 0, at most {most:g}")
        return value

    def whole(self, name: str, default: int, most: int) -> int:
        value = self._left.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
            raise self._wrong(name, f"a whole number from 1 to {most}")
        return value

    def texts(self, name: str) -> list[str]:
        value = self._left.pop(name, None)
        if not isinstance(value, list) or not value or not all(isinstance(one, str) and one for one in value):
            raise self._wrong(name, "a list of texts, with at least one")
        return value

    def table(self, name: str) -> "_Table | None":
        value = self._left.pop(name, None)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(name, "a table")
        return _Table(value, f"{self._path}{name}.")

    def names(self) -> list[str]:
        return sorted(self._left)

    def done(self) -> None:
        for name in self.names():
            raise BadSettings(f"there is no setting {self._path}{name}")

    def _wrong(self, name: str, right: str) -> BadSettings:
        return BadSettings(f"{self._path}{name} must be {right}")


def _settings(table: _Table) -> AgentSettings:
    defaults = AgentSettings()
    listen, url, register = table.text("listen"), table.text("url"), table.text("register")
    host, port = (defaults.host, defaults.port) if listen is None else listening(listen)
    settings = AgentSettings(
        folder=table.file("folder") or defaults.folder,
        host=host,
        port=port,
        url=None if url is None else web_address("url", url).rstrip("/"),
        register=None if register is None else register_address("register", register),
        metadata=table.file("metadata"),
        server_authority=table.file("server_authority"),
        deployments=table.flag("deployments"),
        script=table.flag("script", default=True),
        tls=_tls(table.table("tls")),
        limits=_limits(table.table("limits")),
        services=_services(table.table("services")),
        external=_external(table.table("kinds")),
    )
    table.done()
    return settings


def _tls(table: _Table | None) -> Tls | None:
    if table is None:
        return None
    tls = Tls(Path(table.needed("certificate")), Path(table.needed("key")), Path(table.needed("authority")))
    table.done()
    return tls


def _limits(table: _Table | None) -> Limits:
    defaults = Limits()
    if table is None:
        return defaults
    limits = Limits(
        seconds=table.number("seconds", defaults.seconds, 30 * 86400),
        memory_mib=table.whole("memory_mib", defaults.memory_mib, 2**30),
        file_mib=table.whole("file_mib", defaults.file_mib, 2**30),
        output_kib=table.whole("output_kib", defaults.output_kib, form.MAX_OUTPUT // 1024),
        grace_seconds=table.number("grace_seconds", defaults.grace_seconds, 3600),
    )
    table.done()
    return limits


def _services(table: _Table | None) -> Services | None:
    if table is None:
        return None
    services = Services(table.texts("command"), table.texts("allowed"))
    table.done()
    if not any("{service}" in word for word in services.command):
        raise BadSettings("services.command must have {service} in it, and most often {verb}")
    return services


def _external(table: _Table | None) -> list[External]:
    if table is None:
        return []
    kinds = []
    for name in table.names():
        one = table.table(name)
        assert one is not None
        if not form.KIND.fullmatch(name):
            raise BadSettings(f"kinds: {name!r} is no name of a kind: at most 100 letters, digits, and . _ - : /")
        kinds.append(External(name, one.text("description") or "", one.texts("start"), one.texts("check")))
        one.done()
    return kinds
