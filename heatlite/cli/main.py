"""``heatlite``: the arguments of every command, and what becomes of its errors."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from heatlite import __version__
from heatlite.cli.commands import actions, local, maintenance, node_actions, nodes, playbooks, stacks, validate
from heatlite.cli.commands import template_test as trial
from heatlite.cli.commands import users as accounts
from heatlite.cli.errors import CommandError, Refused
from heatlite.cli.output import render, report
from heatlite.cli.session import Host
from heatlite.core.errors import HeatliteError

INTERRUPTED = 130
"""Exit code after Ctrl-C (128 + SIGINT, as shells have it)."""

Command = Callable[[argparse.Namespace, Host], int]


def _minutes(given: str) -> int:
    if not given.isdecimal() or int(given) < 1:
        raise argparse.ArgumentTypeError(f"{given!r} is no whole number of minutes from 1")
    return int(given)


class _Commands:
    """Builds the parsers. Groups of arguments that several commands share are methods."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def group(self, name: str, summary: str) -> "_Commands":
        """Commands of two words, of which this is the first."""
        return _Commands(self._subparsers.add_parser(name, help=summary, description=summary))

    def add(
        self, name: str, run: Command, summary: str, aliases: Sequence[str] = (), server: bool = True
    ) -> argparse.ArgumentParser:
        """A command; `server`: it talks to one, so the user may say to which."""
        parser = self._subparsers.add_parser(name, help=summary, description=summary, aliases=list(aliases))
        parser.set_defaults(run=run)
        parser.add_argument("--config", type=Path, metavar="FILE", help="settings (default: heatlite.toml of the user)")
        parser.add_argument("--database", metavar="URL", help="database (default: SQLite in the user's data folder)")
        if server:
            parser.add_argument(
                "--endpoint", metavar="URL", help="server to talk to (HEATLITE_ENDPOINT; default: on this machine)"
            )
            parser.add_argument("--project", help="project (HEATLITE_PROJECT; default: default)")
            parser.add_argument(
                "--username", metavar="NAME", help="who you are there (HEATLITE_USERNAME, _PASSWORD; or HEATLITE_TOKEN)"
            )
            _cloud(parser)  # without a server the work is done here
        return parser

    def add_listing(self, name: str, run: Command, summary: str, server: bool = True) -> argparse.ArgumentParser:
        """A command that prints rows or fields."""
        parser = self.add(name, run, summary, server=server)
        parser.add_argument("-f", "--format", choices=render.FORMATS, default="table")
        _columns(parser)
        return parser

    def add_template(
        self, name: str, run: Command, summary: str, server: bool = True, several: bool = False
    ) -> argparse.ArgumentParser:
        """A command that takes a template (or several) with its environments and parameters."""
        parser = self.add(name, run, summary, server=server)
        if several:
            parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="template (repeatable)")
        else:
            parser.add_argument("file", type=Path, metavar="FILE", help="template")
        parser.add_argument(
            "-e",
            "--environment",
            type=Path,
            action="append",
            default=[],
            metavar="FILE",
            help="environment (repeatable)",
        )
        parser.add_argument(
            "-P", "--parameter", action="append", default=[], metavar="NAME=VALUE", help="parameter (repeatable)"
        )
        return parser


def _columns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-c", "--column", action="append", default=[], metavar="COLUMN", help="only this (repeatable)")


def _number(given: str) -> int:
    if not given.isdecimal():
        raise argparse.ArgumentTypeError(f"{given!r} is no whole number")
    return int(given)


def _seconds(given: str) -> float:
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{given!r} is no number of seconds")
    return seconds


def _stack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stack", metavar="STACK", help="name or id")


def _action(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", metavar="ACTION", help="id, name, or the beginning of the id")


def _node_action(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", metavar="ID", help="id")


def _stack_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--name", help="name of the stack (default: the template's file name)")


def _send_from(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--send-from",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="send files below this folder, too, that the template names (repeatable; default: those below its own)",
    )


def _adopt_cloud(parser: argparse.ArgumentParser) -> None:
    text = "have the stack adopt the cloud that is set, whatever cloud it has recorded"
    parser.add_argument("--adopt-cloud", action="store_true", help=text)


def _cloud(parser: argparse.ArgumentParser, what: str = "where resources are made") -> None:
    parser.add_argument(
        "--cloud",
        metavar="NAME",
        help=f"{what}: an entry of clouds.yaml, envvars (the OS_* variables), or simulated",
    )


def build_parser() -> argparse.ArgumentParser:
    """All commands and their arguments."""
    parser = argparse.ArgumentParser(prog="heatlite", description="Stacks from Heat templates, in one process.")
    parser.add_argument("--version", action="version", version=f"heatlite {__version__}")
    commands = _Commands(parser)

    one = commands.add_template("up", stacks.up, "create or update a stack, and wait for it")
    _stack_name(one)
    _send_from(one)
    one.add_argument("--timeout", type=_minutes, metavar="MINUTES", help="give up after so long")
    one.add_argument("--confirm", action="store_true", help="show the plan, and ask; do that or nothing")
    one.add_argument("--rollback", action="store_true", help="if it fails, go back to what was")
    one.add_argument("--tags", metavar="A,B", help="tags of the stack")
    _adopt_cloud(one)

    one = commands.add_template("plan", stacks.plan, "show what `up` would do")
    _stack_name(one)
    _send_from(one)
    _adopt_cloud(one)
    one.add_argument("-f", "--format", choices=render.FORMATS, default="table")
    _columns(one)

    one = commands.add("down", stacks.down, "delete a stack, and wait until it is gone")
    _stack(one)
    one.add_argument("--force", action="store_true", help="leave behind, and list, what cannot be deleted")
    _stack(commands.add("retry", stacks.retry, "go on with a create or an update where it failed"))
    commands.add_listing("ls", stacks.ls, "list stacks")
    _stack(commands.add_listing("show", stacks.show, "show a stack"))
    _stack(commands.add_listing("resources", stacks.resources, "list a stack's resources"))
    _stack(commands.add_listing("outputs", stacks.outputs, "list a stack's outputs"))

    one = commands.add("events", stacks.events, "list a stack's events")
    _stack(one)
    one.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C")
    one.add_argument("--format", choices=("log", *render.FORMATS), default="log")
    _columns(one)

    one = commands.add("test", trial.test, "try templates on a simulated cloud, as files of steps say", server=False)
    one.add_argument("files", type=Path, nargs="+", metavar="FILE", help="steps and what is expected (repeatable)")
    one.add_argument("--junit", type=Path, metavar="FILE", help="write a report that CI systems read")

    one = commands.add_template(
        "validate", validate.validate, "list every problem of a template, or of a playbook", server=False, several=True
    )
    one.add_argument("--format", choices=report.FORMATS, default="text")
    one.add_argument("--strict", action="store_true", help="warnings count as errors for the exit code")
    _cloud(one, "ask this cloud whether what templates name is there")

    for name, run, summary in (
        ("mark-unhealthy", maintenance.mark_unhealthy, "say that a resource is broken: the next update replaces it"),
        ("mark-healthy", maintenance.mark_healthy, "take such a mark back"),
    ):
        one = commands.add(name, run, summary)
        _stack(one)
        one.add_argument("resource", metavar="RESOURCE", help="name or physical id")
        one.add_argument("--reason", help="why")

    for name, run, summary in (
        ("protect", maintenance.protect, "keep a stack from deletion, or a resource from deletion and replacement"),
        ("unprotect", maintenance.unprotect, "lift such a protection"),
    ):
        one = commands.add(name, run, summary)
        _stack(one)
        one.add_argument("resource", metavar="RESOURCE", nargs="?", help="name; without it: the stack itself")
        one.add_argument("--reason", help="why; shown in events, and to those who are refused")

    one = commands.add("check", maintenance.check, "look whether every object is there and well")
    _stack(one)
    one.add_argument("--every", metavar="PAUSE", help="again and again, so long after each: 30s, 10m, 1h, 1d")
    one.add_argument("--at", metavar="TIME", help="not now, but then: 2026-11-21T18:00:00Z, +30m, +2h, +1d")

    one = commands.add("lock", maintenance.lock, "lock a stack for maintenance", aliases=["action-lock"])
    _stack(one)
    one.add_argument(
        "--level", choices=("all", "stacks"), default="all", help="stacks, or also their resources (default: all)"
    )
    one.add_argument("--reason", help="why; shown to whoever is refused")
    one.add_argument("--expires", metavar="TIME", help="unlock by itself then: 2026-11-21T18:00:00Z, +30m, +2h, +1d")

    _stack(commands.add("unlock", maintenance.unlock, "lift the lock", aliases=["action-unlock"]))

    _stack(commands.add("rotate-keys", maintenance.rotate_keys, "draw new keys for signed URLs and tokens of a stack"))

    one = commands.add_listing("lock-status", maintenance.lock_status, "show the lock and what it has refused")
    _stack(one)
    what = one.add_mutually_exclusive_group()
    what.add_argument("--replay", metavar="ID", help="do what was refused")
    what.add_argument("--drop", metavar="ID", help="forget it")

    _add_actions(commands.group("action", "list, show, signal and wait for actions"))
    _add_nodes(commands.group("node", "machines with an agent, and work on them"))

    one = commands.add_listing("types", local.types, "list the resource types; `types show TYPE` explains one")
    one.add_argument("what", nargs="*", metavar="show TYPE", help="explain one type")

    commands.add("schema", local.schema, "print a JSON Schema of templates, for editors", server=False)

    commands.add("env", local.environment, "print shell lines that point `openstack` at the server")
    one = commands.add("clouds", local.clouds, "write ./clouds.yaml for `openstack --os-cloud heatlite`")
    one.add_argument("--force", action="store_true", help="overwrite a file that is not ours")

    for name, run, summary in (
        ("serve", local.serve, "run the server"),
        ("api", local.api, "run the server without its engine; workers do the work, on any machine"),
    ):
        one = commands.add(name, run, summary, server=False)
        one.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
        one.add_argument("--port", type=int, help="port to listen on (default: 8004)")
        _cloud(one)
    _cloud(commands.add("worker", local.worker, "run an engine without the API, one of any number", server=False))

    commands.add_listing("services", local.services, "list the engines, and what each is doing")
    commands.add_listing("fsck", local.fsck, "prove that nothing in the database is orphaned", server=False)
    summary = "bring the database up to date, show its migrations, back it up or restore it"
    one = commands.add_listing("db", local.database, summary, False)
    verbs = ("upgrade", "status", "backup", "restore")
    one.add_argument("what", choices=verbs, metavar=f"{{{','.join(verbs)}}}")
    one.add_argument("file", nargs="?", type=Path, metavar="FILE", help="backup of a SQLite database, key in FILE.key")
    one.add_argument(
        "--force", action="store_true", help="backup: overwrite FILE; restore: install it whatever fsck finds in it"
    )

    _add_users(commands.group("user", "say who may use a server with `auth` basic or tokens"))

    summary = "print a new key for secrets, or encrypt what is stored with the first key"
    one = commands.add("keys", local.keys, summary, server=False)
    one.add_argument("what", choices=("new", "rotate"), metavar="{new,rotate}")
    return parser


def _add_users(commands: _Commands) -> None:
    for name, run, summary in (
        ("add", accounts.add, "set a user's password, asked for or on stdin, and his roles"),
        ("token", accounts.token, "give out a token for a user: it is printed once"),
    ):
        one = commands.add(name, run, summary, server=False)
        one.add_argument("user", metavar="USER", help="name")
        one.add_argument(
            "--project",
            metavar="PROJECT[=ROLE,ROLE]",
            action="append",
            default=[],
            help="roles in a project: reader, member, heat_stack_user, or admin, which is administrator of all projects"
            " (repeatable; default: default=member)",
        )
    one.add_argument("--expires", metavar="TIME", help="not valid any more then: 2026-11-21T18:00:00Z, +2h, +30d")


def _add_nodes(commands: _Commands) -> None:
    _stack(commands.add_listing("list", node_actions.nodes, "list the nodes of a stack, with their agents' state"))
    one = commands.add_listing("actions", node_actions.list_, "list node actions, newest first")
    one.add_argument("stack", metavar="STACK", nargs="?", help="only those on this stack and on those nested in it")
    for flag, metavar, what in (
        ("--node", "NODE", "on this node, by name or id (repeatable, or with commas between)"),
        ("--kind", "KIND", "of this kind (the same)"),
        ("--state", "STATE", "in this state (the same)"),
        ("--requester", "WHO", "that come from there: user, playbook, deployment, agent (the same)"),
    ):
        one.add_argument(flag, metavar=metavar, action="append", default=[], help=f"only those {what}")
    one.add_argument(
        "--run", dest="run_id", metavar="ID", action="append", default=[], help="only those of this playbook's run"
    )
    one.add_argument(
        "--sort",
        metavar="KEY[:asc|:desc]",
        action="append",
        default=[],
        help="created_at, updated_at, node, kind, state (repeatable, or with commas between)",
    )
    one.add_argument(
        "--limit", type=_number, default=100, metavar="NUMBER", help="at most so many (default: 100; 0: all)"
    )
    one = commands.add_listing("show", node_actions.show, "show a node action")
    _node_action(one)
    one.add_argument("--history", action="store_true", help="its states, with who tells of them, instead")
    one = commands.add("run", node_actions.run, "ask for work on a node")
    _stack(one)
    one.add_argument("node", metavar="NODE", help="name or id")
    one.add_argument("kind", metavar="KIND", nargs="?", help="what is to be done (with --script: script)")
    one.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="an argument or a script's input")
    one.add_argument("--args", metavar="JSON", help="arguments, as a JSON object")
    one.add_argument("--script", type=Path, metavar="FILE", help="run what is in this file")
    one.add_argument("--granted", action="store_true", help="approve it at once, where you may")
    one.add_argument("--id", metavar="UUID", help="an id of your own: to ask again with it asks once")
    for decision, summary in (
        ("approve", "have node actions done"),
        ("reject", "have node actions not done that nobody has approved"),
        ("cancel", "end node actions; those that run, as soon as their agents can"),
    ):
        one = commands.add(decision, node_actions.decide, summary)
        one.add_argument("action", metavar="ID", nargs="+", help="id (repeatable)")
        one.set_defaults(decision=decision)
    _stack(commands.add("orchestrate", node_actions.orchestrate, "have the nodes of a stack looked after now"))
    one = commands.add("wait", node_actions.wait, "wait until a node action has ended: exit code 0 if DONE, else 1")
    _node_action(one)
    one.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="stop waiting then (exit code 124)")
    one = commands.add("token", node_actions.token, "print the URL at which an agent registers beside a resource")
    _stack(one)
    one.add_argument("resource", metavar="RESOURCE", help="name")
    one = commands.add("agent", nodes.agent, "write heatlite-agent as one file, to copy to machines", server=False)
    one.add_argument("file", type=Path, metavar="FILE", help="where to")
    _add_playbooks(commands.group("playbook", "keep playbooks, and run them on the nodes of a stack"))


def _add_playbooks(commands: _Commands) -> None:
    commands.add_listing("list", playbooks.list_, "list the project's playbooks")
    for name, run, summary in (
        ("show", playbooks.show, "print a playbook"),
        ("delete", playbooks.delete, "forget a playbook; its runs go on"),
    ):
        commands.add(name, run, summary).add_argument("playbook", metavar="NAME", help="its name")
    one = commands.add("put", playbooks.put, "keep a playbook, in place of one of that name")
    one.add_argument("file", type=Path, metavar="FILE", help="YAML, or JSON")
    one.add_argument("-n", "--name", help="its name (default: the file's)")
    one = commands.add_listing("run", playbooks.run, "put a run of a playbook on a stack, to be approved")
    _stack(one)
    one.add_argument("playbook", metavar="NAME|FILE", help="one that is kept; or a file (with / or .yaml in it)")
    one.add_argument("--dry-run", action="store_true", help="only say what would be done on which nodes")
    one.add_argument("--granted", action="store_true", help="approve it at once")
    one.add_argument("--timeout", type=_number, metavar="SECONDS", help="from the approval on; then it fails")
    _watch(one)
    one = commands.add("approve", playbooks.approve, "have a run begin")
    _action(one)
    _watch(one)
    _action(commands.add("reject", playbooks.reject, "end a run that nobody has approved"))


def _watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="watch it until it has ended (exit code 1: it failed)")


def _add_actions(commands: _Commands) -> None:
    one = commands.add_listing("list", actions.list_, "list actions, newest first")
    for flag, metavar, what in (
        ("--status", "STATUS", "with this status (repeatable, or with commas between)"),
        ("--action", "ACTION", "that do this: STACK_UPDATE … (the same)"),
        ("--name", "NAME", "of this name (the same)"),
        ("--target", "STACK", "on this stack, by name or id (repeatable)"),
    ):
        one.add_argument(flag, metavar=metavar, action="append", default=[], help=f"only those {what}")
    one.add_argument(
        "--sort",
        metavar="KEY[:asc|:desc]",
        action="append",
        default=[],
        help="name, target, action, created_at, status (repeatable, or with commas between)",
    )
    one.add_argument(
        "--limit", type=_number, default=100, metavar="NUMBER", help="at most so many (default: 100; 0: all)"
    )
    one = commands.add_listing("show", actions.show, "show an action")
    _action(one)
    one.add_argument("--history", action="store_true", help="its moves from status to status instead")
    one = commands.add("signal", actions.signal, "ask an action to stop, to rest, or to go on where it was")
    _action(one)
    one.add_argument("signal", choices=("CANCEL", "SUSPEND", "RESUME"), type=str.upper)
    one.add_argument("--force", action="store_true", help="with CANCEL: end it at once, whoever is at it")
    one = commands.add("wait", actions.wait, "wait until an action has ended: exit code 0 if it SUCCEEDED, else 1")
    _action(one)
    one.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="stop waiting then (exit code 124)")


def run(arguments: Sequence[str] | None, host: Host) -> int:
    """Run one command line; returns the exit code: 0 done, 1 failed or refused, 2 misused, 124 not done within the time
    given, 130 interrupted."""
    parsed = build_parser().parse_args(arguments)
    command: Command = parsed.run
    try:
        return command(parsed, host)
    except Refused as error:
        print(f"heatlite: {error} (HTTP {error.status})", file=sys.stderr)
    except CommandError as error:
        print(f"heatlite: {error}", file=sys.stderr)
    except HeatliteError as error:
        print(f"heatlite: {error.message}", file=sys.stderr)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough (``heatlite events … | head``). Nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
