"""The life of a resource over HTTP, from create to delete."""

import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from heatlite.core.status import state
from heatlite.engine.calls.handlers import DIFFERS
from tests.clouds.services import clouds_yaml
from tests.engine.conftest import ADMIN, Engine, template
from tests.types.exchanges import RANDOM

TIME = re.compile(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?"')
UUID = re.compile(r"[0-9a-f-]{32,36}")
GIVEN = ("properties", "change", "attributes")
"""Parts of a case in which names stand for ids."""
FOUND = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
VERBS = ("create", "update", "suspend", "resume", "delete")


class Services(Protocol):
    """Services of a cloud that record requests."""

    asked: list[Any]


class Living:
    """An engine on a cloud that knows the requests of its services."""

    def __init__(self, folder: Path, services: Services, url: str, entry: Mapping[str, Any]) -> None:
        self.ends = ExitStack()
        self.services = services
        self.names = {url: "URL"}
        """Text in requests → a name for it."""
        environment = self.ends.enter_context(pytest.MonkeyPatch.context())
        environment.setenv("OS_CLIENT_CONFIG_FILE", str(clouds_yaml(folder, recorded=entry)))
        self.engine = Engine(folder, cloud="recorded")
        self.engine.who = ADMIN
        self.ends.callback(self.engine.close)

    def asked(self) -> list[Any]:
        """Requests since the last call, with names as `s-a`, no addresses, no times."""
        said = json.dumps(self.services.asked)
        for text, name in sorted(self.names.items(), key=lambda one: -len(one[0])):
            said = said.replace(text, name)
        found: list[Any] = json.loads(TIME.sub('"TIME"', RANDOM.sub("s-a", said)))
        self.services.asked.clear()
        return found

    def _placed(self, value: Any) -> Any:
        """Put ids for their names."""
        text = json.dumps(value)
        for found, name in self.names.items():
            text = text.replace(json.dumps(name), json.dumps(found))
        return json.loads(text)

    def live(self, name: str, case: Mapping[str, Any], exact: bool) -> None:
        """Let a resource of the case live.

        Its requests and attributes are those of the case. `exact`: a check finds no difference.
        """
        engine, told = self.engine, {}
        case = {**case, **self._placed({key: case[key] for key in GIVEN if key in case})}
        of_type = {"type": name.partition(" ")[0]}
        definition = {**of_type, "properties": case.get("properties", {})}
        outputs = {key: {"value": {"get_attr": ["a", key]}} for key in case.get("attributes", {})}
        stack = engine.create({**template(a=definition), "outputs": outputs})
        assert state(stack.verb, stack.status) == "CREATE_COMPLETE", [stack.status_reason, self.asked()]
        made = str(engine.row(stack, "a").physical_id)
        if UUID.fullmatch(made) and made not in self.names:
            self.names[made] = "id-1"
        elif made.isdecimal():  # elsewhere the number stands for other things
            self.names[f'/{made}"'] = '/id-1"'
        told["create"] = self.asked()
        assert engine.outputs(stack) == case.get("attributes", {}), engine.outputs(stack)
        if "change" in case:
            before = engine.row(stack, "a").id
            changed = {**of_type, "properties": {**definition["properties"], **case["change"]}}
            stack = engine.put(stack, {**template(a=changed), "outputs": outputs})
            told["update"] = self.asked()
            assert state(stack.verb, stack.status) == "UPDATE_COMPLETE", [stack.status_reason, told]
            assert engine.row(stack, "a").id == before, "it was replaced"
        for verb in ("suspend", "resume"):
            if verb in case:
                stack = getattr(engine, verb)(stack)
                told[verb] = self.asked()
                assert stack.status == "COMPLETE", [stack.status_reason, told]
        stack = engine.check(stack)
        assert state(stack.verb, stack.status) == "CHECK_COMPLETE", stack.status_reason
        reason = str(engine.row(stack, "a").status_reason)
        assert not exact or DIFFERS not in reason, reason
        stack = engine.delete(stack)
        told["delete"] = self.asked()
        assert state(stack.verb, stack.status) == "DELETE_COMPLETE", [stack.status_reason, told]
        wanted = {verb: case[verb] for verb in VERBS if verb in case}
        if exact:  # ids of objects that the service has made by the way
            told = json.loads(FOUND.sub("found-id", json.dumps(told)))
        assert told == wanted, told
