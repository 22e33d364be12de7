"""Rules that judge the plan of a create."""

import time

from msgspec import convert

from benchmarks.cases import Bench
from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.json import Json, JsonMap
from heatlite.engine.state.requests import StackRequest
from heatlite.features.change_policy.document import ProjectDocument
from heatlite.features.change_policy.operations import ChangePolicies

LOOKS = 7


def rules(bench: Bench) -> None:
    """Measure plans without rules and with them, in milliseconds of a processor."""
    database = f"sqlite:///{bench.new_folder()}/heat.db"
    server = wiring.api(Settings(database=database, max_template_size=10_000_000, max_resources_per_stack=-1))
    core, caller = server.components, Context("p")
    policies = ChangePolicies(core.store, core.clock, core.settings)
    for resources, count, looks in ((1000, 100, LOOKS), (20_000, 20, 3)):
        request = StackRequest(name="s", template=_template(resources), disable_rollback=True)
        for name, told in (("bare", 0), ("judged", count)):
            policies.put(caller, _policy(told))
            for _ in range(looks):
                began = time.process_time()
                core.stacks.preview_create(caller, request, plan=True)
                bench.add(f"plan_{name}.{resources}", (time.process_time() - began) * 1000)
    server.close()


def _template(count: int) -> JsonMap:
    resources: JsonMap = {
        f"r{number}": {
            "type": "OS::Heat::Value",
            "properties": {"type": "json", "value": {"port": number % 1000, "peers": ["10.0.0.0/8"], "name": "x" * 20}},
        }
        for number in range(count)
    }
    return {"heat_template_version": "2021-04-16", "resources": resources}


def _policy(count: int) -> ProjectDocument:
    texts = (
        "resource.properties.value.port == {}",
        "resource.properties.value.peers.exists(p, p in ['0.0.0.0/0', '::/{}'])",
        "has(resource.properties.value.flavor) && resource.properties.value.flavor == 'm{}'",
        "resource.action == 'replace' && plan.counts.delete > {}",
    )
    found: list[Json] = [
        {
            "name": f"r{number}", "for": "resource", "then": "warn", "message": "m",
            "when": texts[number % len(texts)].format(number + 1000),
        }
        for number in range(count)
    ]  # fmt: skip
    return convert({"change_policy": "2026-11-28", "rules": found}, ProjectDocument)
