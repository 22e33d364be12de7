"""What a command works with: where the server is, and what only the whole program can do."""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from heatlite.cli.client import Client, split_endpoint
from heatlite.cli.transport import HTTPTransport, Transport, WSGITransport, credentials
from heatlite.core import config
from heatlite.core.json import JsonMap
from heatlite.template.types import TypeCatalog

Projects = Mapping[str, frozenset[str]]
"""Project → roles in it."""


class Host(Protocol):
    """The program around the command line; it sees the server's rooms, which the command line does not."""

    def running_server(self, settings: config.Settings) -> str | None:
        """The address of the server that works on this database; None if there is none."""

    def connect(self, settings: config.Settings, reads_only: bool) -> Transport:
        """A way to the server that works on this database: one that runs, else one in this process.

        With `reads_only` the one in this process has no engine: it starts nothing, and it disturbs nobody's.
        """

    def serve(self, settings: config.Settings) -> None:
        """Be the server, until interrupted."""

    def serve_api(self, settings: config.Settings) -> None:
        """Be the API of workers in other processes, until interrupted."""

    def work(self, settings: config.Settings) -> None:
        """Be one of those workers, until interrupted."""

    def upgrade(self, settings: config.Settings) -> None:
        """Bring the database to the form that this version needs."""

    def migration_status(self, settings: config.Settings) -> Sequence[tuple[str, bool]]:
        """The steps of the database's form, oldest first, and whether each is applied."""

    def back_up(self, settings: config.Settings, target: Path, overwrite: bool) -> Path | None:
        """Copy the SQLite database and its key file; the copy of that, None where there is none."""

    def restore(
        self, settings: config.Settings, source: Path, force: bool
    ) -> tuple[bool, Path | None, Sequence[tuple[str, str, str, str]]]:
        """Put a backup in the place of the SQLite database: whether that was done, where the database of before is
        now, and what `inconsistencies` would tell of the backup."""

    def new_key(self) -> str:
        """A key for `encryption_keys`."""

    def rotate_keys(self, settings: config.Settings) -> tuple[int, Sequence[str], bool]:
        """Encrypt all stored secrets with the first key: how many rows, the names of those that no key opens, and
        whether nothing is left of what was there before."""

    def add_user(self, settings: config.Settings, user: str, password: str, projects: Projects) -> Path:
        """Write a user's password and his roles; the file."""

    def give_token(self, settings: config.Settings, user: str, projects: Projects, expires: float | None) -> str:
        """Give out a token, and note it."""

    def inconsistencies(self, settings: config.Settings) -> Sequence[tuple[str, str, str, str]]:
        """What should not be in the database: the rule that is broken, the kind of entity, its id, a detail."""

    def simulated_objects(self, settings: config.Settings, project: str) -> Mapping[str, int]:
        """How many objects of each kind a project has in the simulated cloud beside the database."""

    def types(self) -> TypeCatalog:
        """The resource types that are installed here."""

    def asking(self, settings: config.Settings, project: str) -> AbstractContextManager[TypeCatalog]:
        """The same; inside, templates are checked against the settings' cloud, as a project sees it."""

    def json_schema(self) -> JsonMap:
        """A JSON Schema of templates with these types."""


@dataclass(frozen=True, slots=True)
class Session:
    """A client, and whether the work is done in this process (and so ends with it)."""

    client: Client
    embedded: bool


def settings(arguments: argparse.Namespace) -> config.Settings:
    """The settings, with the flags that the command has. Raises BadSetting."""
    names = ("database", "host", "port", "cloud", "simulation", "username")
    flags = {name: getattr(arguments, name, None) for name in names}
    file: Path | None = getattr(arguments, "config", None)
    return config.load(flags, file)


def endpoint(arguments: argparse.Namespace) -> str | None:
    """The server that the user names, if any."""
    named: str | None = arguments.endpoint or os.environ.get("HEATLITE_ENDPOINT")
    return named


def project(arguments: argparse.Namespace) -> str | None:
    """The project that the user names, if any."""
    named: str | None = arguments.project or os.environ.get("HEATLITE_PROJECT")
    return named


def address(arguments: argparse.Namespace, host: Host) -> tuple[str, str]:
    """The server that is named, that works on this database, or that the settings mean; and the path of the project."""
    named = endpoint(arguments)
    if named is None:
        chosen = settings(arguments)
        named = chosen.public_url or host.running_server(chosen) or f"http://{chosen.address}"
    return split_endpoint(named, project(arguments))


@contextmanager
def connect(arguments: argparse.Namespace, host: Host, reads_only: bool = False) -> Iterator[Session]:
    """The API: of the server that is named, else of the one on this database, else in this process."""
    named = endpoint(arguments)
    if named is not None:
        url, prefix = split_endpoint(named, project(arguments))
        transport: Transport = HTTPTransport(url, credentials(settings(arguments)))
    else:
        _, prefix = split_endpoint("http://localhost", project(arguments))
        transport = host.connect(settings(arguments), reads_only)
    with transport:
        yield Session(Client(transport, prefix), isinstance(transport, WSGITransport))
