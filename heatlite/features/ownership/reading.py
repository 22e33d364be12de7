"""A cloud for reading only, which is asked for nothing twice."""

import copy
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from heatlite.clients.cloud import Cloud, CloudError
from heatlite.core.clouds import CloudIdentity
from heatlite.core.json import Json, canonical

CHANGES: Final = re.compile(
    r"(?:accept|act|activate|add|append|assign|associate|attach|authorize|cancel|change|clear|confirm|create|deactivate"
    r"|define|delete|detach|disassociate|evacuate|extend|flavor_add|flavor_remove|import|lock|manage|migrate|patch|pause"
    r"|post|put|reactivate|reboot|rebuild|redefine|remove|rename|replace|reset|resize|restore|resume|retype|revert|revoke"
    r"|rotate|run|set|shelve|start|stage|stop|suspend|unassign|unlock|unmanage|unpause|unset|unshelve|update|upload"
    r"|validate)_|share_queue"
)
"""Beginnings of verbs that may change something."""
_SINGLE: Final = re.compile(r"network\.(?:get|find)_(\w+)")


class ChangesNothing(CloudError):
    """An operation that only reads was about to change an object."""


class ReadingCloud:
    """A view of a cloud that refuses changes, and keeps each answer."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._answers: dict[str, Json | CloudError] = {}
        self._seen: dict[str, Json] = {}
        """Objects of lists, by kind and id."""
        self._lock = threading.Lock()

    @property
    def place(self) -> CloudIdentity:
        return self._cloud.place

    @property
    def identity(self) -> CloudIdentity:
        return self._cloud.identity

    def has(self, service: str) -> bool:
        return self._cloud.has(service)

    def call(self, verb: str, *arguments: Json, **attributes: Json) -> Json:
        """Ask a service, once for each question. Raises CloudError."""
        if CHANGES.match(verb.partition(".")[2]):
            raise ChangesNothing(verb, "this operation changes nothing in the cloud")
        question = canonical([verb, arguments, attributes])
        with self._lock:
            known = self._answers.get(question, self._listed(verb, arguments, attributes))
        if isinstance(known, ReadingCloud):
            try:
                known = self._cloud.call(verb, *arguments, **attributes)
            except CloudError as error:
                known = error
            with self._lock:
                self._answers[question] = known
                self._note(verb, known)
        if isinstance(known, CloudError):
            raise known
        return copy.deepcopy(known)

    def _note(self, verb: str, answer: Json | CloudError) -> None:
        """Keep the objects of a list of the network service.

        They are as whole as single ones.
        """
        kind = verb.removesuffix("s")
        for one in answer if kind.startswith("network.") and kind != verb and isinstance(answer, list) else ():
            if isinstance(one, dict):
                self._seen[f"{kind} {one.get('id')}"] = one

    def _listed(self, verb: str, arguments: Sequence[Json], attributes: Mapping[str, Json]) -> "Json | ReadingCloud":
        """Return an object that a list has told.

        This cloud: none has, or the question is another one.
        """
        match = _SINGLE.fullmatch(verb)
        if match is None or len(arguments) != 1 or attributes:
            return self
        return self._seen.get(f"network.{match[1]} {arguments[0]}", self)
