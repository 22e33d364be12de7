"""Secrets, and orders for secrets that the service generates."""

from collections.abc import Iterable, Mapping
from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.features.rare_types.services.barbican.base import BarbicanResource, id_in
from heatlite.plugin import Resource, Schema, SupportStatus, prop


class SecretProps(Schema):
    name: str | None = prop(doc="Its name.")
    secret_type: str = prop(
        "opaque",
        one_of=("symmetric", "public", "private", "certificate", "passphrase", "opaque"),
        doc="The type of the secret.",
    )
    payload: str | None = prop(secret=True, doc="The secret itself.")
    payload_content_type: str | None = prop(
        one_of=("text/plain", "application/octet-stream"), doc="The media type of the payload; default: text/plain."
    )
    payload_content_encoding: str | None = prop(one_of=("base64",), doc="The encoding of the payload.")
    algorithm: str | None = prop(doc="The algorithm that it is used with.")
    bit_length: int | None = prop(between=(0, None), doc="Its length in bits.")
    mode: str | None = prop(doc="The mode of the algorithm.")
    expiration: str | None = prop(blank=True, custom="expiration", doc="The time of its expiration; ISO 8601.")

    def fault_payload(self) -> str | None:
        if self.payload is None and self.given("payload_content_type", "payload_content_encoding"):
            return "payload_content_type and payload_content_encoding say what the payload is: give payload, too."
        return None

    def fault_encoding(self) -> str | None:
        if self.payload_content_type == "application/octet-stream" and self.payload_content_encoding is None:
            return "A payload that is application/octet-stream must be encoded: give payload_content_encoding."
        return None


class Secret(BarbicanResource[SecretProps], type="OS::Barbican::Secret", kind="key_manager.secret"):
    """A secret, such as a key or a password, that the key manager service stores."""

    support_status = SupportStatus(version="2014.2")
    secret_attributes = frozenset({"decrypted_payload"})
    shown = {"status": (str, "ACTIVE if it is available.")}

    def create_args(self) -> JsonMap:
        args = super().create_args()
        if "payload" in args:
            args.setdefault("payload_content_type", "text/plain")
        return args

    def attr_show(self) -> Mapping[str, Json] | None:
        """The secret as the service shows it, without its payload."""
        return {key: value for key, value in self.fetched.items() if key != "payload"} or None

    def attr_decrypted_payload(self) -> str:
        """The secret itself."""
        return str(self.fetched.get("payload") or "")

    def shown_attributes(self) -> Iterable[str]:
        """Leave the payload out; only an explicit reference returns it."""
        return [name for name in super().shown_attributes() if name != "decrypted_payload"]


KEY = frozenset({"name", "algorithm", "bit_length", "mode", "payload_content_type", "expiration"})
ALLOWED = {
    "key": KEY,
    "asymmetric": KEY | {"pass_phrase"},
    "certificate": frozenset(
        {"name", "request_type", "subject_dn", "source_container_ref", "ca_id", "profile", "request_data"}
    ),
}
"""Type of an order → the other properties that it accepts."""


class OrderProps(Schema):
    name: str | None = prop(doc="The name of the generated object.")
    type: str = prop(one_of=("key", "asymmetric", "certificate"), doc="The type of the object to be generated.")
    algorithm: str | None = prop(doc="The algorithm of the key or key pair.")
    bit_length: int | None = prop(doc="The length of the key or key pair, in bits.")
    mode: str | None = prop(doc="The mode of the algorithm.")
    payload_content_type: str | None = prop(doc="The media type of the generated payload.")
    expiration: str | None = prop(blank=True, custom="expiration", doc="The time of its expiration; ISO 8601.")
    pass_phrase: str | None = prop(secret=True, doc="The passphrase that protects the private key of a pair.")
    request_type: str | None = prop(
        one_of=("stored-key", "simple-cmc", "custom"), doc="The type of the request for a certificate."
    )
    subject_dn: str | None = prop(doc="The subject of a certificate.")
    source_container_ref: str | None = prop(
        find="barbican.container", api="container_ref", doc="The container with the keys that a certificate is for."
    )
    ca_id: str | None = prop(doc="The certificate authority that signs a certificate.")
    profile: str | None = prop(doc="The profile of a certificate, defined by its authority.")
    request_data: str | None = prop(doc="The request for a certificate.")

    def fault_properties(self) -> str | None:
        excess = set(self.given(*self.fields)) - ALLOWED[self.type] - {"type"}
        return f"An order of the type {self.type} takes no {', '.join(sorted(excess))}." if excess else None

    def fault_algorithm(self) -> str | None:
        return self._key_fault(self.algorithm)

    def fault_length(self) -> str | None:
        return self._key_fault(self.bit_length)

    def _key_fault(self, needed: object) -> str | None:
        if self.type != "certificate" and not needed:
            return f"An order of the type {self.type} needs algorithm and bit_length."
        return None

    def fault_profile(self) -> str | None:
        if self.profile is not None and self.ca_id is None:
            return "A profile is one of a signer's: give ca_id, too."
        return None


class Order(BarbicanResource[OrderProps], type="OS::Barbican::Order", kind="key_manager.order"):
    """A secret, a key pair or a certificate that the service generates."""

    support_status = SupportStatus(version="2014.2")
    ready = frozenset({"ACTIVE"})
    secret_attributes = frozenset({"private_key"})
    shown = {
        "status": (str, "ACTIVE once it is complete."),
        "order_ref": (str, "The URL of the order."),
        "secret_ref": (str, "The URL of the generated secret."),
        "container_ref": (str, "The URL of the container, if several secrets were generated."),
    }

    def create_args(self) -> JsonMap:
        meta = self.sent()
        return {"type": meta.pop("type"), "meta": {"name": self.physical_name, **meta}}

    def identity(self) -> JsonMap:
        """Return {}: the name belongs to the generated secret; the order itself has none."""
        return {}

    @property
    def marked(self) -> bool:
        return self.facts.properties.get("name") is None

    def alike(self) -> list[JsonMap]:
        name = self.facts.properties.get("name") or self.physical_name
        orders = cast(list[JsonMap], self.service("orders"))
        return [one for one in orders if cast(JsonMap, one["meta"]).get("name") == name]

    check_delete_complete = Resource.check_delete_complete  # the service deletes an order at once

    def why(self, thing: JsonMap, what: str) -> str:
        return super().why({"fault": thing.get("error_reason") or thing.get("sub_status_message"), **thing}, what)

    def shown_attributes(self) -> Iterable[str]:
        """Leave the private key out; only an explicit reference returns it."""
        return [name for name in super().shown_attributes() if name != "private_key"]

    def attr_public_key(self) -> str:
        """The public key of a pair."""
        return self._part("public_key")

    def attr_private_key(self) -> str:
        """The private key of a pair."""
        return self._part("private_key")

    def attr_certificate(self) -> str:
        """The certificate."""
        return self._part("certificate")

    def attr_intermediates(self) -> str:
        """The intermediate certificates between the certificate and its issuer's."""
        return self._part("intermediates")

    def _part(self, name: str) -> str:
        """Return the payload of one of the generated secrets.

        "" without a secret of that name.
        """
        if self.fetched.get("container_ref") is None:
            return ""
        container = self.map(self.service("get_container", id_in(self.fetched["container_ref"])))
        for one in cast(list[JsonMap], container["secret_refs"]):
            if one["name"] == name:
                secret = self.map(self.service("get_secret", id_in(one["secret_ref"])))
                return str(secret.get("payload") or "")
        return ""
