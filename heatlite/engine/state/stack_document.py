"""Stack documents: exports of a stack with its objects, read by adopt and restore.

The form is Heat's. In addition each resource has its ``physical_name``, by which some types find their object, and its
``mapped_type``, to which the environment's registry maps its type.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from msgspec.structs import asdict

from heatlite.core.clock import to_text
from heatlite.core.clouds import CloudIdentity
from heatlite.core.errors import HTTPBadRequest, Invalid, RequestLimitExceeded
from heatlite.core.json import Json, JsonMap, size
from heatlite.core.redaction.masking import MASK, origin
from heatlite.core.wire.base import shown
from heatlite.core.wire.resources import Protection
from heatlite.engine.state.requests import Adopted
from heatlite.engine.state.values import current_rows
from heatlite.store.records import ProtectionRecord, ResourceRecord, StackRecord, TemplateRecord
from heatlite.store.store import Store
from heatlite.template.document import Template
from heatlite.template.source.loader import load_mapping, load_template


def _nothing(_stack: StackRecord, _row: ResourceRecord) -> JsonMap:
    return {}


def stack_record(
    store: Store,
    stack: StackRecord,
    rows: list[ResourceRecord] | None = None,
    exported: Callable[[StackRecord, ResourceRecord], JsonMap] = _nothing,
) -> JsonMap:
    """Return the document of a stack.

    The entry of a nested stack's resource contains that stack's document, without the files that the enclosing document
    has. `rows` are the stack's resources, if the caller has newer ones than the store. `exported` returns what an entry
    has besides the row's data.
    """
    rows = store.resources.of(stack.id) if rows is None else rows
    return _Tree(store, stack, exported).document(stack, rows, {})


def check_document(store: Store, stack: StackRecord, most: int) -> None:
    """Check the size of the templates and files in the document of a stack.

    A nested stack repeats its template, so a small request can lead to a large document. Raises RequestLimitExceeded
    above `most` characters of JSON. The rest of a document has a limit since its stack was made (`max_stack_data`).
    """
    if _Tree(store, stack).size(most) > most:
        raise RequestLimitExceeded(
            message=f"the templates and files of the stack and of those nested with it come to more than {most}"
            " characters of JSON (max_stack_data). Reduce them, or divide the stack."
        )


class _Tree:
    """A stack and its nested stacks; each template is read once."""

    def __init__(
        self, store: Store, root: StackRecord, exported: Callable[[StackRecord, ResourceRecord], JsonMap] = _nothing
    ) -> None:
        self._store = store
        self._root = root
        self._exported = exported
        self._nested = {child.id: child for child in store.resources.attached(store.stacks.descendants(root))}
        self._templates = {
            template_id: store.templates.get(template_id)
            for template_id in {one.template_id for one in (root, *self._nested.values())}
        }

    def size(self, most: int) -> int:
        """Return the size of all templates and files, up to `most`, in characters of JSON."""
        total = 0
        for one in (self._root, *self._nested.values()):
            template, around = self._templates[one.template_id], self._nested.get(one.parent_id or "", self._root)
            outer = {} if one is self._root else self._templates[around.template_id].files
            total += size([template.document, _own_files(template, outer)], most - total)
            if total > most:
                break
        return total

    def document(self, stack: StackRecord, rows: list[ResourceRecord], outer: Mapping[str, str]) -> JsonMap:
        """Return the document of one stack of the tree.

        `outer`: the files of the enclosing document.
        """
        template = self._templates[stack.template_id]
        resources: JsonMap = {}
        for row in current_rows(rows):
            child = self._nested.get(row.physical_id or "")
            of_child = {} if child is None else self.document(child, self._store.resources.of(child.id), template.files)
            resources[row.name] = {**of_child, **_resource(row, self._exported(stack, row))}
        return {
            "name": stack.name,
            "id": stack.id,
            "action": stack.verb.value,
            "status": stack.status.value,
            "template": template.document,
            "environment": stack.environment,
            "files": _own_files(template, outer),
            "project_id": stack.project,
            "stack_user_project_id": None,
            "tags": list(stack.tags),
            "resources": resources,
            "stack_protection": _protection(stack.protection),
            "cloud": None if stack.cloud is None else asdict(stack.cloud),
        }


def _own_files(template: TemplateRecord, outer: Mapping[str, str]) -> JsonMap:
    return {name: text for name, text in template.files.items() if outer.get(name) != text}


def _resource(row: ResourceRecord, exported: JsonMap) -> JsonMap:
    return {
        "name": row.name,
        "resource_id": row.physical_id,
        "physical_name": row.physical_name,
        "type": row.type,
        "mapped_type": row.mapped_type,
        "action": row.verb.value,
        "status": row.status.value,
        "metadata": row.metadata,
        "resource_data": {**row.data, **exported},
        "protection": _protection(row.protection),
    }


def without_sinks(environment: JsonMap) -> JsonMap:
    """Return an environment with the hosts of its event sinks only.

    Path and query of a sink's URL may be what admits a sender.
    """
    sinks = environment.get("event_sinks")
    if not isinstance(sinks, list):
        return environment
    shown: list[Json] = [
        {**sink, "target": f"{origin(target)}/{MASK}"}
        if isinstance(sink, dict) and isinstance(target := sink.get("target"), str) and "://" in target
        else sink
        for sink in sinks
    ]
    return {**environment, "event_sinks": shown}


def without_data(record: Mapping[str, Json]) -> JsonMap:
    """Return the document without data of types and URLs of sinks, at any depth."""
    shown = {**record}
    if isinstance(environment := record.get("environment"), dict):
        shown["environment"] = without_sinks(environment)
    if isinstance(resources := record.get("resources"), Mapping):
        shown["resources"] = {
            name: without_data(entry) if isinstance(entry, Mapping) else entry for name, entry in resources.items()
        }
    if "resource_data" in shown:
        shown["resource_data"] = {}
    return shown


def protection(record: ProtectionRecord | None) -> Protection | None:
    """Return a protection as the API shows it, or None."""
    if record is None:
        return None
    return Protection(protected_by=record.by, protected_at=to_text(record.at), reason=record.reason)


def _protection(record: ProtectionRecord | None) -> JsonMap | None:
    found = protection(record)
    return None if found is None else shown(found)


def hidden_in(record: Mapping[str, Json], files: Mapping[str, str]) -> list[object]:
    """Return the values of hidden parameters in a document, at any depth."""
    template, environment = record.get("template"), record.get("environment")
    own = record.get("files")
    found: list[object] = []
    if isinstance(own, Mapping) and own:
        files = {**files, **{name: text for name, text in own.items() if isinstance(text, str)}}
    if isinstance(template, Mapping) and isinstance(environment, Mapping):
        names = {*Template(template, files).hidden, *_hidden_in_files(files)}
        defaults = {name: schema.default for name, schema in Template(template, files).parameters.items()}
        places = (environment.get("parameters"), environment.get("parameter_defaults"), defaults)
        found += [values[name] for values in places if isinstance(values, Mapping) for name in names if name in values]
        sinks = environment.get("event_sinks")
        for sink in sinks if isinstance(sinks, list) else ():
            found.append(sink.get("secret") if isinstance(sink, Mapping) else None)
    resources = record.get("resources")
    for entry in resources.values() if isinstance(resources, Mapping) else ():
        if isinstance(entry, Mapping):
            found += hidden_in(entry, files)
    return found


def _hidden_in_files(files: Mapping[str, str]) -> Iterator[str]:
    for name, text in files.items():
        if "hidden" in text or "NoEcho" in text:
            with suppress(Invalid):  # The file is no template.
                yield from Template(load_template(text, name).data).hidden


def read_record(value: Json) -> Adopted:
    """Read a stack document, an object or text.

    Raises HTTPBadRequest for anything else.
    """
    data = load_mapping(value, "adopt_stack_data", "Stack record").data
    template = data.get("template")
    if not isinstance(template, dict):
        raise HTTPBadRequest("adopt_stack_data: there is no template in it.")
    files = _map(data, "files")
    return Adopted(
        template,
        _map(data, "environment"),
        {name: content for name, content in files.items() if isinstance(content, str)},
        _resources(data, "adopt_stack_data"),
        data.get("stack_protection") is not None,
        CloudIdentity.from_json(data.get("cloud")),
    )


def _resources(data: Mapping[str, Json], where: str) -> JsonMap:
    """Return the resources of a document, after validation of the fields for adoption."""
    resources: JsonMap = {}
    for name, entry in _map(data, "resources", where).items():
        here = f"{where}.resources.{name}"
        if not isinstance(entry, dict):
            raise HTTPBadRequest(f"{here}: must be an object.")
        if entry.get("resource_id") is None and isinstance(entry.get("template"), dict):
            # Heat puts the document of a nested stack in the place of its resource.
            entry = {**entry, "resource_id": entry.get("id"), "physical_name": entry.get("name")}
        for key in ("resource_id", "physical_name"):
            if not isinstance(entry.get(key), str | None):
                raise HTTPBadRequest(f"{here}.{key}: must be text or null.")
        _map(entry, "resource_data", here)
        resources[name] = {**entry, "resources": _resources(entry, here)} if "resources" in entry else entry
    return resources


def _map(data: Mapping[str, Json], key: str, where: str = "adopt_stack_data") -> JsonMap:
    value = data.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise HTTPBadRequest(f"{where}.{key}: must be an object or null.")
    return value
