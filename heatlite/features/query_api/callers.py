"""Callers of the query API: their keys, and what the keys open."""

import hashlib
from collections.abc import Callable, Sequence

from msgspec import Struct

from heatlite.api.access.authentication import AccessControl
from heatlite.api.access.login_throttle import FREE, MAX_DELAY, FailureCounter, Network, address_of
from heatlite.api.request import Request
from heatlite.core.clock import Clock
from heatlite.core.errors import Forbidden
from heatlite.core.json import JsonMap
from heatlite.features.query_api.errors import Code, QueryError
from heatlite.features.query_api.machine_keys import MachineKeys
from heatlite.features.query_api.signatures import Message, SignatureClaim, matches, read
from heatlite.store.records import StackRecord
from heatlite.store.store import Store


class KeyReach(Struct, frozen=True):
    """The stack that a machine's key opens, and which of its resources."""

    stack: StackRecord
    opens: Callable[[str], bool]


class Callers:
    """Identifies callers by the signatures of their requests.

    Wrong signatures delay a key at an address as wrong passwords delay a name. They do not delay the address: the
    agents of many servers share one, and a secret is too long to be guessed with many keys.
    """

    def __init__(
        self,
        access: AccessControl,
        store: Store,
        clock: Clock,
        machines: MachineKeys,
        trusted: Sequence[Network] = (),
    ) -> None:
        self._access = access
        self._store = store
        self._clock = clock
        self._machines = machines
        self._trusted = trusted
        self._failures = FailureCounter(clock.now, FREE, MAX_DELAY)

    def admit(self, req: Request, message: Message) -> KeyReach | None:
        """Set the caller of a request. Returns the reach of a machine; None for a user.

        Raises QueryError, TooManyFailures, Forbidden, Unavailable.
        """
        claim = read(message)
        claim.check_time(self._clock.now())
        key = (claim.access_key, address_of(req, self._trusted))
        self._failures.ask(*key)
        try:
            reach = self._identify(req, message, claim)
        except QueryError as error:
            if error.code in (Code.InvalidClientTokenId, Code.SignatureDoesNotMatch):
                self._failures.failed(*key)
            raise
        self._failures.forget(*key)
        return reach

    def _identify(self, req: Request, message: Message, claim: SignatureClaim) -> KeyReach | None:
        # Users first: a key of a machine may come from a stack document.
        key = self._store.access_keys.get(claim.access_key) if self._access.has_own_keys else None
        found = [] if key is not None else [*self._machines.find(claim.access_key)]
        for machine in found:
            if matches(message, claim, machine.secret):
                self._access.admit_machine(req, machine.physical_name, machine.stack.project)
                return KeyReach(machine.stack, machine.opens)
        never_expires = claim.signed_at is None and claim.expires_at is None
        if found and (self._access.has_own_keys or never_expires):
            raise QueryError(Code.SignatureDoesNotMatch)
        if never_expires:
            # The agent of a machine sends such a request, and can only read with it.
            raise QueryError(Code.MissingAuthenticationToken, "A request that a user signs needs a Timestamp.")
        if not self._access.has_own_keys:
            if not self._access.admit_signed(req, for_keystone(message, claim)):
                raise QueryError(Code.SignatureDoesNotMatch)
            return None
        if key is None:
            raise QueryError(Code.InvalidClientTokenId)
        if not matches(message, claim, key.secret):
            raise QueryError(Code.SignatureDoesNotMatch)
        self._access.admit_user(req, key.user, key.project, key.roles)
        return None


def within(reach: KeyReach | None, name: str) -> None:
    """Raise Forbidden if the key of a machine does not open the resource."""
    if reach is not None and not reach.opens(name):
        raise Forbidden(f"The access key does not open the resource {name}.")


def for_keystone(message: Message, claim: SignatureClaim) -> JsonMap:
    """Return the description of a signed request for Keystone.

    Raises QueryError for a POST with parameters in its URL: Keystone leaves them out of what is signed.
    """
    unsigned = [name for name, _ in message.query if name != "ContentType"]
    if message.method == "POST" and unsigned:
        text = f"A POST that Keystone checks has its parameters in its body, not in its URL ({unsigned[0][:255]})."
        raise QueryError(Code.InvalidParameterCombination, text)
    params = dict(message.query) if claim.version == 4 else dict((*message.query, *message.form))
    signed = {"Signature", "X-Amz-Signature"}
    headers: JsonMap = {name.title(): value for name, value in message.headers.items()}
    return {
        "access": claim.access_key,
        "signature": claim.signature,
        "host": message.headers.get("host", ""),
        "verb": message.method,
        "path": message.path,
        "params": {name: value for name, value in params.items() if name not in signed},
        "headers": headers,
        "body_hash": hashlib.sha256(message.body).hexdigest(),
    }
