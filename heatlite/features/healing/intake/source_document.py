"""Document of a source: its format, and the mapping from labels to targets. Pure."""

from collections.abc import Mapping, Sequence
from functools import cache

from msgspec import Struct

from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json, JsonMap
from heatlite.core.validation import closed, explain, faults
from heatlite.features.healing.reports import DEFAULT_TTL
from heatlite.features.healing.terms import DEFAULT_SOURCES

PLACE: JsonMap = {"type": "string", "pattern": r"^(labels|annotations)\..+$", "maxLength": 255}
PLACES: JsonMap = {"type": "array", "items": PLACE, "maxItems": 20}
CONDITION: JsonMap = {
    "type": "object",
    "maxProperties": 20,
    "propertyNames": {"pattern": r"^(labels|annotations)\..+$", "maxLength": 255},
    "additionalProperties": {
        "type": "array", "items": {"type": "string", "maxLength": 1024}, "minItems": 1, "maxItems": 100,
    },
}
NUMBER: JsonMap = {"type": "integer", "minimum": 0, "maximum": 31_536_000}
SCHEMA = closed(
    "format",
    format={"enum": list(DEFAULT_SOURCES)},
    map=closed(**dict.fromkeys(("physical_id", "stack", "resource", "reason"), PLACES)),
    when=CONDITION,
    blind_when=CONDITION,
    mark={"enum": ["resource", "member"]},
    resolved={"enum": ["unmark", "keep"]},
    ttl={**NUMBER, "minimum": 60},
    storm=closed(**dict.fromkeys(("percent", "least", "most", "window"), NUMBER)),
)
MAP: Mapping[str, Sequence[str]] = {
    "physical_id": (
        "labels.heatlite_physical_id", "labels.instance_id", "labels.openstack_instance_id", "labels.server_id",
    ),
    "stack": ("labels.heatlite_stack",),
    "resource": ("labels.heatlite_resource",),
    "reason": ("annotations.summary", "annotations.description", "labels.alertname"),
}  # fmt: skip
GRAFANA_BLIND: Mapping[str, Sequence[str]] = {"labels.alertname": ("DatasourceNoData", "DatasourceError")}
Given = Mapping[str, Mapping[str, str]]
"""``labels`` and ``annotations`` of an alert."""


class SourceDocument(Struct, frozen=True):
    """A source's document with its defaults."""

    format: str
    map: Mapping[str, Sequence[str]]
    when: Mapping[str, Sequence[str]]
    blind_when: Mapping[str, Sequence[str]]
    marks_member: bool
    """True if the group member that holds the resource is marked instead of the resource."""
    unmarks: bool
    """True if a resolved alert takes the mark back."""
    ttl: int

    def value(self, name: str, given: Given) -> str | None:
        """Return the first value of a target's part that is present and not empty."""
        return next((found for place in self.map.get(name, ()) if (found := _at(place, given))), None)

    def matches(self, given: Given) -> bool:
        """Return True if the source takes an alert."""
        return _matches(self.when, given)

    def is_blind(self, given: Given) -> bool:
        """Return True if an alert says that the source cannot see."""
        return bool(self.blind_when) and _matches(self.blind_when, given)


def read_document(document: Json) -> SourceDocument:
    """Check a document and add its defaults. Raises HTTPBadRequest."""
    for error in faults(SCHEMA, document):
        where = ".".join(map(str, error.absolute_path)) or "The document"
        raise HTTPBadRequest(f"{where}: {explain(error)}")
    assert isinstance(document, dict)
    return _read(document)


@cache
def default_document(name: str) -> SourceDocument | None:
    """Return the document of a source without configuration; None for other names."""
    return _read({"format": name}) if name in DEFAULT_SOURCES else None


def _read(document: JsonMap) -> SourceDocument:
    form = str(document["format"])

    def table(name: str, default: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        found = document.get(name)
        if not isinstance(found, dict):
            return default
        return {key: [str(one) for one in value] for key, value in found.items() if isinstance(value, list)}

    ttl = document.get("ttl")
    return SourceDocument(
        form,
        {**MAP, **table("map", {})},
        table("when", {}),
        table("blind_when", GRAFANA_BLIND if form == "grafana" else {}),
        document.get("mark", "member" if form == "aodh" else "resource") == "member",
        document.get("resolved", "unmark") == "unmark",
        ttl if isinstance(ttl, int) else DEFAULT_TTL,
    )


def _at(place: str, given: Given) -> str:
    table, _, name = place.partition(".")
    return given.get(table, {}).get(name, "")


def _matches(condition: Mapping[str, Sequence[str]], given: Given) -> bool:
    return all(_at(place, given) in values for place, values in condition.items())
