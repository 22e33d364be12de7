"""Environments: parameters and type mappings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.errors import Problem
from heatlite.core.json import Json, JsonMap, as_map, overlaid
from heatlite.core.redaction.masking import MASK
from heatlite.core.status import MAX_REASON
from heatlite.template.globs import blocks_for, fault_of_globs
from heatlite.template.ignored import IGNORE_DRIFT, entry_faults
from heatlite.template.replacement import Replacement, faults
from heatlite.template.source.loader import SourceText, load_mapping
from heatlite.template.source.problems import MAX_HINTS, nearest, raise_first
from heatlite.template.types import ResourceTypeView, TypeCatalog

SECTIONS: Final = (
    "parameters",
    "parameter_defaults",
    "parameter_merge_strategies",
    "resource_registry",
    "event_sinks",
    "encrypted_param_names",
)
_supplied: set[str] = set()
"""Sections of features, see `add_sections`."""
HOOKS: Final = tuple(f"{moment}-{verb}" for moment in ("pre", "post") for verb in ("create", "update", "delete"))
RESTRICTED_ACTIONS: Final = ("update", "replace")
LIFECYCLE_HOOK: Final = "lifecycle_hook"
PROTECT: Final = "protect"
MAX_HOOK: Final = 2**31
"""Seconds."""
STRATEGIES: Final = ("overwrite", "merge", "deep_merge")
_MAX_STEPS: Final = 100
"""Types that are looked at until a mapping ends somewhere."""


def _wrong(text: str, path: tuple[str | int, ...], source: str, hint: str = "") -> Problem:
    return Problem(path, f"Environment not in valid format: {text}", hint, "HTTPBadRequest", source)


class Environment(Struct, frozen=True):
    """Input of a stack besides its template."""

    parameters: JsonMap = {}
    parameter_defaults: JsonMap = {}
    resource_registry: JsonMap = {}
    event_sinks: Sequence[Json] = ()
    encrypted_param_names: Sequence[str] = ()
    merge_strategies: Mapping[str, str] = {}
    """Counts only while files are merged; never stored."""
    supplied: Mapping[str, JsonMap] = {}
    """Contents of the sections of features, see `add_sections`. Counts only in a request; never stored."""
    without: frozenset[str] = frozenset()
    """Disabled entries of the installation's registry, never stored.
    They are the templates around this one."""

    @classmethod
    def parse(cls, source: SourceText) -> "Environment":
        """Read an environment.

        Raises HTTPBadRequest "Environment not in valid format: …", InvalidBreakPointHook for a bad hook, and
        StackValidationFailed for a bad restricted action.
        """
        environment, problems = cls.read(source)
        raise_first(problems)
        return environment

    @classmethod
    def stored(cls, data: Mapping[str, Json]) -> "Environment":
        """Return an environment accepted earlier, without what is wrong by later rules."""
        return cls.read(load_mapping(data, "environment", "Environment"))[0]

    @classmethod
    def read(cls, source: SourceText) -> tuple["Environment", list[Problem]]:
        """As `parse`, but raises nothing: what is wrong is left out and told."""
        name = source.name
        problems: list[Problem] = []
        data: JsonMap = {}
        for section, content in source.data.items():
            form = list if section in ("event_sinks", "encrypted_param_names") else dict
            known = section in SECTIONS or section in _supplied
            if known and isinstance(content, form):
                data[section] = content
                continue
            text, hint = f'environment section "{section}" must be a {"list" if form is list else "map"}', ""
            if not known:
                text = f'environment has wrong section "{section}"'
                hint = nearest(section, (*SECTIONS, *sorted(_supplied))) if len(problems) < MAX_HINTS else ""
            elif content is None:
                text, hint = f'environment has empty section "{section}"', f"Leave it out, or write {section}: {form()}"
            problems.append(_wrong(text, (section,), name, hint))
        registry = _read_registry(_section(data, "resource_registry"), name, problems)
        given = _section(data, "parameter_merge_strategies")
        strategies = {key: one for key, one in given.items() if isinstance(one, str) and one in STRATEGIES}
        for parameter, strategy in given.items():
            if parameter not in strategies:
                text = f'invalid merge strategy "{strategy}" for "{parameter}"'
                where = ("parameter_merge_strategies", parameter)
                problems.append(_wrong(text, where, name, f"one of {', '.join(STRATEGIES)}"))
        names, sinks = data.get("encrypted_param_names", []), data.get("event_sinks", [])
        assert isinstance(names, list) and isinstance(sinks, list)
        for i, sink in enumerate(sinks):
            if text := _fault_of_sink(sink):
                problems.append(_wrong(text, ("event_sinks", i), name))
        return cls(
            parameters=_section(data, "parameters"),
            parameter_defaults=_section(data, "parameter_defaults"),
            resource_registry={**registry, "resources": registry.get("resources", {})},
            event_sinks=tuple(sinks),
            encrypted_param_names=tuple(map(str, names)),
            merge_strategies=strategies,
            supplied={name: _section(data, name) for name in _supplied if name in data},
        ), problems

    def to_dict(self, hidden: Iterable[str] | None = None) -> JsonMap:
        """Return the API's form, with secrets masked.

        These are the values of `hidden` parameters and the secrets of sinks.

        Without `hidden` nothing is masked, and `parse` reads it again.
        """
        masked = frozenset(hidden or ())

        def shown(values: JsonMap) -> JsonMap:
            return {name: MASK if name in masked else value for name, value in values.items()}

        return {
            "resource_registry": {"resources": {}, **self.resource_registry},
            "parameters": shown(self.parameters),
            "parameter_defaults": shown(self.parameter_defaults),
            "event_sinks": list(self.event_sinks) if hidden is None else [_masked(sink) for sink in self.event_sinks],
            "encrypted_param_names": list(self.encrypted_param_names),
        }

    @property
    def supplied_names(self) -> frozenset[str]:
        """The names of the parameters that features give values to."""
        return frozenset(name for section in self.supplied.values() for name in section)

    def hooks(self, resource_name: str) -> frozenset[str]:
        """Return the breakpoints of a resource (``pre-create`` …), by name or pattern."""
        return self._listed(resource_name, "hooks")

    def lifecycle_timeout(self, resource_name: str) -> float | None:
        """Return the seconds that an update waits before deletion; None: no wait."""
        timeout = None
        for block in self.blocks(resource_name):
            hook = block.get(LIFECYCLE_HOOK)
            if isinstance(hook, Mapping):
                timeout = hook["timeout"]
        return float(timeout) if isinstance(timeout, int | float) else None

    def restricted_actions(self, resource_name: str) -> frozenset[str]:
        """Return the forbidden actions of a resource: `RESTRICTED_ACTIONS`."""
        return self._listed(resource_name, "restricted_actions")

    def protection(self, resource_name: str) -> str | None:
        """Return why a resource is to be protected once made; None: it is not."""
        found: str | None = None
        for block in self.blocks(resource_name):
            rule = block.get(PROTECT)
            if isinstance(rule, Mapping):
                found = str(rule.get("reason") or found or "the environment says so")
        return found

    @property
    def protects_some(self) -> bool:
        """Test whether any resource, nested ones included, may be protected."""
        return _says_protect(self.resource_registry.get("resources"))

    def replacement(self, resource_name: str) -> Replacement:
        """Return the replacement of a resource whose update_policy has none."""
        found = Replacement()
        for block in self.blocks(resource_name):
            if "replacement" in block:
                found = found.refined(block["replacement"])
        return found

    def _listed(self, resource_name: str, key: str) -> frozenset[str]:
        if "resources" not in self.resource_registry:
            return frozenset()
        blocks = self.blocks(resource_name)
        contents = [block[key] for block in blocks if block.get(key) is not None]
        return frozenset([str(one) for found in contents for one in (found if isinstance(found, list) else [found])])

    def blocks(self, resource_name: str) -> list[Mapping[str, Json]]:
        """Return the blocks of ``resources`` for a name; as in Heat, its own is last."""
        blocks = self.resource_registry.get("resources")
        if not blocks or not isinstance(blocks, Mapping):
            return []
        return blocks_for(blocks, resource_name)

    def for_child(self, resource_name: str, target: "MappedType", parameters: JsonMap) -> "Environment":
        """Return the environment of the nested stack that a template makes.

        It lacks the entry that led to the template, so that the template may use the type that it stands for. Of the
        blocks for single resources it has the contents of those that match the resource's name.
        """
        registry: JsonMap = {
            key: value
            for key, value in self.resource_registry.items()
            if key != "resources" and (target.system or (key,) != target.entry)
        }
        return replace(
            self,
            parameters=parameters,
            resource_registry={**registry, "resources": self._blocks_within(resource_name)},
            without=self.without | {target.entry[-1]} if target.system else self.without,
        )

    def within(self, resource_name: str) -> "Environment":
        """Return the blocks for single resources in the nested stack of a resource."""
        return Environment(resource_registry={"resources": self._blocks_within(resource_name)})

    def _blocks_within(self, resource_name: str) -> JsonMap:
        blocks: JsonMap = {}
        for block in self.blocks(resource_name):
            for name, content in block.items():
                if name in ("replacement", IGNORE_DRIFT):
                    blocks["*"] = overlaid(blocks.get("*", {}), {name: content})
                elif name not in (LIFECYCLE_HOOK, PROTECT) and isinstance(content, Mapping):
                    blocks[name] = overlaid(blocks.get(name, {}), content)
        return blocks


class MappedType(Struct, frozen=True):
    """Result of mapping a type."""

    name: str
    """Of a type or of a template."""
    entry: tuple[str, ...] = ()
    """The keys of the registry's last entry on the way; () where none was."""
    system: bool = False
    """True if the entry is the installation's."""

    @property
    def file(self) -> str:
        """The name or URL of the template's file."""
        return file_of(self.name)

    @property
    def is_template(self) -> bool:
        return names_template(self.name)


_ENDINGS = (".yaml", ".template")
_MARK = "#.template"
"""A fragment, which is never sent: it gives a URL the ending of a template."""


def names_template(name: str) -> bool:
    """Test whether a type is a template: a file, or a URL that may have a query."""
    return name.endswith(_ENDINGS) or "?" in name and name.partition("?")[0].endswith(_ENDINGS)


def template_at(url: str) -> str:
    """Return the type for the template at a URL."""
    return url if names_template(url) or "://" not in url else f"{url}{_MARK}"


def file_of(kind: str) -> str:
    """Return the file or URL of a type that is a template."""
    return kind.removesuffix(_MARK)


class TypeMapping:
    """Mapping of types: the environment's registry over the installation's.

    `types` None: every type is taken to be there, and the installation maps none.
    """

    def __init__(self, environment: Environment, types: TypeCatalog | None) -> None:
        self._types = types
        own = merged_registry(environment.resource_registry)
        blocks = own.pop("resources")
        self._blocks: Mapping[str, Json] = blocks if isinstance(blocks, Mapping) else {}
        installed = types.installation.resource_registry if types is not None else {}
        system = {key: value for key, value in installed.items() if key not in environment.without}
        self._tables = [table for table in (_Table(own, (), False), _Table(system, (), True)) if table.entries]
        self._targets: dict[str, MappedType] = {}
        self._facades: dict[str, MappedType | None] = {}

    def target(self, resource_name: str, type_name: str) -> MappedType:
        """Return the target for this resource: the first mapping that exists."""
        block = self._blocks.get(resource_name) if self._blocks else None
        if isinstance(block, Mapping):
            table = _Table(block, ("resources", resource_name), False)
            return self._find([table, *self._tables], type_name, set()) or MappedType(type_name)
        found = self._targets.get(type_name)
        if found is None:
            mapped = self._find(self._tables, type_name, set()) if self._tables else None
            found = self._targets[type_name] = mapped or MappedType(type_name)
        return found

    def facade(self, resource_name: str, type_name: str) -> MappedType | None:
        """Return the target without the registry's entry for this resource, as in Heat.

        None: there is none. The entry's type must offer the same properties and attributes.
        """
        block = self._blocks.get(resource_name)
        if not isinstance(block, Mapping):
            if type_name not in self._facades:
                self._facades[type_name] = self._unmapped(resource_name, type_name, self._tables)
            return self._facades[type_name]
        own = _Table(block, ("resources", resource_name), False)
        return self._unmapped(resource_name, type_name, [own, *self._tables])

    def _unmapped(self, resource_name: str, type_name: str, tables: list["_Table"]) -> MappedType | None:
        used = self.target(resource_name, type_name)
        return self._find([table.without(used) for table in tables], type_name, set())

    def entry_for(self, resource_name: str, type_name: str) -> str:
        """Return the name that the first entry for a type gives, though it may not exist.

        "" without an entry.
        """
        block = self._blocks.get(resource_name)
        own = [_Table(block, ("resources", resource_name), False)] if isinstance(block, Mapping) else []
        for table in (*own, *self._tables):
            for name, _ in table.candidates(type_name):
                return name
        return ""

    def view(self, type_name: str) -> ResourceTypeView | None:
        """The type, if there is one and types are known here."""
        return None if self._types is None else self._types.find(type_name)

    def _find(self, tables: list["_Table"], type_name: str, seen: set[str]) -> MappedType | None:
        seen.add(type_name)
        for table in tables:
            for name, key in table.candidates(type_name):
                if names_template(name):
                    return MappedType(name, (*table.path, key), table.system)
                if name not in seen and len(seen) < _MAX_STEPS:
                    found = self._find(tables, name, seen)
                    if found is not None:
                        return found
        if names_template(type_name) or self._types is None or self._types.find(type_name) is not None:
            return MappedType(type_name)
        return None


class _Table:
    """One registry, or one resource's block of it."""

    def __init__(self, entries: Mapping[str, Json], path: tuple[str, ...], system: bool) -> None:
        self.entries = {key: target for key, target in entries.items() if isinstance(target, str)}
        self.path = path
        self.system = system
        self._globs = sorted((key for key in self.entries if key.endswith("*")), key=len, reverse=True)

    def without(self, target: MappedType) -> "_Table":
        """Return the table without the entry that has led to a target."""
        if not target.entry or (target.entry[:-1], target.system) != (self.path, self.system):
            return self
        entries: JsonMap = {key: name for key, name in self.entries.items() if key != target.entry[-1]}
        return _Table(entries, self.path, self.system)

    def candidates(self, type_name: str) -> Iterator[tuple[str, str]]:
        """Targets with their keys: the exact entry, then the patterns, longer ones first."""
        if type_name in self.entries:
            yield self.entries[type_name], type_name
        for key in self._globs:
            if type_name.startswith(key[:-1]) and key != type_name:
                target = self.entries[key]
                yield (target[:-1] + type_name[len(key) - 1 :] if target.endswith("*") else target), key


def add_sections(names: Iterable[str]) -> None:
    """Make sections known by which features give values to parameters.

    Each is a map whose keys are names of parameters.
    """
    _supplied.update(names)


def merged_registry(*registries: Mapping[str, Json]) -> JsonMap:
    """Merge registries, later ones on top.

    A null removes the entry, and with ``*`` all that match.
    """
    entries: JsonMap = {}
    blocks: JsonMap = {}
    for registry in registries:
        for key, target in registry.items():
            if key == "resources":
                blocks.update(target if isinstance(target, Mapping) else {})
            elif target is not None:
                entries[key] = target
            elif key.endswith("*"):
                entries = {name: kept for name, kept in entries.items() if not name.startswith(key[:-1])}
            else:
                entries.pop(key, None)
    return {**entries, "resources": blocks}


def _fault_of_sink(sink: Json) -> str:
    """Return an error text for an event sink, or ""."""
    if not isinstance(sink, Mapping) or not isinstance(sink.get("type"), str):
        return "an event sink must be a map with a type"
    if sink["type"] == "zaqar-queue":
        return ""  # Heat's; accepted, and a warning says that no queue exists
    if sink["type"] != "webhook":
        return f'there is no type "{sink["type"]}" of event sinks; there are: webhook, zaqar-queue'
    unknown = [key for key in sink if key not in ("type", "target", "secret", "ttl")]
    if unknown:
        return f'a webhook has a target, a secret and a ttl, but no "{unknown[0]}"'
    if not _is_web_address(sink.get("target")):
        return "the target of a webhook must be an address that begins with http:// or https://"
    if "@" in urlsplit(str(sink["target"])).netloc:
        return "the target of a webhook must be an address without user and password; a secret signs what it is sent"
    secret, ttl = sink.get("secret", "-"), sink.get("ttl", 1)
    if not isinstance(secret, str) or not secret:
        return "the secret of a webhook must be text"
    if not isinstance(ttl, int) or isinstance(ttl, bool) or not 0 < ttl < 2**31:
        return "the ttl of a webhook must be a number of seconds"
    return ""


def _is_web_address(target: Json) -> bool:
    if not isinstance(target, str) or not target.isascii() or not target.isprintable() or " " in target:
        return False
    try:
        parts = urlsplit(target)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _masked(sink: Json) -> Json:
    return {**sink, "secret": MASK} if isinstance(sink, dict) and "secret" in sink else sink


def _section(data: Mapping[str, Json], name: str) -> JsonMap:
    return as_map(data.get(name))


def _read_registry(written: JsonMap, name: str, problems: list[Problem]) -> JsonMap:
    """Return the right entries of a registry; faults go to `problems`."""
    registry: JsonMap = {}
    for key, target in written.items():
        path = ("resource_registry", key)
        if key != "resources":
            found = _mapping_problems(key, target, path, name)
        elif isinstance(target, Mapping):
            problems += _block_problems(target, path, name)
            found = []
        else:
            found = [_wrong('"resources" of the registry must be a map', path, name)]
        problems += found
        if not found:
            registry[key] = target
    return registry


def _mapping_problems(key: str, target: Json, path: tuple[str | int, ...], source: str) -> list[Problem]:
    if target is not None and not isinstance(target, str):
        return [_wrong(f'the type "{key}" must be mapped to the name of a type', path, source)]
    if isinstance(target, str) and (not target or (target.endswith("*") and not key.endswith("*"))):
        return [_wrong(f'the type "{key}" cannot be mapped to "{target}"', path, source)]
    return []


def _says_protect(block: Json) -> bool:
    return isinstance(block, Mapping) and (PROTECT in block or any(map(_says_protect, block.values())))


def _block_problems(blocks: Mapping[str, Json], path: tuple[str | int, ...], source: str) -> Iterator[Problem]:
    if text := fault_of_globs(blocks):
        yield _wrong(text, path, source)
    for key, content in blocks.items():
        if content is not None or key not in ("hooks", "restricted_actions"):
            yield from _content_problems(key, content, (*path, key), source)


def _content_problems(key: str, content: Json, here: tuple[str | int, ...], source: str) -> Iterator[Problem]:
    if key == "hooks":
        for hook in content if isinstance(content, list) else [content]:
            if hook not in HOOKS:
                text = f'Invalid hook type "{hook}" for resource breakpoint, acceptable hook types are: {HOOKS}'
                yield Problem(here, text, error="InvalidBreakPointHook", source=source)
    elif key == "restricted_actions":
        for action in content if isinstance(content, list) else [content]:
            if action not in RESTRICTED_ACTIONS:
                text = f'Invalid restricted_action type "{action}" for resource, '
                text += f"acceptable restricted_action types are: {RESTRICTED_ACTIONS}"
                yield Problem(here, text, source=source)
    elif key == "replacement":
        for fault in faults(content):
            yield _wrong(fault.text, (*here, *fault.path), source, fault.hint)
        together = Replacement().refined(content).fault()
        if together is not None:
            yield _wrong(together, here, source)
    elif key == IGNORE_DRIFT:
        for fault in entry_faults(content):
            yield _wrong(fault.text, (*here, *fault.path), source, fault.hint)
    elif key == PROTECT:
        yield from _protect_problems(content, here, source)
    elif key == LIFECYCLE_HOOK:
        yield from _hook_problems(content, here, source)
    elif isinstance(content, Mapping):
        yield from _block_problems(content, here, source)
    else:
        yield from _mapping_problems(key, content, here, source)


def _protect_problems(rule: Json, path: tuple[str | int, ...], source: str) -> Iterator[Problem]:
    # A map, as `lifecycle_hook` is: Heat's clients take text for a file, and fail at anything else.
    if not isinstance(rule, Mapping):
        yield _wrong("protect must be a map", path, source, "protect: {reason: the only copy}")
        return
    for key, value in rule.items():
        if key != "reason":
            yield _wrong(f'protect has no key "{key}"', (*path, str(key)), source, "reason")
        elif not isinstance(value, str) or len(value) > MAX_REASON:
            text = f"the reason of protect must be text of at most {MAX_REASON} characters"
            yield _wrong(text, (*path, key), source)


def _hook_problems(hook: Json, path: tuple[str | int, ...], source: str) -> Iterator[Problem]:
    form, example = "lifecycle_hook must be a map with the timeout, in seconds", "lifecycle_hook: {timeout: 600}"
    if not isinstance(hook, Mapping):
        yield _wrong(form, path, source, example)
        return
    for key in hook:
        if key != "timeout":
            yield _wrong(f'lifecycle_hook has no key "{key}"', (*path, str(key)), source, "timeout")
    timeout = hook.get("timeout")
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not 0 < timeout < MAX_HOOK:
        yield _wrong(f"{form}, more than 0 and less than {MAX_HOOK}", path, source, example)
