"""``heatlite validate``: every problem of a template and its environments, each with its place.

What knows the language is imported where it is needed: to load it takes longer than most other commands take.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import cast

from heatlite.cli.client import Object
from heatlite.cli.errors import CommandError
from heatlite.cli.files import Bundle, gather_all, parameters
from heatlite.cli.output.report import render
from heatlite.cli.session import Host, settings
from heatlite.core.errors import Invalid, Problem
from heatlite.core.json import Json
from heatlite.template.loader import Source
from heatlite.template.types import TypeCatalog

_TOLD = ("message", "hint", "type", "file", "severity", "path")

MISUSED = 2
"""Exit code for a file that is not there and a parameter without a name, as for any misspelt command line."""


def validate(arguments: argparse.Namespace, host: Host) -> int:
    """Print all problems; the exit code is 1 if there are errors among them, or with --strict anything at all.

    A cloud is asked only where one is named: this works without a network.
    """
    from heatlite.template.review import in_order

    found: list[Problem] = []
    asking = nullcontext(host.types()) if arguments.cloud is None else host.asking(settings(arguments), "default")
    try:
        given = parameters(arguments.parameter)
        with asking as types:
            for file in arguments.files:
                found += of_file(file, arguments.environment, given, types)
    except CommandError as error:
        print(f"heatlite: {error}", file=sys.stderr)
        return MISUSED
    # What is wrong with a file as a whole is shown at its beginning; and an environment is read for each template.
    found = in_order(
        dict.fromkeys(
            replace(problem, line=problem.line or 1, column=problem.column or 1) if problem.source != "-P" else problem
            for problem in found
        )
    )
    print(render(found, arguments.format, [str(file) for file in arguments.files]))
    errors = sum(problem.severity == "error" for problem in found)
    if errors:
        print(f"{errors} error{'s' if errors > 1 else ''}", file=sys.stderr)
    return 1 if errors or (arguments.strict and found) else 0


def of_file(file: Path, environments: Sequence[Path], given: dict[str, str], types: TypeCatalog) -> list[Problem]:
    """What is wrong with a template, its environments and all that they name; or with a playbook for nodes.

    Raises CommandError where the template or an environment cannot be read at all.
    """
    from heatlite.template import playbook

    faults: list[Problem] = []
    try:
        bundle = gather_all(file, environments, faults)
    except Invalid as error:
        return [*faults, *error.problems]
    if playbook.KEY in bundle.template.data:
        return playbook.problems(bundle.template)
    return problems(bundle, given, types, faults, complete=len(bundle.environments) == len(environments))


def of_server(told: Sequence[Object], bundle: Bundle) -> list[Problem]:
    """What a server has found wrong with what was sent to it, with the places in the files here."""
    from heatlite.template.places import Places, path_of

    documents = {"template": bundle.template.data, "environment": bundle.environment}
    documents |= {name: child.data for name, child in bundle.children.items()}
    places = Places(bundle.template, bundle.environments, bundle.files, bundle.children)
    found = []
    for one in told:
        text, hint, error, source, severity, where = (str(one[key]) for key in _TOLD)
        path = path_of(cast(Json, documents.get(source, {})), where)
        problem = places.located(Problem(path, text, hint, error, source, severity=severity))
        found.append(problem if problem.source != "environment" else replace(problem, source="-P"))
    return found


def problems(
    bundle: Bundle, given: dict[str, str], types: TypeCatalog, faults: Sequence[Problem], complete: bool
) -> list[Problem]:
    """What is wrong with the environments, and with the template as they and `given` parameters make it.

    `faults` came up while the files were read; `complete`: no environment was among them.
    """
    from heatlite.template.environment import Environment
    from heatlite.template.places import Places
    from heatlite.template.review import review

    places = Places(bundle.template, bundle.environments, bundle.files, bundle.children)
    own = list(faults)
    for source in bundle.environments:
        wrong = Environment.read(source)[1]
        complete = complete and not wrong
        own += places.all(wrong)
    environment = Environment.read(Source("environment", bundle.environment))[0]
    environment = replace(environment, parameters={**environment.parameters, **given})
    found = review(bundle.template, environment, types, bundle.files, bundle.environments, bundle.children, complete)
    found = [problem if problem.source != "environment" else replace(problem, source="-P") for problem in found]
    return [*own, *found]
