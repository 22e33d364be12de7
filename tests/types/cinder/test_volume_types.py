"""Cinder's volume types, QoS types and Quota on a simulated cloud."""

from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.status import Status
from tests.engine.conftest import ref, resource, template
from tests.tables import few
from tests.types.conftest import Cloudy

TYPE = "block_storage.type"
PUBLIC = "os-volume-type-access:is_public"


def kind(**properties: object) -> Any:
    return resource("OS::Cinder::VolumeType", **{"name": "fast", **properties})


def projects(cloudy: Cloudy, *names: str) -> list[str]:
    """The ids of projects that are there now."""
    return [str(cloudy.admin.call("identity.create_project", name=name)["id"]) for name in names]  # type: ignore[index,call-overload]


class TestVolumeType:
    def test_made_and_deleted(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"t": kind(metadata={"volume_backend_name": "lvm", "n": 1}, description="d")})
        thing = cloudy.thing(stack, "t")
        assert (thing["name"], thing["description"], thing[PUBLIC]) == ("fast", "d", True)
        assert thing["extra_specs"] == {"volume_backend_name": "lvm", "n": "1"}
        cloudy.delete(stack)
        assert cloudy.count(TYPE) == 1  # the one that is always there

    @pytest.mark.parametrize(
        ("after", "is_then"),
        few(
            [
                ({"name": "slow"}, {"name": "slow"}),
                ({"description": "e"}, {"description": "e"}),
                ({"description": None}, {"description": ""}),
                ({"metadata": {"b": "2"}}, {"extra_specs": {"b": "2"}}),
                ({"is_public": False}, {PUBLIC: False}),
            ]
        ),
    )
    def test_changes_in_place(self, cloudy: Cloudy, after: dict[str, object], is_then: Any) -> None:
        stack = cloudy.made({"t": kind(metadata={"a": "1"}, description="d")})
        before = cloudy.row(stack, "t").physical_id
        cloudy.changed(stack, {"t": kind(**{"metadata": {"a": "1"}, "description": "d", **after})})
        assert cloudy.row(stack, "t").physical_id == before
        thing = cloudy.thing(stack, "t")
        assert {key: thing[key] for key in is_then} == is_then

    @pytest.mark.slow
    def test_projects_that_may_use_it(self, cloudy: Cloudy) -> None:
        one, two, three = projects(cloudy, "one", "two", "three")
        stack = cloudy.made({"t": kind(is_public=False, projects=["one", "two"])})
        assert cloudy.thing(stack, "t")["_access"] == [one, two]
        cloudy.changed(stack, {"t": kind(is_public=False, projects=["two", "three"])})
        assert cloudy.thing(stack, "t")["_access"] == [two, three]

    def test_a_public_one_names_no_projects(self, cloudy: Cloudy) -> None:
        cls = cloudy.components.types.get("OS::Cinder::VolumeType")
        (fault,) = cls.check_properties({"name": "x", "projects": ["p"]})
        assert fault.text == "projects cannot be given for a volume type that is public"

    def test_an_answer_that_is_lost_makes_no_second_one(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "block_storage.create_type", "number": 1, "raises": "lost"}])
        cloudy.made({"t": kind(is_public=False)})
        assert cloudy.count(TYPE) == 2


class TestEncryption:
    @pytest.mark.slow
    def test_made_changed_and_deleted(self, cloudy: Cloudy) -> None:
        def wanted(**more: object) -> dict[str, Any]:
            made = {"provider": "luks", "volume_type": ref("t"), "cipher": "aes-xts-plain64", **more}
            return {"t": kind(), "e": resource("OS::Cinder::EncryptedVolumeType", **made)}

        def seen() -> Any:
            return cloudy.admin.call("block_storage.get_type_encryption", cloudy.row(stack, "t").physical_id)

        stack = cloudy.made(wanted())
        assert (seen()["provider"], seen()["cipher"], seen()["control_location"]) == (
            "luks", "aes-xts-plain64", "front-end",
        )  # fmt: skip
        assert cloudy.row(stack, "e").physical_id == cloudy.row(stack, "t").physical_id
        before = seen()["encryption_id"]
        cloudy.changed(stack, wanted(key_size=256, control_location="back-end", provider="plain"))
        assert (seen()["key_size"], seen()["control_location"], seen()["provider"]) == (256, "back-end", "plain")
        assert seen()["encryption_id"] == before
        assert cloudy.check(stack).status is Status.COMPLETE
        cloudy.changed(stack, {"t": kind()})
        assert seen() == {}

    @pytest.mark.slow
    def test_gone_is_found_by_a_check_and_no_hindrance_to_a_delete(self, cloudy: Cloudy) -> None:
        made = resource("OS::Cinder::EncryptedVolumeType", provider="luks", volume_type=ref("t"))
        stack = cloudy.made({"t": kind(), "e": made})
        cloudy.admin.call("block_storage.delete_type_encryption", volume_type=cloudy.row(stack, "t").physical_id)
        stack = cloudy.check(stack)
        assert cloudy.states(stack) == {"t": "CHECK_COMPLETE", "e": "CHECK_FAILED"}
        assert cloudy.delete(stack).status is Status.COMPLETE

    @pytest.mark.slow
    def test_an_answer_that_is_lost(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "block_storage.create_type_encryption", "number": 1, "raises": "lost"}])
        cloudy.made({"t": kind(), "e": resource("OS::Cinder::EncryptedVolumeType", provider="l", volume_type=ref("t"))})


class TestQoS:
    @pytest.mark.slow
    def test_specs(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"q": resource("OS::Cinder::QoSSpecs", specs={"a": "1", "b": 2})})
        thing = cloudy.thing(stack, "q")
        assert (thing["name"], thing["specs"]) == (cloudy.row(stack, "q").physical_name, {"a": "1", "b": "2"})
        cloudy.changed(stack, {"q": resource("OS::Cinder::QoSSpecs", specs={"b": "3", "c": "4"})})
        assert cloudy.thing(stack, "q")["specs"] == {"b": "3", "c": "4"}
        assert cloudy.check(stack).status is Status.COMPLETE
        cloudy.delete(stack)
        assert cloudy.count("block_storage.qos_spec") == 0

    @pytest.mark.slow
    def test_an_association(self, cloudy: Cloudy) -> None:
        def wanted(*names: str) -> dict[str, Any]:
            made = {name: kind(name=name) for name in ("one", "two", "three")}
            made["q"] = resource("OS::Cinder::QoSSpecs", name="q", specs={"a": "1"})
            wanted = [ref(name) for name in names]
            return {**made, "a": resource("OS::Cinder::QoSAssociation", qos_specs=ref("q"), volume_types=wanted)}

        def seen() -> set[str]:
            kinds = cloudy.admin.simulation.all(TYPE).values()
            return {str(one["name"]) for one in kinds if one["_qos_specs_id"] == cloudy.row(stack, "q").physical_id}

        stack = cloudy.made(wanted("one", "two"))
        assert seen() == {"one", "two"}
        cloudy.changed(stack, wanted("two", "three"))
        assert seen() == {"two", "three"}
        assert cloudy.check(stack).status is Status.COMPLETE
        cloudy.admin.call("block_storage.disassociate_all_qos_spec", cloudy.row(stack, "q").physical_id)
        stack = cloudy.check(stack)
        assert cloudy.states(stack)["a"] == "CHECK_FAILED"
        cloudy.delete(stack)
        assert cloudy.count(TYPE) == 1


class TestQuota:
    def quota(self, **limits: object) -> Any:
        return resource("OS::Cinder::Quota", project="p", **limits)

    def seen(self, cloudy: Cloudy, project: str) -> Any:
        return cloudy.admin.call("block_storage.get_quota_set", project)

    def test_set_changed_and_given_back(self, cloudy: Cloudy) -> None:
        (project,) = projects(cloudy, "p")
        stack = cloudy.made({"q": self.quota(volumes=3, gigabytes=10)})
        assert self.seen(cloudy, project)["volumes"] == 3
        cloudy.changed(stack, {"q": self.quota(gigabytes=20, backups=1)})
        seen = self.seen(cloudy, project)
        assert (seen["volumes"], seen["gigabytes"], seen["backups"]) == (-1, 20, 1)
        cloudy.delete(stack)
        assert set(self.seen(cloudy, project).values()) == {-1}

    def test_it_cannot_be_less_than_there_is(self, cloudy: Cloudy) -> None:
        (project,) = projects(cloudy, "p")
        cloudy.view(project).call("block_storage.create_volume", size=5)
        stack = cloudy.create(template(q=self.quota(gigabytes=4)))
        assert "gigabytes cannot be 4: the project has 5 already" in cloudy.row(stack, "q").status_reason

    def test_something_has_to_be_limited(self, cloudy: Cloudy) -> None:
        cls = cloudy.components.types.get("OS::Cinder::Quota")
        (fault,) = cls.check_properties({"project": "p"})
        assert fault.text.startswith("At least one of these must be given: gigabytes, volumes")


@pytest.mark.slow
def test_what_is_made_anew_is_not_taken_away_with_the_old(cloudy: Cloudy) -> None:
    (project,) = projects(cloudy, "p")
    stack = cloudy.made(
        {
            "t": kind(),
            "e": resource("OS::Cinder::EncryptedVolumeType", provider="luks", volume_type=ref("t")),
            "q": resource("OS::Cinder::QoSSpecs", specs={"a": "1"}),
            "a": resource("OS::Cinder::QoSAssociation", qos_specs=ref("q"), volume_types=[ref("t")]),
            "l": resource("OS::Cinder::Quota", project="p", volumes=3),
        }
    )
    for name in ("e", "a", "l"):
        cloudy.mark(stack, name)
    stack = cloudy.patch(stack)
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    assert cloudy.check(stack).status is Status.COMPLETE, cloudy.why(stack)
    limits: Any = cloudy.admin.call("block_storage.get_quota_set", project)
    assert limits["volumes"] == 3
    assert cloudy.delete(stack).status is Status.COMPLETE, cloudy.why(stack)
