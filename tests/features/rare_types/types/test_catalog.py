"""Services in plain REST at the addresses of a catalog."""

import pytest

from heatlite.clients import cloud as errors
from tests.clouds.services import Answer
from tests.clouds.test_connection import Opened, opened, saying  # noqa: F401 - `opened` is a fixture
from tests.tables import few


@pytest.mark.parametrize(
    ("verb", "kind", "path", "asked"),
    few(
        [
            ("alarming.alarms", "alarming", "/alarming", "/alarming/v2/alarms"),
            ("workflow.workflows", "workflowv2", "/workflow/v2", "/workflow/v2/workflows"),
            ("shared_file_system.shares", "sharev2", "/share/v2", "/share/v2/shares/detail"),
            ("database.instances", "database", "/database/v1.0/p1", "/database/v1.0/p1/instances"),
            ("container_infra.clusters", "container-infra", "/magnum/v1", "/magnum/v1/clusters"),
            ("container.containers", "container", "/zun/", "/zun/v1/containers"),
        ]
    ),
)
def test_a_service_is_asked_where_the_catalog_says(
    opened: Opened,  # noqa: F811 - the fixture
    verb: str,
    kind: str,
    path: str,
    asked: str,
) -> None:
    noun = verb.partition(".")[2]
    cloud, fake = opened(saying(Answer(200, [] if noun == "alarms" else {noun: []})))
    fake.more = {kind: path}
    assert cloud.has(verb.partition(".")[0])
    assert cloud.call(verb) == []
    assert fake.calls == [("GET", asked)], "nothing else is asked, not even for versions"


def test_null_is_no_garbage_after_a_change(opened: Opened) -> None:  # noqa: F811 - the fixture
    """Zun answers so; a list that is null is garbage."""
    cloud, fake = opened(saying(Answer(202, "null")))
    fake.more = {"container": "/zun/v1"}
    assert cloud.call("container.detach_container_network", "c1", network="n1") == {}
    with pytest.raises(errors.CloudUnavailable, match="neither an object nor a list"):
        cloud.call("container.containers")
