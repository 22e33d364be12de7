"""Reads a stack of a Heat with all it contains, by ordinary routes of the API."""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol
from urllib.parse import quote, urlsplit

from msgspec import Struct

from heatlite.core.errors import ErrorAnswer
from heatlite.core.json import Json, JsonMap, as_map, as_maps

DETAILED: Final = frozenset(
    {
        "OS::Heat::RandomString",
        "OS::Heat::SoftwareDeployment",
        "OS::Heat::StructuredDeployment",
        "OS::Heat::SwiftSignalHandle",
        "OS::Nova::KeyPair",
        "OS::Nova::Server",
        "OS::Zaqar::SignedQueueURL",
        "AWS::IAM::AccessKey",
    }
)
"""Types whose attributes are read: heatlite needs them, and the template does not have them."""
HANDLES: Final = frozenset(
    {
        "OS::Heat::WaitConditionHandle",
        "AWS::CloudFormation::WaitConditionHandle",
        "OS::Heat::UpdateWaitConditionHandle",
    }
)
"""Types whose metadata has the received signals."""
DEPTH: Final = "99"
"""Levels of nested stacks that are listed."""


class Api(Protocol):
    """The orchestration API of one project: a Heat, or heatlite."""

    def request(self, method: str, path: str, body: Json = None, query: Mapping[str, str] | None = None) -> Json:
        """Send a request to a path below the project. Returns the decoded answer.

        Raises ErrorAnswer.
        """


class FoundResource(Struct, frozen=True):
    """A resource of a Heat. `type` has no alias of the registry any more."""

    name: str
    type: str
    template_type: str
    physical_id: str
    status: str
    attributes: JsonMap = {}
    metadata: JsonMap = {}
    nested: "FoundStack | None" = None


class FoundStack(Struct, frozen=True):
    """A stack of a Heat with its resources.

    A nested one has no environment and no files.
    """

    name: str
    id: str
    status: str
    template: JsonMap
    resources: tuple[FoundResource, ...]
    environment: JsonMap = {}
    files: JsonMap = {}
    shown: JsonMap = {}
    """The answer of GET on the stack."""
    exported: JsonMap | None = None
    """Its export record, if the Heat gives one (`enable_stack_abandon`)."""

    @property
    def changed_at(self) -> str:
        """Time of the last change, as the Heat writes it."""
        return str(self.shown.get("updated_time") or self.shown.get("creation_time"))

    @property
    def outputs(self) -> dict[str, Json]:
        """Values of the outputs by name."""
        given = self.shown.get("outputs")
        return {str(one["output_key"]): one.get("output_value") for one in as_maps(given)}

    def walk(self, path: str = "") -> Iterator[tuple[str, FoundResource]]:
        """Yield the resources at all depths, with their paths (``group/0``)."""
        for one in self.resources:
            here = f"{path}{one.name}"
            yield here, one
            if one.nested is not None:
                yield from one.nested.walk(f"{here}/")


def stack_names(api: Api) -> list[str]:
    """Return the names of the stacks of the project that are not nested, oldest first."""
    found = as_maps(as_map(api.request("GET", "/stacks")).get("stacks"))
    return [str(one["stack_name"]) for one in reversed(list(found)) if not one.get("parent")]


def read(api: Api, name: str) -> FoundStack:
    """Read a stack by name or id. Raises the API's errors."""
    shown = as_map(as_map(api.request("GET", f"/stacks/{quote(name, safe='')}")).get("stack"))
    return _Reader(api, shown).stack()


class _Reader:
    """Reads one stack. The list of its resources comes in one answer for all depths."""

    def __init__(self, api: Api, shown: JsonMap) -> None:
        self._api = api
        self._shown = shown
        self._path = path_of(str(shown["stack_name"]), str(shown["id"]))
        self._environment = self._get(f"{self._path}/environment")
        self._registry = as_map(self._environment.get("resource_registry"))
        self._listed: dict[str, list[JsonMap]] = {}

    def _get(self, path: str, query: Mapping[str, str] | None = None) -> JsonMap:
        return as_map(self._api.request("GET", path, query=query))

    def stack(self) -> FoundStack:
        """Return the stack."""
        answer = self._get(f"{self._path}/resources", {"nested_depth": DEPTH})
        for one in as_maps(answer.get("resources")):
            self._listed.setdefault(_link(one, "stack"), []).append(one)
        return FoundStack(
            name=str(self._shown["stack_name"]),
            id=str(self._shown["id"]),
            status=str(self._shown["stack_status"]),
            template=self._get(f"{self._path}/template"),
            resources=self._resources(self._path),
            environment=self._environment,
            files=self._get(f"{self._path}/files"),
            shown=self._shown,
            exported=self._export(),
        )

    def _export(self) -> JsonMap | None:
        try:
            return self._get(f"{self._path}/export")
        except ErrorAnswer as error:
            if error.status in (400, 403, 404):
                return None  # the setting is off, or the caller may not
            raise

    def _resources(self, path: str) -> tuple[FoundResource, ...]:
        listed = sorted(self._listed.get(path, ()), key=lambda one: str(one["resource_name"]))
        return tuple(self._resource(path, one) for one in listed)

    def _resource(self, path: str, listed: JsonMap) -> FoundResource:
        name, kind = str(listed["resource_name"]), str(listed["resource_type"])
        mapped = self._mapped(kind)
        here, below = f"{path}/resources/{quote(name, safe='')}", _link(listed, "nested")
        detail = as_map(self._get(here).get("resource")) if mapped in DETAILED else {}
        metadata = as_map(self._get(f"{here}/metadata").get("metadata")) if mapped in HANDLES else {}
        return FoundResource(
            name=name,
            type=mapped,
            template_type=kind,
            physical_id=str(listed.get("physical_resource_id") or ""),
            status=str(listed["resource_status"]),
            attributes=as_map(detail.get("attributes")),
            metadata=metadata,
            nested=self._nested(below, str(listed["resource_status"])) if below else None,
        )

    def _nested(self, path: str, status: str) -> FoundStack:
        _, _, name, identifier = path.split("/")
        return FoundStack(name, identifier, status, self._get(f"{path}/template"), self._resources(path))

    def _mapped(self, kind: str) -> str:
        seen = {kind}
        while isinstance(to := self._registry.get(kind), str) and to not in seen and not is_file(to):
            kind = to
            seen.add(to)
        return kind


def is_file(kind: str) -> bool:
    """Return True if a type is a template."""
    return kind.endswith((".yaml", ".template", ".yml", ".json")) or "://" in kind


def path_of(name: str, identifier: str) -> str:
    """Return ``/stacks/<name>/<id>``."""
    return f"/stacks/{quote(name, safe='')}/{quote(identifier, safe='')}"


def _link(listed: JsonMap, relation: str) -> str:
    """Return the path of a linked stack below the project; empty without one."""
    for one in as_maps(listed.get("links")):
        if one.get("rel") == relation:
            return "/stacks/" + urlsplit(str(one.get("href"))).path.partition("/stacks/")[2]
    return ""
