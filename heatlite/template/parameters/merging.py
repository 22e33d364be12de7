"""Merging of environment files."""

from collections.abc import Mapping, Sequence

from heatlite.core.errors import Problem, StackValidationFailed
from heatlite.core.json import Json, JsonMap
from heatlite.template.environment import Environment, merged_registry
from heatlite.template.expression import raise_together
from heatlite.template.parameters.parameters import ParameterSchema


def merge(files: Sequence[Environment], schemas: Mapping[str, ParameterSchema]) -> Environment:
    """Merge environment files, later ones on top.

    The first file that sets a parameter, not to null, defines its merge strategy, by default overwriting. Once a file
    has set parameters, nulls and parameters unknown to the template are dropped from later ones, as Heat does. Raises
    StackValidationFailed with all places where strategies contradict each other or do not fit the type.
    """
    parameters: JsonMap = {}
    defaults: JsonMap = {}
    supplied: dict[str, JsonMap] = {}
    sinks: list[Json] = []
    encrypted: list[str] = []
    fixed: dict[str, str] = {}
    errors: list[StackValidationFailed] = []
    for environment in files:
        known = schemas if parameters else environment.parameters
        given = {name: value for name, value in environment.parameters.items() if name in known}
        for merged, values in ((parameters, given), (defaults, environment.parameter_defaults)):
            for name, value in (_set(values) if merged else values).items():
                try:
                    strategy = "overwrite" if value is None else _strategy(name, environment.merge_strategies, fixed)
                    merged[name] = _merged(name, merged.get(name), value, strategy, schemas.get(name))
                except StackValidationFailed as error:
                    errors.append(error.with_traceback(None))
        for section, content in environment.supplied.items():
            supplied[section] = {**supplied.get(section, {}), **content}
        sinks.extend(environment.event_sinks)
        encrypted.extend(environment.encrypted_param_names)
    raise_together(errors)
    registry = merged_registry(*(environment.resource_registry for environment in files))
    return Environment(parameters, defaults, registry, tuple(sinks), tuple(encrypted), supplied=supplied)


def _strategy(name: str, stated: Mapping[str, str], fixed: dict[str, str]) -> str:
    own = stated.get(name)
    if name not in fixed:
        fixed[name] = own or stated.get("default") or "overwrite"
    elif own and own != fixed[name]:
        text = f"Conflicting merge strategy '{own}' for parameter '{name}': an earlier file says '{fixed[name]}'."
        raise StackValidationFailed(
            text, problems=(Problem(("parameter_merge_strategies", name), text, source="environment"),)
        )
    return fixed[name]


def _merged(name: str, old: Json, new: Json, strategy: str, schema: ParameterSchema | None) -> Json:
    if old is None or new is None or strategy == "overwrite" or schema is None:
        return new
    if schema.type == "json":
        old, new = (schema.examine(value, constrained=False)[0] for value in (old, new))  # may be JSON text
        return _deep(old, new) if strategy == "deep_merge" else _shallow(old, new)
    if schema.type == "comma_delimited_list":
        if isinstance(old, list) and isinstance(new, list):
            return [*old, *new]
        texts = (",".join(map(str, value)) if isinstance(value, list) else str(value) for value in (old, new))
        return ",".join(filter(None, texts))
    if schema.type == "string" and isinstance(old, str) and isinstance(new, str):
        return old + new
    text = f"The merge strategy '{strategy}' does not fit the parameter '{name}' of type {schema.type}."
    raise StackValidationFailed(
        text, problems=(Problem(("parameter_merge_strategies", name), text, source="environment"),)
    )


def _set(new: Mapping[str, Json]) -> JsonMap:
    return {key: value for key, value in new.items() if value is not None}


def _shallow(old: Json, new: Json) -> Json:
    return {**old, **_set(new)} if isinstance(old, Mapping) and isinstance(new, Mapping) else new


def _deep(old: Json, new: Json) -> Json:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{key: _deep(old.get(key), value) for key, value in _set(new).items()}}
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *new]
    if isinstance(old, str) and isinstance(new, str):
        return old + new
    return new
