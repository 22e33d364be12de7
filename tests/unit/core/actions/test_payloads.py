import msgspec

from heatlite.core.actions.payloads import ActionData, ActionInputs, ActionOutputs, shown_parameters
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
    '{"retry":true,"heal":{"members":{"a/0":"replace"},"incidents":["i"]}}',
    '{"heal":{"members":{"a":"reboot"},"incidents":[],"compares":true}}',
    '{"heal":{"members":{"a":null},"incidents":[]}}',
    '{"resize":{"adjustment_type":"exact_capacity","number":3}}',
    '{"scale_out":{"count":1}}',
    '{"scale_in":{"count":1,"grace_period":0}}',
    '{"delete_members":{"names":["a"]}}',
    '{"signal":{"policy":"up","kind":"change_in_capacity","number":1}}',
    '{"checked":["a"],"believe_absent":true}',
    '{"level":"all","reason":"r"}',
    '{"parameters":{"a":"1","b":null}}',
]
CHECKED = (
    '"healthy":1,"unhealthy":0,"unknown":2,"unsupported":0,"stale":["old"],"causes":{"compute: HTTP 503":2},"drifted":1'
)
OUTPUTS = [
    "{}",
    '{"result":"OK"}',
    '{"result":"ERROR","stack_status":"CREATE_FAILED","error":"why"}',
    f'{{"result":"ERROR","stack_status":"CHECK_FAILED","error":"why","checked":{{{CHECKED}}}}}',
    '{"result":"ERROR","error":"why","stages":[{"name":"drain","states":{"DONE":1,"FAILED":1}}],'
    '"failed":[{"id":"1","stage":"drain","node":"n","state":"FAILED"}]}',
    '{"result":"OK","stages":[],"failed":[]}',
    '{"result":"OK","size":{"before":1,"after":2},"added":{"a":"1"},"removed":{},"replaced":{}}',
    '{"result":"OK","replaced":{"a":["1",null]}}',
]
DATA = [
    "{}",
    '{"creation":{"count":1,"candidates":["a"]},"deletion":{"count":2,"candidates":["b","c"]}}',
    '{"rolled_back_after":"TIMEOUT","stopping":{"made":true}}',
    '{"stopping":{"cause":"FAILURE","until":12.5,"failures":["Resource CREATE failed: why"]}}',
    '{"stopping":{"made":true,"cause":"CANCEL","until":1}}',
    f'{{"checked":{{{CHECKED},"names":["a"]}}}}',
    f'{{"checked":{{{CHECKED},"names":[]}}}}',
    '{"deletion":{"count":1,"candidates":["a"],"criteria":"OLDEST_FIRST","grace_period":0,"objects":{"a":"1"}}}',
    '{"replacement":{"count":1,"candidates":["a/0"],"objects":{"a/0":null}},"left":["1"]}',
]


@table("stored", INPUTS)
def test_inputs_are_written_as_they_were_read(stored: str) -> None:
    assert dump(msgspec.json.decode(stored, type=ActionInputs)) == stored


@table("stored", OUTPUTS)
def test_outputs_are_written_as_they_were_read(stored: str) -> None:
    assert dump(msgspec.json.decode(stored, type=ActionOutputs)) == stored


@table("stored", DATA)
def test_data_is_written_as_it_was_read(stored: str) -> None:
    assert dump(msgspec.json.decode(stored, type=ActionData)) == stored


def test_parameters_are_shown_as_far_as_there_is_room() -> None:
    assert shown_parameters({"a": "x", "b": None}) == {"a": "x", "b": None}
    assert shown_parameters({"a": "x" * 101}) == {"a": f"{'x' * 99}…"}
    many = shown_parameters({f"p{number}": "y" * 100 for number in range(50)})
    assert [*many][-1] == "…"
    assert many["…"] == f"{50 - len(many) + 1} more"


def test_keys_of_another_version_are_ignored() -> None:
    assert msgspec.json.decode('{"retry":true,"later":{"a":1}}', type=ActionInputs) == ActionInputs(retry=True)
