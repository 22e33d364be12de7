"""The program: ties the command line to the rest."""

import sys
from collections.abc import Sequence
from pathlib import Path

from heatlite.cli import main as command_line
from heatlite.cli.transport import HTTPTransport, Transport, WSGITransport
from heatlite.core.config import Settings, load
from heatlite.core.json import JsonMap
from heatlite.template.types import TypeCatalog


class Program:
    """What the command line asks of the server's rooms.

    Each method imports what it needs when it is called: a command that talks to a running server needs neither falcon
    nor peewee nor any resource type, and starts without them.
    """

    def running_server(self, settings: Settings) -> str | None:
        from heatlite.store.exclusive import engine_of

        engine = engine_of(settings.database)
        url = None if engine is None else engine.get("url")
        return str(url) if url else None

    def connect(self, settings: Settings, reads_only: bool) -> Transport:
        url = self.running_server(settings)
        if url is not None:
            return HTTPTransport(url)
        from heatlite import wiring

        embedded = wiring.reader(settings) if reads_only else wiring.embedded(settings)
        return WSGITransport(embedded.app, embedded.close)

    def serve(self, settings: Settings) -> None:
        from heatlite import server

        server.serve(settings)

    def upgrade(self, settings: Settings) -> None:
        from heatlite import wiring

        wiring.upgrade(settings)

    def migration_status(self, settings: Settings) -> Sequence[tuple[str, bool]]:
        from heatlite import wiring

        return [(step.name, step.applied) for step in wiring.migration_status(settings)]

    def types(self) -> TypeCatalog:
        from heatlite.plugin.installation import read_installation
        from heatlite.plugin.registry import Registry
        from heatlite.resources import BUILTIN

        return Registry(BUILTIN, read_installation(Path(load().environment_dir)))

    def json_schema(self) -> JsonMap:
        from heatlite.plugin.json_schema import json_schema
        from heatlite.plugin.registry import Registry
        from heatlite.resources import BUILTIN

        return json_schema(Registry(BUILTIN))


def main(argv: Sequence[str] | None = None) -> int:
    """The console script `heatlite`; returns the exit code."""
    return command_line.run(argv, Program())


if __name__ == "__main__":
    sys.exit(main())
