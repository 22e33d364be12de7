"""Lives of resources in real services.

Their HTTP becomes the recordings of tests/types/recorded/http.
HEATLITE_TEST_RECORD=1 writes them. Without it, requests and answers of a life only have to be those of its case.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.clients.installing import folder
from tests.clients.real_services import RealCloud, ask, real_cloud
from tests.types.exchanges import HTTP, RANDOM, recorded
from tests.types.lives import Living
from tests.types.marking import RECORDED

WRITE = bool(os.environ.get("HEATLITE_TEST_RECORD"))
FILES = {
    "alarming": ("metric", "alarming", "messaging"),
    "messaging": ("messaging", "workflow"),
    "workflow": ("workflow",),
}
"""File of cases → the services that its types ask."""
CASES = [(file, name) for file in FILES for name, case in RECORDED[file]["cases"].items() if "hand_written" not in case]


class Clouds:
    """The cloud of one file at a time: the services take memory."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._ends = ExitStack()
        self._file = ""

    def of(self, file: str) -> RealCloud:
        """Return the cloud with the services of a file."""
        if file != self._file:
            self.close()
            self._file = file
            self._cloud = self._ends.enter_context(real_cloud(self._factory.mktemp(file), *FILES[file]))
        return self._cloud

    def close(self) -> None:
        """End the services."""
        self._ends.close()
        self._file = ""


@pytest.fixture(scope="module")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clouds]:
    folder()
    pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install 'heatlite[openstack]'")
    found = Clouds(tmp_path_factory)
    yield found
    found.close()


def prepare(cloud: RealCloud, steps: dict[str, Any]) -> dict[str, str]:
    """Send the requests of a case that come before its life.

    Return the ids of the objects they create, by name.
    """
    names = {}
    for name, step in steps.items():
        for request, body in step.items():
            method, path = request.split(" ")
            service, _, rest = path.lstrip("/").partition("/")
            text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
            headers = {
                "X-Auth-Token": cloud.token, "Client-ID": "3381af92-2b9e-11e3-b191-71861300734c",
                "Content-Type": "text/plain" if isinstance(body, str) else "application/json",
            }  # fmt: skip
            status, said = ask(method, f"{cloud.recorder.places[service]}/{rest}", text.encode() or None, headers)
            assert status < 300, said
            answer = json.loads(said or b"{}")
            while isinstance(answer, dict) and "id" not in answer and len(answer) == 1:
                (inner,) = answer.values()
                answer = inner[0] if isinstance(inner, list) else inner
            if isinstance(answer, dict) and "id" in answer:
                names[answer["id"]] = name
    return names


@pytest.mark.full
@pytest.mark.parametrize(("file", "name"), CASES)
def test_a_life_in_a_real_service(clouds: Clouds, tmp_path: Path, file: str, name: str) -> None:
    cloud = clouds.of(file)
    case = RECORDED[file]["cases"][name]
    names = prepare(cloud, case.get("before", {}))
    one = Living(tmp_path, cloud.recorder, cloud.url, cloud.entry)
    cloud.recorder.asked.clear()
    cloud.recorder.exchanges.clear()
    one.names.update({**names, cloud.project: "PROJECT", cloud.user: "USER"})
    try:
        one.live(name, case, exact=True)
    finally:
        one.ends.close()
    prepare(cloud, case.get("after", {}))
    if WRITE:
        text = json.dumps({"names": names, "exchanges": cloud.recorder.exchanges})
        for text_of, stands in ((cloud.url, "URL"), (cloud.project, "PROJECT"), (cloud.user, "USER")):
            text = text.replace(text_of, stands)
        content = {**recorded(file), name: json.loads(RANDOM.sub("s-a", text))}
        HTTP.mkdir(exist_ok=True)
        (HTTP / f"{file}.json").write_text(json.dumps(content, indent=1) + "\n")
