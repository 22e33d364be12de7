"""The program: connects the command line with the server's packages."""

import sys

try:
    import gc

    gc.disable()  # a collection would find nothing, as in `quick_start`
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager, contextmanager
    from pathlib import Path
    from typing import TYPE_CHECKING

    from msgspec.structs import replace

    from heatlite.cli import main as command_line
    from heatlite.cli.session import Projects
    from heatlite.cli.transport import ApiTransport, HTTPTransport, WSGITransport, credentials
    from heatlite.core.config import Auth, Settings, load
    from heatlite.core.json import JsonMap

    gc.freeze()
    gc.enable()
except KeyboardInterrupt:
    sys.exit(130)  # INTERRUPTED of `cli.main`, which may not be imported yet

if TYPE_CHECKING:
    from heatlite.feature import Feature
    from heatlite.template.types import TypeCatalog


DRIVERS = ("psycopg2", "psycopg2cffi", "psycopg", "pymysql", "MySQLdb")
"""Drivers of database servers. peewee imports those that are installed, which takes longer than peewee itself."""


@contextmanager
def quick_start(without: Sequence[str]) -> Iterator[None]:
    """Context for a start without garbage collection and without some packages.

    A collection would find nothing, and the end of the process takes nothing apart that is frozen. Without both, `up`
    takes half as long again. The packages in `without` appear as not installed.
    """
    hidden = [name for name in without if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: the import fails
    gc.disable()
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
        gc.freeze()
        gc.enable()


class Program:
    """Gives the command line access to the server's packages (`cli.session.Host`).

    Imports are local to methods: a command for a running server starts without falcon, peewee and resource types.
    """

    def __init__(self, one_command: bool = False) -> None:
        """Create it. With `one_command` this process needs one database's driver only."""
        self._one_command = one_command

    def _needless(self, settings: Settings) -> Sequence[str]:
        """Return the drivers that this process does without."""
        return DRIVERS if self._one_command and settings.database.startswith("sqlite:") else ()

    def features(self) -> "Sequence[Feature]":
        with quick_start(()):
            from heatlite import feature

            return feature.installed()

    def running_server(self, settings: Settings) -> str | None:
        from heatlite.store.database.engine_lock import engine_of

        engine = engine_of(settings.database)
        url = None if engine is None else engine.get("url")
        return str(url) if url else None

    def connect(self, settings: Settings, reads_only: bool) -> ApiTransport:
        url = self.running_server(settings)
        if url is not None:
            return HTTPTransport(url, credentials(settings), is_here=True)
        # Access to the database file needs no further authentication.
        own = replace(settings, auth=Auth.NONE, policy_file=None)
        with quick_start(self._needless(settings)):
            from heatlite import wiring
            from heatlite.administration import EngineBusy

            try:
                if reads_only:
                    embedded = wiring.reader(own, self._one_command)
                else:
                    embedded = wiring.embedded(own, one_command=self._one_command)
            except EngineBusy:
                url = self.running_server(settings)  # one that has started since
                if url is None:
                    raise
                return HTTPTransport(url, credentials(settings), is_here=True)
            return WSGITransport(embedded.app, embedded.close, f"of {settings.shown_database}")

    def serve(self, settings: Settings) -> None:
        with quick_start(self._needless(settings)):
            from heatlite.serving import server

        server.serve(settings)

    def serve_api(self, settings: Settings) -> None:
        from heatlite.serving import server

        server.serve_api(settings)

    def work(self, settings: Settings) -> None:
        from heatlite import worker

        worker.work(settings)

    def upgrade(self, settings: Settings) -> None:
        from heatlite import administration

        administration.upgrade(settings)

    def migration_status(self, settings: Settings) -> Sequence[tuple[str, bool]]:
        from heatlite import administration

        return [(step.name, step.applied) for step in administration.migration_status(settings)]

    def back_up(self, settings: Settings, target: Path, overwrite: bool) -> Path | None:
        from heatlite import administration

        return administration.back_up(settings, target, overwrite).key

    def restore(
        self, settings: Settings, source: Path, force: bool
    ) -> tuple[bool, Path | None, Sequence[tuple[str, str, str, str]]]:
        from heatlite import administration

        done = administration.restore(settings, source, force)
        return done.installed, done.aside, [(one.rule, one.entity, one.id, one.detail) for one in done.found]

    def new_key(self) -> str:
        from heatlite.store.secrets.cipher import new_key

        return new_key()

    def reencrypt(self, settings: Settings) -> tuple[int, Sequence[str], Sequence[str], bool]:
        from heatlite import administration

        done = administration.reencrypt(settings)
        return done.rows, done.unreadable, done.lost, done.wiped

    def add_user(self, settings: Settings, user: str, password: str, projects: Projects) -> Path:
        from heatlite.api.access import factory

        return factory.add_user(settings, user, password, projects)

    def give_token(self, settings: Settings, user: str, projects: Projects, expires: float | None) -> str:
        from heatlite.api.access import factory

        return factory.create_token(settings, user, projects, expires)

    def inconsistencies(self, settings: Settings) -> Sequence[tuple[str, str, str, str]]:
        from heatlite import administration

        return [(one.rule, one.entity, one.id, one.detail) for one in administration.inconsistencies(settings)]

    def types(self) -> "TypeCatalog":
        from heatlite.feature import installation, installed, registry

        settings = load(installed)
        return registry(settings, installation(settings))

    def asking(self, settings: Settings, project: str) -> "AbstractContextManager[TypeCatalog]":
        from heatlite import wiring

        return wiring.asking(settings, project)

    def json_schema(self) -> JsonMap:
        from heatlite.feature import installed, registry
        from heatlite.plugin.descriptions.json_schema import json_schema

        return json_schema(registry(load(installed)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the console script `heatlite`. Returns the exit code."""
    return command_line.run(argv, Program(one_command=argv is None))


if __name__ == "__main__":
    sys.exit(main())
