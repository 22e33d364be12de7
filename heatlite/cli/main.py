"""``heatlite``: parses the command line, runs a command and reports its errors."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn

from heatlite import __version__
from heatlite.cli.arguments import CommandGroup, Run, Sections
from heatlite.cli.errors import CommandError, LeftWaiting, RefusedRequest
from heatlite.cli.parser import MISUSE, CommandParser, print_error, with_percents_last
from heatlite.cli.session import Host, StatedFeature
from heatlite.core import config
from heatlite.core.config import BadSetting
from heatlite.core.errors import HeatliteError
from heatlite.core.json import dump

PACKAGE = "heatlite.cli.commands"

SECTIONS: Sections = {
    "Stacks": {
        ".changes": ("up", "plan", "down", "retry"),
        ".stacks": ("ls", "show", "explain", "resources", "find", "outputs", "events", "history"),
    },
    "Health, locks and protection": {
        ".maintenance": (
            "mark-unhealthy", "mark-healthy", "check", "protect", "unprotect", "lock", "action-lock", "unlock",
            "action-unlock", "lock-status", "rotate-keys",
        ),
    },
    "Groups and members": {
        ".groups": ("group",),
        ".members": ("member",),
    },
    "Templates": {
        ".validate": ("validate",),
        ".types": ("types", "schema"),
        ".init": ("init",),
    },
    "Actions and nodes": {
        ".actions": ("action",),
    },
    "Server and clients": {
        ".server": ("serve", "api", "worker", "services"),
        ".database": ("db", "keys", "fsck"),
        ".users": ("user",),
        ".audit": ("audit",),
        ".openstack": ("env", "clouds"),
        ".configuration": ("config", "completion"),
    },
}  # fmt: skip
"""The commands of the core, in modules of `PACKAGE`. A command line loads the module of its command only."""

ELSEWHERE: Mapping[str, str] = {
    "apply": "up", "create": "up", "update": "up", "delete": "down", "destroy": "down", "diff": "plan",
    "preview": "plan", "list": "ls", "status": "show", "log": "events", "logs": "events", "why": "explain",
}  # fmt: skip
"""Words of similar tools → our commands."""

SNAPSHOTS = "snapshots are made with: openstack stack snapshot create STACK (heatlite env points it at the server)"

EXTENDED = frozenset({"up", "plan", "history"})
"""Commands to which features add options."""
FLAGGED = frozenset({"ls", "validate"})
"""Commands to which they add flags. Features are imported for a flag that is not the command's own."""

MAX_LISTED = 15
"""Commands that an error lists. The help has those of a longer list."""

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as in shells."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: its temporary files are removed."""


def _hint(word: str, names: Sequence[str]) -> str:
    """Return what may be meant by a word that is none of the commands."""
    if word.startswith("snapshot") and "up" in names:
        return SNAPSHOTS
    meant = ELSEWHERE.get(word, "")
    import difflib

    close = [meant] if meant in names else difflib.get_close_matches(word, names)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"there are: {', '.join(names)}" if len(names) <= MAX_LISTED else "its help lists all"


def build_parser(sections: Sections = SECTIONS) -> CommandParser:
    """Build the parser with the commands of some sections."""
    parser = CommandParser(
        prog="heatlite",
        usage="heatlite COMMAND [OPTION ...]",
        description="Stacks from Heat templates, in one process.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"heatlite {__version__}")
    parser.add_commands(prog="heatlite", help=argparse.SUPPRESS)
    modules = [name for named in sections.values() for name in named]
    groups: list[CommandGroup] = [import_module(name, PACKAGE).commands for name in modules]
    for group in groups:
        group.add_to(parser)
    for group in groups:
        group.extend(parser)
    if len(modules) > 1:
        named = ((one.prog.partition(" ")[2], one.description or "") for one in parser.commands.values())
        parser.epilog = _overview(sections, dict(named))
    return parser


def with_features(features: Iterable[StatedFeature]) -> Sections:
    """Return all sections, with the commands of features at their ends."""
    every = {title: dict(modules) for title, modules in SECTIONS.items()}
    for one in features:
        for title, modules in one.commands.items():
            every.setdefault(title, {}).update(modules)
    return every


def _of(command: str, sections: Sections) -> Sections | None:
    """Return the module that has a command; None for other words."""
    found = ((title, name, words) for title, modules in sections.items() for name, words in modules.items())
    return next(({title: {name: words}} for title, name, words in found if command in words), None)


def _sections(words: Sequence[str], host: Host) -> Sections:
    """Return the sections for a command line.

    One with the module of its command, else all. Raises CommandError for a command of a feature that is off.
    """
    command = words[0] if words else ""
    found = _of(command, SECTIONS)
    if found is not None and command not in EXTENDED and not _has_further_flag(command, words[1:], found):
        return found
    features, is_on = host.features(), _switches(words, host)
    active = [one for one in features if is_on(one.name)]
    if found is None:
        for one in features:
            if one not in active and _of(command, one.commands) is not None:
                raise CommandError(f"The feature {one.name} is off. Add it to `features` in heatlite.toml.")
        every = with_features(active)
        found = _of(command, every)
        if found is None:
            return every
    further = [module for one in active for module in one.extends.get(command, ())]
    return {**found, "": dict.fromkeys(further, ())}


def _has_further_flag(command: str, words: Sequence[str], found: Sections) -> bool:
    """Return True for a flag that may be a feature's, or for its help."""
    flags = [word.partition("=")[0] for word in words if word.startswith("--")] if command in FLAGGED else []
    if not flags:
        return False
    parser = build_parser(found).commands[command]
    own = {flag for one in (*parser.arguments, *parser.general) for flag in one.option_strings}
    return not own.issuperset(flags)


def _switches(words: Sequence[str], host: Host) -> Callable[[str], bool]:
    """Return what tells the features that are on."""
    parser = CommandParser(prog="heatlite", add_help=False, allow_abbrev=False)
    parser.add_argument("--config", type=Path)
    try:
        return config.load(host.features, file=parser.parse_known_args(words)[0].config).has_feature
    except BadSetting:  # the command reports it, and the help needs no settings
        return lambda _: True


def _overview(sections: Sections, summaries: Mapping[str, str]) -> str:
    """Return the commands with their summaries, in sections."""
    from heatlite.cli.output.render import folded

    width = max(map(len, summaries)) + 2
    lines: list[str] = []
    for title, modules in sections.items():
        lines += ["", f"{title}:"]
        named = (name for names in modules.values() for name in names if name in summaries)
        lines += (folded(f"  {name:{width}}{summaries[name]}", sys.stdout, width + 2) for name in named)
    return "\n".join([*lines[1:], "", "Help of one command: heatlite COMMAND --help"])


def parse(arguments: Sequence[str], sections: Sections = SECTIONS) -> argparse.Namespace:
    """Parse a command line. Loads one module if the first word is a command."""
    first = arguments[0] if arguments else ""
    if first.startswith("--") and first not in ("--help", "--version"):
        build_parser(sections).error(f"options come after the command: heatlite COMMAND {first} …")
    found = _of(first, sections)
    parser = build_parser(sections if found is None else {**found, "": sections.get("", {})})
    arguments = parser.completed(arguments)
    _check_commands(parser, arguments)
    parsed, unknown = parser.parse_known_args(with_percents_last(arguments))
    if unknown:
        command: CommandParser = parsed.parser
        import difflib

        flags = [flag for one in (*command.arguments, *command.general) for flag in one.option_strings]
        words = [flag[2:] for flag in flags if flag.startswith("--")]  # the dashes make all alike
        close = difflib.get_close_matches(unknown[0][2:], words, 1) if unknown[0].startswith("--") else ()
        hint = f"; did you mean --{close[0]}?" if close else ""
        command.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    return parsed


def _check_commands(parser: CommandParser, words: Iterable[str]) -> None:
    """Exit with an error if a word is to be a command and is none."""
    for word in words:
        if word.startswith("-") or not parser.commands:
            return
        if word not in parser.commands:
            parser.error(f"there is no command {word!r}; {_hint(word, [*parser.commands])}")
        parser = parser.commands[word]


def run(arguments: Sequence[str] | None, host: Host) -> int:
    """Run one command line. Returns the exit code.

    docs/reference/command-line.md lists the codes.
    """
    if arguments is None:
        signal.signal(signal.SIGTERM, _terminate)
        if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without UTF-8, as for stderr
    from heatlite.cli.output.render import guarded_terminals

    with guarded_terminals():
        return _guarded(arguments, host)


def _guarded(arguments: Sequence[str] | None, host: Host) -> int:
    try:
        code = _run(arguments, host)
    except Terminated:
        os.kill(os.getpid(), signal.SIGTERM)  # the parent process sees the signal
        raise
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = 1
    except UnicodeEncodeError:
        _complain("An argument is not valid UTF-8.")
        code = MISUSE
    except OSError as error:
        code = 1
        if _is_written():  # else that was the error
            _complain(str(error))
    return code if _is_written() else code or 1


def _terminate(number: int, _frame: object) -> NoReturn:
    """Raise Terminated. A second signal ends the process at once."""
    signal.signal(number, signal.SIG_DFL)
    raise Terminated


def _is_written() -> bool:
    """Write the rest of the output. Returns False if that fails."""
    try:
        print(end="", flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would try again at the end
        # The reader of a pipe may have enough (``heatlite events … | head``).
        if not isinstance(error, BrokenPipeError):
            _complain(f"standard output: {error.strerror}")
        return False
    return True


def _run(arguments: Sequence[str] | None, host: Host) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if "_ARGCOMPLETE" in os.environ:
        from heatlite.cli.completion import begun, complete

        complete(build_parser(_sections([begun(), "--help"], host)), host)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    parsed = argparse.Namespace()
    try:
        parsed = parse(words or ["--help"], _sections(words, host))
        command: Run = parsed.run
        return command(parsed, host)
    except LeftWaiting as left:
        is_json = getattr(parsed, "format", None) == "json"
        print(dump({"type": "waiting", "action_id": left.action_id}) if is_json else left)
        return 0
    except RefusedRequest as error:
        _record(parsed, str(error), error.status)
        _complain(f"{error} (HTTP {error.status})")
    except CommandError as error:
        _record(parsed, str(error))
        _complain(f"{error}")
        return error.exit_code
    except HeatliteError as error:
        _record(parsed, error.message)
        _complain(f"{error.message}")
        return MISUSE if isinstance(error, BadSetting) else 1
    return 1


def _complain(text: str) -> None:
    print_error(f"heatlite: {text}")


def _record(arguments: argparse.Namespace, message: str, status: int | None = None) -> None:
    """Print an error as the last line of a followed operation's JSON output."""
    if getattr(arguments, "format", None) == "json" and hasattr(arguments, "no_wait"):
        print(dump({"type": "error", "message": message, "http_status": status}), flush=True)
