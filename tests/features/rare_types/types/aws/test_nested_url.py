"""AWS::CloudFormation::Stack: templates from files of the request, and outputs."""

import re
from typing import Any

import pytest
import yaml

from heatlite.core.errors import StackValidationFailed
from heatlite.core.json import JsonMap
from heatlite.core.status import state
from heatlite.engine.state.requests import StackRequest
from heatlite.engine.state.stack_document import read_record
from heatlite.store.records import StackRecord
from tests.engine.conftest import resource, template
from tests.tables import few
from tests.types.conftest import Cloudy

CHILD = """
heat_template_version: 2021-04-16
parameters: {size: {type: number}}
resources: {value: {type: "OS::Heat::Value", properties: {value: {get_param: size}}}}
outputs: {twice: {value: {get_attr: [value, value]}}}
"""
FILES = {"child.yaml": CHILD}


def nested(size: Any, url: str = "child.yaml") -> Any:
    return template(
        a=resource("AWS::CloudFormation::Stack", TemplateURL=url, Parameters={"size": size}),
        outputs={"twice": {"get_attr": ["a", "Outputs.twice"]}},
    )


@pytest.mark.slow
def test_it_has_the_outputs_of_its_template(cloudy: Cloudy) -> None:
    stack = cloudy.create(nested(3), files=FILES)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.outputs(stack) == {"twice": 3}
    stack = cloudy.put(stack, nested(4), files=FILES)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.outputs(stack) == {"twice": 4}
    before = cloudy.row(stack, "a").physical_id
    cloudy.mark(stack, "a")
    stack = cloudy.patch(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.row(stack, "a").physical_id != before
    assert cloudy.outputs(stack) == {"twice": 4}
    assert cloudy.delete(stack).status == "COMPLETE"


@pytest.mark.parametrize(
    "name", few(["child.yaml?temp_url_sig=0c4b&temp_url_expires=1795723167", "child", "child?a=b"])
)
def test_a_url_among_the_files(cloudy: Cloudy, name: str) -> None:
    url = f"http://store/v1/AUTH_p/box/{name}"
    with pytest.raises(StackValidationFailed, match=f'"{re.escape(url)}": it is not among the files'):
        cloudy.create(nested(3, url))
    stack = cloudy.create(nested(3, url), files={url: CHILD})
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.outputs(stack) == {"twice": 3}


def adopted(cloudy: Cloudy, entry: JsonMap) -> StackRecord:
    record = read_record({"template": nested(3), "files": FILES, "resources": {"a": entry}})
    stack = cloudy.settle(cloudy.stacks.create(cloudy.who, StackRequest(name="s", adopted=record, files=FILES)))
    assert state(stack.verb, stack.status) == "ADOPT_COMPLETE", cloudy.why(stack)
    assert cloudy.outputs(stack) == {"twice": 3}
    return stack


@pytest.mark.slow
def test_the_record_of_a_heat_has_no_stack_around_that_of_the_template(cloudy: Cloudy) -> None:
    """It has the nested template in its entry, or has not."""
    entry: JsonMap = {"resource_id": "there", "resources": {"value": {"resource_id": "theirs"}}}
    stack = adopted(cloudy, entry)
    assert cloudy.delete(stack).status == "COMPLETE"
    adopted(cloudy, {**entry, "template": yaml.safe_load(CHILD.replace("2021-04-16", "wallaby"))})


@pytest.mark.slow
def test_its_own_record_is_adopted(cloudy: Cloudy) -> None:
    stack = cloudy.create(nested(3), files=FILES)
    entry = cloudy.components.exports.export(cloudy.get(stack))["resources"]["a"]  # type: ignore[index]
    assert cloudy.delete(stack).status == "COMPLETE"
    adopted(cloudy, entry)


def test_parameters_are_checked_before(cloudy: Cloudy) -> None:
    with pytest.raises(StackValidationFailed, match="size"):
        cloudy.create(nested("many"), files=FILES)
