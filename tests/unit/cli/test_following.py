"""Commands that follow an operation, through an outage of the server's database."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from heatlite.cli.client import Client
from heatlite.cli.commands.actions import follow
from heatlite.cli.errors import RefusedRequest
from heatlite.cli.output import progress
from heatlite.cli.session import Session
from heatlite.cli.transport import WSGITransport

STACK = {"stack_name": "web", "id": "s"}


def client(*answers: tuple[int, Any]) -> Client:
    """A client whose requests get these answers, one after the other."""
    left = list(answers)

    def app(_: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
        status, body = left.pop(0)
        start_response(f"{status} x", [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]

    return Client(WSGITransport(app), "/v1/p")  # type: ignore[arg-type]


def stack(status: str) -> tuple[int, Any]:
    return 200, {"stack": {**STACK, "stack_status": status}}


EXPIRED = (401, {"error": {"message": "expired"}})
AWAY = (503, {"error": {"message": "The database is not available."}})
OUTAGE = "heatlite: The database is not available. Waiting for its end.\n"
NO_EVENTS = (200, {"events": []})


def test_an_operation_is_followed_through_an_outage(capsys: pytest.CaptureFixture[str]) -> None:
    begun, ended = stack("CREATE_IN_PROGRESS"), stack("CREATE_COMPLETE")
    asked = client(begun, AWAY, begun, NO_EVENTS, AWAY, ended, NO_EVENTS)
    done = progress.follow(asked, asked.find("web"), None, progress.LinesView())
    assert done is not None
    assert done.status == "CREATE_COMPLETE"
    assert capsys.readouterr().err == OUTAGE


def test_a_token_that_expires_meanwhile_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    asked = client(stack("CREATE_IN_PROGRESS"), EXPIRED)
    with pytest.raises(RefusedRequest, match="expired"):
        progress.wait(Session(asked, embedded=False), asked.find("web"), None, "", "json", 0.0)
    assert capsys.readouterr().err == "What was begun continues; watch it with: heatlite events -f web\n"


def waited(*answers: str | RefusedRequest) -> str:
    """Wait for an action, with these states and refusals. Returns the last one."""
    left = list(answers)

    def poll() -> dict[str, Any]:
        answer = left.pop(0)
        if isinstance(answer, RefusedRequest):
            raise answer
        return {"status": answer}

    session, hint = Session(client(), embedded=False), ("", "heatlite action wait a")
    return follow(session, poll, lambda one: (str(one["status"]), ""), ("DONE",), None, hint)


def test_an_action_is_waited_for_through_an_outage(capsys: pytest.CaptureFixture[str]) -> None:
    away = RefusedRequest("The database is not available.", 503)
    assert waited("RUNNING", away, away, "DONE") == "DONE"
    assert capsys.readouterr().err == OUTAGE
    hint = "What was begun continues; watch it with: heatlite action wait a\n"
    for answers, told in ((("RUNNING",), hint), ((), "")):
        with pytest.raises(RefusedRequest, match="expired"):
            waited(*answers, RefusedRequest("expired", 401))
        assert capsys.readouterr().err == told
