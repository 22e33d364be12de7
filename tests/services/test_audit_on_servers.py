"""Rows of the audit log, on databases with a server."""

from contextlib import closing

from audit_behaviour import *  # noqa: F403
from audit_behaviour import record
from msgspec.structs import replace

from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.audit import AuditOutcome, AuditQuery, AuditRecord
from heatlite.store.store import Store
from tests.faults.proxy import Proxy


def test_the_row_of_a_request_whose_commit_has_no_answer(store: Store) -> None:
    """It tells what the client was told, whatever the server has done."""
    told: dict[str, AuditOutcome] = {}
    with closing(Proxy(store.database.url, every=3)) as proxy, closing(Store.open(proxy.url, lease=600.0)) as other:
        for number in range(20):
            found = record(number, user="mary", outcome=AuditOutcome.DONE, status=None)

            def describe(found: AuditRecord = found) -> AuditRecord:
                failed = told.get(found.request_id) is AuditOutcome.FAILED
                return replace(found, outcome=AuditOutcome.FAILED, status=503) if failed else found

            entry = other.audit.begin(describe)
            try:
                with other.transaction():
                    pass
                told[found.request_id] = AuditOutcome.DONE
            except DatabaseUnavailable:
                told[found.request_id] = AuditOutcome.FAILED
            entry.close()
        assert proxy.unanswered > 0
        assert proxy.unheard > 0
    assert {one.request_id: one.outcome for one in store.audit.page("demo", AuditQuery())} == told
