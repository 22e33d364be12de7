"""What lets a machine signal a resource without being asked who it is.

A type of this kind derives from `Signalled` and calls `draw_key` in its `handle_create`. The key is the resource's own,
is kept in its `data`, and dies with it. Whoever has a URL signed with it, or the token made of it, may signal this
resource and nothing else.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from heatlite.core.clock import from_text, to_text
from heatlite.core.json import JsonMap
from heatlite.plugin.resource import P_co, Resource

Query = Sequence[tuple[str, str]]
"""The parameters of a URL, decoded, in their order."""

ACCESS_KEY, TIMESTAMP, SIGNATURE = "AWSAccessKeyId", "Timestamp", "Signature"
"""Parameters of a signed URL: the resource's physical name, when its key was drawn, and the proof."""

NATIVE = "native"
"""The form ``/v1/{project}/stacks/…/resources/{resource}/signal``; other forms are ``/v1/{form}/{ARN}``."""


class Signalled(Resource[P_co]):
    """Base of the types that machines signal."""

    key: ClassVar[str] = "signal_key"
    """Where `data` has the key."""

    def draw_key(self) -> None:
        """Draw the key, unless that was done before."""
        moment = to_text(self.facts.now())
        self.data.setdefault(self.key, {"secret": secrets.token_urlsafe(32), "since": moment})

    def signed_url(self, form: str) -> str:
        """Where a POST or PUT signals this resource: `NATIVE`, or ``signal``, or ``waitcondition`` (heat-api §14)."""
        query = [
            (TIMESTAMP, self._key("since")),
            ("SignatureMethod", "HmacSHA256"),
            (ACCESS_KEY, self.physical_name),
            ("SignatureVersion", "2"),
        ]
        query.append((SIGNATURE, _sign(self._key("secret"), self._path(form), query)))
        return f"{self.url(form)}?{urlencode(query)}"

    def url(self, form: str) -> str:
        """The same without the proof: for whoever sends `token` in ``X-Auth-Token``."""
        path = self._path(form)
        if form != NATIVE:
            head, _, arn = path.rpartition("/arn:")
            path = f"{head}/{quote(f'arn:{arn}', safe='')}"
        return self.facts.services.public_url.rstrip("/") + quote(path, safe="/%")

    @property
    def token(self) -> str:
        """What proves the right to signal this resource."""
        return _sign(self._key("secret"), "token", [])

    def admits(self, form: str, query: Query, token: str | None, lifetime: float) -> bool:
        """Whether a request proves that it may signal this resource. `lifetime` of a proof is in seconds."""
        secret, since = self._key("secret"), self._key("since")
        if not secret or self.facts.now() > from_text(since) + lifetime:
            return False
        given = "".join(value for name, value in query if name == SIGNATURE)
        if not given:
            return token is not None and hmac.compare_digest(token.encode(), self.token.encode())
        rest = [pair for pair in query if pair[0] != SIGNATURE]
        return hmac.compare_digest(given.encode(), _sign(secret, self._path(form), rest).encode())

    def _key(self, part: str) -> str:
        key = self.data.get(self.key)
        return str(key[part]) if isinstance(key, dict) else ""

    def _path(self, form: str) -> str:
        """As the server sees it: decoded."""
        facts = self.facts
        stack = f"stacks/{facts.stack_name}/{facts.stack_id}/resources/{facts.name}"
        if form == NATIVE:
            return f"/v1/{facts.project}/{stack}/signal"
        return f"/v1/{form}/arn:openstack:heat::{facts.project}:{stack}"


def address_of(reference: str) -> str:
    """The physical name of the resource that a reference names: a signed URL, or the name itself."""
    return dict(parse_qsl(urlsplit(reference).query)).get(ACCESS_KEY, reference) if "?" in reference else reference


def without_key(data: JsonMap) -> JsonMap:
    """A resource's data without what nobody is to see."""
    return {name: value for name, value in data.items() if name != Signalled.key}


def _sign(secret: str, path: str, query: Query) -> str:
    """The signature of a path and its parameters, whatever their order."""
    text = f"{path}\n{urlencode(sorted(query))}"
    return base64.b64encode(hmac.digest(secret.encode(), text.encode(), hashlib.sha256)).decode()
