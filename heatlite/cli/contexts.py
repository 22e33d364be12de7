"""Contexts: named servers with project and credentials, in `contexts.toml`.

A context stands for a set of ``HEATLITE_…`` variables. Variables in the environment win over it.
"""

import argparse
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from heatlite.cli.errors import Misuse
from heatlite.core.config import Features, unknown_variables

KEYS = ("endpoint", "project", "username", "password", "token", "cacert")
"""Keys of a context, and in capitals the names of the variables."""

SECRETS = ("password", "token")


class Contexts(Struct, frozen=True):
    """The file of contexts."""

    path: Path
    default: str | None
    named: Mapping[str, Mapping[str, str]]


def read(environ: Mapping[str, str] = os.environ) -> Contexts:
    """Read the file; without one there are no contexts. Raises Misuse."""
    base = environ.get("XDG_CONFIG_HOME")
    path = (Path(base) if base else Path.home() / ".config") / "heatlite" / "contexts.toml"
    try:
        text = path.read_text("utf-8")
        readable = path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)
    except FileNotFoundError:
        return Contexts(path, None, {})
    except OSError as error:
        raise Misuse(f"{path}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise Misuse(f"{path}: not valid TOML: {error}.") from None
    import tomllib

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Misuse(f"{path}: not valid TOML: {error}.") from None
    default = data.pop("default", None)
    for name, given in data.items():
        if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
            raise Misuse(f"{path}: {name} has to be a table with texts: [{name}].")
        unknown = sorted(given.keys() - set(KEYS))
        if unknown:
            raise Misuse(f"{path}: [{name}] has no key {', '.join(unknown)}; there are: {', '.join(KEYS)}.")
        if readable and any(key in given for key in SECRETS):
            raise Misuse(f"{path}: other users may read the secrets in it: chmod 600 {path}")
    if default is not None and default not in data:
        raise Misuse(f"{path}: the default context {default!r} is not there; there are: {', '.join(data) or 'none'}.")
    return Contexts(path, default, data)


def chosen(arguments: argparse.Namespace, contexts: Contexts, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the name of the context in use, or None.

    A named server or database turns the default context off, so that its secrets go to its own server only.
    Raises Misuse.
    """
    named = getattr(arguments, "context", None) or environ.get("HEATLITE_CONTEXT")
    elsewhere = getattr(arguments, "endpoint", None) or environ.get("HEATLITE_ENDPOINT")
    if named is None:
        return None if elsewhere or getattr(arguments, "database", None) else contexts.default
    if named not in contexts.named:
        import difflib

        close = difflib.get_close_matches(named, contexts.named)
        hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(contexts.named) or 'none'}"
        raise Misuse(f"There is no context {named!r} in {contexts.path}; {hint}")
    if elsewhere:
        raise Misuse(f"Both the context {named} and an endpoint are given. Choose one.")
    return named


def environment(arguments: argparse.Namespace) -> Mapping[str, str]:
    """Return the environment with the variables of the context in use. Raises Misuse."""
    contexts = read()
    name = chosen(arguments, contexts)
    given = {} if name is None else contexts.named[name]
    return {**{f"HEATLITE_{key.upper()}": value for key, value in given.items()}, **os.environ}


_warned: set[str] = set()


def warn_of_unknown_variables(features: Features) -> None:
    """Print a warning for each variable that looks like a setting and is none, once."""
    for name, known in unknown_variables(features, os.environ).items():
        if name not in _warned:
            _warned.add(name)
            hint = f"; did you mean {known}?" if known else ""
            from heatlite.cli.output.render import folded

            warning = f"heatlite: warning: {name} is set, but there is no such setting{hint}"
            print(folded(warning, sys.stderr), file=sys.stderr)
