"""Sessions with a server, and the interface to the rest of the program."""

import argparse
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from msgspec import Struct

from heatlite.cli import contexts
from heatlite.cli.arguments import Sections
from heatlite.cli.client import Client, Object, Stack, an_object, split_endpoint, text
from heatlite.cli.errors import CommandError
from heatlite.cli.transport import ApiTransport, HTTPTransport, WSGITransport, credentials
from heatlite.core import config
from heatlite.core.json import JsonMap

if TYPE_CHECKING:
    from heatlite.core.errors import Problem
    from heatlite.template.source.loader import SourceText
    from heatlite.template.types import TypeCatalog

Projects = Mapping[str, frozenset[str]]
"""Projects → roles in them."""


class PlanFacts(Struct, frozen=True):
    """Facts of features about a plan."""

    lines: Sequence[str] = ()
    fails: bool = False
    """True if the plan cannot be carried out."""
    denied: bool = False
    """True if the server would refuse it by a rule."""
    given: Collection[str] = frozenset()
    """Names of parameters that get other values."""


class StatedFeature(Protocol):
    """A feature, as far as the command line reads it."""

    name: str
    settings: type[config.FeatureSettings]
    commands: Sections
    extends: Mapping[str, Sequence[str]]

    def problems(self, document: "SourceText") -> "Sequence[Problem] | None":
        """Return the problems of a document in its language. None: it is in another one."""

    def noted(self, client: Client, stack: Stack) -> Mapping[str, Object]:
        """Return further columns of the history of a stack, by the ids of actions."""

    def planned(self, client: Client, stack: Stack | None, facts: Object) -> PlanFacts:
        """Return what the feature says about the plan of a create or an update.

        `facts` are the keys that features have added to it.
        """


def tell_facts(host: "Host", client: Client, stack: Stack, plan: Object) -> None:
    """Print what features say about the plan of another operation than an update.

    Raises CommandError for one that a rule denies.
    """
    found = [one.planned(client, stack, plan) for one in host.features()]
    for line in (line for one in found for line in one.lines):
        print(line)
    refuse_denied(found)
    if "to_stack" in plan:
        other = an_object(plan, "to_stack")
        tell_facts(host, client, client.find(text(other.get("name"))), other)


def refuse_denied(found: Sequence[PlanFacts]) -> None:
    """Raise CommandError if the server would refuse a plan by a rule."""
    if any(one.denied for one in found):
        raise CommandError("A rule denies it. Nothing was done.")


class Host(Protocol):
    """The program around the command line, which may import the server's packages."""

    def features(self) -> Sequence[StatedFeature]:
        """Return all installed features, on or off."""

    def running_server(self, settings: config.Settings) -> str | None:
        """Return the address of the server that runs on this database, or None."""

    def connect(self, settings: config.Settings, reads_only: bool) -> ApiTransport:
        """Connect to the running server of this database, or start one in this process.

        With `reads_only`, the one in this process has no engine, and starts no work.
        """

    def serve(self, settings: config.Settings) -> None:
        """Run the server until interrupted."""

    def serve_api(self, settings: config.Settings) -> None:
        """Run the API without an engine until interrupted."""

    def work(self, settings: config.Settings) -> None:
        """Run an engine without the API until interrupted."""

    def upgrade(self, settings: config.Settings) -> None:
        """Run the missing migrations of the database."""

    def migration_status(self, settings: config.Settings) -> Sequence[tuple[str, bool]]:
        """List the migrations, oldest first, with True for those applied."""

    def back_up(self, settings: config.Settings, target: Path, overwrite: bool) -> Path | None:
        """Copy the SQLite database and its key file.

        Returns the copy of the key file, or None.
        """

    def restore(
        self, settings: config.Settings, source: Path, force: bool
    ) -> tuple[bool, Path | None, Sequence[tuple[str, str, str, str]]]:
        """Replace the SQLite database by a backup.

        Returns True if that was done, the new place of the previous database, and the inconsistencies of the backup.
        """

    def new_key(self) -> str:
        """Generate a key for `encryption_keys`."""

    def reencrypt(self, settings: config.Settings) -> tuple[int, Sequence[str], Sequence[str], bool]:
        """Encrypt all stored secrets with the first key.

        Returns the number of rows, the names of rows that no key decrypts, those of features whose tables cannot be
        read, and True if no old secret remains in the file.
        """

    def add_user(self, settings: config.Settings, user: str, password: str, projects: Projects) -> Path:
        """Write the password and roles of a user. Returns the file."""

    def give_token(self, settings: config.Settings, user: str, projects: Projects, expires: float | None) -> str:
        """Create a token, and store its digest."""

    def inconsistencies(self, settings: config.Settings) -> Sequence[tuple[str, str, str, str]]:
        """List broken invariants of the database: rule, kind of entity, its id, a detail."""

    def types(self) -> "TypeCatalog":
        """Return the installed resource types."""

    def asking(self, settings: config.Settings, project: str) -> "AbstractContextManager[TypeCatalog]":
        """Return the types; within the context, templates are checked against the cloud."""

    def json_schema(self) -> JsonMap:
        """Return a JSON Schema of templates."""


class Session(Struct, frozen=True):
    """A client.

    `embedded` is True if this process does the work, which then pauses at its end.
    """

    client: Client
    embedded: bool


FLAGS = ("database", "host", "port", "processes", "cloud", "username")
"""Flags that override settings."""


def settings(arguments: argparse.Namespace, host: Host) -> config.Settings:
    """Read the settings, overridden by the context and the flags of the command.

    Warns of unknown variables. Raises BadSetting, Misuse.
    """
    contexts.warn_of_unknown_variables(host.features)
    flags = {name: getattr(arguments, name, None) for name in FLAGS}
    file: Path | None = getattr(arguments, "config", None)
    return config.load(host.features, flags, file, contexts.environment(arguments))


def endpoint(arguments: argparse.Namespace) -> str | None:
    """Return the server that the user has named, if any."""
    named: str | None = arguments.endpoint or contexts.environment(arguments).get("HEATLITE_ENDPOINT")
    return named


def project(arguments: argparse.Namespace) -> str | None:
    """Return the project that the user has named, if any."""
    named: str | None = arguments.project or contexts.environment(arguments).get("HEATLITE_PROJECT")
    return named


def authority(arguments: argparse.Namespace) -> str | None:
    """Return the user's file of trusted authorities, if any."""
    named: str | None = arguments.cacert or contexts.environment(arguments).get("HEATLITE_CACERT")
    return named


def address(arguments: argparse.Namespace, host: Host) -> tuple[str, str]:
    """Return the address of the server, and the path of the project."""
    named = endpoint(arguments)
    if named is None:
        chosen = settings(arguments, host)
        named = chosen.public_url or host.running_server(chosen) or f"http://{chosen.address}"
    return split_endpoint(named, project(arguments))


def _is_missing(settings: config.Settings) -> bool:
    """Return True for a missing SQLite database that is not the default one."""
    kind, _, path = settings.database.partition(":///")
    return kind == "sqlite" and settings.database != config.default_database() and not Path(path).exists()


@contextmanager
def scratch(
    host: Host,
    folder: Path,
    cloud: str | None = None,
    of_features: tuple[config.FeatureSettings, ...] = (),
    reads_only: bool = False,
) -> Iterator[tuple[Client, Path]]:
    """Open a server of this process with an empty database in a folder.

    Returns a client and the database. The server has the environment of the installation, but no other of its settings.
    Raises BadSetting.
    """
    database = folder / "heatlite.db"
    database.touch()  # a missing one would be reported as new
    chosen = config.Settings(
        f"sqlite:///{database}",
        cloud=cloud,
        environment_dir=config.load(host.features).environment_dir,
        of_features=of_features,
    )
    with host.connect(chosen, reads_only) as transport:
        yield Client(transport, "/v1/test"), database


@contextmanager
def connect(arguments: argparse.Namespace, host: Host, reads_only: bool = False) -> Iterator[Session]:
    """Open a session with the named server, a running one, or one in this process."""
    named = endpoint(arguments)
    if named is not None:
        url, prefix = split_endpoint(named, project(arguments))
        transport: ApiTransport = HTTPTransport(url, credentials(settings(arguments, host)), authority(arguments))
    else:
        _, prefix = split_endpoint("http://localhost", project(arguments))
        chosen = settings(arguments, host)
        is_new = _is_missing(chosen)
        transport = host.connect(chosen, reads_only)
        if is_new:
            print(f"heatlite: {chosen.shown_database} is a new database, with nothing in it.", file=sys.stderr)
    arguments.place = f"in project {unquote(prefix.rpartition('/')[2])} {transport.place}".rstrip()
    client = Client(transport, prefix)
    with transport, client.suggesting():
        yield Session(client, isinstance(transport, WSGITransport))
