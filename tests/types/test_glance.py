"""OS::Glance::WebImage on a simulated cloud."""

from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.status import Status
from tests.engine.conftest import resource, template
from tests.tables import few, sampled
from tests.types.conftest import Cloudy

IMAGE = "image.image"
KERNEL = "0123abcd-0123-0123-0123-0123456789ab"


def image(**properties: object) -> Any:
    given = {"location": "http://example.com/i", "disk_format": "raw", "container_format": "bare", **properties}
    return resource("OS::Glance::WebImage", **given)


def own_properties(thing: Any) -> dict[str, str]:
    """Without those that the service itself keeps."""
    return {key: value for key, value in thing["properties"].items() if not key.startswith("os_glance_")}


def test_it_is_fetched(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(build=10)
    stack = cloudy.made({"i": image(name="mine", tags=["a"], extra_properties={"k": "v", "n": 1}, min_disk=2)})
    thing = cloudy.thing(stack, "i")
    assert (thing["status"], thing["name"], thing["visibility"], thing["min_disk"]) == ("active", "mine", "private", 2)
    assert (own_properties(thing), thing["tags"]) == ({"k": "v", "n": "1"}, ["a"])
    cloudy.delete(stack)
    assert cloudy.count(IMAGE) == 1  # cirros


def test_protected_inactive_and_shared(cloudy: Cloudy) -> None:
    stack = cloudy.made({"i": image(protected=True, active=False, visibility="shared", members=["p", "q"])})
    thing = cloudy.thing(stack, "i")
    assert (thing["protected"], thing["status"], thing["_members"]) == (True, "deactivated", ["p", "q"])
    stack = cloudy.delete(stack)
    assert stack.status is Status.FAILED
    assert "is protected and cannot be deleted" in cloudy.row(stack, "i").status_reason


@pytest.mark.parametrize(
    ("after", "is_then"),
    sampled(
        [
            ({"protected": True}, {"protected": True}),
            ({"active": False}, {"status": "deactivated"}),
            ({"tags": ["b", "c"]}, {"tags": ["b", "c"]}),
            ({"tags": None}, {"tags": []}),
            ({"visibility": "community"}, {"visibility": "community"}),
            ({"members": ["q", "r"]}, {"_members": ["q", "r"]}),
            ({"extra_properties": {"b": "2"}}, {"properties": {"b": "2"}}),
            ({"architecture": "arm"}, {"architecture": "arm"}),
            ({"os_distro": "debian"}, {"os_distro": "debian"}),
            ({"os_version": "13"}, {"os_version": "13"}),
            ({"kernel_id": KERNEL}, {"kernel_id": KERNEL}),
            ({"ramdisk_id": KERNEL}, {"ramdisk_id": KERNEL}),
            ({"owner": "p"}, {"owner": "p"}),
        ],
        4,
        pytest.mark.thorough,
    ),
)
def test_changes_in_place(cloudy: Cloudy, after: dict[str, object], is_then: Any) -> None:
    was = {"tags": ["a", "b"], "visibility": "shared", "members": ["p", "q"], "extra_properties": {"a": "1", "b": "1"}}
    stack = cloudy.made({"i": image(**was)})
    before = cloudy.row(stack, "i").physical_id
    cloudy.changed(stack, {"i": image(**{**was, **after})})
    assert cloudy.row(stack, "i").physical_id == before
    thing = cloudy.thing(stack, "i")
    thing["properties"] = own_properties(thing)
    assert {key: thing[key] for key in is_then} == is_then


@pytest.mark.slow
def test_another_location_is_another_image(cloudy: Cloudy) -> None:
    stack = cloudy.made({"i": image()})
    before = cloudy.row(stack, "i").physical_id
    cloudy.changed(stack, {"i": image(location="http://example.com/j")})
    assert cloudy.row(stack, "i").physical_id != before
    assert cloudy.count(IMAGE) == 2


@pytest.mark.parametrize("verb", ["create_image", "import_image"])
def test_an_answer_that_is_lost_makes_no_second_image(troubled: Callable[..., Cloudy], verb: str) -> None:
    cloudy = troubled(faults=[{"verb": f"image.{verb}", "number": 1, "raises": "lost"}])
    stack = cloudy.made({"i": image()})
    assert (cloudy.count(IMAGE), cloudy.thing(stack, "i")["status"]) == (2, "active")


def test_what_cannot_be_fetched_is_tried_again(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(faults=[{"verb": "image.import_image", "number": 1, "goes": "failed"}])
    cloudy.made({"i": image()})
    assert cloudy.count(IMAGE) == 2


@pytest.mark.slow
def test_check_sees_what_is_gone_and_what_is_not_as_it_was(cloudy: Cloudy) -> None:
    stack = cloudy.made({"i": image(protected=False, extra_properties={"n": 1}, tags=["a"])})
    stack = cloudy.check(stack)
    assert (stack.status, cloudy.row(stack, "i").status_reason) == (Status.COMPLETE, "state changed")
    key = cloudy.row(stack, "i").physical_id
    cloudy.view().call("image.update_image", key, protected=True)
    assert "protected is true, not false" in cloudy.row(cloudy.check(stack), "i").status_reason
    cloudy.view().call("image.update_image", key, protected=False)
    cloudy.view().call("image.delete_image", key)
    assert cloudy.check(stack).status is Status.FAILED
    assert cloudy.delete(stack).status is Status.COMPLETE


@pytest.mark.parametrize("before", few([False, True]))
def test_a_lock_protects_it_and_an_unlock_leaves_it_as_it_was(cloudy: Cloudy, before: bool) -> None:
    stack = cloudy.made({"i": image()})
    cloudy.view().call("image.update_image", cloudy.row(stack, "i").physical_id, protected=before)
    cloudy.lock(stack)
    assert cloudy.thing(stack, "i")["protected"] is True
    cloudy.unlock(stack)
    assert cloudy.thing(stack, "i")["protected"] is before


def test_an_ordinary_project_makes_no_public_images(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(roles=["member"])
    stack = cloudy.create(template(i=image(visibility="public")))
    assert "publicize_image" in cloudy.row(stack, "i").status_reason
