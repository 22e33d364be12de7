"""``heatlite validate``: every problem of a template, with its place.

Imports of the template language are local: loading it takes longer than most commands run.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from heatlite.cli.arguments import ENVIRONMENT, PARAMETER, CommandGroup, argument, cloud
from heatlite.cli.client import Object
from heatlite.cli.files import Bundle, gather_all, parameters
from heatlite.cli.output.report import FORMATS, render
from heatlite.cli.session import Host, settings
from heatlite.core.errors import Invalid, Problem
from heatlite.core.json import Json
from heatlite.template.source.loader import SourceText
from heatlite.template.types import TypeCatalog

_FIELDS = ("message", "hint", "type", "file", "severity", "path")

commands = CommandGroup()


@commands.command(
    "validate",
    "list every problem of templates or playbooks",
    argument("files", type=Path, nargs="+", metavar="FILE", help="template (repeatable)"),
    ENVIRONMENT,
    PARAMETER,
    argument("--format", choices=FORMATS, default="text", help="default: text"),
    argument("--strict", action="store_true", help="exit code 1 for warnings, too"),
    cloud("check names in the template against this cloud"),
    server=False,
    examples=("validate web.yaml", "validate web.yaml --strict --format sarif"),
)
def validate(arguments: argparse.Namespace, host: Host) -> int:
    """Print all problems.

    The exit code is 1 for errors, with --strict for warnings, too.
    Uses the network only if a cloud is named.
    """
    from heatlite.template.checks.review import in_order

    found: list[Problem] = []
    asking = nullcontext(host.types()) if arguments.cloud is None else host.asking(settings(arguments, host), "default")
    given = parameters(arguments.parameter)
    with asking as types:
        for file in arguments.files:
            found += of_file(file, arguments.environment, given, types, host)
    for review in arguments.reviews:
        found += review(arguments, host)
    # A problem of a whole file is shown at its beginning. Environments are read once for each template.
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


def of_file(
    file: Path, environments: Sequence[Path], given: dict[str, str], types: TypeCatalog, host: Host
) -> list[Problem]:
    """Return the problems of a template with environments, or another document.

    Raises CommandError if the template or an environment cannot be read.
    """
    faults: list[Problem] = []
    try:
        bundle = gather_all(file, environments, faults)
    except Invalid as error:
        return [*faults, *error.problems]
    is_template = any("template" in key.lower() for key in bundle.template.data)  # by its version; features load slowly
    for feature in () if is_template else host.features():
        found = feature.problems(bundle.template)
        if found is not None:
            return [*found]
    return problems(bundle, given, types, faults, complete=len(bundle.environments) == len(environments))


def of_server(reported: Sequence[Object], bundle: Bundle) -> list[Problem]:
    """Convert problems that the server reported, with their places in the local files."""
    from heatlite.template.source.places import Places, path_of

    documents = {"template": bundle.template.data, "environment": bundle.environment}
    documents |= {name: child.data for name, child in bundle.children.items()}
    places = Places(bundle.template, bundle.environments, bundle.files, bundle.children)
    found = []
    for one in reported:
        text, hint, error, source, severity, where = (str(one[key]) for key in _FIELDS)
        path = path_of(cast(Json, documents.get(source, {})), where)
        problem = places.located(Problem(path, text, hint, error, source, severity=severity))
        found.append(problem if problem.source != "environment" else replace(problem, source="-P"))
    return found


def problems(
    bundle: Bundle, given: dict[str, str], types: TypeCatalog, faults: Sequence[Problem], complete: bool
) -> list[Problem]:
    """Return the problems of the environments, and of the template with them.

    `given` are parameters. `faults` are problems of reading the files. `complete` is True if every environment could be
    read.
    """
    from heatlite.template.checks.review import review
    from heatlite.template.environment import Environment
    from heatlite.template.source.places import Places

    places = Places(bundle.template, bundle.environments, bundle.files, bundle.children)
    own = list(faults)
    for source in bundle.environments:
        wrong = Environment.read(source)[1]
        complete = complete and not wrong
        own += places.all(wrong)
    environment = Environment.read(SourceText("environment", bundle.environment))[0]
    environment = replace(environment, parameters={**environment.parameters, **given})
    # Without any values, that parameters lack them says nothing about the template.
    complete = complete and bool(bundle.environments or given)
    found = review(bundle.template, environment, types, bundle.files, bundle.environments, bundle.children, complete)
    # A file that could not be read is among `faults`.
    unread = bundle.files.keys() - bundle.children.keys()
    found = [problem for problem in found if problem.source not in unread]
    found = [problem if problem.source != "environment" else replace(problem, source="-P") for problem in found]
    return [*own, *found]
