"""Functions of HOT that refer to parameters, resources and files."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from heatlite.core.errors import InvalidTemplateReference, StackValidationFailed, UserParameterMissing
from heatlite.template.expression import (
    UNKNOWN,
    Function,
    FunctionCall,
    NoResources,
    Scope,
    deferred,
    entries,
    has_unknown,
    resolve,
    select,
    weight,
)
from heatlite.template.functions.arguments import sequence, wrong
from heatlite.template.source.problems import stated


class GetParam(Function):
    summary = "The value of a parameter, or of what a path leads to within it."
    late = True
    strict = False
    __slots__ = ()

    def __init__(self, call: FunctionCall, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        if (given is not None and not given) or (given is None and arguments in (None, "", {})):
            raise call.fault(f'Function "{call.name}" must have arguments')
        if given is None and not isinstance(arguments, str) and not deferred(arguments):
            raise call.fault(f'Argument to "{call.name}" must be string or list')

    def apply(self, arguments: object) -> object:
        name, *path = [arguments] if arguments is UNKNOWN or isinstance(arguments, str) else sequence(arguments)
        if name is UNKNOWN:
            return UNKNOWN
        if not isinstance(name, str):
            raise wrong(f'Parameter name in "{self.name}" must be string')
        if name not in self.bindings.parameters:
            raise UserParameterMissing(key=name)
        value = select(self.bindings.parameters[name], path, "")
        self.bindings.charge(weight(value))
        return value


def _early_name(call: FunctionCall, value: object, what: str) -> str:
    """A resource's name, which must be known before any resource is."""
    try:
        name = resolve(value, NoResources())
    except (StackValidationFailed, InvalidTemplateReference, UserParameterMissing) as error:
        raise call.fault(error.message) from error
    if name is UNKNOWN:
        return ""
    if not isinstance(name, str) or not name:
        text = f'{what} "{call.name}" must be a resource name'
        problem = stated(call.path, text, error="InvalidTemplateReference")
        raise StackValidationFailed(problem.text, problems=(problem,))
    return name


class GetResource(Function):
    summary = "The reference of a resource: its physical id for most types."
    late = True
    __slots__ = ("resource",)

    def __init__(self, call: FunctionCall, arguments: object) -> None:
        super().__init__(call, arguments)
        self.resource = _early_name(call, arguments, "Argument to")

    def result(self, scope: Scope) -> object:
        if not self.resource:
            return UNKNOWN
        if self.resource not in self.bindings.enabled:
            raise InvalidTemplateReference(resource=self.resource, key="unknown")
        return scope.reference(self.resource)

    def refers(self) -> Iterable[str]:
        return (self.resource,) if self.resource else ()


class GetAttrSelecting(Function):
    """As 2013-05-23 has it: the function follows the path itself."""

    summary = "An attribute of a resource, or what a path leads to within it."
    all_attributes: ClassVar[bool] = False
    __slots__ = ("attribute", "path_within", "resource")

    def __init__(self, call: FunctionCall, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        if given is None:
            raise call.fault(f'Argument to "{call.name}" must be a list')
        if not given or (len(given) < 2 and not self.all_attributes):
            form = "[resource_name, attribute, (path), ...]"
            raise call.fault(f'Arguments to "{call.name}" must be of the form {form}')
        self.resource = _early_name(call, given[0], "First argument to")
        self.attribute: object = given[1] if len(given) > 1 else None
        if len(given) > 1 and not isinstance(self.attribute, str) and not deferred(self.attribute):
            raise call.fault(f'Attribute name in "{call.name}" must be a string')
        self.path_within = given[2:]

    def result(self, scope: Scope) -> object:
        if not self.resource:
            return UNKNOWN
        attribute = resolve(self.attribute, scope)
        path = [resolve(step, scope) for step in self.path_within]
        if attribute is UNKNOWN or has_unknown(path):
            return UNKNOWN
        if attribute is not None and not isinstance(attribute, str):
            raise wrong(f'Attribute name in "{self.name}" must be a string')
        return self.fetch(scope, attribute, path)

    def fetch(self, scope: Scope, attribute: str | None, path: list[object]) -> object:
        return select(scope.attribute(self.resource, attribute, ()), path, None)

    def refers(self) -> Iterable[str]:
        return (self.resource,) if self.resource else ()


class GetAttr(GetAttrSelecting):
    """Since 2014-10-16: the resource follows the path."""

    __slots__ = ()

    def fetch(self, scope: Scope, attribute: str | None, path: list[object]) -> object:
        return scope.attribute(self.resource, attribute, path)


class GetAttrAll(GetAttr):
    """Since 2015-10-15: without an attribute's name all attributes as a map."""

    all_attributes = True
    __slots__ = ()


class GetFile(Function):
    summary = "The content of a file that came with the template."
    __slots__ = ()

    def apply(self, arguments: object) -> object:
        if not isinstance(arguments, str):
            raise wrong(f'Argument to "{self.name}" must be a string')
        content = self.bindings.files.get(arguments)
        if content is None:
            raise wrong(f'No content found in the "files" section for {self.name} path: {arguments}')
        self.bindings.charge(weight(content))
        return content


class ResourceFacade(Function):
    summary = "Within a template that stands for a type: what the resource says that it is used for."
    keys: ClassVar[Mapping[str, str]] = {
        name: name for name in ("metadata", "deletion_policy", "update_policy")
    }  # as written → our name
    __slots__ = ()

    def __init__(self, call: FunctionCall, arguments: object) -> None:
        super().__init__(call, arguments)
        if not deferred(arguments) and not (isinstance(arguments, str) and arguments in self.keys):
            raise call.fault(f'Incorrect arguments to "{call.name}" should be one of: {", ".join(self.keys)}')

    def apply(self, arguments: object) -> object:
        if not isinstance(arguments, str) or arguments not in self.keys:
            raise wrong(f'Incorrect arguments to "{self.name}" should be one of: {", ".join(self.keys)}')
        facade = self.bindings.facade
        if facade is None:
            raise wrong(f'"{self.name}" is only possible in a template that a resource uses for its type')
        return facade[self.keys[arguments]]
