"""Types of the key manager service on the simulated cloud, through the engine."""

import base64
import logging
from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.context import Context
from heatlite.core.json import JsonMap
from heatlite.plugin.registry import Registry
from heatlite.store.records import StackRecord
from heatlite.store.stacks.events import EventQuery
from tests.engine.conftest import attr, ref, resource, template
from tests.resource_types import ALL_TYPES
from tests.tables import few, sampled, table
from tests.types.conftest import Cloudy

B = "OS::Barbican::"
PAYLOAD = "the-very-secret-payload"


def barbican(kind: str, **properties: object) -> Any:
    return resource(B + kind, **properties)


KEY = {"algorithm": "aes", "bit_length": 256, "mode": "cbc"}
ALL = {
    "secret": barbican("Secret", payload=PAYLOAD),
    "order": barbican("Order", type="key", **KEY),
    "generic": barbican("GenericContainer", secrets=[{"name": "one", "ref": ref("secret")}]),
    "rsa": barbican("RSAContainer", private_key_ref=ref("secret"), public_key_ref=ref("secret")),
    "certificate": barbican("CertificateContainer", certificate_ref=ref("secret"), intermediates_ref=ref("secret")),
}


def attributes(cloudy: Cloudy, stack: StackRecord, name: str, wanted: tuple[str, ...] = ()) -> JsonMap:
    return cloudy.components.reader.attributes(Context("p"), cloudy.get(stack), cloudy.row(stack, name), wanted)


@pytest.mark.slow
def test_all_come_and_go(cloudy: Cloudy) -> None:
    before = cloudy.census()
    stack = cloudy.made(ALL)
    secret = cloudy.row(stack, "secret").physical_id
    assert str(secret).startswith("http://")  # get_resource gives what other services want
    shown = {name: attributes(cloudy, stack, name) for name in ALL}
    assert {one["status"] for one in shown.values()} == {"ACTIVE"}
    assert shown["generic"]["secret_refs"] == {"one": secret}
    assert shown["rsa"]["secret_refs"] == {"private_key": secret, "public_key": secret}
    assert shown["certificate"]["secret_refs"] == {"certificate": secret, "intermediates": secret}
    for name in ("generic", "rsa", "certificate"):
        assert shown[name]["container_ref"] == cloudy.row(stack, name).physical_id
        assert shown[name]["consumers"] == []
    assert shown["order"]["order_ref"] == cloudy.row(stack, "order").physical_id
    made = cloudy.admin.thing("key_manager.secret", shown["order"]["secret_ref"])
    cloudy.delete(stack)
    assert {key: made[key] for key in KEY} == KEY
    left = cloudy.census()
    assert left.pop("key_manager.secret") == 1  # what an order has made stays, as with Heat
    assert left == before


def test_who_asks_for_the_payload_gets_it(cloudy: Cloudy) -> None:
    coded = base64.b64encode(b"binary").decode()
    binary = {"payload_content_type": "application/octet-stream", "payload_content_encoding": "base64"}
    stack = cloudy.create(
        template(
            text=barbican("Secret", payload=PAYLOAD),
            binary=barbican("Secret", payload=coded, **binary),
            none=barbican("Secret"),
            outputs={name: attr(name, "decrypted_payload") for name in ("text", "binary", "none")},
        )
    )
    assert cloudy.outputs(stack) == {"text": PAYLOAD, "binary": "binary", "none": ""}


SECRETIVE = [
    ("payload", barbican("Secret", payload=PAYLOAD)),
    ("pass_phrase", barbican("Order", type="asymmetric", algorithm="rsa", bit_length=2048, pass_phrase=PAYLOAD)),
    ("password", resource("OS::Keystone::User", password=PAYLOAD)),
    ("payload", resource("OS::Heat::ResourceGroup", count=2, resource_def=barbican("Secret", payload=PAYLOAD))),
]


@pytest.mark.parametrize(("name", "definition"), few(SECRETIVE), ids=[one[1]["type"] for one in SECRETIVE])
def test_what_is_secret_is_shown_nowhere_else(
    cloudy: Cloudy, caplog: pytest.LogCaptureFixture, name: str, definition: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    stack = cloudy.made({"secret": definition})
    stack = cloudy.check(stack)
    stacks = [stack.id, *cloudy.store.stacks.nested(stack.id, 9)]
    said = caplog.text + repr([cloudy.store.events.after(one, 0, 100, EventQuery()) for one in stacks])
    assert name in said
    assert PAYLOAD not in said
    assert PAYLOAD not in repr(attributes(cloudy, stack, "secret"))


def test_orders_of_pairs_and_certificates(cloudy: Cloudy) -> None:
    pair = barbican("Order", type="asymmetric", algorithm="rsa", bit_length=2048, pass_phrase="sesame")
    stack = cloudy.made(
        {
            "secret": barbican("Secret"),
            "keys": barbican("RSAContainer", private_key_ref=ref("secret")),
            "pair": pair,
            "cert": barbican(
                "Order",
                type="certificate",
                request_type="stored-key",
                subject_dn="cn=a",
                source_container_ref=ref("keys"),
            ),
        }
    )
    found = attributes(cloudy, stack, "pair", ("public_key", "private_key"))
    assert (found["public_key"], found["private_key"]) == ("SIMULATED public_key", "SIMULATED private_key")
    assert "private_key" not in attributes(cloudy, stack, "pair")
    found = attributes(cloudy, stack, "cert", ("certificate", "intermediates"))
    assert (found["certificate"], found["intermediates"]) == ("SIMULATED certificate", "SIMULATED intermediates")
    assert cloudy.thing(stack, "cert")["meta"]["container_ref"] == cloudy.row(stack, "keys").physical_id


@pytest.mark.slow
def test_an_order_that_fails(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(build=2, faults=[{"verb": "key_manager.create_order", "goes": "ERROR", "message": "no plugin"}])
    stack = cloudy.create(template(order=ALL["order"]))
    assert "no plugin" in cloudy.row(stack, "order").status_reason
    assert cloudy.delete(stack).status == "COMPLETE"


@pytest.mark.slow
@pytest.mark.parametrize("name", few(ALL))
def test_any_change_makes_another(cloudy: Cloudy, name: str) -> None:
    stack = cloudy.made(ALL)
    old = cloudy.row(stack, name).physical_id
    definition = ALL[name]
    cloudy.changed(stack, {**ALL, name: resource(definition["type"], **{**definition["properties"], "name": "new"})})
    assert cloudy.row(stack, name).physical_id != old


@pytest.mark.slow
@pytest.mark.parametrize("name", few(ALL))
def test_what_is_gone_is_missed_and_deleted(cloudy: Cloudy, name: str) -> None:
    stack = cloudy.made(ALL)
    kind = Registry(ALL_TYPES).get(ALL[name]["type"]).kind  # type: ignore[attr-defined]
    key = str(cloudy.row(stack, name).physical_id).rpartition("/")[2]
    cloudy.admin.call(kind.replace(".", ".delete_"), key)
    assert cloudy.check(stack).status == "FAILED"
    assert cloudy.row(stack, name).status == "FAILED"
    assert cloudy.delete(stack).status == "COMPLETE"


@pytest.mark.parametrize("name", sampled(ALL, 3, pytest.mark.thorough))
@pytest.mark.parametrize("given", few([{}, {"name": "mine"}]))
def test_what_was_made_unheard_is_found_again(troubled: Callable[..., Cloudy], name: str, given: JsonMap) -> None:
    kind = Registry(ALL_TYPES).get(ALL[name]["type"]).kind  # type: ignore[attr-defined]
    secrets = {"secret": ALL["secret"]}
    cloudy = troubled(faults=[{"verb": kind.replace(".", ".create_"), "number": 1, "raises": "lost"}])
    definition = ALL[name]
    cloudy.made({**secrets, name: resource(definition["type"], **definition["properties"], **given)})
    assert cloudy.count(kind) == 1 + (name == "order" and kind == "key_manager.secret")


@table(
    ("kind", "given", "text"),
    [
        ("Secret", {"payload_content_type": "text/plain"}, "give payload, too"),
        ("Secret", {"payload": "a", "payload_content_type": "application/octet-stream"}, "payload_content_encoding"),
        ("Order", {"type": "key", "algorithm": "aes"}, "needs algorithm and bit_length"),
        ("Order", {"type": "key", **KEY, "pass_phrase": "a"}, "takes no pass_phrase"),
        ("Order", {"type": "certificate", **KEY}, "takes no algorithm, bit_length, mode"),
        ("Order", {"type": "certificate", "profile": "a"}, "give ca_id"),
    ],
)
def test_what_makes_no_sense_together(kind: str, given: JsonMap, text: str) -> None:
    (fault,) = Registry(ALL_TYPES).get(B + kind).check_properties(given)
    assert text in fault.text
