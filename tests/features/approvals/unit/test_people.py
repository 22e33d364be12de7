"""Identities of requesters."""

from heatlite.core.context import Context
from heatlite.core.ids import new_id
from heatlite.features.approvals.people import identity, is_requester
from heatlite.features.approvals.store.records import ApprovalRecord, ApprovalState, Subject


def asked_by(context: Context) -> ApprovalRecord:
    by = identity(context)
    return ApprovalRecord(
        new_id(), "p", Subject.UPDATE, ApprovalState.PENDING, "s", "id", "d", context.user, by, 1.0, "key"
    )


def test_all_tokens_of_a_user_are_one_requester() -> None:
    first = Context("p", user="mia", roles=frozenset({"member"}), token="one")
    second = Context("p", user="mia", roles=frozenset({"admin"}), token="two")
    assert is_requester(second, asked_by(first))
    assert not is_requester(Context("p", user="tom"), asked_by(first))


def test_names_of_two_domains_are_two_requesters() -> None:
    first, second = Context("p", user="mia", user_id="1"), Context("p", user="mia", user_id="2")
    assert not is_requester(second, asked_by(first))
    assert is_requester(Context("p", user="renamed", user_id="1"), asked_by(first))
