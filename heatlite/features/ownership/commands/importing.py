"""Command that takes existing objects under the care of a stack."""

import argparse
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heatlite.cli.arguments import ENVIRONMENT, PARAMETER, YES, CommandGroup, argument, repeatable
from heatlite.cli.client import Client, Object, Stack, an_object, objects, text
from heatlite.cli.commands.following import change, require_stack
from heatlite.cli.errors import CommandError, Misuse, RefusedRequest
from heatlite.cli.files import gather, load_file, parameters
from heatlite.cli.output import plans, progress, render, template_files
from heatlite.cli.questions import agree, need_consent
from heatlite.cli.session import Host, Session, connect, tell_facts
from heatlite.core.json import Json, JsonMap, as_map, dump

EMPTY: JsonMap = {"heat_template_version": "2021-04-16", "resources": {}}
FORMAT = argument("-f", "--format", choices=("text", "json"), default="text", help="json: a report")

commands = CommandGroup()


@commands.command(
    "import",
    "take existing objects under the care of a stack, without a change of them",
    argument("stack", metavar="STACK", help="name or id; a stack that does not exist is created empty"),
    argument("items", nargs="*", metavar="FILE|PATH=ID", help="a template that defines the objects; objects by path"),
    argument("--from-file", type=Path, metavar="FILE", help="objects by name: the `import` of the API as YAML"),
    argument("--generate", action="store_true", help="let the server write the definitions"),
    repeatable("--type", metavar="[NAME=]TYPE", help="resource type of all objects, or of one (repeatable)"),
    argument("--changes", choices=("refuse", "list"), help="list: keep differences as work of the next update"),
    template_files.WRITE,
    ENVIRONMENT,
    PARAMETER,
    YES,
    FORMAT,
    examples=(
        "import shop db=6b236b23-9a04-4e6c-8c5c-2f4f4c3c9d5e --generate --type OS::Cinder::Volume --write shop.yaml",
        "import shop shop.yaml db=6b236b23-9a04-4e6c-8c5c-2f4f4c3c9d5e",
        "import shop --from-file map.yaml --yes -f json",
    ),
)
def import_(arguments: argparse.Namespace, host: Host) -> int:
    """Show the plan of an import, ask, and import."""
    body = _body(arguments)
    need_consent(arguments, "import changes a stack")
    if arguments.write is not None:
        load_file(arguments.write)
    with connect(arguments, host) as session:
        client = session.client
        found = client.find_or_none(arguments.stack)
        stack = found or _empty_stack(arguments, session)
        with _withdrawn(arguments, client, stack if found is None else None, CommandError, KeyboardInterrupt):
            stored = template_files.stored(client, stack)
            plan = client.plan(stack, "import", body)
            if arguments.format == "text":
                _draw(plan)
                tell_facts(host, client, stack, plan)
            agree(arguments, "Import them?")
        approved: JsonMap = {**body, "plan_digest": text(plan.get("digest"))}
        with _withdrawn(arguments, client, stack if found is None else None, CommandError):
            change(arguments, session, "POST", f"{stack.path}/actions", {"import": approved})
    imported: list[Json] = [
        {"path": plans.path_of(one), "id": one.get("physical_resource_id")}
        for one in objects(plan, "resources")
    ]
    is_json = arguments.format == "json"
    print(dump({"imported": imported, "refused": []}) if is_json else f"{stack.name}: {len(imported)} imported")
    if arguments.write is not None:
        template_files.write(arguments.write, stored, plan)
    return 0


def _body(arguments: argparse.Namespace) -> JsonMap:
    """Return the body of the request. Raises Misuse."""
    body: JsonMap = {} if arguments.from_file is None else load_file(arguments.from_file, "Environment").data
    body = as_map(body.get("import", body))
    objects_given: JsonMap = {**as_map(body.get("resources"))}
    for item in arguments.items:
        name, equals, key = item.partition("=")
        if equals:
            objects_given[name] = {"id": key}
    files = [Path(item) for item in arguments.items if "=" not in item]
    if not objects_given:
        raise Misuse("Name what is to be imported: NAME=ID, or --from-file FILE.")
    if len(files) > 1:
        raise Misuse(f"Give one template, not {len(files)}.")
    if files:
        bundle = gather(files[0], arguments.environment)
        body |= bundle.body(parameters(arguments.parameter))
    elif not arguments.generate and "template" not in body and arguments.from_file is None:
        raise Misuse("Give a template that defines the objects, or --generate.")
    if arguments.changes is not None:
        body["changes"] = arguments.changes
    return {**body, "resources": _with_types(objects_given, arguments.type)}


def _with_types(given: JsonMap, types: list[str]) -> JsonMap:
    """Return the objects with the types of the command line."""
    found: JsonMap = {name: {"id": one} if isinstance(one, str) else as_map(one) for name, one in given.items()}
    for item in types:
        name, equals, kind = item.partition("=")
        if equals and name not in found:
            raise Misuse(f"--type {item}: nothing called {name} is to be imported.")
        for one in [name] if equals else [*found]:
            found[one] = {**as_map(found[one]), "type": kind or name}
    return found


def _empty_stack(arguments: argparse.Namespace, session: Session) -> Stack:
    """Return a new stack without resources. Creates it with consent."""
    client = session.client
    agree(arguments, f"Create the stack {arguments.stack}, without resources?")
    made = an_object(client.request("POST", "/stacks", {"stack_name": arguments.stack, "template": EMPTY}), "stack")
    stack, began = client.find(text(made.get("id"))), time.monotonic()
    require_stack(progress.wait(session, stack, None, "heatlite import", arguments.format, began))
    return client.find(stack.id)


@contextmanager
def _withdrawn(
    arguments: argparse.Namespace, client: Client, made: Stack | None, *errors: type[BaseException]
) -> Iterator[None]:
    """Report an import that ends with an error, and delete the stack made for it."""
    try:
        yield
    except errors as error:
        if made is not None:
            try:
                client.request("DELETE", made.path)
                print(f"The stack {made.name}, made for this import, is deleted again.", file=sys.stderr)
            except CommandError as refusal:  # it may need an approval
                print(f"The stack {made.name}, made for this import, stays empty: {refusal}", file=sys.stderr)
        if isinstance(error, RefusedRequest) and arguments.format == "json":
            print(dump({"imported": [], "refused": [_refusal(error)]}))
        raise


def _draw(plan: Object) -> None:
    """Print what is imported, and what is left to do."""
    for one in objects(plan, "resources"):
        shown = f"{plans.path_of(one)} = {text(one.get('physical_resource_id'))}"
        render.line(f"+ {shown}  ({text(one.get('resource_type'))})", "green")
    for one in objects(plan, "after") if "after" in plan else ():
        action = text(one.get("action"))
        told = action.upper() if action == "replace" else action
        where, changed = plans.path_of(one), objects(one, "properties")
        names = f" ({', '.join(text(each.get('name')) for each in changed)})" if changed else ""
        print(f"  the next update will {told} {where}{names}")
    for key, words in (("unverified", "not verified, as the object does not tell it"), ("omitted", "left out")):
        for one in objects(plan, key):
            why = ": secret" if one.get("why") == "secret" else ""
            if key == "unverified" or why:
                print(f"  {text(one.get('path'))}{text(one.get('pointer'))}: {words}{why}")


def _refusal(error: RefusedRequest) -> JsonMap:
    """Return a refused import for the report."""
    found = re.search(r"resources\.([^:\s]+):", str(error))
    return {"path": "" if found is None else found[1], "code": error.kind, "message": str(error)}
