"""Falcon alone under heatlite's gunicorn configuration: the peer of GET show.

``python -m benchmarks.bare PORT``
"""

import sys
from typing import Any

import falcon

from heatlite import wiring
from heatlite.core.config import load
from heatlite.server import Server


class Hello:
    """Says hello."""

    def on_get(self, _: falcon.Request, resp: falcon.Response) -> None:
        """The smallest answer."""
        resp.text = '{"hello": "world"}'


class Bare(Server):
    """heatlite's gunicorn with another application in it."""

    def load(self) -> Any:
        """The application."""
        app: Any = falcon.App()
        app.add_route("/", Hello())
        return app


if __name__ == "__main__":
    Bare(load({"port": int(sys.argv[1])}), wiring.embedded, 1).run()
