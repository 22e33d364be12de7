"""Queues of the messaging service, which agents use with their accounts.

The queues are in the project of the account, as in Heat.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, cast

from heatlite.clients.cloud import Cloud, CloudNotFound
from heatlite.core.errors import StackValidationFailed
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Resource, Schema
from heatlite.resources.heat.signals.temp_urls import as_answer

LIFETIME: Final = 3600
"""Lifetime of a message in seconds, as in Heat."""


def agents_cloud(resource: Resource[Schema], transport: str) -> Cloud:
    """Return the cloud as the agent of a resource sees it.

    Raises StackValidationFailed without a stack domain, CloudError.
    """
    accounts, account = resource.facts.services.accounts, resource.account
    if accounts is None or account is None:
        raise StackValidationFailed(
            f"{transport} needs accounts of agents: the operator must configure a stack domain of Keystone."
        )
    return accounts.cloud(account)


class Queue:
    """A queue by its name."""

    def __init__(self, cloud: Cloud, name: str) -> None:
        self._cloud = cloud
        self._name = name

    def open(self) -> None:
        """Create the queue, if it is missing. Raises CloudError."""
        self._cloud.call("messaging.put_queue", self._name, metadata={})

    def write(self, content: JsonMap) -> None:
        """Post a message. Raises CloudError."""
        self._cloud.call("messaging.post_messages", self._name, messages=[{"body": content, "ttl": LIFETIME}])

    def messages(self) -> Iterator[tuple[str, Json]]:
        """Yield id and body of messages, oldest first, and delete the used ones.

        A message that was used before a crash comes again. Raises CloudError.
        """
        with suppress(CloudNotFound):
            answer = self._cloud.call("messaging.messages", self._name, echo="true")
            found = cast(list[JsonMap], answer.get("messages") if isinstance(answer, dict) else answer)
            for one in found or ():
                message_id = str(one.get("id") or str(one["href"]).partition("?")[0].rpartition("/")[2])
                yield message_id, one.get("body")
                self._cloud.call("messaging.delete_message", self._name, message_id)

    def remove(self) -> None:
        """Delete the queue with its messages. Raises CloudError."""
        with suppress(CloudNotFound):
            self._cloud.call("messaging.delete_queue", self._name)


class AnswerQueue:
    """The queue with the answer of a server about one deployed config.

    The config's id is its name, so that no late answer counts for a later config.
    """

    def __init__(self, resource: Resource[Schema], transport: str, known: Json) -> None:
        """`known` is the id of the latest config, null before the first."""
        self._resource = resource
        self._transport = transport
        self._known = known

    def _queue(self, config_id: str) -> Queue:
        return Queue(agents_cloud(self._resource, self._transport), config_id)

    def open(self, config_id: str) -> str:
        """Make the queue in place of the earlier one, and return its name.

        Raises CloudError.
        """
        if isinstance(self._known, str) and self._known != config_id:
            self._queue(self._known).remove()
        self._queue(config_id).open()
        return config_id

    def answer(self, config_id: str) -> JsonMap | None:
        """Return the answer; None before it arrives. Raises CloudError."""
        for _, body in self._queue(config_id).messages():
            return as_answer(body)
        return None

    def remove(self) -> bool:
        """Delete the queue. Raises CloudError."""
        if isinstance(self._known, str):
            self._queue(self._known).remove()
        return True
