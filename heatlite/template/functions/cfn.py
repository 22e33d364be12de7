"""Functions of CloudFormation's templates, as Heat has them."""

import re
from collections.abc import Mapping
from typing import ClassVar, Final

from heatlite.core.errors import InvalidTemplateReference
from heatlite.template.expression import Function, FunctionCall, deferred, entries
from heatlite.template.functions.arguments import Items, brief, sequence, wrong
from heatlite.template.functions.logic import opposite
from heatlite.template.functions.references import GetAttrSelecting, GetParam, GetResource, ResourceFacade
from heatlite.template.functions.text import ListJoinOne, StrReplaceText, StrSplit

DEFAULT_ZONES: Final = ("nova",)
"""The availability zones where no cloud has been asked: a new cloud has this one."""
_MEMBER: Final = re.compile(r"\.?member\.([0-9]+)\.(.+)", re.DOTALL)


class ParamRef(GetParam):
    summary = "The value of a parameter."
    __slots__ = ()

    def __init__(self, call: FunctionCall, arguments: object) -> None:
        super().__init__(call, arguments)
        if not isinstance(arguments, str) and not deferred(arguments):
            raise call.fault(f'Argument to "{call.name}" must be a name')

    def apply(self, arguments: object) -> object:
        if isinstance(arguments, str) and arguments not in self.bindings.parameters:
            raise InvalidTemplateReference(resource=arguments, key="unknown")
        return super().apply(arguments)


class Ref(Function):
    summary = "The reference of a resource, or the value of a parameter."
    late = True
    __slots__ = ()

    @classmethod
    def build(cls, call: FunctionCall) -> object:
        name = call.arguments
        known = isinstance(name, str) and name in call.bindings.resources
        return GetResource(call, name) if known else ParamRef(call, call.parsed())


class GetAtt(GetAttrSelecting):
    summary = "An attribute of a resource."
    takes = Items('Arguments to "%s" must be of the form [resource_name, attribute]', 2, 2)
    __slots__ = ()


class FindInMap(Function):
    summary = "A value of the Mappings section: by map, key and name."
    takes = Items('Arguments to "%s" must be of the form [map_name, key, value_name]', 3, 3)
    __slots__ = ()

    def apply(self, arguments: object) -> object:
        found: object = self.bindings.mappings
        where = "the mappings"
        for step in sequence(arguments):
            if not isinstance(found, Mapping) or not isinstance(step, (str, int)) or str(step) not in found:
                raise wrong(f"'{step}': {where} have no such key")
            found, where = found[str(step)], f'the entries under "{step}"'
        return found


class GetAZs(Function):
    summary = "The names of the availability zones."
    __slots__ = ()

    def apply(self, _arguments: object) -> object:
        return list(DEFAULT_ZONES)


class Join(ListJoinOne):
    takes = Items('Incorrect arguments to "%s" should be: "Fn::Join" : [ " ", [ "str1", "str2"]]', 2, 2)
    __slots__ = ()


class Split(StrSplit):
    summary = "A text cut at a delimiter into a list."
    takes = Items('Arguments to "%s" must be of the form [delimiter, string]', 2, 2)
    __slots__ = ()


class Replace(StrReplaceText):
    takes = Items('Arguments to "%s" must be of the form [{name: value}, text]', 2, 2)
    __slots__ = ()

    def apply(self, arguments: object) -> object:
        params, template = sequence(arguments)
        return super().apply({"template": template, "params": params})


class Base64(Function):
    summary = "The text itself: it is encoded where it is handed over."
    __slots__ = ()

    def apply(self, arguments: object) -> object:
        if not isinstance(arguments, str):
            raise wrong(f'"{self.name}" must operate on a string, not {brief(arguments)}')
        return arguments


class MemberListToMap(Function):
    summary = "A map from texts as .member.0.Name=key and .member.0.Value=value."
    __slots__ = ()

    def __init__(self, call: FunctionCall, arguments: object) -> None:
        super().__init__(call, arguments)
        given = entries(arguments)
        if given is None or len(given) != 3 or not all(isinstance(name, str) for name in given[:2]):
            raise call.fault(f'Arguments to "{call.name}" must be of the form ["Name", "Value", [".member.0.Name=…"]]')

    def apply(self, arguments: object) -> object:
        key_name, value_name, members = sequence(arguments)
        if not isinstance(members, list):
            raise wrong(f'The members of "{self.name}" must be a list')
        found: dict[int, dict[str, str]] = {}
        for member in members:
            if not isinstance(member, str) or "=" not in member:
                raise wrong(f'The members of "{self.name}" must be texts of the form name=value, not {brief(member)}')
            place, _, value = member.partition("=")
            match = _MEMBER.fullmatch(place)
            if match is not None and len(match[1]) < 10:
                found.setdefault(int(match[1]), {})[match[2]] = value
        rows = [row for _, row in sorted(found.items())]
        return {row[str(key_name)]: row[str(value_name)] for row in rows if row.keys() >= {key_name, value_name}}


class CfnResourceFacade(ResourceFacade):
    keys: ClassVar[Mapping[str, str]] = {
        "Metadata": "metadata",
        "DeletionPolicy": "deletion_policy",
        "UpdatePolicy": "update_policy",
    }
    __slots__ = ()


class CfnNot(Function):
    summary = "The opposite of a condition."
    __slots__ = ()

    @classmethod
    def build(cls, call: FunctionCall) -> object:
        given = call.arguments
        if not isinstance(given, list) or len(given) != 1:
            raise call.fault(f'Arguments to "{call.name}" must be of the form [condition]')
        return opposite(call.bindings.decide(given[0], (*call.path, 0)))
