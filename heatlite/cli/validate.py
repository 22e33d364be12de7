"""``heatlite validate``: every problem of a template at once, with file, line and column. Needs no server."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace

from heatlite.cli.errors import describe
from heatlite.cli.files import Bundle, gather
from heatlite.cli.session import Host
from heatlite.cli.stacks import parameters
from heatlite.core.errors import Invalid, Problem
from heatlite.template.check import check
from heatlite.template.environment import Environment
from heatlite.template.loader import Source
from heatlite.template.types import TypeCatalog


def validate(arguments: argparse.Namespace, host: Host) -> int:
    """Print all problems; the exit code is 1 if there are errors among them."""
    bundle = gather(arguments.file, arguments.environment)
    found = list(problems(bundle, parameters(arguments.parameter), host.types()))
    for problem in sorted(found, key=lambda one: (one.source, one.line, one.column)):
        print(describe(problem))
    errors = sum(problem.severity == "error" for problem in found)
    if not found:
        print(f"{arguments.file}: no problems")
    elif errors:
        print(f"{errors} error{'s' if errors > 1 else ''}", file=sys.stderr)
    return 1 if errors else 0


def problems(bundle: Bundle, given: dict[str, str], types: TypeCatalog) -> Iterator[Problem]:
    """What is wrong with the environments, and with the template as they and `given` parameters make it.

    A parameter without a value is a warning here: the template asks for it, and that is no fault of its own.
    """
    sound = True
    for source in bundle.environments:
        try:
            Environment.parse(source)
        except Invalid as error:
            sound = False
            for problem in error.problems:
                yield _at(problem, source)
    if sound:
        environment = Environment.parse(Source("environment", bundle.environment))
        environment = replace(environment, parameters={**environment.parameters, **given})
    else:
        environment = Environment()
    for problem in check(bundle.template, environment, types, bundle.files):
        if problem.error == "UserParameterMissing":
            if sound:
                yield replace(_at(problem, bundle.template), severity="warning")
        elif problem.source == "environment":
            yield _in_environment(problem, bundle)
        else:
            yield _at(problem, bundle.template)


def _at(problem: Problem, source: Source) -> Problem:
    """The problem with the name and, if it has none yet, the place in a file."""
    line, column = (problem.line, problem.column) if problem.line else source.locate(problem.path)
    return replace(problem, source=source.name, line=line, column=column)


def _in_environment(problem: Problem, bundle: Bundle) -> Problem:
    """The problem in the last environment that says what it is about, else in what -P gave."""
    for source in reversed(bundle.environments):
        section = source.data.get(str(problem.path[0])) if problem.path else None
        if isinstance(section, dict) and problem.path[1] in section:
            return _at(problem, source)
    return replace(problem, source="-P")
