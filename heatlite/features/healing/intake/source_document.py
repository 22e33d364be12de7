"""Document of a source: its format, and the mapping from labels to targets. Pure."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from heatlite.core.validation import convert
from heatlite.features.healing.reports import DEFAULT_TTL
from heatlite.features.healing.terms import DEFAULT_SOURCES

Place: TypeAlias = Annotated[str, Meta(pattern=r"^(labels|annotations)\..+$(?!\n)", max_length=255)]
Places: TypeAlias = Annotated[tuple[Place, ...], Meta(max_length=20)]
Condition: TypeAlias = Annotated[
    dict[Place, Annotated[list[Annotated[str, Meta(max_length=1024)]], Meta(min_length=1, max_length=100)]],
    Meta(max_length=20),
]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=31_536_000)]
Given = Mapping[str, Mapping[str, str]]
"""``labels`` and ``annotations`` of an alert."""


class TargetPlaces(Struct, frozen=True, forbid_unknown_fields=True):
    """Places of the parts of a target."""

    physical_id: Places = (
        "labels.heatlite_physical_id", "labels.instance_id", "labels.openstack_instance_id", "labels.server_id",
    )  # fmt: skip
    stack: Places = ("labels.heatlite_stack",)
    resource: Places = ("labels.heatlite_resource",)
    reason: Places = ("annotations.summary", "annotations.description", "labels.alertname")


class StormLimit(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of slots beyond which a source has a storm."""

    percent: Number = 30
    """Share of the resources of the types concerned."""
    least: Number = 3
    """Least limit."""
    most: Number = 50
    """Greatest limit."""
    window: Number = 600
    """Seconds in which the slots count."""

    def slots(self, resources: int) -> int:
        """Return the limit for a number of resources of the types concerned."""
        return min(self.most, max(self.least, self.percent * resources // 100))


class SourceDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A source's document with its defaults."""

    format: Literal["alertmanager", "grafana", "aodh", "generic"]
    """The format of the reports."""
    map: TargetPlaces = TargetPlaces()
    """Places of the parts of a target: lists of ``labels.NAME`` and ``annotations.NAME``."""
    when: Condition = {}
    """Only alerts that have one of the values at each of these places count."""
    blind_when: Condition | UnsetType = UNSET
    """Such alerts say that the source cannot see. ``grafana`` has a default."""
    mark: Literal["resource", "member"] | UnsetType = UNSET
    """``resource``, or ``member``: the member of the group that holds it. Default of ``aodh``: ``member``."""
    resolved: Literal["unmark", "keep"] = "unmark"
    """The effect of a resolved alert on the mark."""
    ttl: Annotated[int, Meta(ge=60, le=31_536_000)] = DEFAULT_TTL
    """Seconds without a report after which an incident expires."""
    storm: StormLimit = StormLimit()
    """The storm guard."""

    @property
    def marks_member(self) -> bool:
        """True if the member that holds the resource is marked instead of it."""
        return (self.mark or ("member" if self.format == "aodh" else "resource")) == "member"

    @property
    def unmarks(self) -> bool:
        """True if a resolved alert takes the mark back."""
        return self.resolved == "unmark"

    def value(self, name: str, given: Given) -> str | None:
        """Return the first value of a target's part that is present and not empty."""
        places: Places = getattr(self.map, name)
        return next((found for place in places if (found := _at(place, given))), None)

    def matches(self, given: Given) -> bool:
        """Return True if the source takes an alert."""
        return _matches(self.when, given)

    def is_blind(self, given: Given) -> bool:
        """Return True if an alert says that the source cannot see."""
        default = {"labels.alertname": ["DatasourceNoData", "DatasourceError"]} if self.format == "grafana" else {}
        condition = default if self.blind_when is UNSET else self.blind_when
        return bool(condition) and _matches(condition, given)


@cache
def default_document(name: str) -> SourceDocument | None:
    """Return the document of a source without configuration; None for other names."""
    return convert({"format": name}, SourceDocument) if name in DEFAULT_SOURCES else None


def _at(place: str, given: Given) -> str:
    table, _, name = place.partition(".")
    return given.get(table, {}).get(name, "")


def _matches(condition: Mapping[str, Sequence[str]], given: Given) -> bool:
    return all(_at(place, given) in values for place, values in condition.items())
