"""Signals by objects in the object store, and conditions that wait for them."""

import hashlib
import hmac
import json
import secrets
from typing import Final, cast
from urllib.parse import urlsplit

from heatlite.clients.cloud import CloudConflict, CloudNotFound
from heatlite.core.json import Json, JsonMap, dump
from heatlite.plugin import CloudResource, Schema, SupportStatus, prop
from heatlite.resources.wait_conditions import FAILURE, SUCCESS, WaitConditionFailure, WaitConditionTimeout

SIGNAL: Final = "signal"
"""Name of the object that a signal writes; the store keeps its earlier versions."""
FOREVER: Final = 2147483647
"""End of the temporary URL, in seconds since the epoch."""
AGAIN: Final = 2.0
"""Seconds between two looks at the signals."""
KEY: Final = "key"


class SwiftSignalHandle(CloudResource[Schema], type="OS::Heat::SwiftSignalHandle", kind="object_store.container"):
    """A container that receives the signals which an OS::Heat::SwiftSignal waits for.

    get_resource returns a temporary URL. A signal is a PUT of JSON with the optional keys status (SUCCESS or FAILURE),
    reason, data and id to it; an empty one is a success.
    """

    support_status = SupportStatus(version="2014.2")

    def fetch(self) -> JsonMap:
        if self.physical_id is None:
            raise CloudNotFound("object_store.get_container_metadata", f"{self.name} has not been made")
        return self.map(self.service("get_container_metadata", self.physical_id))

    def survey(self) -> bool:
        """Draw the key of the URL before the container is made with it."""
        if KEY in self.data:
            return False
        self.data[KEY] = secrets.token_urlsafe(32)
        return True

    def find(self) -> str | None:
        return None  # creating a container is idempotent, and its name is unique

    def handle_create(self) -> Json:
        headers = {
            "X-Versions-Location": self.physical_name,
            "X-Container-Meta-Temp-URL-Key": cast(str, self.data.setdefault(KEY, secrets.token_urlsafe(32))),
        }
        self.service("create_container", self.physical_name, **headers)
        self.data["store"] = self.service("get_endpoint")
        self.physical_id = self.physical_name
        return None

    def handle_delete(self) -> Json:
        return None

    def check_delete_complete(self, token: Json) -> bool | float:
        if self.physical_id is None:
            return True
        try:
            for one in cast(list[JsonMap], self.service("objects", self.physical_id)):
                self.service("delete_object", one["name"], container=self.physical_id)
            self.service("delete_container", self.physical_id)
        except CloudNotFound:
            return True
        except CloudConflict:
            return AGAIN  # an earlier version took the place of a deleted one
        return True

    def handle_check(self) -> Json:
        with self.looking():
            self.fetch()
        return None

    def reference(self) -> Json:
        return self.attr_endpoint() or self.name

    def secrets(self) -> list[Json]:
        return [self.data.get(KEY), self.attr_endpoint(), self._signature()]

    def _path(self) -> str:
        return f"{urlsplit(str(self.data['store'])).path}/{self.physical_id}/{SIGNAL}"

    def _signature(self) -> str | None:
        if self.physical_id is None:
            return None
        signed = f"PUT\n{FOREVER}\n{self._path()}".encode()
        return hmac.new(str(self.data[KEY]).encode(), signed, hashlib.sha256).hexdigest()

    def attr_endpoint(self) -> str | None:
        """The temporary URL for signals."""
        if self.physical_id is None:
            return None
        url = urlsplit(str(self.data["store"]))
        query = f"temp_url_sig={self._signature()}&temp_url_expires={FOREVER}"
        return f"{url.scheme}://{url.netloc}{self._path()}?{query}"

    def attr_token(self) -> str:
        """An empty text: the URL needs no token."""
        return ""

    def attr_curl_cli(self) -> str | None:
        """A command line that signals success."""
        return None if self.physical_id is None else f"curl -i -X PUT '{self.attr_endpoint()}'"


class SwiftSignalProps(Schema):
    handle: str = prop(doc="The URL of the handle, by get_resource.")
    timeout: float = prop(between=(1, 43200), doc="Maximum seconds to wait.")
    count: int = prop(1, between=(1, 1000), doc="The number of signals to wait for.")


class SwiftSignal(CloudResource[SwiftSignalProps], type="OS::Heat::SwiftSignal", kind="object_store.container"):
    """Waits for signals to an OS::Heat::SwiftSignalHandle."""

    support_status = SupportStatus(version="2014.2")
    blocks = frozenset({"OS::Heat::SwiftSignalHandle"})

    def find(self) -> str | None:
        return None  # it makes nothing

    def survey(self) -> bool:
        return False

    @property
    def _container(self) -> str:
        return urlsplit(self.props.handle).path.split("/")[-2]

    def fetch(self) -> JsonMap:
        return self.map(self.service("get_container_metadata", self._container))

    def _signals(self) -> dict[str, JsonMap]:
        """Return the signals by their ids; those without one get a number."""
        found: dict[str, JsonMap] = {}
        names = [str(one["name"]) for one in cast(list[JsonMap], self.service("objects", self._container))]
        for number, name in enumerate(sorted(names, key=lambda name: (name == SIGNAL, name)), 1):
            try:
                text = str(self.service("download_object", name, container=self._container) or "")
            except CloudNotFound:
                continue  # it became an earlier version meanwhile
            given: Json
            try:
                given = json.loads(text) if text.strip() else {}
            except ValueError:
                given = {"status": FAILURE, "reason": f"Signal {number} is no JSON"}
            signal = given if isinstance(given, dict) else {"data": given}
            found[str(signal.get("id", number))] = signal
        return found

    def handle_create(self) -> Json:
        self.physical_id = self.physical_name
        return {"until": self.facts.now() - self.facts.suspended() + self.props.timeout}

    def check_create_complete(self, token: Json) -> bool | float:
        signals = self._signals()
        failed = [
            str(one.get("reason", f"Signal {key} failed"))
            for key, one in signals.items()
            if one.get("status", SUCCESS) != SUCCESS
        ]
        if failed:
            raise WaitConditionFailure(";".join(failed))
        if len(signals) >= self.props.count:
            return True
        until = token["until"] if isinstance(token, dict) else 0
        if self.facts.now() - self.facts.suspended() >= float(cast(float, until)):
            raise WaitConditionTimeout(f"{len(signals)} of {self.props.count} received")
        return AGAIN

    def handle_delete(self) -> Json:
        return None  # the signals go with the handle

    def handle_check(self) -> Json:
        return None

    def live_properties(self) -> JsonMap | None:
        return {}

    def attr_data(self) -> str:
        """The data of the signals by their ids, as a map in JSON text."""
        return dump({key: one.get("data") for key, one in self._signals().items()})
