"""Lives of resources in real services.

Their HTTP becomes the recordings of tests/types/recorded/http.
HEATLITE_TEST_RECORD=1 writes them. Without it, requests and answers of a life only have to be those of its case.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.clients.installing import folder
from tests.clients.real_services import RealCloud, ask, real_cloud
from tests.resource_types import SERVICES
from tests.tables import sampled
from tests.types.exchanges import RANDOM, recorded, recording
from tests.types.lives import Living
from tests.types.marking import RECORDED
from tests.waiting import eventually

WRITE = bool(os.environ.get("HEATLITE_TEST_RECORD"))
FILES = {
    "amazon": ("load_balancer",),
    "alarming": ("metric", "alarming", "messaging"),
    "messaging": ("messaging", "workflow"),
    "baremetal": ("baremetal",),
    "clusters": ("container",),
    "container_infra": ("container_infra",),
    "databases": ("database",),
    "dns": ("dns",),
    "identity": ("identity",),
    "key_manager": ("key_manager",),
    "load_balancer": ("load_balancer",),
    "network": ("network",),
    "reservation": ("reservation",),
    "routers": ("network",),
    "shares": ("shared_file_system",),
    "workflow": ("workflow",),
}
"""File of cases → the services that its types ask."""
OWN = {
    "clusters": ("network",),
    "container_infra": ("image", "network"),
    "amazon": ("network", "identity"),
    "load_balancer": ("network", "identity"),
    "shares": ("network",),
}
"""File of cases → the services of the cloud that its types ask."""
NONE = (b'{"pools": []', b'{"service_statuses": []')
"""Begins of answers of services that have not heard from their workers yet."""
ID = {"id", "uuid"}
OURS = ("PROJECT", "USER")
BY_ADMINISTRATORS = {
    "amazon", "baremetal", "clusters", "container_infra", "databases", "dns", "identity", "key_manager",
    "load_balancer", "network", "reservation", "routers", "shares",
}  # fmt: skip
"""Files of cases whose types need an administrator."""
CASES = [
    (file, name)
    for file in sorted(FILES.keys() & RECORDED.keys())
    for name, case in RECORDED[file]["cases"].items()
    if "hand_written" not in case
]


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
            admin = file in BY_ADMINISTRATORS
            place, own = self._factory.mktemp(file), OWN.get(file, ())
            self._cloud = self._ends.enter_context(real_cloud(place, *FILES[file], own=own, admin=admin))
        return self._cloud

    def close(self) -> None:
        """End the services."""
        self._ends.close()
        self._file = ""


@pytest.fixture(scope="module")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clouds]:
    folder()
    pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")
    found = Clouds(tmp_path_factory)
    yield found
    found.close()


def send(cloud: RealCloud, request: str, body: object) -> Any:
    """Send a request of a case that is no part of the life, and return the answer."""
    method, path = request.split(" ")
    service, _, rest = path.lstrip("/").partition("/")
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    headers = {
        "X-Auth-Token": cloud.token, "Accept": "application/json", "Client-ID": "3381af92-2b9e-11e3-b191-71861300734c",
        "Content-Type": "text/plain" if isinstance(body, str) else "application/json",
        **(SERVICES[service].headers if service in SERVICES else {}),
    }  # fmt: skip
    answers: list[tuple[int, bytes, str]] = []

    def answered() -> bool:
        answers[:] = [ask(method, f"{cloud.recorder.places[service]}/{rest}", text.encode() or None, headers)]
        said = answers[0][1]
        under_way = method == "GET" and (b'status": "PENDING' in said or any(said.startswith(one) for one in NONE))
        return answers[0][0] not in (400, 409) and not under_way

    with suppress(AssertionError):
        eventually(answered, f"{request} is accepted", 120)  # not while something is under way
    ((status, said, _),) = answers
    assert status < 300, (request, said)
    return json.loads(said or b"{}")


def named(value: object, names: dict[str, str]) -> Any:
    """Put ids for their names."""
    text = json.dumps(value)
    for found, name in names.items():
        text = re.sub(rf"(?<![\w-]){name}(?![\w-])", found, text)
    return json.loads(text)


@contextmanager
def prepared(cloud: RealCloud, case: dict[str, Any]) -> Iterator[dict[str, str]]:
    """The ids of the objects that a case needs, by name, during the context."""
    names = {cloud.project: "PROJECT", cloud.user: "USER"}
    with ExitStack() as undo:
        for name, step in case.get("before", {}).items():
            for request, body in named(step, names).items():
                if request == "after":
                    undo.callback(lambda body=body: [send(cloud, *one) for one in body.items()])
                    continue
                answer = send(cloud, request, body)
                while isinstance(answer, dict) and answer and not ID & answer.keys():
                    inner = next(iter(answer.values()))
                    answer = inner[0] if isinstance(inner, list) else inner
                if isinstance(answer, str) and request.startswith("POST "):  # an address
                    names[answer] = name
                    undo.callback(send, cloud, f"DELETE {request[5:]}/{answer.rpartition('/')[2]}", None)
                elif request.startswith("POST ") and isinstance(answer, dict) and ID & answer.keys():
                    found = answer.get("uuid") or answer["id"]
                    if not found.isdecimal():  # a number stands for many things
                        names[found] = name
                    undo.callback(send, cloud, f"DELETE {request[5:]}/{found}", None)
                    if {"provisioning_status", "serial"} & answer.keys():
                        send(cloud, f"GET {request[5:]}/{found}", None)
        yield names


def brief(exchange: dict[str, Any]) -> dict[str, Any]:
    """Leave out what nothing reads: all of an extension but its name."""
    if not exchange["request"].endswith("/v2.0/extensions"):
        return exchange
    found = [{"alias": one["alias"]} for one in exchange["answer"]["extensions"]]
    return {**exchange, "answer": {"extensions": found}}


@pytest.mark.clients
@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), sampled(CASES, 17, pytest.mark.thorough))
def test_a_life_in_a_real_service(clouds: Clouds, tmp_path: Path, file: str, name: str) -> None:
    cloud = clouds.of(file)
    case = RECORDED[file]["cases"][name]
    with prepared(cloud, case) as names:
        one = Living(tmp_path, cloud.recorder, cloud.url, cloud.entry)
        cloud.recorder.asked.clear()
        cloud.recorder.exchanges.clear()
        one.names.update(names)
        try:
            one.live(name, case, exact=True)
        finally:
            one.ends.close()
    if WRITE:
        kept = {found: told for found, told in names.items() if told not in OURS}
        text = json.dumps({"names": kept, "exchanges": [*map(brief, cloud.recorder.exchanges)]})
        for text_of, stands in ((cloud.url, "URL"), (cloud.project, "PROJECT"), (cloud.user, "USER")):
            text = text.replace(text_of, stands)
        content = {**recorded(file), name: json.loads(RANDOM.sub("s-a", text))}
        recording(file).write_text(json.dumps(content, indent=1) + "\n")
