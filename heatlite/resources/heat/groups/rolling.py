"""Changes of groups in batches: the policy and its steps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Schema, prop


class Batch(Struct, frozen=True):
    """One step of a rolling change."""

    size: int
    """The number of members after the step."""
    fresh: int
    """The number of members that the step gives the new definition, new members included."""


class Rolling(Struct, frozen=True):
    """Policy by which a group changes its members in batches."""

    most: int
    """Maximum number of members that a batch gives the new definition; at least 1."""
    in_service: int
    """Minimum number of members that a batch leaves unchanged. A group may grow for that."""
    pause: float
    """Seconds between two batches."""

    def batches(self, target: int, current: int) -> Iterator[Batch]:
        """Yield the steps from `current` to `target` members with the new definition."""
        done = 0
        while not done >= current == target:
            fresh = min(self.most, max(target - done, 0))
            size = fresh + max(min(current, target - fresh), min(self.in_service, target, current))
            yield Batch(size, fresh)
            done += fresh - max(size - max(current, target), 0)
            current = size

    def stored(self) -> JsonMap:
        """Return the policy for `data`."""
        return {"most": self.most, "in_service": self.in_service, "pause": self.pause}

    @classmethod
    def stored_in(cls, plan: Mapping[str, Json]) -> "Rolling | None":
        """Return the policy in a part of `data`; None if it has none."""
        if "most" not in plan:
            return None
        return cls(cast(int, plan["most"]), cast(int, plan["in_service"]), cast(float, plan["pause"]))


def members_after(
    present: Sequence[tuple[str, Json]],
    batch: Batch,
    new_name: Callable[[], str],
    definition: Callable[[str], Json],
) -> JsonMap:
    """Return the members after one step.

    `present` are names and definitions, the first ones to be removed at the front. Surplus members are removed there.
    Of the rest, the first ones that differ get the new definition, as many as the step allows. New members are
    appended.
    """
    staying = present[max(len(present) - batch.size, 0) :]
    missing = batch.size - len(staying)
    to_change = batch.fresh - missing
    after: JsonMap = {}
    for name, old in staying:
        new = definition(name) if to_change > 0 else old
        if new != old:
            to_change -= 1
        after[name] = new
    for _ in range(missing):
        name = new_name()
        after[name] = definition(name)
    return after


# -- policies in templates -------------------------------------------------------------------------


class Batches(Schema):
    max_batch_size: int = prop(1, between=(1, None), doc="Maximum number of members in a batch.")
    pause_time: float = prop(0, between=(0, None), doc="Seconds between the batches.")

    def rolling(self) -> Rolling:
        """Return the policy."""
        return Rolling(self.max_batch_size, 0, self.pause_time)


class RollingUpdate(Batches):
    min_in_service: int = prop(0, between=(0, None), doc="Minimum number of members left unchanged during each batch.")

    def rolling(self) -> Rolling:
        """Return the policy."""
        return Rolling(self.max_batch_size, self.min_in_service, self.pause_time)
