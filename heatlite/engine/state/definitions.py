"""Cache of definitions: templates bound to parameters, parsed once per content."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from heatlite.core.errors import HeatliteError
from heatlite.core.json import JsonMap, canonical
from heatlite.store.records import StackRecord
from heatlite.store.store import Store
from heatlite.template.checks.check import examine
from heatlite.template.checks.nested import Nested
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment
from heatlite.template.source.loader import load_template
from heatlite.template.types import TypeCatalog

MAX_RESOURCES = 30_000
"""Size of the cache, in resources. A definition of 10 000 resources takes some 20 MB."""

MAX_TEMPLATES = 64

EMPTY_TEMPLATE: JsonMap = {"heat_template_version": "2018-08-31"}
"""Template without resources: the rollback target of a create."""


def pseudo_parameters(stack: StackRecord) -> dict[str, str]:
    """Return the pseudo parameters of a stack, as Heat defines them."""
    return {"OS::stack_id": stack.id, "OS::stack_name": stack.name, "OS::project_id": stack.project}


class Definitions:
    """Returns the definitions of stacks, by template and environment."""

    def __init__(self, store: Store, types: TypeCatalog) -> None:
        self._store = store
        self._types = types
        self._kept: OrderedDict[tuple[str, str, str], Definition] = OrderedDict()
        self._weight = 0
        self._templates: OrderedDict[str, Template] = OrderedDict()
        self._within: WeakKeyDictionary[Definition, Nested] = WeakKeyDictionary()
        self._required_by: WeakKeyDictionary[Definition, dict[str, list[str]]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, stack: StackRecord) -> Definition:
        """Return the definition that the stack has or is changing to."""
        key = _key(stack)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                kept.refill()
                return kept
        template = self.template(stack.template_id)
        environment = Environment.stored(stack.environment)
        facade = None
        if stack.inherited is not None:
            without, facade = stack.inherited["without"], stack.inherited["facade"]
            environment = replace(environment, without=frozenset(without))  # type: ignore[arg-type]  # written by us
        definition = template.bind(
            environment, pseudo_parameters(stack), types=self._types, facade=facade, stored=True  # type: ignore[arg-type]
        )
        self.keep(stack, definition)
        return definition

    def within(self, stack: StackRecord) -> Nested:
        """Return the definition of the stack, checked together with its nested stacks."""
        definition = self.of(stack)
        known = self._within.get(definition)
        if known is None:
            known = self._within[definition] = examine(definition, self._types)[1]
            definition.refill()
        return known

    def defines(self, definition: Definition, path: Sequence[str]) -> bool:
        """Return whether a definition has a resource.

        `path` are the names that lead to it, through nested templates.
        """
        name, *rest = path
        wanted = definition.resources.get(name)
        if not rest or wanted is None:
            return not rest and name in definition.template.resources
        target, files = definition.mapping.target(name, wanted.type), definition.template.files
        if not target.is_template or target.file not in files:
            return False
        template = Template(load_template(files[target.file], target.file).data, files)
        environment = definition.environment.for_child(name, target, {})
        return self.defines(template.definition(environment, {}, strict=False, types=self._types), rest)

    def required_by(self, stack: StackRecord) -> Mapping[str, Sequence[str]]:
        """Map the names of resources to the names of those that require them directly."""
        definition = self.of(stack)
        known = self._required_by.get(definition)
        if known is None:
            known = {}
            for name, resource in definition.resources.items():
                for need in resource.requires:
                    known.setdefault(need, []).append(name)
            self._required_by[definition] = known
        return known

    def template(self, template_id: str) -> Template:
        """Return a stored template, shared by many nested stacks. Raises NotFound."""
        with self._lock:
            known = self._templates.get(template_id)
            if known is not None:
                self._templates.move_to_end(template_id)
                return known
        record = self._store.templates.get(template_id)
        template = Template(record.document, record.files)
        with self._lock:
            self._templates[template_id] = template
            if len(self._templates) > MAX_TEMPLATES:
                self._templates.popitem(last=False)
        return template

    def keep(self, stack: StackRecord, definition: Definition) -> None:
        """Cache a definition that is already bound."""
        key = _key(stack)
        with self._lock:
            replaced = self._kept.pop(key, None)
            self._kept[key] = definition
            self._weight += _weight(definition) - (0 if replaced is None else _weight(replaced))
            while len(self._kept) > 1 and self._weight > MAX_RESOURCES:
                _, dropped = self._kept.popitem(last=False)
                self._weight -= _weight(dropped)


def secrets_of(store: Store, definitions: Definitions, stack: StackRecord) -> list[object]:
    """Return the values to redact in texts about a stack.

    These are the passwords of its tree's accounts, and the values of hidden parameters. The latter are its own, those
    of its rollback target, and those of its ancestors and descendants.
    """
    found: list[object] = [*store.accounts.passwords(stack.root_id or stack.id)]
    for one in (stack, *store.stacks.ancestors(stack)):
        stands = [one]
        if one.previous_template_id is not None and one.previous_environment is not None:
            stands.append(replace(one, template_id=one.previous_template_id, environment=one.previous_environment))
        for standing in stands:
            try:
                found += definitions.within(standing).secrets
            except HeatliteError:
                # It was valid when it was stored; a type or a file is missing since.
                given = standing.environment
                found += [given.get("parameters"), given.get("parameter_defaults")]
    return found


def _weight(definition: Definition) -> int:
    """Return the size in resources; an empty stack counts, too."""
    return 20 + len(definition.resources)


def _key(stack: StackRecord) -> tuple[str, str, str]:
    return stack.id, stack.template_id, canonical(stack.environment)
