"""Problem reports: text, JSON, and SARIF 2.1.0 for code-scanning services."""

from collections.abc import Sequence
from pathlib import Path, PurePath
from urllib.parse import quote

from heatlite import __version__
from heatlite.cli.errors import listed
from heatlite.core.errors import Problem
from heatlite.core.json import JsonMap, pretty

FORMATS = ("text", "json", "sarif")

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

_RULES = {
    "CircularDependencyException": "Resources depend on each other in a circle.",
    "ConditionNeverHolds": "A condition is false for all parameters.",
    "DuplicateKey": "A key stands twice in one map; only the last one counts.",
    "FileNotRead": "A file that the template or an environment names cannot be read.",
    "HTTPBadRequest": "A file is no valid template or environment.",
    "InvalidBreakPointHook": "An environment names a hook that does not exist.",
    "InvalidSchemaError": "The definition of a parameter is not valid.",
    "InvalidTemplateReference": "A resource is referred to that is not there.",
    "InvalidTemplateVersion": "The version of the template is missing or unknown.",
    "NotSupported": "Something that heatlite does not support.",
    "OutputError": "The value of an output cannot be had; reading it gives an error.",
    "StackValidationFailed": "Heat would refuse the template.",
    "UnknownUserParameter": "A value is given for a parameter that the template does not have.",
    "UnusedParameter": "Nothing uses a parameter.",
    "UserParameterMissing": "A parameter has neither a value nor a default.",
    "YamlValue": "YAML 1.1 reads something else than what stands there.",
}
"""Descriptions of the kinds of problems."""


def render(problems: Sequence[Problem], form: str, checked: Sequence[str]) -> str:
    """Format the problems in one of FORMATS.

    `checked` are the files on the command line.
    """
    if form == "json":
        from heatlite.template.checks.review import to_dict  # a slow import that other commands do not need

        return pretty({"problems": [to_dict(problem) for problem in problems]})
    if form == "sarif":
        return pretty(sarif(problems))
    return listed(problems) or "\n".join(f"{file}: no problems" for file in checked)


def sarif(problems: Sequence[Problem]) -> JsonMap:
    """Return a SARIF log with one run."""
    rules = sorted({problem.error for problem in problems})
    return {
        "$schema": _SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "heatlite",
                        "version": __version__,
                        "rules": [{"id": rule, "shortDescription": {"text": _RULES.get(rule, rule)}} for rule in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(problem, rules.index(problem.error)) for problem in problems],
            }
        ],
    }


def _result(problem: Problem, rule: int) -> JsonMap:
    text = f"{problem.text} ({problem.hint})" if problem.hint else problem.text
    result: JsonMap = {"ruleId": problem.error, "ruleIndex": rule, "level": problem.severity, "message": {"text": text}}
    if problem.source != "-P":
        place: JsonMap = {"artifactLocation": {"uri": _uri(problem.source)}}
        if problem.line:
            place["region"] = {"startLine": problem.line, "startColumn": problem.column}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _uri(name: str) -> str:
    """Return a path relative to the current folder if it is below it, as a URI."""
    if "://" in name:
        return name
    path = PurePath(name)
    if path.is_absolute():
        try:
            path = path.relative_to(Path.cwd())
        except ValueError:
            return path.as_uri()
    return quote(path.as_posix())
