"""Signals by objects in the object store, and conditions that wait for them."""

import secrets
from typing import cast

from heatlite.core.errors import InvalidValue
from heatlite.core.json import Json, JsonMap, heat_text
from heatlite.plugin import CloudResource, Schema, SupportStatus, prop
from heatlite.resources.heat.signals.conditions import WaitConditionFailure, WaitConditionTimeout
from heatlite.resources.heat.signals.temp_urls import (
    AGAIN,
    SIGNAL,
    open_for_signals,
    place_of,
    remove_signals,
    signals_in,
    signature_of,
    temp_url,
)
from heatlite.resources.heat.signals.transports import SUCCESS
from heatlite.resources.swift import StoreContainer

KEY, ENDPOINT = "key", "endpoint"


class SwiftSignalHandle(StoreContainer[Schema], type="OS::Heat::SwiftSignalHandle"):
    """A container that receives the signals which an OS::Heat::SwiftSignal waits for.

    get_resource returns a temporary URL. A signal is a PUT of JSON with the optional keys status (SUCCESS or FAILURE),
    reason, data and id to it; an empty one is a success.
    """

    support_status = SupportStatus(version="2014.2")
    searched = False  # creating a container is idempotent, and its name is unique

    @property
    def _place(self) -> tuple[str, str]:
        """Container and object of the signals.

        A Heat has one container for all handles of a stack; a handle that comes from there keeps its URL.
        """
        if ENDPOINT in self.data:
            return place_of(str(self.data[ENDPOINT]))
        return str(self.physical_id), SIGNAL

    @property
    def container(self) -> str:
        return self._place[0]

    def survey(self) -> bool:
        """Draw the key of the URL before the container is made with it."""
        if KEY in self.data:
            return False
        self.data[KEY] = secrets.token_urlsafe(32)
        return True

    def handle_create(self) -> Json:
        key = str(self.data.setdefault(KEY, secrets.token_urlsafe(32)))
        self.data["store"] = open_for_signals(self.cloud, self.physical_name, key)
        self.physical_id = self.physical_name
        return None

    def handle_adopt(self) -> None:
        """Test that the record has the URL for signals, of a Heat or of heatlite.

        Raises InvalidValue.
        """
        try:
            url = self.attr_endpoint() or ""
            place_of(url)
            signature_of(url)
        except (KeyError, ValueError):
            text = f"The record of {self.name} does not have the URL for its signals. Mark it unhealthy to replace it."
            raise InvalidValue(text) from None

    def handle_delete(self) -> Json:
        return None

    def check_delete_complete(self, token: Json) -> bool | float:
        if self.physical_id is None:
            return True
        return True if remove_signals(self.cloud, *self._place) else AGAIN

    def reference(self) -> Json:
        return self.attr_endpoint() or self.name

    def secrets(self) -> list[Json]:
        url = self.attr_endpoint()
        return [self.data.get(KEY), url, None if url is None else signature_of(url)]

    def attr_endpoint(self) -> str | None:
        """The temporary URL for signals."""
        if self.physical_id is None:
            return None
        if ENDPOINT in self.data:
            return str(self.data[ENDPOINT])
        return temp_url(str(self.data["store"]), f"{self.physical_id}/{SIGNAL}", str(self.data[KEY]))

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
    searched = False  # it makes nothing

    def fetch(self) -> JsonMap:
        return self.map(self.service("get_container_metadata", place_of(self.props.handle)[0]))

    def _signals(self) -> dict[str, JsonMap]:
        """Return the signals by their ids; those without one get a number."""
        return signals_in(self.cloud, *place_of(self.props.handle))

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
        return heat_text({key: one.get("data") for key, one in self._signals().items()})
