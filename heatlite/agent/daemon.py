"""Agent process: its folder, its threads, its shutdown."""

import contextlib
import fcntl
import os
import secrets
import signal
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from heatlite import __version__
from heatlite.agent.actions import Actions
from heatlite.agent.kinds import kinds
from heatlite.agent.log import log
from heatlite.agent.reporter import Reporter
from heatlite.agent.runner import Runner
from heatlite.agent.server import Api, Server
from heatlite.agent.settings import AgentSettings, BadSettings, check

_SECRET, _ADDRESS, _LOCK, _DATABASE, _WORK = "secret", "address", "lock", "agent.sqlite", "work"


@dataclass(frozen=True, slots=True)
class Door:
    """Local URL and secret of the running agent."""

    url: str
    secret: str


def door(folder: Path) -> Door:
    """Return the access to the agent of a folder.

    Raises BadSettings if no agent runs there or it is another user's.
    """
    try:
        return Door((folder / _ADDRESS).read_text().strip(), (folder / _SECRET).read_text().strip())
    except FileNotFoundError:
        raise BadSettings(f"folder: no agent runs in {folder}; start it, or name its folder with --folder") from None
    except OSError as error:
        raise BadSettings(f"folder: {folder}: {error.strerror}; run this as the user of the agent") from None


def run(settings: AgentSettings) -> bool:
    """Run the agent until SIGTERM or SIGINT.

    Commands outlive the agent; its next start continues their actions. Returns False if a fault has ended the agent.
    Raises BadSettings if the settings, the folder, the certificates or the address cannot be used.
    """
    check(settings)
    known = kinds(settings)
    folder = _folder(settings.folder)
    lock = _locked(folder)
    secret = _secret(folder)
    try:
        actions = Actions(folder / _DATABASE)
        instance, _ = actions.identity()
    except sqlite3.Error as error:
        raise BadSettings(f"folder: {folder / _DATABASE}: {error}. Move it away for an empty queue.") from None

    def changed() -> None:
        runner.wake()
        reporter.change()

    api = Api(__version__, actions, known, changed)
    try:
        servers = [Server(settings.host, settings.port, secret, api, settings.tls)]
        if settings.tls is not None:
            # For the operator on this machine, who has no client certificate.
            servers.append(Server("127.0.0.1", 0, secret, api, None))
    except OSError as error:
        raise BadSettings(f"listen, tls: {settings.host}:{settings.port}: {error}") from None
    runner = Runner(actions, known, folder / _WORK, lambda: reporter.change())  # the reporter is created below
    reporter = Reporter(settings, settings.url or servers[0].url, secret, instance, __version__, list(known))
    _write(folder / _ADDRESS, servers[-1].url)

    ended = threading.Event()
    asked: list[int] = []

    def end(number: int, _: object) -> None:
        asked.append(number)
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    work = _thread(runner.run, ended)
    for server in servers:
        _thread(server.serve_forever, ended)
    _thread(reporter.run, ended)
    log("started", agent=__version__, instance=instance, url=settings.url or servers[0].url, pid=os.getpid())
    ended.wait()
    reporter.stop()
    runner.stop()
    for server in servers:
        server.shutdown()
        server.server_close()
    work.join(timeout=5)
    log("stopped")
    os.close(lock)
    return bool(asked)


def _thread(target: Callable[[], None], ended: threading.Event) -> threading.Thread:
    """Start a thread that ends the whole agent when it returns or fails."""

    def body() -> None:
        try:
            target()
        finally:
            ended.set()

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread


def _folder(folder: Path) -> Path:
    folder = folder.absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _own(folder)
        folder.chmod(0o700)
    except OSError as error:
        raise BadSettings(f"folder: {folder}: {error.strerror}") from None
    return folder


def _own(path: Path) -> None:
    """Reject a folder or file that another user owns or may write.

    Its secret may be known to that user. Raises BadSettings, and OSError if the path is missing.
    """
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise BadSettings(f"folder: {path} belongs to another user (id {found.st_uid}): remove it, or choose another")
    if found.st_mode & 0o022:
        raise BadSettings(f"folder: other users may write {path}: remove it, or choose another; or chmod go-w {path}")


def _locked(folder: Path) -> int:
    """Lock the folder. The lock lasts while the returned file descriptor is open."""
    try:
        lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BadSettings(f"folder: an agent runs in {folder} already") from None
    except OSError as error:
        raise BadSettings(f"folder: {folder}: {error.strerror}") from None
    return lock


def _secret(folder: Path) -> str:
    """Return the secret of the folder. Draw a new one if it is missing.

    A lost database needs a new secret, too: an agent with an empty queue would otherwise accept old signed requests
    again.
    """
    file, database = folder / _SECRET, folder / _DATABASE
    try:
        _own(database)
        is_lost = not database.stat().st_size
    except FileNotFoundError:
        is_lost = True
    with contextlib.suppress(FileNotFoundError):
        _own(file)
        if is_lost:
            file.unlink()
        secret = file.read_text().strip()
        if len(secret) < 32:
            raise BadSettings(f"folder: {file} holds no secret; remove it, and the agent draws another")
        file.chmod(0o600)
        return secret
    secret = secrets.token_hex(32)
    _write(file, secret)
    return secret


def _write(file: Path, text: str) -> None:
    """Replace a file atomically, accessible for its owner only."""
    new = file.with_name(f"{file.name}.new")
    try:
        with open(new, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(file)
    except OSError as error:
        raise BadSettings(f"folder: {file}: {error.strerror}") from None
