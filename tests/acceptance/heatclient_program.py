"""A program that uses python-heatclient.

Its input: the endpoint and the path of templates/hello.yaml.
"""

import json
import time

from heatclient import client, exc
from heatclient.common import template_utils
from keystoneauth1 import noauth, session

endpoint, template = json.loads(input())
auth = noauth.NoAuth(endpoint=endpoint)
heat = client.Client("1", session=session.Session(auth=auth), endpoint_override=endpoint)


def settle(stack):
    while True:
        found = heat.stacks.get(stack)
        if not found.stack_status.endswith("_IN_PROGRESS"):
            return found.stack_status
        time.sleep(0.01)


files, document = template_utils.get_template_contents(template)
made = heat.stacks.create(stack_name="hc", template=document, files=dict(files), parameters={"name": "you"})
stack_id = made["stack"]["id"]
assert settle(stack_id) == "CREATE_COMPLETE"
assert heat.stacks.get("hc").outputs[0]["output_value"] == "Hello, you!"
assert heat.stacks.template("hc")["resources"].keys() == document["resources"].keys()
assert heat.stacks.environment("hc")["parameters"] == {"name": "you"}
assert heat.stacks.files("hc") == {}
assert {r.resource_name for r in heat.resources.list("hc")} == {"secret", "greeting", "nothing", "card"}
assert heat.resources.get("hc", "secret").attributes["value"]
assert heat.resources.metadata("hc", "secret") == {}
first, *_ = heat.events.list("hc", sort_dir="asc")
assert (first.resource_name, first.resource_status) == ("hc", "CREATE_IN_PROGRESS")
assert len(heat.events.list("hc", sort_dir="asc", limit=2, marker=first.id)) == 2
assert heat.stacks.output_list("hc")["outputs"][0]["output_key"] == "greeting"
assert heat.stacks.output_show("hc", "greeting")["output"]["output_value"] == "Hello, you!"
assert heat.stacks.validate(template=document)["Parameters"]["name"]["Default"] == "world"
assert heat.stacks.preview(stack_name="new", template=document).resources
changes = heat.stacks.preview_update("hc/" + stack_id, template=document, parameters={"name": "me"})
assert [r["resource_name"] for r in changes["resource_changes"]["updated"]] == ["greeting", "card"]

heat.resources.mark_unhealthy("hc", "secret", True, "weak")
assert heat.resources.get("hc", "secret").resource_status == "CHECK_FAILED"
before = heat.resources.get("hc", "secret").physical_resource_id
heat.stacks.update("hc/" + stack_id, existing=True)
assert settle(stack_id) == "UPDATE_COMPLETE"
assert heat.resources.get("hc", "secret").physical_resource_id != before
heat.actions.check("hc")
assert settle(stack_id) == "CHECK_COMPLETE"

for number in range(3):
    heat.stacks.create(stack_name=f"page{number}", template={"heat_template_version": "2018-08-31"})
    settle(f"page{number}")
assert [s.stack_name for s in heat.stacks.list(limit=2)] == ["page2", "page1"]
assert [s.stack_name for s in heat.stacks.list(page_size=1)] == ["page2", "page1", "page0", "hc"]
assert [s.stack_name for s in heat.stacks.list(filters={"stack_name": "page1"})] == ["page1"]

for kind, call in (
    (exc.HTTPNotFound, lambda: heat.stacks.get("nothing")),
    (exc.HTTPConflict, lambda: heat.stacks.create(stack_name="hc", template=document)),
    (exc.HTTPBadRequest, lambda: heat.stacks.create(stack_name="x", template={"heat_template_version": "1999-01-01"})),
):
    try:
        call()
    except kind as error:
        assert str(error).startswith("ERROR: "), error
    else:
        raise AssertionError(kind)
for name in ("hc", "page0", "page1", "page2"):
    heat.stacks.delete(name)
while list(heat.stacks.list()):
    time.sleep(0.01)
assert heat.resource_types.get("OS::Heat::Value")["properties"]["value"]["required"] is True
assert heat.build_info.build_info()["api"]
while "up" not in [service.status for service in heat.services.list()]:  # an engine reports after a second
    time.sleep(0.05)
print("done")
