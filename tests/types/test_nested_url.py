"""AWS::CloudFormation::Stack: templates from files of the request, and outputs."""

from typing import Any

import pytest

from heatlite.core.errors import StackValidationFailed
from tests.engine.conftest import resource, template
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


def test_a_temporary_url(cloudy: Cloudy) -> None:
    url = "http://store/v1/AUTH_p/box/child.yaml?temp_url_sig=0c4b&temp_url_expires=1795723167"
    stack = cloudy.create(nested(3, url), files={url: CHILD})
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.outputs(stack) == {"twice": 3}


def test_parameters_are_checked_before(cloudy: Cloudy) -> None:
    with pytest.raises(StackValidationFailed, match="size"):
        cloudy.create(nested("many"), files=FILES)
