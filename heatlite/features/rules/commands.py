"""Option `--rules` of `validate`."""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from heatlite.cli.arguments import CommandGroup, argument
from heatlite.cli.client import Client, an_object, objects, text
from heatlite.cli.errors import RefusedRequest
from heatlite.cli.files import Bundle, gather_all, load_file, parameters
from heatlite.cli.session import Host, scratch
from heatlite.core.errors import Invalid, Problem
from heatlite.core.json import Json, JsonMap, as_maps

WITHOUT_SERVICES = {"ignore_errors": "99001"}
UNASKED = "its rules were not asked: give all of its parameters a value (-P, -e), and mend its other problems"

commands = CommandGroup()


def _judged(arguments: argparse.Namespace, host: Host) -> list[Problem]:
    """Return what the rules of a file say of the creation of each template.

    Asks no cloud and no endpoint.
    """
    if arguments.rules is None:
        return []
    # Loading takes longer than most commands run.
    from heatlite.features.change_policy.effective import VERSION, of_yaml
    from heatlite.features.rules.checks import problems

    policy = load_file(arguments.rules, "Change policy")
    found = problems(policy)
    if found:
        return found
    document = of_yaml(policy.data)
    rules = as_maps(document.get("rules") if isinstance(document, dict) else None)
    asked: list[Json] = [one for one in rules if "url" not in one]
    found = [
        Problem((), f"{one['name']} was not asked: it has an endpoint", severity="warning", source=policy.name)
        for one in rules
        if "url" in one
    ]
    if not asked:
        return found
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="heatlite-rules-"))
        client, _ = opened.enter_context(scratch(host, Path(folder), reads_only=True))
        client.request("PUT", "/change_policy", {"change_policy": VERSION, "rules": asked})
        for file in arguments.files:
            found += _of_file(client, file, arguments)
    return found


def _of_file(client: Client, file: Path, arguments: argparse.Namespace) -> Iterator[Problem]:
    from heatlite.template.source.places import Places

    try:
        bundle = gather_all(file, arguments.environment, [])
    except Invalid:
        return  # its problems are listed
    places = Places(bundle.template, bundle.environments, bundle.files, bundle.children)
    for one in _findings(client, bundle, parameters(arguments.parameter)):
        yield places.located(one)


def _findings(client: Client, bundle: Bundle, given: dict[str, str]) -> Iterator[Problem]:
    body: JsonMap = bundle.body(given)
    try:
        answer = an_object(client.request("POST", "/validate", body, WITHOUT_SERVICES))
    except RefusedRequest:
        answer = {}
    if "rules" not in answer:
        yield Problem((), UNASKED, error="RuleDenied")
        return
    for one in objects(answer, "rules"):
        path = text(one.get("path"))
        place = ("resources", path.partition("/")[0]) if path else ()
        within = f" ({path})" if "/" in path else ""
        told = f"{text(one.get('result'))} {text(one.get('name'))}{within}: {text(one.get('message'))}"
        is_denied = one.get("result") == "deny"
        yield Problem(place, told, error="RuleDenied", severity="error" if is_denied else "warning")


commands.review(
    argument("--rules", type=Path, metavar="FILE", help="change policy whose rules judge the creation of each"), _judged
)
