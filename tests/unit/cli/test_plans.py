"""Lines of plans."""

import io
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.cli.output.plans import draw

TEXT = st.text() | st.sampled_from(["#!/bin/sh\necho 1", "x\nPlan: 0 added.", "a\r\nb", "a\x0bb", "tab\t"])


@given(old=st.none() | TEXT, new=TEXT | st.lists(TEXT, max_size=2), action=st.sampled_from(["create", "update"]))
def test_no_value_looks_like_a_line_of_the_plan(old: str | None, new: Any, action: str) -> None:
    """An approver reads the plan: what a user sends must not write a line of it."""
    difference = {"name": "user_data", "old": old, "new": new}
    item = {"path": ["web"], "resource_type": "OS::Nova::Server", "action": action, "properties": [difference]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream := io.StringIO())
        draw([item])
    first, second, third, end = stream.getvalue().split("\n")
    assert first[2:] == "web  (OS::Nova::Server)" and second.startswith("    user_data: ") and "\r" not in second
    assert third.startswith("Plan: ") and not end
