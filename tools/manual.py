"""Generator of the manual page heatlite(1) from the parser.

``python -m tools.manual > docs/man/heatlite.1``.
"""

import argparse
from collections.abc import Iterator

from heatlite.cli.main import build_parser, with_features
from heatlite.cli.parser import CommandParser
from heatlite.feature import installed

_FRAME = """.TH HEATLITE 1 "" "heatlite" "User Commands"
.SH NAME
heatlite \\- stack engine for Heat templates
.SH SYNOPSIS
.B heatlite
.I COMMAND
.RI [ OPTION ...]
.SH DESCRIPTION
Creates, updates and deletes stacks from Heat (HOT) and CloudFormation templates.
Talks to a server that speaks the OpenStack Heat v1 API.
Without a server, the engine runs inside the command.
"""

_END = """.SH EXIT STATUS
.TP
.B 0
Success.
.TP
.B 1
Failed or refused.
.TP
.B 2
Wrong command line or setting; with
.B plan \\-\\-detailed\\-exitcode
there are changes.
.TP
.B 124
Timeout.
.TP
.B 130
Interrupted.
.SH FILES
.TP
.I ~/.config/heatlite/heatlite.toml
Settings.
.TP
.I ~/.config/heatlite/contexts.toml
Named servers.
.TP
.I ~/.local/share/heatlite/heatlite.db
Database, unless the setting
.B database
names another.
.SH ENVIRONMENT
.B HEATLITE_<SETTING>
overrides a setting, such as
.BR HEATLITE_DATABASE .
.BR HEATLITE_ENDPOINT ,
.BR HEATLITE_PROJECT ,
.B HEATLITE_CONTEXT
and
.B HEATLITE_CACERT
choose the server.
"""


def page() -> str:
    """Return the page in roff."""
    sections = with_features(installed())
    parser = build_parser(sections)
    lines = [_FRAME.rstrip("\n")]
    for title, modules in sections.items():
        lines.append(f'.SH "{title.upper()}"')
        for names in modules.values():
            for name in names:
                lines += _command(parser.commands[name], name)
    return "\n".join([*lines, _END])


def _command(parser: CommandParser, words: str) -> Iterator[str]:
    """Yield the lines on a command and those below it. Aliases have none."""
    if parser.prog != f"heatlite {words}":
        return
    if parser.commands:
        for name, child in parser.commands.items():
            yield from _command(child, f"{words} {name}")
        return
    yield f'.SS "heatlite {words}"'
    yield _text((parser.description or "").capitalize() + ".")
    for action in sorted(parser.arguments, key=lambda one: bool(one.option_strings)):
        takes = f"{', '.join(action.option_strings)} {_values(action)}".strip()
        yield f".TP\n.B {_text(takes)}\n{_text(action.help or '')}"
    for example in parser.examples:
        yield f".PP\n.EX\nheatlite {_text(example)}\n.EE"


def _values(action: argparse.Action) -> str:
    """Return what an argument takes: ``FILE``, ``[SECONDS]``, or nothing."""
    choices = None if action.choices is None else f"{{{','.join(map(str, action.choices))}}}"
    name = str(action.metavar or choices or (action.dest.upper() if action.option_strings else action.dest))
    if not action.option_strings or action.nargs is None:
        return name
    return {0: "", "?": f"[{name}]", "*": f"[{name} ...]"}[action.nargs]


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    # groff reads Latin 1, unless a program before it converts the page.
    escaped = "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in escaped)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    print(page(), end="")
