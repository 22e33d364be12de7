"""Resource types made of templates."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import ClassVar, cast

from heatlite.core.errors import InvalidTemplateAttribute, Problem, StackValidationFailed, TemplateOutputError
from heatlite.core.json import Json, JsonMap, canonical
from heatlite.plugin.nested import ChildStack, StackResource, member_value, steps_of
from heatlite.plugin.resource import ResourceType
from heatlite.plugin.schema import Schema
from heatlite.template.definitions.definitions import ResourceDefinition
from heatlite.template.document import Definition
from heatlite.template.expression import select
from heatlite.template.provider import Provider, read_provider
from heatlite.template.types import Fault, TypeCatalog

MAX_PROVIDERS = 512


class TemplateResource(StackResource[Schema]):
    """Resource of a template type: parameters are properties, outputs attributes."""

    provider: ClassVar[Provider]
    any_attribute = True

    def goal(self) -> ChildStack:
        parameters = self.provider.parameters(self.facts.properties)
        return ChildStack(self.provider.template.document, parameters)  # type: ignore[arg-type]  # JSON, or UNKNOWN

    def reference(self) -> Json:
        """The output ``OS::stack_id`` if there is one."""
        nested = self.nested
        if nested is not None and "OS::stack_id" in nested.outputs:
            with suppress(TemplateOutputError):
                return nested.output("OS::stack_id")
        return super().reference()

    def attribute(self, name: str) -> Json:
        return self.attribute_at(name, ())

    def attribute_at(self, name: str, path: Sequence[object]) -> Json:
        """Return an output, or a value within the nested stack by ``resource.<name>``."""
        nested = self.nested
        if nested is None or name == "show":
            return None
        if name in nested.outputs:
            return cast(Json, select(nested.output(name), path, None))
        start, steps = steps_of(name, path)
        if start == "resource" and steps:
            member = next((one for one in nested.members if one.name == steps[0]), None)
            if member is None:
                raise self.no_member(str(steps[0]))
            return member_value(member, steps[1:])
        raise InvalidTemplateAttribute(resource=self.name, key=name)

    def shown_attributes(self) -> Sequence[str]:
        """The outputs."""
        return () if self.nested is None else self.nested.outputs


def _typed(provider: Provider) -> ResourceType:
    """Return the resource type that a template defines.

    The class of existing rows, `TemplateResource`, works without the template, which may be gone.
    """

    class Parameters(Schema):
        @classmethod
        def check(cls, values: Mapping[str, object]) -> list[Fault]:
            return provider.check_properties(values)

        @classmethod
        def coerce(cls, values: Mapping[str, object], whole: bool = True) -> JsonMap:  # noqa: ARG003
            faults = provider.check_properties(values)
            if faults:
                problems = tuple(Problem(("properties", *fault.path), fault.text, fault.hint) for fault in faults)
                raise StackValidationFailed(f"Property error: {problems[0].where}: {problems[0].text}", problems)
            return dict(values)  # type: ignore[arg-type]  # outside of a preview nothing in it is UNKNOWN

        @classmethod
        def diff(cls, before: Mapping[str, object], after: Mapping[str, object]) -> frozenset[str]:
            return frozenset(name for name in provider.template.parameters if before.get(name) != after.get(name))

    class OfTemplate(TemplateResource):
        schema = Parameters
        attribute_names = provider.attribute_names

    Parameters.updatable = frozenset(provider.template.parameters)
    OfTemplate.provider = provider
    return OfTemplate


class TemplateTypes:
    """Makes resource types of templates, one for each template."""

    def __init__(self, types: TypeCatalog) -> None:
        self._types = types
        self._kinds: OrderedDict[tuple[str, bool, str, str], tuple[Mapping[str, str], ResourceType]] = OrderedDict()
        self._lock = Lock()

    def kind(self, definition: Definition, resource: ResourceDefinition) -> ResourceType:
        """Return the type of a resource that its definition maps to a template.

        Raises the template's problems.
        """
        target = definition.mapping.target(resource.name, resource.type)
        files = definition.template.files
        text = (self._types.installation.files if target.system else files).get(target.file, "")
        defaults = definition.environment.parameter_defaults
        key = (target.name, target.system, text, canonical(defaults))
        with self._lock:
            found = self._kinds.get(key)
            # The template contains its files, so these must be equal, too.
            if found is not None and (found[0] is files or found[0] == files):
                self._kinds.move_to_end(key)
                return found[1]
        kind = _typed(read_provider(target, definition.template, self._types, defaults))
        with self._lock:
            self._kinds[key] = files, kind
            if len(self._kinds) > MAX_PROVIDERS:
                self._kinds.popitem(last=False)
        return kind
