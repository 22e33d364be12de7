"""Parts of properties that depend on hidden parameters, also through functions.

They are found in the definitions of a stack and of those above it. No value is read, so no object is asked.
"""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec.structs import replace

from heatlite.core.errors import HeatliteError
from heatlite.engine.planning.planner import ordered
from heatlite.engine.state.definitions import pseudo_parameters
from heatlite.engine.types.resource_factory import NestedView, ResourceFactory
from heatlite.engine.types.template_types import TemplateResource
from heatlite.template.definitions.definitions import ResourceDefinition
from heatlite.template.document import Definition
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN, Expression, NoResources, fields
from heatlite.template.functions.references import GetAttrSelecting, GetParam

Path: TypeAlias = tuple[str, ...]

MEMBER = ("resource_def", "properties")
"""Place of a member's properties in those of its group."""


class HiddenParts:
    """The hidden parts of the properties of one stack's resources."""

    def __init__(self, view: NestedView, resources: ResourceFactory) -> None:
        """`resources` are those of a stack in the same tree."""
        self._resources = resources
        self._stack = view.stack
        above = resources.nested(view.stack.parent_id)
        self._above = None if above is None else HiddenParts(above, resources)
        self._secret: set[str] = set()
        """Names of resources that may hold a hidden value."""
        self._definition: Definition | None = None
        """None: it cannot be read any more, so that everything may be hidden."""
        try:
            self._definition = self._bound(view.definition)
        except HeatliteError:
            return
        for name in ordered(self._definition.resources):
            wanted = self._definition.resources[name]
            if self._depends(wanted.properties) or self._depends(wanted.metadata):
                self._secret.add(name)

    def of(self, name: str, path: Path) -> Path | None:
        """Return the path of the hidden part at a path into a resource's properties.

        It may end earlier. None: the part is not hidden.
        """
        wanted = None if self._definition is None else self._definition.resources.get(name)
        if wanted is None:
            return path[:1]
        found = self._within(wanted, path)
        return self._of_member(path) if found is None else found

    def _bound(self, definition: Definition) -> Definition:
        """Return the definition with UNKNOWN for its hidden parameters."""
        template, name = definition.template, self._stack.parent_resource
        hidden = {key for key, schema in template.parameters.items() if schema.hidden}
        if self._above is not None and name is not None:
            hidden |= {key for key in template.parameters if self._above.of(name, (key,)) is not None}
        environment: Environment = definition.environment
        given: dict[str, object] = {**environment.parameters, **dict.fromkeys(hidden, UNKNOWN)}
        environment = replace(environment, parameters=given)  # type: ignore[arg-type]  # UNKNOWN is allowed there
        facade = (self._stack.inherited or {}).get("facade")
        return template.definition(
            environment,
            pseudo_parameters(self._stack),
            types=self._resources.types,
            facade=facade if isinstance(facade, Mapping) else None,
            stored=True,
        )

    def _within(self, wanted: ResourceDefinition, path: Path) -> Path | None:
        value: object = wanted.properties
        for depth, step in enumerate(path):
            items = fields(value)
            if items is None:
                return path[:depth] or path[:1] if self._depends(value) else None
            value = items.get(step)
        return path if self._depends(value) else None

    def _of_member(self, path: Path) -> Path | None:
        """Return the hidden part of the properties of a group's member.

        The template of a group's stack has the values of the group's properties.
        """
        above, name = self._above, self._stack.parent_resource
        wanted = None if above is None or above._definition is None else above._definition.resources.get(name or "")
        if above is None or wanted is None:
            return None if above is None else path[:1]
        if self._resources.type_named(wanted.mapped_type) is TemplateResource:
            return None
        if fields((fields(wanted.properties) or {}).get(MEMBER[0])) is None:
            return path[:1] if above._depends(wanted.properties) else None
        found = above._within(wanted, (*MEMBER, *path))
        return None if found is None else found[len(MEMBER) :] or path[:1]

    def _depends(self, value: object) -> bool:
        """Return True if a part of a definition may have a hidden value in it."""
        if value is UNKNOWN:
            return True
        if isinstance(value, GetAttrSelecting) and self._is_secret(value):
            return True
        if isinstance(value, GetParam) and self._is_hidden(value):
            return True
        if isinstance(value, Expression):
            return any(map(self._depends, value.parts()))
        if isinstance(value, Mapping):
            return any(map(self._depends, value.values()))
        return isinstance(value, list) and any(map(self._depends, value))

    def _is_hidden(self, value: GetParam) -> bool:
        """Return True if a parameter may be hidden."""
        try:
            return value.result(NoResources()) is UNKNOWN
        except HeatliteError:
            return True

    def _is_secret(self, value: GetAttrSelecting) -> bool:
        """Return True if an attribute may have a hidden value or a secret of its type."""
        if not value.resource or value.resource in self._secret or self._definition is None:
            return True
        wanted = self._definition.resources.get(value.resource)
        secret = frozenset() if wanted is None else self._resources.type_named(wanted.mapped_type).secret_attributes
        return bool(secret) and (not isinstance(value.attribute, str) or value.attribute in secret)
