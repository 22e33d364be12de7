"""The agent's settings: a TOML file, and a few flags for a laptop."""

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
"""Where the settings are, if it is there and no other is named."""
FOLDER = Path("/var/lib/heatlite-agent")


class BadSettings(Exception):
    """A setting is wrong: which, why, what to do."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a command may use."""

    seconds: float = 3600.0
    memory_mib: int = 4096
    """Address space of each of its processes."""
    file_mib: int = 1024
    """Size of each file that it writes."""
    output_kib: int = 64
    """What is kept of each of its outputs."""
    grace_seconds: float = 10.0
    """From TERM to KILL."""


@dataclass(frozen=True, slots=True)
class Tls:
    """What the agent proves itself with, and who signs the certificates of those that may connect."""

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True, slots=True)
class Services:
    """How services are started and stopped, and which may be."""

    command: Sequence[str]
    """{verb} is start, stop or restart, {service} the service's name."""
    allowed: Sequence[str]


@dataclass(frozen=True, slots=True)
class External:
    """A kind of action that others have made: two commands that get the record as JSON on stdin."""

    kind: str
    description: str
    start: Sequence[str]
    """Returns at once, with status 0."""
    check: Sequence[str]
    """Prints {"status": "running" | "finished" | "failed", "error"?, "outputs"?}."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All of them."""

    folder: Path = FOLDER
    host: str = "127.0.0.1"
    port: int = 8780
    url: str | None = None
    """Where the server reaches the agent, if it is not the address it listens on."""
    register: str | None = None
    """The URL to register at."""
    metadata: Path | None = None
    """A JSON file that somebody writes by and by, with the URL at heatlite_agent.register."""
    server_authority: Path | None = None
    """Who signs the certificate of the server, if it is not one of the machine's own authorities."""
    deployments: bool = False
    """Whether the agent carries out software deployments."""
    script: bool = True
    """Whether the agent runs scripts."""
    tls: Tls | None = None
    limits: Limits = field(default_factory=Limits)
    services: Services | None = None
    external: Sequence[External] = ()


def load(file: Path | None) -> Settings:
    """The settings of a file; without one those of FILE if it is there. Raises BadSettings."""
    if file is None:
        if not FILE.exists():
            return Settings()
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


def check(settings: Settings) -> Settings:
    """The same settings, if they go together. Raises BadSettings."""
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
    """Host and port of "127.0.0.1:8780" or "[::1]:8780". Raises BadSettings."""
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
    """The same, if it is an HTTP URL. Raises BadSettings."""
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
    """The same, if it is a URL to which the secret may go. Raises BadSettings."""
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
    """Whether only this machine reaches that address."""
    return ipaddress.ip_address(host).is_loopback


class _Table:
    """A table of the file. Each method takes one setting out of it; done() objects to what is left."""

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
        return BadSettings(f"{self._path}{name} has to be {right}")


def _settings(table: _Table) -> Settings:
    defaults = Settings()
    listen, url, register = table.text("listen"), table.text("url"), table.text("register")
    host, port = (defaults.host, defaults.port) if listen is None else listening(listen)
    settings = Settings(
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
        output_kib=table.whole("output_kib", defaults.output_kib, form.MOST_OUTPUT // 1024),
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
        raise BadSettings("services.command has to have {service} in it, and most often {verb}")
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
