import json

from heatlite.core.action_payloads import ActionData, ActionInputs, ActionOutputs, shown_parameters
from heatlite.core.json import dump
from tests.tables import table

INPUTS = [
    "{}",
    '{"resources":{}}',
    '{"resources":{"a":{"resource_id":"1"}}}',
    '{"converge":true}',
    '{"retry":true}',
    '{"level":"all"}',
    '{"snapshot":"s"}',
    '{"delete":"s"}',
    '{"abandon":true,"force":true}',
    '{"playbook":null,"digest":"d","stages":[{"name":"drain","at_once":"all","nodes":3}]}',
    '{"playbook":"p","digest":"d","stages":[{"name":"drain","at_once":2,"nodes":3}]}',
]
CHECKED = '"healthy":1,"unhealthy":0,"unknown":2,"unsupported":0,"stale":["old"],"causes":{"compute: HTTP 503":2}'
OUTPUTS = [
    "{}",
    '{"result":"OK"}',
    '{"result":"ERROR","stack_status":"CREATE_FAILED","error":"why"}',
    f'{{"result":"ERROR","stack_status":"CHECK_FAILED","error":"why","checked":{{{CHECKED}}}}}',
    '{"result":"ERROR","error":"why","stages":[{"name":"drain","states":{"DONE":1,"FAILED":1}}],'
    '"failed":[{"id":"1","stage":"drain","node":"n","state":"FAILED"}]}',
]
DATA = [
    "{}",
    '{"creation":{"count":1,"candidates":["a"]},"deletion":{"count":2,"candidates":["b","c"]}}',
    '{"rolled_back_after":"TIMEOUT","stopping":{"made":true}}',
    '{"stopping":{"cause":"FAILURE","until":12.5,"failures":["Resource CREATE failed: why"]}}',
    '{"stopping":{"made":true,"cause":"CANCEL","until":1}}',
    f'{{"checked":{{{CHECKED},"names":["a"]}}}}',
]


@table("stored", INPUTS)
def test_inputs_are_written_as_they_were_read(stored: str) -> None:
    assert dump(ActionInputs.from_json(json.loads(stored)).to_json()) == stored


@table("stored", OUTPUTS)
def test_outputs_are_written_as_they_were_read(stored: str) -> None:
    assert dump(ActionOutputs.from_json(json.loads(stored)).to_json()) == stored


@table("stored", DATA)
def test_data_is_written_as_it_was_read(stored: str) -> None:
    assert dump(ActionData.from_json(json.loads(stored)).to_json()) == stored


def test_parameters_are_shown_as_far_as_there_is_room() -> None:
    assert shown_parameters({"a": "x", "b": None}) == {"a": "x", "b": None}
    assert shown_parameters({"a": "x" * 101}) == {"a": f"{'x' * 99}…"}
    many = shown_parameters({f"p{number}": "y" * 100 for number in range(50)})
    assert [*many][-1] == "…"
    assert many["…"] == f"{50 - len(many) + 1} more"
    assert ActionInputs.from_json(ActionInputs(parameters=many, reason="r").to_json()) == ActionInputs(
        parameters=many, reason="r"
    )
