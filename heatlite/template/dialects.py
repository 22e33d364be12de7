"""Dialects: HOT and CloudFormation's language, with their versions.

A dialect defines names and functions; the rest is common to both.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from heatlite.core.errors import InvalidTemplateVersion, Problem
from heatlite.core.json import Json
from heatlite.template.expression import UNKNOWN, Function
from heatlite.template.functions.cfn import (
    Base64,
    CfnNot,
    CfnResourceFacade,
    FindInMap,
    GetAtt,
    GetAZs,
    Join,
    MemberListToMap,
    ParamRef,
    Ref,
    Replace,
    Split,
)
from heatlite.template.functions.lists import (
    Contains,
    Filter,
    ListConcat,
    ListConcatUnique,
    MapMerge,
    MapReplace,
    Repeat,
    RepeatMaps,
    RepeatPermutations,
    Select,
)
from heatlite.template.functions.logic import And, Equals, If, IfShort, Not, Or, Removed
from heatlite.template.functions.references import (
    GetAttr,
    GetAttrAll,
    GetAttrSelecting,
    GetFile,
    GetParam,
    GetResource,
    ResourceFacade,
)
from heatlite.template.functions.text import (
    Digest,
    ListJoin,
    ListJoinOne,
    MakeUrl,
    StrReplace,
    StrReplaceStrict,
    StrReplaceText,
    StrReplaceVeryStrict,
    StrSplit,
)
from heatlite.template.functions.yaql import Yaql
from heatlite.template.parameters.cfn import parse_cfn_parameter
from heatlite.template.parameters.parameters import PSEUDO, ParameterSchema
from heatlite.template.patterns import Charge
from heatlite.template.source.loader import VERSION_KEYS

Table = Mapping[str, type[Function]]

ALIASES: Final[Mapping[str, str]] = {
    "newton": "2016-10-14",
    "ocata": "2017-02-24",
    "pike": "2017-09-01",
    "queens": "2018-03-02",
    "rocky": "2018-08-31",
    "wallaby": "2021-04-16",
}

_CFN_IN_HOT: Final[Table] = {
    "Ref": Ref,
    "Fn::GetAZs": GetAZs,
    "Fn::Join": Join,
    "Fn::Split": Split,
    "Fn::Replace": Replace,
    "Fn::Base64": Base64,
    "Fn::MemberListToMap": MemberListToMap,
    "Fn::ResourceFacade": CfnResourceFacade,
}
"""Those that the first version of HOT has, besides Fn::Select."""

_ADDED: Final[Sequence[tuple[str, Table]]] = (
    (
        "2013-05-23",
        {
            "get_param": GetParam,
            "get_resource": GetResource,
            "get_attr": GetAttrSelecting,
            "get_file": GetFile,
            "list_join": ListJoinOne,
            "str_replace": StrReplaceText,
            "resource_facade": ResourceFacade,
            "Fn::Select": Select,
            **_CFN_IN_HOT,
        },
    ),
    ("2014-10-16", {"get_attr": GetAttr, **dict.fromkeys(_CFN_IN_HOT, Removed)}),
    ("2015-04-30", {"repeat": Repeat, "digest": Digest}),
    (
        "2015-10-15",
        {
            "str_split": StrSplit,
            "list_join": ListJoin,
            "str_replace": StrReplace,
            "get_attr": GetAttrAll,
            "Fn::Select": Removed,
        },
    ),
    ("2016-04-08", {"map_merge": MapMerge}),
    ("2016-10-14", {"yaql": Yaql, "map_replace": MapReplace, "if": If, "repeat": RepeatMaps}),
    ("2017-02-24", {"filter": Filter, "str_replace_strict": StrReplaceStrict}),
    (
        "2017-09-01",
        {
            "make_url": MakeUrl,
            "list_concat": ListConcat,
            "list_concat_unique": ListConcatUnique,
            "str_replace_vstrict": StrReplaceVeryStrict,
            "contains": Contains,
            "repeat": RepeatPermutations,
        },
    ),
    ("2018-03-02", {}),
    ("2018-08-31", {}),
    ("2021-04-16", {"if": IfShort}),
)

_CONDITIONS_ADDED: Final[Mapping[str, Table]] = {
    "2016-10-14": {"get_param": GetParam, "equals": Equals, "not": Not, "and": And, "or": Or},
    "2017-09-01": {"yaql": Yaql, "contains": Contains},
}


def _accumulate(added: Iterable[tuple[str, Table]]) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    known: Table = {}
    for version, table in added:
        known = {**known, **table}
        tables[version] = known
    return tables


FUNCTIONS: Final[Mapping[str, Table]] = _accumulate(_ADDED)
"""By version: the functions it knows, removed ones (`Removed`) included."""
CONDITIONS: Final[Mapping[str, Table]] = _accumulate(
    (version, _CONDITIONS_ADDED.get(version, {})) for version in FUNCTIONS
)
"""By version: the functions that conditions may use; empty before 2016-10-14."""

_CFN_BASE: Final[Table] = {
    **_CFN_IN_HOT,
    "Fn::GetAtt": GetAtt,
    "Fn::FindInMap": FindInMap,
    "Fn::Select": Select,
}
_CFN_CONDITIONS: Final[Table] = {
    "Ref": ParamRef,
    "Fn::FindInMap": FindInMap,
    "Fn::Equals": Equals,
    "Fn::Not": CfnNot,
    "Fn::And": And,
    "Fn::Or": Or,
}

# -- dialects --------------------------------------------------------------------------------------

Words = Mapping[str, str]
"""HOT's word → the dialect's word. Missing features have no entry."""


class TemplateVersion(Struct, frozen=True):
    """One version of one of the languages."""

    key: str
    """Of the version: ``heat_template_version``."""
    version: str
    kind: str
    """``hot`` or ``cfn``."""
    sections: Words
    resource_keys: Words
    output_keys: Words
    functions: Table
    """Removed ones included."""
    conditions: Table
    """The functions that conditions may use."""
    read_parameter: Callable[[str, object, Charge], ParameterSchema]
    """A parameter's definition, by its name; its patterns are charged. Raises InvalidSchemaError."""
    pseudo: Callable[[Mapping[str, str]], dict[str, object]]
    """Return the dialect's pseudo parameters from HOT's; UNKNOWN if not given."""
    lower_case_policies: bool = False
    """Accept ``delete`` for ``Delete``."""
    aliases: tuple[str, ...] = ()

    def describe_functions(self, with_conditions: bool = False) -> list[dict[str, str]]:
        """Return the functions with one line each (GET /template_versions/{v}/functions)."""
        table = {**self.conditions, **self.functions} if with_conditions else self.functions
        return [
            {"functions": name, "description": function.summary}
            for name, function in sorted(table.items())
            if function.summary
        ]


_RESOURCE_KEYS: Final = (
    "type", "properties", "metadata", "depends_on", "update_policy", "deletion_policy", "description",
)  # fmt: skip
_SINCE_CONDITIONS: Final = "2016-10-14"


def _same(*words: str) -> Words:
    return {word: word for word in words}


def _capital(*words: str) -> Words:
    """``depends_on`` → ``DependsOn``."""
    return {word: word.title().replace("_", "") for word in words}


def _hot_pseudo(given: Mapping[str, str]) -> dict[str, object]:
    return {name: given.get(name, UNKNOWN) for name in PSEUDO}


def _cfn_pseudo(given: Mapping[str, str]) -> dict[str, object]:
    stack, name, project = map(given.get, PSEUDO)
    return {
        "AWS::StackId": f"arn:openstack:heat::{project}:stacks/{name}/{stack}" if stack else UNKNOWN,
        "AWS::StackName": name or UNKNOWN,
        "AWS::Region": "ap-southeast-1",
    }


def _hot(version: str) -> TemplateVersion:
    sections = ["description", "parameter_groups", "parameters", "resources", "outputs"]
    resource_keys, output_keys = list(_RESOURCE_KEYS), ["value", "description"]
    if version >= _SINCE_CONDITIONS:
        sections.append("conditions")
        resource_keys += ["external_id", "condition"]
        output_keys.append("condition")
    return TemplateVersion(
        key="heat_template_version",
        version=version,
        kind="hot",
        sections=_same(*sections),
        resource_keys=_same(*resource_keys),
        output_keys=_same(*output_keys),
        functions=FUNCTIONS[version],
        conditions=CONDITIONS[version],
        read_parameter=functools.partial(_read_hot_parameter, version),
        pseudo=_hot_pseudo,
        lower_case_policies=version >= _SINCE_CONDITIONS,
        aliases=tuple(alias for alias, date in ALIASES.items() if date == version),
    )


def _read_hot_parameter(version: str, name: str, definition: object, charge: Charge) -> ParameterSchema:
    return ParameterSchema.parse(name, definition, version, charge)


def _cfn(key: str, version: str, with_conditions: bool) -> TemplateVersion:
    conditional = ["condition"] if with_conditions else []
    sections = ["description", "mappings", "parameters", "resources", "outputs"]
    return TemplateVersion(
        key=key,
        version=version,
        kind="cfn",
        sections=_capital(*sections, *(["conditions"] if with_conditions else [])),
        resource_keys=_capital(*_RESOURCE_KEYS, *conditional),
        output_keys=_capital("value", "description", *conditional),
        functions={**_CFN_BASE, "Fn::If": If} if with_conditions else _CFN_BASE,
        conditions=_CFN_CONDITIONS if with_conditions else {},
        read_parameter=parse_cfn_parameter,
        pseudo=_cfn_pseudo,
    )


DIALECTS: Final[Mapping[str, TemplateVersion]] = {
    f"{dialect.key}.{dialect.version}": dialect
    for dialect in (
        _cfn("AWSTemplateFormatVersion", "2010-09-09", with_conditions=True),
        _cfn("HeatTemplateFormatVersion", "2012-12-12", with_conditions=False),
        *map(_hot, FUNCTIONS),
    )
}
"""By ``<key>.<version>``, as GET /template_versions names them."""


def find_dialect(name: str) -> TemplateVersion | None:
    """Return the dialect of ``heat_template_version.rocky`` and the like, or None.

    Dates work, too.
    """
    key, _, version = name.partition(".")
    return DIALECTS.get(f"{key}.{ALIASES.get(version, version) if key == 'heat_template_version' else version}")


def dialect_of(document: Mapping[str, Json]) -> TemplateVersion:
    """The dialect of a template. Raises InvalidTemplateVersion."""
    keys = [key for key in VERSION_KEYS if key in document]
    if not keys:
        raise _bad_version("Template version was not provided", hint=f"add heat_template_version: {max(FUNCTIONS)}")
    if len(keys) > 1:
        raise _bad_version(f"Ambiguous versions ({', '.join(keys)})", keys[-1])
    (key,) = keys
    version = document[key]
    found = find_dialect(f"{key}.{version}") if isinstance(version, str) else None
    if found is not None:
        return found
    allowed = [dialect.version for dialect in DIALECTS.values() if dialect.key == key]
    if key == "heat_template_version":
        allowed += ALIASES
    choice = "one of: " if len(allowed) > 1 else ""
    text = f'"{key}: {version}". "{key}" should be {choice}{", ".join(allowed)}'
    raise _bad_version(text, key)


def _bad_version(explanation: str, *path: str, hint: str = "") -> InvalidTemplateVersion:
    message = InvalidTemplateVersion(explanation=explanation).message
    return InvalidTemplateVersion(message, problems=(Problem(path, message, hint, error="InvalidTemplateVersion"),))


def template_versions() -> list[dict[str, object]]:
    """Every version with its aliases, as GET /template_versions lists them."""
    return [
        {"version": name, "type": dialect.kind, "aliases": [f"{dialect.key}.{alias}" for alias in dialect.aliases]}
        for name, dialect in DIALECTS.items()
    ]
