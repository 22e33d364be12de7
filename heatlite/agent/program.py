"""Command line ``heatlite-agent``."""

import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as in shells."""

try:
    import argparse
    import json
    import os
    from collections.abc import Sequence
    from dataclasses import replace
    from pathlib import Path
    from urllib.parse import quote

    from heatlite import __version__
    from heatlite.agent import daemon
    from heatlite.agent.form import Json
    from heatlite.agent.operator import Refused, ask
    from heatlite.agent.settings import FILE, AgentSettings, BadSettings, listening, load, register_address
except KeyboardInterrupt:
    sys.exit(INTERRUPTED)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit code: 0 done, 1 refused, 2 misused, or 130."""
    try:
        given = _parser().parse_args(arguments)
        settings = _settings(given)
        if given.command == "run":
            return 0 if daemon.run(settings) else 1
        _operate(given, settings.folder)
        sys.stdout.flush()
    except BrokenPipeError:  # its reader has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would try again at the end
        return 1
    except BadSettings as error:
        print(f"heatlite-agent: {error}", file=sys.stderr)
        return 2
    except Refused as error:
        print(f"heatlite-agent: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="heatlite-agent", description="Does work on this machine, one after another.")
    parser.add_argument("--version", action="version", version=f"heatlite-agent {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")

    def add(name: str, summary: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=summary, description=summary)
        one.add_argument("--config", type=Path, metavar="FILE", help=f"settings (default: {FILE} if it is there)")
        one.add_argument("--folder", type=Path, metavar="DIR", help="folder of the queue and the secret")
        return one

    one = add("run", "be the agent, until SIGTERM")
    one.add_argument("--listen", metavar="ADDRESS:PORT", help="loopback, or TLS is set in the file; port 0: any")
    one.add_argument(
        "--register-from", type=Path, metavar="FILE", help="a file with the URL to register at, which is a secret"
    )
    one.add_argument("--deployments", action="store_true", help="carry out software deployments, too")
    add("queue", "list what waits or runs, oldest first")
    add("finished", "list what has ended, newest first")
    add("kinds", "list what the agent can do")
    add("show", "show an action with its history").add_argument("id", metavar="ID")
    add("cancel", "end an action, or take it out of the queue").add_argument("id", metavar="ID")
    one = add("schedule", "put an action at the end of the queue; prints its id")
    one.add_argument("kind", metavar="KIND")
    one.add_argument("--args", default="{}", metavar="JSON", help="an object; - reads it from stdin")
    one.add_argument("--id", metavar="ID", help="the same id again is the same action")
    return parser


def _settings(given: argparse.Namespace) -> AgentSettings:
    settings = load(given.config)
    if given.folder is not None:
        settings = replace(settings, folder=given.folder)
    if given.command != "run":
        return settings
    if given.listen is not None:
        host, port = listening(given.listen)
        settings = replace(settings, host=host, port=port)
    if given.register_from is not None:
        settings = replace(settings, register=_register_from(given.register_from))
    return replace(settings, deployments=settings.deployments or given.deployments)


def _register_from(file: Path) -> str:
    """Read the registration URL from a file.

    It is a signed URL and thus a secret; the command line is visible to all users of the machine.
    """
    try:
        text = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"--register-from: {file}: {error}") from None
    return register_address("--register-from", text)


def _operate(given: argparse.Namespace, folder: Path) -> None:
    match given.command:
        case "queue" | "finished":
            for line in _objects(ask(folder, "GET", f"/v1/actions/{given.command}")["actions"]):
                print(f"{line['id']}  {line['state']:<9}  {line['kind']}")
        case "kinds":
            for line in _objects(ask(folder, "GET", "/v1/kinds")["kinds"]):
                print(f"{line['kind']:<20}  {line['description']}")
        case "show":
            print(json.dumps(ask(folder, "GET", f"/v1/actions/{quote(given.id, safe='')}"), indent=2))
        case "cancel":
            answer = ask(folder, "POST", f"/v1/actions/{quote(given.id, safe='')}/cancel", {})
            (action,) = _objects([answer["action"]])
            print(action["state"] if action["finished_at"] else "it is being ended")
        case "schedule":
            body: dict[str, Json] = {"kind": given.kind, "args": _args(given.args)}
            if given.id is not None:
                body["id"] = given.id
            print(ask(folder, "POST", "/v1/actions", body)["id"])


def _args(text: str) -> Json:
    try:
        args: Json = json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise BadSettings(f"--args is no JSON: {error}") from None
    return args


def _objects(value: Json) -> list[dict[str, Json]]:
    assert isinstance(value, list)
    return [one for one in value if isinstance(one, dict)]
