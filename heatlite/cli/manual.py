"""Generator of the manual page heatlite(1) from the parser.

``python -m heatlite.cli.manual > docs/man/heatlite.1``.
"""

import argparse
from collections.abc import Iterator

from heatlite.cli.examples import EXAMPLES
from heatlite.cli.main import SECTIONS, build_parser

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
    parser = build_parser()
    lines = [_FRAME.rstrip("\n")]
    for title, modules in SECTIONS.items():
        lines.append(f'.SH "{title.upper()}"')
        for names in modules.values():
            for name in names:
                lines += _command(_below(parser)[name], name)
    return "\n".join([*lines, _END])


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {name: one for action in found for name, one in action.choices.items()}


def _command(parser: argparse.ArgumentParser, words: str) -> Iterator[str]:
    """Yield the lines on a command and those below it. Aliases have none."""
    if parser.prog != f"heatlite {words}":
        return
    below = _below(parser)
    if below:
        for name, child in below.items():
            yield from _command(child, f"{words} {name}")
        return
    yield f'.SS "heatlite {words}"'
    yield _text((parser.description or "").capitalize() + ".")
    formatter = parser._get_formatter()
    own = [group for group in parser._action_groups if group.title != "server and settings"]
    for action in (action for group in own for action in group._group_actions if action.help and action.dest != "help"):
        flags = ", ".join(action.option_strings) or formatter._metavar_formatter(action, action.dest)(1)[0]
        takes = formatter._format_args(action, action.dest.upper()) if action.option_strings else ""
        yield f".TP\n.B {_text(f'{flags} {takes}'.rstrip())}\n{_text(action.help or '')}"
    for example in EXAMPLES.get(words, ()):
        yield f".PP\n.EX\nheatlite {_text(example)}\n.EE"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    # groff reads Latin 1, unless a program before it converts the page.
    escaped = "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in escaped)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    print(page(), end="")
