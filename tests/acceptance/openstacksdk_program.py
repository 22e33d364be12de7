"""A program that uses openstacksdk, on the cloud of `heatlite clouds`.

Its input: see heatclient_program.py.
"""

import json
import time
from pathlib import Path

import openstack
from openstack import exceptions

endpoint, template = json.loads(input())
cloud = openstack.connect(cloud="heatlite")
assert cloud.config.get_auth_args()["endpoint"] == endpoint

# The cloud layer.
made = cloud.create_stack("cloud", template_file=template, wait=True, timeout=240)
assert made.status == "CREATE_COMPLETE", made
assert [s.name for s in cloud.list_stacks()] == ["cloud"]
assert cloud.get_stack("cloud").outputs[0]["output_value"] == "Hello, world!"
assert [s.name for s in cloud.search_stacks("cloud")] == ["cloud"]
cloud.update_stack("cloud", template_file=template, name="me")  # each wait that is not over at once costs 5 seconds
while cloud.get_stack("cloud").status.endswith("_IN_PROGRESS"):
    time.sleep(0.02)
assert cloud.get_stack("cloud").outputs[0]["output_value"] == "Hello, me!"
assert cloud.delete_stack("cloud", wait=True) is True
assert cloud.delete_stack("cloud") is False
assert cloud.get_stack("cloud") is None

# The proxy.
heat = cloud.orchestration
text = Path(template).read_text()
made = heat.create_stack(name="proxy", template=text, tags=["a", "b"], parameters={"name": "you"}, timeout=5)
heat.wait_for_status(made, "CREATE_COMPLETE", ["CREATE_FAILED"], interval=0.02, wait=240)
found = heat.find_stack("proxy")
assert (found.id, found.tags) == (made.id, ["a", "b"])
assert heat.get_stack(made.id).outputs[0]["output_value"] == "Hello, you!"
assert {r.name for r in heat.resources(found)} == {"secret", "greeting", "nothing", "card"}
assert {r.name for r in heat.resources("proxy")} == {"secret", "greeting", "nothing", "card"}
assert [r.name for r in heat.resources("proxy", limit=2)] == ["card", "greeting", "nothing", "secret"]
assert [s.name for s in heat.stacks(project_id=endpoint.rpartition("/")[2])] == ["proxy"]
assert heat.get_stack_template(found).resources
assert heat.get_stack_environment("proxy").parameters == {"name": "you"}
assert heat.get_stack_files(found) == {}
assert [e.resource_name for e in heat.stack_events(found)][-1] == "proxy"
assert heat.validate_template(text)["Description"]
heat.check_stack(found)
heat.wait_for_status(heat.get_stack(found.id), "CHECK_COMPLETE", ["CHECK_FAILED"], interval=0.02, wait=240)
heat.update_stack(found, template=text, parameters={"name": "me"}, tags="c")
heat.wait_for_status(heat.get_stack(found.id), "UPDATE_COMPLETE", ["UPDATE_FAILED"], interval=0.02, wait=240)
assert heat.get_stack(found.id).outputs[0]["output_value"] == "Hello, me!"
for number in range(3):
    other = heat.create_stack(name=f"page{number}", template={"heat_template_version": "2018-08-31"})
    heat.wait_for_status(other, "CREATE_COMPLETE", interval=0.02, wait=240)
assert [s.name for s in heat.stacks(limit=1)] == ["page2", "page1", "page0", "proxy"]
for kind, call in (
    (exceptions.NotFoundException, lambda: heat.get_stack("nothing")),
    (exceptions.ConflictException, lambda: heat.create_stack(name="proxy", template=text)),
    (exceptions.BadRequestException, lambda: heat.create_stack(name="9", template=text)),
):
    try:
        call()
    except kind as error:
        assert error.details, error
    else:
        raise AssertionError(kind)
for stack in list(heat.stacks()):
    heat.delete_stack(stack)
    heat.wait_for_delete(stack, interval=0.02, wait=240)
print("done")
