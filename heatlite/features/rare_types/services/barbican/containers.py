"""Containers: secrets that belong together."""

from collections.abc import Mapping
from typing import ClassVar, TypeVar, cast

from heatlite.core.json import Json, JsonMap
from heatlite.features.rare_types.services.barbican.base import BarbicanResource
from heatlite.plugin import Schema, SupportStatus, prop

P_co = TypeVar("P_co", bound=Schema, covariant=True)


class Container(BarbicanResource[P_co]):
    """Base of the types."""

    form: ClassVar[str] = ""
    """The service's name for the container type."""
    support_status = SupportStatus(version="6.0.0")
    shown: ClassVar[Mapping[str, tuple[object, str]]] = {
        "status": (str, "ACTIVE if it is available."),
        "container_ref": (str, "Its URL."),
        "consumers": (list, "Its consumers."),
    }

    def attr_secret_refs(self) -> dict[str, Json]:
        """The URLs of its secrets, by their names in the container."""
        found = cast(list[JsonMap], self.fetched.get("secret_refs") or [])
        return {str(one["name"]): one["secret_ref"] for one in found}

    def create_args(self) -> JsonMap:
        return {"type": self.form, "secret_refs": self.secret_refs()}

    def secret_refs(self) -> list[Json]:
        """Return the secrets for the service: one for each property ``…_ref``."""
        return [
            {"name": name.removesuffix("_ref"), "secret_ref": ref}
            for name, ref in self.resolved(self.facts.properties).items()
            if name.endswith("_ref")
        ]


class Named(Schema):
    name: str = prop(doc="The name of the secret in the container.")
    ref: str = prop(find="barbican.secret", doc="The URL of the secret.")


class GenericContainerProps(Schema):
    name: str | None = prop(doc="Its name.")
    secrets: list[Named] | None = prop(api="", doc="The secrets in it.")


class GenericContainer(
    Container[GenericContainerProps], type="OS::Barbican::GenericContainer", kind="key_manager.container"
):
    """A container of arbitrary secrets, each with a name."""

    form = "generic"

    def secret_refs(self) -> list[Json]:
        given = cast(list[JsonMap], self.resolved(self.facts.properties).get("secrets") or [])
        return [{"name": one["name"], "secret_ref": one["ref"]} for one in given]


class RSAContainerProps(Schema):
    name: str | None = prop(doc="Its name.")
    private_key_ref: str | None = prop(find="barbican.secret", api="", doc="The secret with the private key.")
    public_key_ref: str | None = prop(find="barbican.secret", api="", doc="The secret with the public key.")
    private_key_passphrase_ref: str | None = prop(
        find="barbican.secret", api="", doc="The secret with the passphrase of the private key."
    )


class RSAContainer(Container[RSAContainerProps], type="OS::Barbican::RSAContainer", kind="key_manager.container"):
    """A container of an RSA key pair."""

    form = "rsa"


class CertificateContainerProps(Schema):
    name: str | None = prop(doc="Its name.")
    certificate_ref: str | None = prop(find="barbican.secret", api="", doc="The secret with the certificate.")
    private_key_ref: str | None = prop(find="barbican.secret", api="", doc="The secret with its private key.")
    private_key_passphrase_ref: str | None = prop(
        find="barbican.secret", api="", doc="The secret with the passphrase of the private key."
    )
    intermediates_ref: str | None = prop(
        find="barbican.secret", api="", doc="The secret with the intermediate certificates."
    )


class CertificateContainer(
    Container[CertificateContainerProps], type="OS::Barbican::CertificateContainer", kind="key_manager.container"
):
    """A container of a certificate with its private key."""

    form = "certificate"
