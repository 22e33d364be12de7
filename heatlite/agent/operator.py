"""Operator access to the agent of this machine by the folder's secret."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from heatlite.agent import signature
from heatlite.agent.daemon import door
from heatlite.agent.form import Json


class Refused(Exception):
    """The agent rejected the request, or did not answer."""


def ask(folder: Path, method: str, path: str, body: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """Send a signed request and return the answer.

    Raises Refused; BadSettings if no agent runs.
    """
    agent = door(folder)
    data = b"" if body is None else json.dumps(body).encode()
    nonce = signature.new_nonce()
    headers = {
        signature.NONCE: nonce,
        signature.SIGNATURE: signature.of_request(agent.secret, method, path, nonce, data),
    }
    request = urllib.request.Request(agent.url + path, data if method == "POST" else None, headers, method=method)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            text, status, given = answer.read(), answer.status, answer.headers.get(signature.SIGNATURE)
    except urllib.error.HTTPError as error:
        with error:
            raise Refused(_message(error.read())) from None
    except OSError as error:
        raise Refused(f"the agent of {folder} does not answer at {agent.url}: {error}") from None
    if not signature.is_right(given, signature.of_answer(agent.secret, status, nonce, text)):
        raise Refused(f"what answers at {agent.url} is not the agent of {folder}")
    found: dict[str, Json] = json.loads(text)
    return found


def _message(text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return "what answers is no agent"
