"""Pages of approvals in a real browser: accessibility, and the width of a phone."""
# ruff: noqa: F401, F811 - fixtures

from collections.abc import Callable

import pytest

from tests.acceptance.processes import Server
from tests.api.conftest import template
from tests.features.approvals.api.test_approvals import FORM, THING, replacing
from tests.features.dashboard.chromium import (
    DESKTOP,
    NEEDS_CHROMIUM,
    PHONE,
    ZOOMED,
    Api,
    User,
    api,
    browser,
    server,
    visit,
)

pytestmark = [pytest.mark.chromium, pytest.mark.slow, NEEDS_CHROMIUM]
NAME = "n" * 255


def test_a_change_that_waits_and_one_that_is_decided(visit: Callable[..., User], api: Api, server: Server) -> None:
    path = api.create(template(a=THING), name=NAME)
    api.call("PUT", f"{path}/change_policy", {**FORM, "approve": "removals", "four_eyes": True}, code=200)
    waits = api.call("PUT", f"{path}?approval=wait", replacing("w" * 200), code=202).json["action"]["id"]
    mia, rob = visit(), visit("rob", reduced_motion="reduce")
    (found,) = api.get("/approvals")["approvals"]
    for user, name in ((mia, "asker"), (rob, "approver")):
        for address in ("/approvals", f"/approvals/{found['id']}", path):
            page = user.open(address)
            for view, size in (("wide", DESKTOP), ("zoom", ZOOMED), ("phone", PHONE)):
                page.set_viewport_size(size)
                user.check(f"approval-{name}-{view}{'-one' if found['id'] in address else ''}")
            page.set_viewport_size(DESKTOP)
            assert page.locator("nav .badge").first.inner_text().startswith("1")
    mia.open(f"/approvals/{found['id']}")
    assert mia.page.get_by_role("button", name="Approve").count() == 0
    rob.open(f"/approvals/{found['id']}")
    rob.page.emulate_media(color_scheme="dark")
    rob.check("approval-dark")
    rob.press("Approve")
    rob.sees("Approved.")
    api.settle(path)
    rob.open(f"/approvals/{found['id']}")
    rob.page.set_viewport_size(PHONE)
    rob.check("approval-done-phone")
    assert api.get(f"/actions/{waits}")["action"]["status"] == "SUCCEEDED"
