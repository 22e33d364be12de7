"""The definition of a parameter as CloudFormation's templates write it (hot-language §12)."""

from collections.abc import Mapping
from typing import Final

from heatlite.template.loader import Path
from heatlite.template.parameters import (
    TYPES,
    Constraint,
    ConstraintParser,
    ParameterSchema,
    invalid,
    to_boolean,
    to_text,
)
from heatlite.template.problems import nearest

_TYPES: Final = {name: kind for kind, name in TYPES.items()}
_KEYS: Final = (
    "Type", "Default", "NoEcho", "AllowedValues", "AllowedPattern", "MinLength", "MaxLength", "MinValue", "MaxValue",
    "Description", "ConstraintDescription", "Label",
)  # fmt: skip
_BOUNDS: Final = {"range": ("MinValue", "MaxValue"), "length": ("MinLength", "MaxLength")}
_SINGLE: Final = {"allowed_values": "AllowedValues", "allowed_pattern": "AllowedPattern"}


def parse_cfn_parameter(name: str, definition: object) -> ParameterSchema:
    """Read a definition. Raises InvalidSchemaError."""
    path: Path = ("Parameters", name)
    if not isinstance(definition, Mapping):
        raise invalid(path, f"Invalid parameter definition for {name}: a map is needed")
    for key in definition:
        if key not in _KEYS:
            raise invalid((*path, key), f"Invalid key '{key}' for parameter ({name})", nearest(key, _KEYS))
    written = definition.get("Type")
    if written is None:
        raise invalid(path, f"Missing parameter type for parameter: {name}", f"one of {', '.join(_TYPES)}")
    if not isinstance(written, str) or written not in _TYPES:
        hint = nearest(str(written), _TYPES) or f"one of {', '.join(_TYPES)}"
        raise invalid((*path, "Type"), f"Invalid type ({written})", hint)
    try:
        hidden = to_boolean(definition.get("NoEcho") or False)
    except ValueError as error:
        raise invalid((*path, "NoEcho"), f"Invalid NoEcho of parameter {name}: {error}") from error
    kind = _TYPES[written]
    schema = ParameterSchema(
        name=name,
        type=kind,
        default=definition.get("Default"),
        description=to_text(definition.get("Description") or ""),
        label=to_text(definition.get("Label") or ""),
        hidden=hidden,
        constraints=tuple(_constraints(name, kind, definition, path)),
    )
    schema.check_default((*path, "Default"))
    return schema


def _constraints(name: str, kind: str, definition: Mapping[str, object], path: Path) -> list[Constraint]:
    description = to_text(definition.get("ConstraintDescription") or "")
    parser = ConstraintParser(name, kind, "")
    found = []
    for constraint, (low, high) in _BOUNDS.items():
        given = [key for key in (low, high) if definition.get(key) is not None]
        if given:
            rule = {"min": definition.get(low), "max": definition.get(high)}
            found.append(parser.build(constraint, rule, description, (*path, given[0])))
    for constraint, key in _SINGLE.items():
        if definition.get(key) is not None:
            found.append(parser.build(constraint, definition[key], description, (*path, key)))
    return found
