"""Stacks of the example templates that several tests use, one after the other."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from tests.types.conftest import Cloudy
from tests.types.marking import AWAITING, TYPES, Marks, read, types_of


class Quiet(WSGIRequestHandler):
    """Says nothing of requests."""

    def log_message(self, *_: object) -> None:
        pass


class Standing:
    """The stack of one template, until a test has failed."""

    def __init__(self, folder: Path, file: str) -> None:
        self.file = file
        self.ends = ExitStack()
        server = self.ends.enter_context(make_server("127.0.0.1", 0, self.app, handler_class=Quiet))
        Thread(target=server.serve_forever, daemon=True).start()
        self.ends.callback(server.shutdown)
        self.cloudy = Cloudy(folder, {"public_url": f"http://127.0.0.1:{server.server_port}"})
        self.ends.callback(self.cloudy.close)
        self.empty = self.census()
        self.marks = self.made()
        self.full = self.census()

    def census(self) -> dict[str, int]:
        """Objects in the cloud. Secrets made by an order have no owner, and stay."""
        orders = "OS::Barbican::Order" in types_of(self.file)
        return {kind: n for kind, n in self.cloudy.census().items() if not orders or kind != "key_manager.secret"}

    def app(self, *arguments: Any) -> Any:
        """The server, for stacks at other endpoints."""
        return self.cloudy.front.app(*arguments)

    def made(self) -> Marks:
        """The stack, complete."""
        cloudy, document = self.cloudy, read(self.file)
        waits = any(issubclass(TYPES.get(one), AWAITING) for one in types_of(self.file))
        if not waits:
            marks = Marks(cloudy, cloudy.create(document))
        else:
            with cloudy.clock.held():
                marks = Marks(cloudy, cloudy.create(document, wait=False))
                marks.answer()
            marks.stack = cloudy.settle(marks.stack)
        marks.is_complete()
        marks.have_own_objects()
        return marks


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Standing]]:
    found: dict[str, Standing] = {}
    yield found
    for one in found.values():
        one.ends.close()


Stands = Callable[[str], AbstractContextManager[Standing]]


@pytest.fixture
def stands(standing: dict[str, Standing], tmp_path_factory: pytest.TempPathFactory) -> Stands:
    """`stands(file)` → the stack of a template, which must be as large afterwards."""

    @contextmanager
    def stands(file: str) -> Iterator[Standing]:
        one = standing.pop(file, None) or Standing(tmp_path_factory.mktemp("marks"), file)
        yield one
        assert one.census() == one.full
        standing[file] = one  # one that fails is used no more

    return stands
