"""User data: instructions for the first boot of a server."""

import base64
import hashlib
from collections.abc import Sequence
from email import message_from_string
from email.message import Message
from email.mime.text import MIMEText
from functools import lru_cache
from typing import Final, cast

from heatlite.core.json import JsonMap, dump

PLACE: Final = "/var/lib/heat-cfntools"
"""The directory in which heat-cfntools and os-collect-config expect their data."""

HANDLER: Final = f"""\
#part-handler
import os


def list_types():
    return ["text/x-cfninitdata"]


def handle_part(data, ctype, filename, payload):
    if ctype in ("__begin__", "__end__"):
        return
    os.makedirs("{PLACE}", mode=0o700, exist_ok=True)
    path = os.path.join("{PLACE}", os.path.basename(filename))
    mode = "wb" if isinstance(payload, bytes) else "w"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), mode) as file:
        file.write(payload)
"""
"""Makes cloud-init store parts of its type as files."""

RUNNER: Final = f"""\
#!/bin/sh
# Runs what the template gives as user_data, and says so when it is done.
chmod 700 {PLACE}/cfn-userdata
{PLACE}/cfn-userdata > /var/log/heat-provision.log 2>&1
code=$?
date -u +%Y-%m-%dT%H:%M:%SZ > {PLACE}/provision-finished
exit $code
"""


def in_format(kind: str, text: str, metadata: JsonMap, metadata_url: str, user: str | None = None) -> str:
    """Return the user data of a server in one of Heat's formats.

    The formats are ``RAW``, ``HEAT_CFNTOOLS`` and ``SOFTWARE_CONFIG``. `metadata` is the initial metadata for an agent
    on the server; the agent requests updates at `metadata_url`.
    """
    if kind == "RAW":
        return text
    parts: list[str] = []
    if user:
        parts.append(_part(f"#cloud-config\nuser: {user}\n", "cloud-config", "cloud-config"))
    parts.append(_part(HANDLER, "part-handler.py", "part-handler"))
    if kind == "HEAT_CFNTOOLS":
        parts.append(_part(text, "cfn-userdata", "x-cfninitdata"))
        parts.append(_part(RUNNER, "run-userdata.sh", "x-shellscript"))
        parts.append(_part(metadata_url, "cfn-metadata-server", "x-cfninitdata"))
    elif text:
        parts.extend(_parts_of(text))
    parts.append(_part(dump(metadata), "cfn-init-data", "x-cfninitdata"))
    return _joined(parts)


def _joined(parts: Sequence[str]) -> str:
    """Return a multipart text.

    As `email.mime.multipart` does, which writes each part again for each server.
    """
    content = "".join(parts)
    boundary = f"==============={hashlib.sha256(content.encode()).hexdigest()}=="
    head = f'Content-Type: multipart/mixed; boundary="{boundary}"\nMIME-Version: 1.0\n\n'
    body = "".join([f"--{boundary}\n{part}\n" for part in parts])
    return f"{head}{body}--{boundary}--\n"


def _parts_of(text: str) -> list[str]:
    """Return the parts of a multipart text, or the text as one part.

    The first line of such a part tells cloud-init its type.
    """
    message = message_from_string(text)
    if message.is_multipart():
        return [part.as_string() for part in cast(list[Message], message.get_payload())]
    return [_part(text, "", "plain")]


@lru_cache(maxsize=32)
def _part(text: str, filename: str, subtype: str) -> str:
    """Return a part as text. Most are the same for all servers of a stack."""
    made = MIMEText(text, subtype, "us-ascii" if text.isascii() else "utf-8")
    if filename:
        made.add_header("Content-Disposition", "attachment", filename=filename)
    return made.as_string()


def encoded(text: str) -> str:
    """Return the text as the service takes it: base64 of UTF-8."""
    return base64.b64encode(text.encode()).decode("ascii")
