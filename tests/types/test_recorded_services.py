"""What types ask of services that the simulated cloud does not have: request by request, as their APIs have it.

Each file of `recorded` has the services' kinds of objects, and for each type what its resource's life asks of them.
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from heatlite.clients.rest import SERVICES
from heatlite.core.status import state
from tests.clouds.services import clouds_yaml
from tests.engine.conftest import ADMIN, Engine, template
from tests.types.marking import RECORDED
from tests.types.rest_services import RestServices, rest_services

pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install 'heatlite[openstack]'")

CASES = [(file, name) for file, content in RECORDED.items() for name in content["cases"]]
TIME = re.compile(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"')
RANDOM = re.compile(r"\bs-a-[a-z0-9]{12}\b")


class Recording:
    """An engine on a cloud of these services."""

    def __init__(self, folder: Path, file: str) -> None:
        self.ends = ExitStack()
        content = RECORDED[file]
        self.services = RestServices(content.get("objects", {}), content.get("answers", {}))
        self.url = url = self.ends.enter_context(rest_services(self.services))
        places = {f"{service}_endpoint_override": f"{url}/{service}" for service in (*SERVICES, "image")}
        entry = {"auth_type": "none", "auth": {"endpoint": url}, **places}
        environment = self.ends.enter_context(pytest.MonkeyPatch.context())
        environment.setenv("OS_CLIENT_CONFIG_FILE", str(clouds_yaml(folder, recorded=entry)))
        self.engine = Engine(folder, cloud="recorded")
        self.engine.who = ADMIN
        self.ends.callback(self.engine.close)

    def asked(self) -> list[Any]:
        """What the services were asked since the last call, with names as `s-a`, and without addresses and times."""
        said = json.dumps(self.services.asked).replace(self.url, "URL")
        found: list[Any] = json.loads(TIME.sub('"TIME"', RANDOM.sub("s-a", said)))
        self.services.asked.clear()
        return found


@pytest.fixture(scope="module")
def recordings() -> Iterator[dict[str, Recording]]:
    found: dict[str, Recording] = {}
    yield found
    for one in found.values():
        one.ends.close()


@pytest.mark.share(3)
@pytest.mark.parametrize(("file", "name"), CASES)
def test_a_life_over_http(
    recordings: dict[str, Recording], tmp_path_factory: pytest.TempPathFactory, file: str, name: str
) -> None:
    case = RECORDED[file]["cases"][name]
    one = recordings.pop(file, None) or Recording(tmp_path_factory.mktemp(file), file)
    engine, told = one.engine, {}
    one.services.made = 0
    of_type = {"type": name.partition(" ")[0]}
    definition = {**of_type, "properties": case.get("properties", {})}
    outputs = {key: {"value": {"get_attr": ["a", key]}} for key in case.get("attributes", {})}
    stack = engine.create({**template(a=definition), "outputs": outputs})
    told["create"] = one.asked()
    assert state(stack.verb, stack.status) == "CREATE_COMPLETE", [stack.status_reason, told]
    assert engine.outputs(stack) == case.get("attributes", {})
    if "change" in case:
        before = engine.row(stack, "a").id
        changed = {**of_type, "properties": {**definition["properties"], **case["change"]}}
        stack = engine.put(stack, {**template(a=changed), "outputs": outputs})
        told["update"] = one.asked()
        assert state(stack.verb, stack.status) == "UPDATE_COMPLETE", [stack.status_reason, told]
        assert engine.row(stack, "a").id == before, "it was replaced"
    for verb in ("suspend", "resume"):
        if verb in case:
            stack = getattr(engine, verb)(stack)
            told[verb] = one.asked()
            assert stack.status == "COMPLETE", [stack.status_reason, told]
    stack = engine.check(stack)
    assert state(stack.verb, stack.status) == "CHECK_COMPLETE", stack.status_reason
    stack = engine.delete(stack)
    told["delete"] = one.asked()
    assert state(stack.verb, stack.status) == "DELETE_COMPLETE", [stack.status_reason, told]
    assert told == {verb: case[verb] for verb in ("create", "update", "suspend", "resume", "delete") if verb in case}
    recordings[file] = one  # one that fails is used no more


def test_what_a_crash_has_left_is_found_by_its_mark(recordings: dict[str, Recording], tmp_path_factory: Any) -> None:
    one = recordings.pop("shares", None) or Recording(tmp_path_factory.mktemp("shares"), "shares")
    clouds = one.engine.server.components.engine_services.services.clouds
    cloud = clouds.of(one.engine.who.project).cloud
    cloud.call("shared_file_system.create_share", name="n", description="mine")
    found = cloud.call("shared_file_system.shares", name="n")
    assert [thing["description"] for thing in found] == ["mine"]  # type: ignore[index,union-attr]
    one.services.things.clear()
    one.services.asked.clear()
    recordings["shares"] = one
