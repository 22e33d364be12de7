"""All problems of a template and its files (`heatlite validate`, `all_errors`)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from heatlite.core.errors import Invalid, Problem
from heatlite.core.json import JsonMap
from heatlite.core.redaction.masking import Mask
from heatlite.template.checks.check import check
from heatlite.template.checks.warnings import child_warnings, environment_warnings, template_warnings
from heatlite.template.document import Template
from heatlite.template.environment import Environment
from heatlite.template.source.loader import SourceText
from heatlite.template.source.places import Places
from heatlite.template.types import TypeCatalog


def review(
    template: SourceText,
    environment: Environment,
    types: TypeCatalog,
    files: Mapping[str, str],
    environments: Sequence[SourceText] = (),
    children: Mapping[str, SourceText] | None = None,
    complete: bool = True,
) -> list[Problem]:
    """Return every problem and warning, by file, line and column.

    `environment` is `environments` merged. `complete` is False if one of them is broken, so that parameters without
    values are unknown. `children` are the texts of those `files` that are templates. A parameter without a value is a
    warning: the template needs it, which is no fault. No message shows the value of a hidden parameter.
    """
    found = []
    for problem in check(template, environment, types, files):
        if problem.error != "UserParameterMissing":
            found.append(problem)
        elif complete and not environment.supplied_names.intersection(map(str, problem.path)):
            found.append(replace(problem, severity="warning"))
    parsed = _template(template, files)
    templates = [] if parsed is None else [parsed]
    if parsed is not None:
        found += template_warnings(template, parsed, types)
    for name, source in (children or {}).items():
        child = _template(source, files)
        if child is not None:
            templates.append(child)
            found += [replace(problem, source=name) for problem in child_warnings(source, child, types)]
    for source in environments:
        found += [replace(problem, source=source.name) for problem in environment_warnings(source, parsed)]
    text = "\n".join(source.text or "" for source in (template, *(children or {}).values()))
    mask = Mask(lambda: _hidden(templates, environment, text))
    told = [replace(problem, text=mask.text(problem.text), hint=mask.text(problem.hint)) for problem in found]
    return in_order(Places(template, environments, files, children).all(told))


def _hidden(templates: Sequence[Template], environment: Environment, text: str) -> Iterator[object]:
    """Return hidden parameters' values, except those in the `text` of a template.

    Messages repeat names and functions of the template, which may have such a value in them.
    """
    for template in templates:
        for name in template.hidden:
            places = (environment.parameters, environment.parameter_defaults)
            yield from (values[name] for values in places if name in values and str(values[name]) not in text)


def _template(source: SourceText, files: Mapping[str, str]) -> Template | None:
    """None for one that `check` has something against."""
    try:
        return Template(source.data, files)
    except Invalid:
        return None


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """By file, line and column; at one place the errors first."""
    return sorted(problems, key=lambda one: (one.source, one.line, one.column, one.severity))


def to_dict(problem: Problem) -> JsonMap:
    """The form in JSON.

    `line` and `column` count from 1; 0 where there is no text. `hint` may be empty.
    """
    return {
        "file": problem.source,
        "line": problem.line,
        "column": problem.column,
        "severity": problem.severity,
        "type": problem.error,
        "path": problem.where,
        "message": problem.text,
        "hint": problem.hint,
    }
