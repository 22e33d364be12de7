"""Key pairs."""

from contextlib import suppress
from typing import cast

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import CloudResource, Schema, SupportStatus, prop


class KeyPairProps(Schema):
    name: str = prop(length=(1, 255), doc="Its name, by which servers refer to it.")
    save_private_key: bool = prop(False, api="", doc="Whether the private key that Nova makes is kept.")
    public_key: str | None = prop(doc="The public key; left out: Nova makes a pair.")
    type: str | None = prop(one_of=("ssh", "x509"), doc="What kind of key it is.")
    user: str | None = prop(find="keystone.user", api="user_id", doc="Whose it is; only administrators may say so.")


class KeyPair(CloudResource[KeyPairProps], type="OS::Nova::KeyPair", kind="compute.keypair"):
    """A key pair for logins to servers.

    Names are unique. A key pair that replaces another of the same name is created after the other is deleted; a
    rollback recreates the old one from its public key.
    """

    lasting_reference = True
    support_status = SupportStatus(version="2014.1")
    unique_name = True

    @property
    def _whose(self) -> JsonMap:
        return {} if self.props.user is None else {"user_id": self.props.user}

    def fetch(self) -> JsonMap:
        if self.physical_id is None:
            raise CloudNotFound("compute.get_keypair", f"{self.name} has not been made")
        return self.map(self.service("get_keypair", self.physical_id, **self._whose))

    def survey(self) -> bool:
        """Record the key pair that already has the name: a foreign one, or the one to be replaced."""
        if "before" in self.data:
            return False
        self.data["before"] = _key(self._there())
        return True

    def find(self) -> str | None:
        """Return the key pair of an interrupted attempt.

        If its private key was to be saved, that is lost, so the key pair is deleted and created again.
        """
        there, given = self._there(), self.props.public_key
        if not there or "before" not in self.data or _key(there) == self.data["before"]:
            return None
        if given is None and self.props.save_private_key:
            self.service("delete_keypair", self.props.name, **self._whose)
            return None
        self.data["key"] = _key(there)
        return self.props.name

    def handle_create(self) -> Json:
        former = _of_name(self.facts.former(), self.props.name)
        if former is None or not self._is(former._kept):
            if former is not None:
                self.service("delete_keypair", self.props.name, **self._whose)
            made: JsonMap = self.map(self.service("create_keypair", **self.sent()))
            if self.props.save_private_key and made.get("private_key"):
                self.data["private_key"] = made["private_key"]
        self.physical_id = self.props.name
        self.data["key"] = _key(self.fetch())
        return None

    @property
    def _kept(self) -> JsonMap:
        """The stored ``public_key`` and ``type`` of the created key."""
        return cast(JsonMap, self.data.get("key") or {})

    def _is(self, key: JsonMap) -> bool:
        """True if the template's public key equals an existing key pair of the same name."""
        if self.props.public_key is None or key.get("public_key") != self.props.public_key:
            return False
        return key.get("type") == (self.props.type or "ssh") and _key(self._there()) == key

    def _there(self) -> JsonMap:
        """Return the key pair that has the name now; {} if there is none."""
        try:
            return self.map(self.service("get_keypair", self.props.name, **self._whose))
        except CloudNotFound:
            return {}

    def handle_delete(self) -> Json:
        if self.physical_id is None or _key(self._there()) != self._kept:
            return None  # it is gone, or its replacement has the name
        latter = _of_name(self.facts.latter(), self.props.name)
        former = _of_name(self.facts.former(), self.props.name)
        if any(other is not None and other._kept == self._kept for other in (latter, former)):
            return None  # both resources share the key
        with suppress(CloudNotFound):
            self.service("delete_keypair", self.physical_id, **self._whose)
        if former is not None and former._kept:
            self.service("create_keypair", name=self.physical_id, **former._kept, **former._whose)
        return None

    def secrets(self) -> list[Json]:
        return [self.data.get("private_key")]

    def attr_public_key(self) -> str:
        """The public key."""
        return str(self.seen.get("public_key") or "")

    def attr_private_key(self) -> str:
        """The private key, if save_private_key is set."""
        return str(self.data.get("private_key") or "")


def _key(thing: JsonMap) -> JsonMap:
    """Return the type and the public key of a key pair."""
    return {name: thing[name] for name in ("public_key", "type") if thing.get(name) is not None}


def _of_name(other: object, name: str) -> "KeyPair | None":
    return other if isinstance(other, KeyPair) and other.physical_id == name else None
