"""Definitions of parameters in CloudFormation's language."""

from collections.abc import Mapping
from typing import Final

from heatlite.core.errors import Problem
from heatlite.template.parameters.parameters import (
    TYPES,
    ConstraintParser,
    ParameterRule,
    ParameterSchema,
    invalid,
    noted,
    raise_all,
    to_boolean,
    to_text,
)
from heatlite.template.patterns import Charge
from heatlite.template.source.loader import Path
from heatlite.template.source.problems import MAX_HINTS, nearest

_TYPES: Final = {name: kind for kind, name in TYPES.items()}
_KEYS: Final = (
    "Type", "Default", "NoEcho", "AllowedValues", "AllowedPattern", "MinLength", "MaxLength", "MinValue", "MaxValue",
    "Description", "ConstraintDescription", "Label",
)  # fmt: skip
_BOUNDS: Final = {"range": ("MinValue", "MaxValue"), "length": ("MinLength", "MaxLength")}
_SINGLE: Final = {"allowed_values": "AllowedValues", "allowed_pattern": "AllowedPattern"}


def parse_cfn_parameter(name: str, definition: object, charge: Charge) -> ParameterSchema:
    """Read a definition. Raises InvalidSchemaError with every fault.

    `charge` counts the work of patterns.
    """
    path: Path = ("Parameters", name)
    if not isinstance(definition, Mapping):
        raise invalid(path, f"Invalid parameter definition for {name}: a map is needed")
    problems: list[Problem] = []
    for key in definition:
        if key not in _KEYS:
            hint = nearest(key, _KEYS) if len(problems) < MAX_HINTS else ""
            problems += invalid((*path, key), f"Invalid key '{key}' for parameter ({name})", hint).problems
    written = definition.get("Type")
    kind = _TYPES.get(written) if isinstance(written, str) else None
    if written is None:
        text = f"Missing parameter type for parameter: {name}"
        problems += invalid(path, text, f"one of {', '.join(_TYPES)}").problems
    elif kind is None:
        hint = nearest(str(written), _TYPES) or f"one of {', '.join(_TYPES)}"
        problems += invalid((*path, "Type"), f"Invalid type ({written})", hint).problems
    hidden = False
    try:
        hidden = to_boolean(definition.get("NoEcho") or False)
    except ValueError as error:
        problems += invalid((*path, "NoEcho"), f"Invalid NoEcho of parameter {name}: {error}").problems
    parser = ConstraintParser(name, kind or "", "", charge)
    constraints = [] if kind is None else _constraints(parser, definition, path, problems)
    raise_all(problems)
    assert kind is not None
    schema = ParameterSchema(
        name=name,
        type=kind,
        default=definition.get("Default"),
        description=to_text(definition.get("Description") or ""),
        label=to_text(definition.get("Label") or ""),
        hidden=hidden,
        constraints=tuple(constraints),
    )
    schema.check_default((*path, "Default"))
    return schema


def _constraints(
    parser: ConstraintParser, definition: Mapping[str, object], path: Path, problems: list[Problem]
) -> list[ParameterRule]:
    """Those that are sound; what is wrong with the others goes to `problems`."""
    description = to_text(definition.get("ConstraintDescription") or "")
    found = []
    for constraint, (low, high) in _BOUNDS.items():
        given = [key for key in (low, high) if definition.get(key) is not None]
        if given:
            rule = {"min": definition.get(low), "max": definition.get(high)}
            with noted(problems):
                found.append(ParameterRule(parser.build(constraint, rule, (*path, given[0])), description))
    for constraint, key in _SINGLE.items():
        if definition.get(key) is not None:
            with noted(problems):
                found.append(ParameterRule(parser.build(constraint, definition[key], (*path, key)), description))
    return found
