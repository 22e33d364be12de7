"""Objects of the object store that agents read and write by temporary URLs."""

import hashlib
import hmac
import secrets
from contextlib import suppress
from typing import Final, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from heatlite.clients.cloud import Cloud, CloudConflict, CloudNotFound
from heatlite.core.json import Json, JsonMap, cleaned, dump, parse
from heatlite.plugin.ports import Facts
from heatlite.template.source.loader import verify_json_value

FOREVER: Final = 2147483647
"""End of a temporary URL, in seconds since the epoch."""
AGAIN: Final = 2.0
"""Seconds between two looks at the signals."""
KEY_HEADER: Final = "X-Container-Meta-Temp-URL-Key"
SIGNAL: Final = "signal"
"""Name of the object that a signal writes; the store keeps its earlier versions."""
UNSIGNALLED: Final = "in progress"
"""Content of the first version of the object of a Heat, which is no signal."""


def temp_url(store: str, place: str, key: str, method: str = "PUT") -> str:
    """Return the URL for a request for an object.

    `store` is the account's URL, `place` is container and object.
    """
    url = urlsplit(store)
    path = f"{unquote(url.path)}/{place}"  # the store checks the signature of the decoded path
    signed = hmac.new(key.encode(), f"{method}\n{FOREVER}\n{path}".encode(), hashlib.sha256).hexdigest()
    return f"{url.scheme}://{url.netloc}{quote(path)}?temp_url_sig={signed}&temp_url_expires={FOREVER}"


def place_of(url: str) -> tuple[str, str]:
    """Return container and object of a temporary URL."""
    _, _, _, container, name = unquote(urlsplit(url).path).split("/", 4)
    return container, name


def signature_of(url: str) -> str:
    """Return the signature of a temporary URL, a secret."""
    return dict(parse_qsl(urlsplit(url).query))["temp_url_sig"]


def home_cloud(facts: Facts) -> Cloud:
    """Return the cloud of a resource's stack. Raises NoCloud, OtherCloud, CloudError."""
    return facts.services.clouds.at_home(facts.project, facts.stack_id, facts.stack_name, facts.home()).cloud


def delete_object(cloud: Cloud, container: str, name: Json) -> None:
    """Delete an object, if it is there.

    The list of a container may still have one that is gone. Raises CloudError.
    """
    with suppress(CloudNotFound):
        cloud.call("object_store.delete_object", name, container=container)


def remove(cloud: Cloud, container: str) -> bool:
    """Delete a container with its objects.

    False if the call must be repeated: an earlier version took the place of a deleted one. Raises CloudError.
    """
    try:
        for one in cast(list[JsonMap], cloud.call("object_store.objects", container)):
            delete_object(cloud, container, one["name"])
        cloud.call("object_store.delete_container", container)
    except CloudNotFound:
        return True
    except CloudConflict:
        return False
    return True


# -- values of machines ------------------------------------------------------------------------------


def storable(value: Json) -> Json:
    """Return JSON of a machine with ``?`` for NUL and lone surrogates.

    The output of a script may have them. Raises ValueError for a value that is too deep or has an infinite number.
    """
    try:
        found: Json = cleaned(value)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    verify_json_value(found)
    return found


# -- answers to deployments --------------------------------------------------------------------------


class AnswerBox:
    """A container with the answers of a server: one object for each deployed config."""

    def __init__(self, facts: Facts, key: str) -> None:
        self._facts = facts
        self._key = key
        self._container = facts.physical_name

    @property
    def _cloud(self) -> Cloud:
        return home_cloud(self._facts)

    def open(self, config_id: str) -> str:
        """Make the container, and return the URL for the answer about a config.

        Raises NoCloud, CloudError.
        """
        headers = {KEY_HEADER: self._key}
        self._cloud.call("object_store.create_container", self._container, **headers)
        store = str(self._cloud.call("object_store.get_endpoint"))
        return temp_url(store, f"{self._container}/{config_id}", self._key)

    def answer(self, config_id: str) -> JsonMap | None:
        """Return the answer about a config; None before it arrives. Raises CloudError."""
        try:
            text = self._cloud.call("object_store.download_object", config_id, container=self._container)
        except CloudNotFound:
            return None
        try:
            given: Json = parse(str(text)) if str(text or "").strip() else {}
        except (ValueError, RecursionError):
            given = None
        return as_answer(given)

    def remove(self) -> bool:
        """Delete the container with all answers. False: repeat the call.

        Raises CloudError.
        """
        return remove(self._cloud, self._container)


def as_answer(given: Json) -> JsonMap:
    """Return a server's answer, as `storable`; a failure for one that is no object."""
    with suppress(ValueError):
        answer = storable(given)
        if isinstance(answer, dict):
            return answer
    return {"deploy_status_code": 1, "deploy_stderr": "The answer is no JSON object."}


# -- signals -----------------------------------------------------------------------------------------


def open_for_signals(cloud: Cloud, container: str, key: str) -> str:
    """Make a container that keeps all signals. Returns the URL of the store.

    Raises CloudError.
    """
    headers = {"X-Versions-Location": container, KEY_HEADER: key}
    cloud.call("object_store.create_container", container, **headers)
    return str(cloud.call("object_store.get_endpoint"))


def versions_of(cloud: Cloud, container: str, name: str) -> tuple[list[str], bool]:
    """Return the names of an object's versions, the earliest first.

    The second is true if the container has other objects. Raises CloudError.
    """
    listed = [str(one["name"]) for one in cast(list[JsonMap], cloud.call("object_store.objects", container))]
    earlier = f"{len(name):03x}{name}/"
    versions = [one for one in listed if one == name or one.startswith(earlier)]
    return sorted(versions, key=lambda one: (one == name, one)), len(versions) < len(listed)


def remove_signals(cloud: Cloud, container: str, name: str) -> bool:
    """Delete the signals of one handle, and the container unless it has others.

    False if the call must be repeated: an earlier version took the place of a deleted one. Raises CloudError.
    """
    try:
        versions, is_shared = versions_of(cloud, container, name)
    except CloudNotFound:
        return True
    if not is_shared:
        return remove(cloud, container)
    for version in versions:
        delete_object(cloud, container, version)
    return not versions


def signals_in(cloud: Cloud, container: str, handle: str = SIGNAL) -> dict[str, JsonMap]:
    """Return the signals of a handle by their ids.

    Signals without an id get a number. A signal that cannot be read is a failure. Raises CloudError.
    """
    found: dict[str, JsonMap] = {}
    number = 0
    for name in versions_of(cloud, container, handle)[0]:
        try:
            text = str(cloud.call("object_store.download_object", name, container=container) or "")
        except CloudNotFound:
            continue  # it became an earlier version meanwhile
        if text == UNSIGNALLED:
            continue
        number += 1
        given: Json
        try:
            given = storable(parse(text)) if text.strip() else {}
        except (ValueError, RecursionError):
            given = {"status": "FAILURE", "reason": f"Signal {number} is no JSON"}
        signal = given if isinstance(given, dict) else {"data": given}
        found[str(signal.get("id", number))] = signal
    return found


# -- metadata of servers -----------------------------------------------------------------------------


class MetadataObject:
    """The object from which the agent of a server reads its metadata."""

    def __init__(self, facts: Facts, container: str, name: str) -> None:
        self._facts = facts
        self._container = container
        self._name = name

    @property
    def _cloud(self) -> Cloud:
        return home_cloud(self._facts)

    def open(self) -> str:
        """Make the container if it is missing. Returns the URL for reading.

        Servers may share a container, so a key that it has stays. Raises NoCloud, CloudError.
        """
        known: JsonMap = {}
        with suppress(CloudNotFound):
            known = cast(JsonMap, self._cloud.call("object_store.get_container_metadata", self._container))
        key = str(known.get(KEY_HEADER.lower()) or self._new_key())
        headers = {KEY_HEADER: key}
        self._cloud.call("object_store.create_container", self._container, **headers)
        store = str(self._cloud.call("object_store.get_endpoint"))
        return temp_url(store, f"{self._container}/{self._name}", key, "GET")

    def _new_key(self) -> str:
        """Return the key for a container without one.

        It follows from a secret of the project: two workers that open the container at once set the same.
        """
        place = f"temporary URLs of {hashlib.sha256(self._facts.project.encode()).hexdigest()}"
        secret = self._facts.services.mailbox.agree(place, "secret", secrets.token_urlsafe(32))
        return hmac.new(str(secret).encode(), self._container.encode(), hashlib.sha256).hexdigest()

    def write(self, metadata: JsonMap) -> None:
        """Replace the metadata. Raises NoCloud, CloudError."""
        try:
            self._put(metadata)
        except CloudNotFound:  # another server of the container has deleted it with what was its last object
            self.open()
            self._put(metadata)

    def _put(self, metadata: JsonMap) -> None:
        self._cloud.call("object_store.create_object", self._container, self._name, data=dump(metadata))

    def remove(self) -> None:
        """Delete the object, and the container unless it has others.

        Raises NoCloud, CloudError.
        """
        with suppress(CloudNotFound, CloudConflict):
            delete_object(self._cloud, self._container, self._name)
            self._cloud.call("object_store.delete_container", self._container)
