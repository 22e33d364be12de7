"""Commands that change stacks, or preview that: up, plan, down, retry."""

import argparse
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

from msgspec.structs import replace

from heatlite.cli.arguments import (
    ENVIRONMENT,
    FILE,
    FOLLOWED,
    LISTING,
    PARAMETER,
    STACK,
    YES,
    CommandGroup,
    argument,
    minutes,
    named,
    repeatable,
)
from heatlite.cli.client import Client, Object, Stack, an_object, objects, text
from heatlite.cli.commands.following import change, ended, may_leave, require_stack, start, started
from heatlite.cli.commands.validate import of_file, of_server
from heatlite.cli.errors import CommandError, Misuse, RefusedRequest, listed
from heatlite.cli.files import Bundle, gather, parameters
from heatlite.cli.output import plans, progress, render
from heatlite.cli.questions import agree, confirmed, need_consent
from heatlite.cli.session import Host, PlanFacts, connect, refuse_denied, tell_facts
from heatlite.core.config import SIMULATED
from heatlite.core.errors import Problem, UnknownUserParameter
from heatlite.core.json import JsonMap, dump

CHANGES = 2
"""Exit code of ``plan --detailed-exitcode`` if there are changes."""
FAILS = 1
"""Exit code of it if the plan cannot be carried out."""

MOST_SHOWN = 20
"""Resources that the question of `down` shows."""

NAME = argument("-n", "--name", type=named, help="name of the stack (default: the template's file name)")
SEND_FROM = repeatable(
    "--send-from",
    type=Path,
    metavar="DIR",
    help="also send files below this folder that the template names (repeatable; default: those below its own)",
)
ADOPT_CLOUD = argument(
    "--adopt-cloud", action="store_true", help="move the stack to the configured cloud, if it recorded another"
)
CONVERGE = argument(
    "--converge", action="store_true", help="read the real objects first, and undo what was changed in them"
)
RESET = argument(
    "--reset", action="store_true", help="forget stored parameters, environment, files and tags that are not given"
)
TARGET = repeatable(
    "--target", metavar="PATH", help="touch only this resource, all below it, and what it requires (repeatable)"
)
EXCLUDE = repeatable(
    "--exclude", metavar="PATH", help="leave this resource as it is, with what needs its new values (repeatable)"
)
REPLACE = repeatable("--replace", metavar="PATH", help="give this resource a new object (repeatable)")
RETAIN = repeatable(
    "--retain",
    metavar="PATH",
    help="leave the object of this resource in the cloud, with what it requires (repeatable)",
)
REACH = ("target", "exclude", "replace")
WHERE = ("context", "endpoint", "project", "cloud", "config")
"""Flags of a command that a later one needs, too."""
TEMPLATE = (FILE, ENVIRONMENT, PARAMETER, NAME, SEND_FROM, ADOPT_CLOUD, CONVERGE, RESET, TARGET, EXCLUDE, REPLACE)

_UPDATE_ONLY = ("plan_digest", "adopt_cloud", "converge", *REACH)
"""Keys that no validation has."""

commands = CommandGroup()


def stack_name(arguments: argparse.Namespace) -> str:
    """Return the given name, or a valid one made from the file's name."""
    if arguments.name:
        return str(arguments.name)
    name = re.sub(r"[^a-zA-Z0-9_.-]", "-", arguments.file.stem)[:255]
    if not name[:1].isalpha():
        raise Misuse(f"No stack name can be made from {arguments.file.name}. Use -n NAME.")
    return name


def _body(arguments: argparse.Namespace, host: Host) -> JsonMap:
    try:
        bundle = gather(arguments.file, arguments.environment, arguments.send_from)
    except Misuse:
        if not arguments.file.exists():
            _refuse_stack(arguments, host)
        raise
    _confirm_files(bundle)
    body = bundle.body(parameters(arguments.parameter))
    for keys in arguments.keys:
        body |= keys(arguments)
    return body


def _refuse_stack(arguments: argparse.Namespace, host: Host) -> None:
    """Raise Misuse if a missing template has the name of a stack."""
    name, stack = str(arguments.file), None
    if "/" not in name:
        with suppress(CommandError), connect(arguments, host, reads_only=True) as session:
            stack = session.client.find_or_none(name)
    if stack is not None:
        raise Misuse(
            f"{name} is a stack, not a file. Give the template: heatlite {arguments.parser.prog.split()[-1]} FILE -n"
            f" {stack.name}. What the stack is: heatlite show {stack.name}."
        )


def _of_update(arguments: argparse.Namespace) -> JsonMap:
    """Return the part of the body that only an update has."""
    chosen = {"adopt_cloud": arguments.adopt_cloud, "converge": arguments.converge}
    reach: JsonMap = {name: [*dict.fromkeys(getattr(arguments, name))] for name in REACH if getattr(arguments, name)}
    return {**{name: True for name, is_chosen in chosen.items() if is_chosen}, **reach}


def _need_stack(arguments: argparse.Namespace, name: str, stack: Stack | None) -> None:
    """Raise CommandError for a choice of resources of a stack that does not exist."""
    given = [f"--{one}" for one in REACH if getattr(arguments, one)]
    if given and stack is None:
        raise CommandError(f"There is no stack {name}, so {given[0]} has nothing to choose from. Nothing was done.")


def _check_given(arguments: argparse.Namespace, host: Host, body: JsonMap) -> None:
    """Raise CommandError for a value of a parameter that the template does not have."""
    if not arguments.reset and plans.unknown(body):
        found = of_file(arguments.file, arguments.environment, parameters(arguments.parameter), host.types(), host)
        faults = [problem for problem in found if problem.error == UnknownUserParameter.__name__]
        if faults:
            raise CommandError(listed(faults))


def _confirm_files(bundle: Bundle) -> None:
    """Ask for consent, on a terminal, to send files from other folders.

    Raises CommandError without consent.
    """
    if not bundle.outside:
        return
    print("These files outside of the template's folder would be sent to the server:", file=sys.stderr)
    for path, document in sorted(bundle.outside.items()):
        print(f"  {path} (named in {document})", file=sys.stderr)
    if not sys.stdin.isatty() or not confirmed("Send them?"):
        folder = os.path.commonpath([path.parent for path in bundle.outside])
        raise CommandError(
            f"Nothing was sent. If you trust the template with these files: --send-from {shlex.quote(folder)}"
        )


@commands.command(
    "up",
    "create or update a stack, and wait for it",
    *TEMPLATE,
    argument("--timeout", type=minutes, metavar="MINUTES", help="time limit of the create or update"),
    argument("--rollback", action="store_true", help="roll back after a failure"),
    argument("--tags", metavar="A,B", help="tags of the stack"),
    argument("-y", "--yes", action="store_true", help="do not show the plan and ask"),
    *FOLLOWED,
    examples=(
        "up web.yaml",
        "up web.yaml -e prod.yaml -P size=3 -n web --yes",
        "up web.yaml -y -f json",
        "up web.yaml --converge",
        "up web.yaml --reset -P size=3",
        "up web.yaml --target web/2 --replace web/2",
    ),
)
def up(arguments: argparse.Namespace, host: Host) -> int:
    """Create or update the stack, wait, and print its outputs.

    An update keeps stored parameters and environment that are not given. On a terminal, shows the plan and asks; the
    server then executes that plan only.
    """
    name = stack_name(arguments)
    body = _body(arguments, host)
    need_consent(arguments, "`up` changes a stack")
    body["disable_rollback"] = not arguments.rollback
    if arguments.timeout is not None:
        body["timeout_mins"] = arguments.timeout
    if arguments.tags:
        body["tags"] = arguments.tags
    again = same_again(arguments)
    with connect(arguments, host) as session:
        client = session.client
        may_leave(arguments, session)
        _check_cloud(arguments, client)
        stack = client.find_or_none(name)
        if stack is not None and stack.in_progress:
            print(f"{name} is {stack.status}: waiting for that first.", file=sys.stderr)
            last = client.last_event(stack, progress.NESTED)
            ended_before = progress.wait(session, stack, last, again, arguments.format, time.monotonic())
            stack = None if ended_before.gone else ended_before.stack
        _need_stack(arguments, name, stack)
        if stack is not None:
            _check_given(arguments, host, body)
            body |= _of_update(arguments)
        after = None if stack is None else client.last_event(stack, progress.NESTED)
        with _explained(arguments, host, client, body):
            if not arguments.yes:
                _ask_for_plan(arguments, host, client, stack, name, body)
            began = time.monotonic()
            if stack is None:
                made = an_object(client.request("POST", "/stacks", {"stack_name": name, **body}), "stack")
                stack = client.find(text(made.get("id")))
            else:
                change(arguments, session, "PUT" if arguments.reset else "PATCH", stack.path, body)
        for go_on in arguments.further:
            go_on(arguments, client, stack)
        if arguments.yes:
            _tell_warnings(arguments, host)
        if arguments.no_wait:
            return started(arguments, stack)
        done = require_stack(progress.wait(session, stack, after, again, arguments.format, began))
        _tell_outputs(arguments, done, [] if done.exit_code else client.outputs(done.stack or stack))
    return done.exit_code


def same_again(arguments: argparse.Namespace) -> str:
    """Return the `up` that continues this one.

    Values of parameters are left out: they may be secret.
    """
    words = ["heatlite", "up", str(arguments.file), "-n", stack_name(arguments)]
    for file in arguments.environment:
        words += ["-e", str(file)]
    words += [flag for flag in ("--converge", "--reset") if getattr(arguments, flag[2:])]
    words += [word for name in REACH for path in getattr(arguments, name) for word in (f"--{name}", path)]
    given = {name: getattr(arguments, name) for name in WHERE}
    words += [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    return shlex.join(words) + (" -P …" if arguments.parameter else "")


def _tell_warnings(arguments: argparse.Namespace, host: Host) -> None:
    """Print the warnings of `validate`, such as of a misspelt function."""
    found = of_file(arguments.file, arguments.environment, parameters(arguments.parameter), host.types(), host)
    warnings = [problem for problem in found if problem.severity == "warning"]
    if warnings:
        print(listed(warnings), file=sys.stderr)


def _ask_for_plan(
    arguments: argparse.Namespace, host: Host, client: Client, stack: Stack | None, name: str, body: JsonMap
) -> None:
    """Show the plan and warnings, ask, and bind the request to the plan.

    A plan without changes needs no question. Raises CommandError without consent.
    """
    found = plans.fetch(client, stack, name, body, arguments.reset)
    told = _told(host, client, stack, found)
    _tell_kept(arguments, client, stack, body, told)
    plans.draw(found.resources)
    for line in told.lines:
        print(line)
    _tell_warnings(arguments, host)
    refuse_denied([told])
    if stack is None or plans.has_changes(found.resources):
        agree(arguments, "Do it?")
    if found.digest is not None:
        body["plan_digest"] = found.digest


def _tell_kept(
    arguments: argparse.Namespace, client: Client, stack: Stack | None, body: JsonMap, told: PlanFacts
) -> None:
    """Print the stored values that the update of a stack keeps."""
    line = "" if stack is None or arguments.reset else plans.kept(client, stack, body, told.given)
    if line:
        render.line(line, "dim")


def _told(host: Host, client: Client, stack: Stack | None, found: plans.FetchedPlan) -> PlanFacts:
    """Return what the stack and features say about a plan."""
    features = host.features() if stack is not None or found.facts else ()
    told = [one.planned(client, stack, found.facts) for one in features]
    if found.facts.get("restricted"):
        told.append(PlanFacts([f"The stack is restricted: {plans.left_out(an_object(found.facts, 'restricted'))}."]))
    lines = [line for one in told for line in one.lines]
    given = frozenset(name for one in told for name in one.given)
    return PlanFacts(lines, any(one.fails for one in told), any(one.denied for one in told), given)


def _tell_outputs(arguments: argparse.Namespace, done: progress.Followed, found: list[Object]) -> None:
    if arguments.format == "json":
        print(dump(done.record({text(item.get("output_key")): item.get("output_value") for item in found})))
        return
    for item in found:
        if item.get("output_error"):
            told = f"{text(item.get('output_key'))}: {text(item.get('output_error'))}"
            print(render.folded(told, sys.stderr), file=sys.stderr)
        else:
            print(f"{text(item.get('output_key'))} = {render.cell(item.get('output_value'))}")


def _check_cloud(arguments: argparse.Namespace, client: Client) -> None:
    """Print a note for a simulated cloud.

    Raises CommandError if the server uses another cloud than asked for.
    """
    cloud = an_object(client.request("GET", "/build_info")).get("cloud")
    wanted = arguments.cloud
    if wanted is not None and wanted != cloud:
        where = f"in the cloud {cloud}" if cloud else "without a cloud"
        raise CommandError(f"The server of this database makes resources {where}, not in {wanted}.")
    if cloud == SIMULATED:
        print("The cloud is simulated: nothing in it is real.", file=sys.stderr)


@commands.command(
    "plan",
    "show the changes that `up` would make",
    *TEMPLATE,
    *LISTING,
    argument(
        "--detailed-exitcode",
        action="store_true",
        help="exit code 2 if there are changes, 0 if there are none, 1 if they do not fit the quota",
    ),
    examples=("plan web.yaml", "plan web.yaml -n web --detailed-exitcode"),
)
def plan(arguments: argparse.Namespace, host: Host) -> int:
    name = stack_name(arguments)
    body = _body(arguments, host)
    with connect(arguments, host, reads_only=True) as session:
        client = session.client
        stack = client.find_or_none(name)
        _need_stack(arguments, name, stack)
        if stack is not None:
            _check_given(arguments, host, body)
            body |= _of_update(arguments)
        with _explained(arguments, host, client, body):
            found = plans.fetch(client, stack, name, body, arguments.reset)
        told = _told(host, client, stack, found)
        if arguments.format == "table" and not arguments.column:
            _tell_kept(arguments, client, stack, body, told)
    if arguments.format == "table" and not arguments.column:
        plans.draw(found.resources)
        print(*told.lines, sep="\n", end="\n" if told.lines else "")
    else:
        shown = (*plans.COLUMNS, plans.SELECTION) if arguments.target or arguments.exclude else plans.COLUMNS
        render.listing(plans.rows(found.resources), shown, arguments, f"resources in the plan of {name}")
    _tell_warnings(arguments, host)
    if told.denied or arguments.detailed_exitcode and told.fails:
        return FAILS
    return CHANGES if arguments.detailed_exitcode and plans.has_changes(found.resources) else 0


@contextmanager
def _explained(arguments: argparse.Namespace, host: Host, client: Client, body: JsonMap) -> Iterator[None]:
    """Extend the error for a rejected template: list all problems with their places.

    The server reports the first one only. The others are found here, or by the server if they need the cloud.
    """
    try:
        yield
    except RefusedRequest as error:
        if error.status != HTTPStatus.BAD_REQUEST:
            raise
        from heatlite.template.checks.review import in_order  # a slow import that other commands do not need

        given = parameters(arguments.parameter)
        found = of_file(arguments.file, arguments.environment, given, host.types(), host)
        known = {problem.text for problem in found}
        found += [problem for problem in _problems_of_server(arguments, client, body) if problem.text not in known]
        if not any(keys(arguments) for keys in arguments.keys):  # a feature may give what is missing
            found = [replace(one, severity="error") if one.error == "UserParameterMissing" else one for one in found]
        faults = in_order(problem for problem in found if problem.severity == "error")
        lines = [] if any(problem.text in str(error) for problem in faults) else [str(error)]
        raise RefusedRequest("\n".join([*lines, listed(faults)] if faults else lines), error.status) from None


def _problems_of_server(arguments: argparse.Namespace, client: Client, body: JsonMap) -> list[Problem]:
    """Return all problems that the server finds in the body; none if it fails."""
    sent = {name: value for name, value in body.items() if name not in _UPDATE_ONLY}
    try:
        bundle = gather(arguments.file, arguments.environment)
        answer = client.request("POST", "/validate", sent, {"all_errors": "true"})
    except CommandError:
        return []
    return of_server(objects(answer, "problems"), bundle)


@commands.command(
    "down",
    "delete a stack, and wait until it is gone",
    STACK,
    argument("--force", action="store_true", help="leave behind, and list, objects that cannot be deleted"),
    RETAIN,
    YES,
    *FOLLOWED,
    examples=("down web", "down web --yes --no-wait", "down web --retain db"),
)
def down(arguments: argparse.Namespace, host: Host) -> int:
    """Delete the stack and wait until it is gone. With --force, ignore failures."""
    need_consent(arguments, "`down` deletes a stack")
    with connect(arguments, host) as session:
        client = session.client
        may_leave(arguments, session)
        stack = client.find(arguments.stack)
        after = client.last_event(stack, progress.NESTED)
        query: dict[str, str | Sequence[str]] = {"retain": arguments.retain} if arguments.retain else {}
        if arguments.force:
            query["force"] = "true"
        if not arguments.yes:
            query["plan_digest"] = _ask_for_deletion(arguments, host, client, stack)
        began, is_going = time.monotonic(), stack.status == "DELETE_IN_PROGRESS" and not arguments.force
        try:
            change(arguments, session, "DELETE", stack.path, query=query)
        except RefusedRequest as error:  # perhaps by a deletion that is suspended
            if error.status != HTTPStatus.CONFLICT or arguments.retain:
                raise
            now = client.again(stack)
            if now is not None and now.status != "DELETE_IN_PROGRESS":
                raise
            is_going = True
        if is_going:
            print(f"{stack.name} is being deleted already: waiting for that.", file=sys.stderr)
        if arguments.no_wait:
            return started(arguments, stack)
        done = progress.wait(session, stack, after, f"heatlite down {stack.name}", arguments.format, began)
    end = done.stack
    if end is not None and not end.failed and "Left behind: " in end.status_reason:
        print(render.folded(f"{stack.name}: {end.status_reason}", sys.stderr), file=sys.stderr)
    return ended(arguments, done)


def _ask_for_deletion(arguments: argparse.Namespace, host: Host, client: Client, stack: Stack) -> str:
    """Show the objects that the deletion removes and those that stay, and ask.

    Returns the digest of the plan. Raises CommandError without consent, and what refuses the deletion.
    """
    plan = plans.of_deletion(client, stack, arguments.retain)
    gone, stays = plans.gone_and_staying(plan)
    _print_first([f"- {line}" for line in gone], "red")
    _print_first([f"  {line}" for line in stays], "dim")
    tell_facts(host, client, stack, plan)
    force = ", and leave behind what cannot be deleted" if arguments.force else ""
    plural = "" if len(gone) == 1 else "s"
    agree(arguments, f"Delete the stack {stack.name} with {len(gone)} resource{plural}{force}?")
    return text(plan.get("digest"))


def _print_first(lines: Sequence[str], colour: str) -> None:
    for line in lines[:MOST_SHOWN]:
        render.line(line, colour)
    if len(lines) > MOST_SHOWN:
        print(f"  … and {len(lines) - MOST_SHOWN} more")


@commands.command("retry", "continue a failed create or update", STACK, *FOLLOWED, examples=("retry web",))
def retry(arguments: argparse.Namespace, host: Host) -> int:
    """Continue a failed create or update, and wait for it."""
    with connect(arguments, host) as session:
        stack = session.client.find(arguments.stack)
        return start(arguments, session, stack, {"retry": None}, f"heatlite retry {stack.name}")
