"""``openstack stack lock``, ``stack unlock``, ``stack lock show``.

Registered as entry points in the group of python-heatclient. `openstack` imports every entry point, so this module
imports cliff and osc-lib only, which are loaded already. The client comes from their manager.
"""

import argparse
import re
import time
from collections.abc import Sequence
from typing import Any

from cliff.columns import FormattableColumn
from osc_lib import exceptions
from osc_lib.command import command

from heatlite.core.clock import UNITS
from heatlite.core.json import heat_text

WAIT_SECONDS = 0.2
"""Seconds between polls of a stack during a lock or unlock."""

Fields = tuple[Sequence[str], Sequence[object]]


def _moment(given: str) -> str:
    """Return ``+2h`` as a time in ISO 8601; the server checks any other text."""
    ahead = re.fullmatch(r"\+?(\d{1,6})([smhd])", given)
    if ahead is None:
        return given
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + int(ahead[1]) * UNITS[ahead[2]]))


class Suppressed(FormattableColumn[list[dict[str, Any]]]):
    """Suppressed requests: lines for a terminal, objects for programs."""

    def human_readable(self) -> str:
        return "\n".join(map(_line, self.machine_readable()))


def _line(entry: dict[str, Any]) -> str:
    """Format ``7: 2026-11-21T09:00:00Z mark_unhealthy db (3 times) by mia in web …``."""
    times = f" ({entry['count']} times)" if entry["count"] > 1 else ""
    effect = heat_text(entry["effect"]) if entry["effect"] else ""
    large = "" if entry["replayable"] else ", not kept whole: it cannot be replayed"
    who = f"by {entry['requested_by']} in {entry['stack']['name']}{large}"
    return f"{entry['id']}: {entry['time']} {entry['request']} {entry['target']}{times} {who} {effect}".rstrip()


class _StackCommand(command.ShowOne):
    """Base of the commands: one stack, and the answer of ``GET …/lock``."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("stack", metavar="<stack>", help="Stack (name or ID)")
        return parser

    def _client(self) -> Any:  # python-heatclient has no types
        manager: Any = self.app.client_manager  # the names of its plugins are dynamic
        return manager.orchestration

    def _resolve(self, stack: str) -> str:
        """Return ``<name>/<id>`` of a stack by name or id."""
        return str(self._client().stacks.get(stack, resolve_outputs=False).identifier)

    def _get(self, identity: str) -> Any:
        return self._client().stacks.get(identity, resolve_outputs=False)

    def _show(self, identity: str) -> Fields:
        answer = self._client().http_client.get(f"/stacks/{identity}/lock").json()
        lock = answer["lock"]
        fields: dict[str, object] = {"stack_name": identity.partition("/")[0]}
        fields["stack_status"] = self._get(identity).stack_status
        fields["locked"] = lock is not None
        fields.update(lock or {})
        fields["suppressed"] = Suppressed(answer["suppressed"])
        if "dropped" in answer:
            fields["dropped"] = answer["dropped"]["count"]
        return tuple(fields), tuple(fields.values())


class _Action(_StackCommand):
    """Base of lock and unlock, which may continue after the server's answer."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--wait", action="store_true", help="Wait until it is done")
        return parser

    def _act(self, parsed_args: argparse.Namespace, body: dict[str, object]) -> Fields:
        identity = self._resolve(parsed_args.stack)
        self._client().http_client.post(f"/stacks/{identity}/actions", data=body)
        if parsed_args.wait:
            self._wait(identity)
        return self._show(identity)

    def _wait(self, identity: str) -> None:
        while (stack := self._get(identity)).stack_status.endswith("_IN_PROGRESS"):
            time.sleep(WAIT_SECONDS)
        if stack.stack_status.endswith("_FAILED"):
            raise exceptions.CommandError(f"Stack {stack.stack_name} {stack.stack_status}: {stack.stack_status_reason}")


class LockStack(_Action):
    """Lock a stack for maintenance, or change its lock"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--level",
            metavar="<level>",
            choices=("all", "stacks"),
            default="all",
            help="stacks: the stack and its nested stacks; all: their resources too (default: all)",
        )
        parser.add_argument("--reason", metavar="<reason>", help="Reason, shown in error messages")
        parser.add_argument(
            "--expires", metavar="<time>", help="Expiry time: 2026-11-21T18:00:00Z, +30m, +2h, +1d"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        lock = {"level": parsed_args.level}
        if parsed_args.reason is not None:
            lock["reason"] = parsed_args.reason
        if parsed_args.expires is not None:
            lock["expires_at"] = _moment(parsed_args.expires)
        return self._act(parsed_args, {"lock": lock})


class UnlockStack(_Action):
    """Lift the maintenance lock of a stack"""

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        return self._act(parsed_args, {"unlock": None})


class ShowStackLock(_StackCommand):
    """Show the maintenance lock of a stack and the requests that it suppressed"""

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        return self._show(self._resolve(parsed_args.stack))
