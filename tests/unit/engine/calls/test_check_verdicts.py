"""The verdict of a check by its error, and the reason of the stack's check."""

import msgspec
import pytest

from heatlite.clients import cloud
from heatlite.core.actions.check_tally import CheckCounts, CheckTally
from heatlite.core.errors import EntityNotFound
from heatlite.core.json import dump
from heatlite.core.status import Status, Verb
from heatlite.engine.calls import check_verdicts
from heatlite.engine.calls.check_verdicts import cause_of
from heatlite.plugin import ResourceInError, ServiceConflict, Unhealthy
from heatlite.plugin.cloud import Unsettled
from heatlite.store.records import HealthRecord, PreviousState, ResourceRecord
from tests.tables import table

VERB = "compute.get_server"


@table(
    ("error", "cause"),
    [
        (Unhealthy("compute.get_server: its status is ERROR"), ""),
        (cloud.CloudNotFound(VERB, "gone"), "compute: HTTP 404"),
        (cloud.NameNotFound("network.find_network", "The Network (x) could not be found."), "network: HTTP 404"),
        (cloud.NoCloud(), "NoCloud: No cloud is set"),
        (cloud.NoService(VERB), "compute: NoService"),
        (cloud.CredentialsRefused(VERB, "no", 401), "compute: HTTP 401"),
        (cloud.CloudError(VERB, "bad", 400), "compute: HTTP 400"),
        (cloud.CloudError(VERB, "forbidden", 403), "compute: HTTP 403"),
        (cloud.CloudConflict(VERB, "busy", 409), "compute: HTTP 409"),
        (cloud.OverQuota(VERB, "too many", 413), "compute: HTTP 413"),
        (cloud.CloudUnavailable(VERB, "slow down", 429), "compute: HTTP 429"),
        (cloud.CloudUnavailable(VERB, "broken", 500), "compute: HTTP 500"),
        (cloud.CloudUnavailable(VERB, "broken", 503), "compute: HTTP 503"),
        (cloud.CloudUnavailable(VERB, "no answer in time"), "compute: CloudUnavailable"),
        (cloud.Ambiguous("network.find_network", "x"), "network: Ambiguous"),
        (Unsettled(status="BUILD"), "Unsettled: its status is BUILD"),
        (EntityNotFound(entity="Resource Type", name="My::Type"), "EntityNotFound: The Resource Type (My::Type)"),
        (ServiceConflict("busy"), "ServiceConflict: busy"),
        (ResourceInError("odd"), "ResourceInError: odd"),
        (TimeoutError("too slow"), "TimeoutError: too slow"),
        (ZeroDivisionError("a fault of the type"), "ZeroDivisionError: a fault of the type"),
    ],
)
def test_only_a_definite_answer_is_unhealthy(error: Exception, cause: str) -> None:
    found = cause_of(error)
    assert found.startswith(cause)
    assert bool(found) is not isinstance(error, Unhealthy)


def test_the_cause_names_no_object_and_no_request() -> None:
    one = cloud.CloudUnavailable(VERB, "server 1 is out of reach", 503, "req-1")
    other = cloud.CloudUnavailable(VERB, "server 2 is out of reach", 503, "req-2")
    assert cause_of(one) == cause_of(other)


def row(verb: Verb, status: Status) -> ResourceRecord:
    return ResourceRecord("1", "s", "a", "T", "T", verb, status, "as it was", 1.0, 2.0)


@pytest.mark.parametrize(
    ("verb", "status"), [(Verb.CREATE, Status.COMPLETE), (Verb.CHECK, Status.FAILED), (Verb.UPDATE, Status.FAILED)]
)
def test_a_check_without_a_result_changes_nothing_but_the_health(verb: Verb, status: Status) -> None:
    before = row(verb, status)
    begun = check_verdicts.begun(before, marked=False)
    assert begun.health == HealthRecord(before=PreviousState(verb, status, "as it was", 2.0))
    after = check_verdicts.unseen(begun, "no cloud", 5.0)
    assert after is not None
    assert (after.verb, after.status, after.status_reason, after.updated_at) == (verb, status, "as it was", 2.0)
    assert after.health == HealthRecord(5.0, "no cloud")
    again = check_verdicts.unseen(check_verdicts.begun(after, marked=False), "still none", 9.0)
    assert again is not None
    assert again.health == HealthRecord(5.0, "still none")


def test_a_row_that_is_in_no_check_is_left_alone() -> None:
    assert check_verdicts.unseen(row(Verb.CREATE, Status.COMPLETE), "no cloud", 5.0) is None


def test_the_reason_has_a_part_for_each_cause() -> None:
    tally = CheckTally(healthy=2, unhealthy=1, names=["a"], stale=["old"])
    for _ in range(8):
        tally.add_unknown("compute: HTTP 503")
    tally.add_unknown("NoCloud: none")
    assert tally.reason() == (
        "Resource CHECK failed: 1 unhealthy (a), 1 failed before and cannot be checked (old),"
        " 1 could not be looked at (NoCloud: none), 8 could not be looked at (compute: HTTP 503)"
    )


def test_a_nested_stack_hands_its_counts_up() -> None:
    below = CheckTally(healthy=1, unhealthy=2, unsupported=1, names=["x", "y"])
    below.add_unknown("compute: HTTP 503", 3)
    read = msgspec.json.decode(dump(below.counts()), type=CheckCounts)
    above = CheckTally()
    above.add_nested("group", read)
    assert above.counts() == below.counts()
    assert above.names == ["group"]
