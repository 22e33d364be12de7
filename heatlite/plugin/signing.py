"""Signed URLs and tokens with which a machine signals one resource.

A type derives from `Signalled` and calls `draw_key` in its `handle_create`; an adoption draws a key, too. The key is
kept in the resource's `data` and is deleted with it. A URL signed with it, or its token, is valid for this resource
only.
"""

import base64
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Sequence
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct

from heatlite.core.clock import from_text, to_text
from heatlite.core.errors import NotSupported
from heatlite.core.json import Json, JsonMap
from heatlite.plugin.resource import P_co, Resource

AGENT = "heatlite_agent"
"""The key of the metadata under which an agent finds where it registers."""

Query = Sequence[tuple[str, str]]
"""The parameters of a URL, decoded, in their order."""

KEY = "signal_key"
"""Key of the signing key in a resource's `data`.

Only callers who may export the stack see it.
"""


class Key(Struct, frozen=True):
    """Signing key of a resource, and the start of its validity (ISO 8601)."""

    secret: str
    since: str


ACCESS_KEY, TIMESTAMP, SIGNATURE = "AWSAccessKeyId", "Timestamp", "Signature"
"""Parameters of a signed URL: physical name, time of the key, signature."""


class Proof(Struct, frozen=True):
    """Proof in a request that it may signal a resource."""

    query: Query
    token: str | None = None

    @property
    def signature(self) -> str:
        """Signature of the URL; "" without one."""
        return "".join(value for name, value in self.query if name == SIGNATURE)


NATIVE = "native"
"""Form ``/v1/{project}/stacks/…/resources/{resource}/signal``.
Other forms are ``/v1/{form}/{ARN}``."""
NODE = "node"
"""Form ``/v1/{project}/stacks/…/resources/{resource}/node``.
The agent beside a resource registers there."""
FORMS = (NATIVE, NODE, "signal", "waitcondition")
"""All that a URL is signed for."""
_BELOW = {NATIVE: "signal", NODE: "node"}
"""End of a path below the resource."""


ACCESS_KEY_TYPE = "AWS::IAM::AccessKey"
"""The type whose physical id is an access key."""
MACHINE = "HLM"
"""Begin of the access keys of resources that machines signal."""


class KeyHolder(Resource[P_co]):
    """Base of the types with an access key for requests with an AWS signature."""

    def secret_of(self, access_key: str, lifetime: float) -> str | None:
        """Return the secret of an access key; None if this resource has no such key.

        `lifetime` of a key is in seconds.
        """
        return None

    def opens(self, resource_name: str) -> bool:
        """Test whether the key opens a resource of the same stack."""
        return resource_name == self.name


class Signalled(KeyHolder[P_co]):
    """Base of the types that machines signal."""

    def draw_key(self) -> None:
        """Draw the key, unless that was done before."""
        moment = to_text(self.facts.now())
        self.data.setdefault(KEY, {"secret": secrets.token_urlsafe(32), "since": moment})

    def handle_adopt(self) -> None:
        """Draw a key: the one of another server is unknown here."""
        self.draw_key()

    def renew_key(self) -> None:
        """Replace the key, if there is one. Everything signed with the old one expires."""
        if self.data.pop(KEY, None) is not None:
            self.draw_key()

    def secrets(self) -> list[Json]:
        """The key, the token, the secret of the access key, and the signature of each URL."""
        try:
            key = self._key()
        except NotSupported:
            return []
        return [key.secret, self.token, self.secret_access_key, *(self._signature(form) for form in FORMS)]

    def signed_url(self, form: str) -> str:
        """Return a URL that signals this resource by POST or PUT, or registers a node.

        The form is `NATIVE`, ``signal``, ``waitcondition`` or `NODE`.
        """
        return f"{self.url(form)}?{urlencode([*self._query(), (SIGNATURE, self._signature(form))])}"

    def url(self, form: str) -> str:
        """Return the URL without a signature, for use with `token` in X-Auth-Token."""
        path = self._path(form)
        if form not in _BELOW:
            head, _, arn = path.rpartition("/arn:")
            path = f"{head}/{quote(f'arn:{arn}', safe='')}"
        return self.facts.services.public_url.rstrip("/") + quote(path, safe="/%")

    @property
    def token(self) -> str:
        """Return the token that allows to signal this resource."""
        return _sign(self._key().secret, "token", [])

    @property
    def access_key(self) -> str:
        """Return the id of the access key: `machine_of` finds the resource by it."""
        name = base64.b32encode(self.facts.name.encode()).decode().rstrip("=")
        return f"{MACHINE}{self.facts.stack_id.replace('-', '')}{name}"

    @property
    def secret_access_key(self) -> str:
        """Return the secret of the access key.

        It is derived from the signing key and expires with it.
        """
        return _sign(self._key().secret, self.access_key, [])

    def secret_of(self, access_key: str, lifetime: float) -> str | None:
        valid = access_key == self.access_key and self._valid_key(lifetime) is not None
        return self.secret_access_key if valid else None

    def simple_signal(self, success: bool, identifier: str) -> JsonMap | None:
        """Return the details of a signal that has no more than a result and an id."""
        return None

    def _valid_key(self, lifetime: float) -> Key | None:
        """Return the key, unless it has expired or there is none."""
        try:
            key = self._key()
            return None if self.facts.now() > from_text(key.since) + lifetime else key
        except (NotSupported, ValueError, OverflowError):
            return None

    def admits(self, form: str, proof: Proof, lifetime: float) -> bool:
        """Test whether a request may signal this resource.

        `lifetime` of a key is in seconds.
        """
        key = self._valid_key(lifetime)
        if key is None:
            return False
        if not proof.signature:
            return proof.token is not None and _equal(proof.token, self.token)
        signed = [pair for pair in proof.query if pair[0] != SIGNATURE]
        return _equal(proof.signature, _sign(key.secret, self._path(form), signed))

    def _query(self) -> Query:
        """Return the parameters of a signed URL without its signature."""
        return [
            (TIMESTAMP, self._key().since),
            ("SignatureMethod", "HmacSHA256"),
            (ACCESS_KEY, self.physical_name),
            ("SignatureVersion", "2"),
        ]

    def _signature(self, form: str) -> str:
        return _sign(self._key().secret, self._path(form), self._query())

    def _key(self) -> Key:
        """Return the key. Raises NotSupported without a usable one.

        An adopted resource may come from elsewhere.
        """
        match self.data.get(KEY):
            case {"secret": str() as secret, "since": str() as since} if secret:
                return Key(secret, since)
        raise NotSupported(f"Resource {self.name} has no key to sign with: it was adopted. Have it replaced.")

    def _path(self, form: str) -> str:
        """Return the path to sign, decoded, as the server sees it."""
        facts = self.facts
        stack = f"stacks/{facts.stack_name}/{facts.stack_id}/resources/{facts.name}"
        if form in _BELOW:
            return f"/v1/{facts.project}/{stack}/{_BELOW[form]}"
        return f"/v1/{form}/arn:openstack:heat::{facts.project}:{stack}"


class Node(Signalled[P_co]):
    """Base of the types beside whose objects an agent may work.

    They call `draw_key` in `handle_create`, and put `agent_metadata` into their `live_metadata`: there the agent finds
    where it registers.
    """

    def agent_metadata(self) -> JsonMap:
        """Return the metadata for the agent.

        A resource that was made before there were agents says nothing, until its next update.
        """
        return {AGENT: {"register": self.signed_url(NODE)}} if KEY in self.data else {}

    def publish(self) -> None:
        """Write the metadata where the agent reads it, unless it asks the API.

        Raises CloudError.
        """


def machine_of(access_key: str) -> tuple[str, str] | None:
    """Return stack id and name of the resource that an access key belongs to.

    None for a key of another form.
    """
    digits, name = access_key[len(MACHINE) : len(MACHINE) + 32], access_key[len(MACHINE) + 32 :]
    if not access_key.startswith(MACHINE):
        return None
    try:
        return str(uuid.UUID(hex=digits)), base64.b32decode(name + "=" * (-len(name) % 8)).decode()
    except ValueError:
        return None


def address_of(reference: str) -> str:
    """Return the physical name in a reference: a signed URL, or the name itself."""
    return dict(parse_qsl(reference.partition("?")[2])).get(ACCESS_KEY, reference)


def _equal(given: str, right: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(given.encode(), right.encode())


def _sign(secret: str, path: str, query: Query) -> str:
    """The signature of a path and its parameters, whatever their order."""
    text = f"{path}\n{urlencode(sorted(query))}"
    return base64.b64encode(hmac.digest(secret.encode(), text.encode(), hashlib.sha256)).decode()
