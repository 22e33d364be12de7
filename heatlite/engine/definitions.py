"""Templates bound to their parameters, kept for as long as they are in use: parsing once per content."""

import threading
from collections import OrderedDict

from heatlite.core.json import JsonMap, canonical
from heatlite.store.records import StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment
from heatlite.template.loader import load_mapping
from heatlite.template.types import TypeCatalog

MOST_RESOURCES = 30_000
"""How many resources the kept definitions have in all; one of 10 000 takes some 20 MB."""

EMPTY_TEMPLATE: JsonMap = {"heat_template_version": "2018-08-31"}
"""No resources at all: what the rollback of a create goes back to."""


def pseudo_parameters(stack: StackRecord) -> dict[str, str]:
    """What a template can ask about its own stack (hot-language §7)."""
    return {"OS::stack_id": stack.id, "OS::stack_name": stack.name, "OS::project_id": stack.project}


class Definitions:
    """The definition of a stack, by its template and environment."""

    def __init__(self, store: Store, types: TypeCatalog) -> None:
        self._store = store
        self._types = types
        self._kept: OrderedDict[tuple[str, str, str], Definition] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, stack: StackRecord) -> Definition:
        """What the stack is to be, or is."""
        key = _key(stack)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                kept.refill()
                return kept
        record = self._store.templates.get(stack.template_id)
        template = Template(record.document, record.files)
        environment = Environment.parse(load_mapping(stack.environment, "environment", "Environment"))
        definition = template.bind(environment, pseudo_parameters(stack), types=self._types, stored=True)
        self.keep(stack, definition)
        return definition

    def keep(self, stack: StackRecord, definition: Definition) -> None:
        """Remember a definition that was bound already, so that nobody binds it again."""
        key = _key(stack)
        with self._lock:
            self._kept[key] = definition
            self._kept.move_to_end(key)
            weight = sum(len(kept.resources) for kept in self._kept.values())
            while len(self._kept) > 1 and (weight > MOST_RESOURCES or len(self._kept) > 256):
                _, dropped = self._kept.popitem(last=False)
                weight -= len(dropped.resources)


def _key(stack: StackRecord) -> tuple[str, str, str]:
    return stack.id, stack.template_id, canonical(stack.environment)
