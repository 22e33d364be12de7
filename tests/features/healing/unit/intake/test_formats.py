"""Formats of reports: a table of bodies and what they say."""

from typing import Any

import pytest

from heatlite.core.errors import HTTPBadRequest
from heatlite.core.validation import convert
from heatlite.features.healing.intake.formats import MAX_REPORTS, read_delivery
from heatlite.features.healing.intake.source_document import SourceDocument, default_document
from heatlite.features.healing.reports import AlertReport, ReportOutcome
from heatlite.features.healing.terms import ReportResult, Word
from tests.tables import table

NOON = 1_793_620_800.0
TIME = "2026-11-02T12:00:00Z"


def source(name: str, **more: Any) -> SourceDocument:
    return convert({"format": name, **more}, SourceDocument)


def alert(status: str = "firing", starts: object = TIME, **more: Any) -> dict[str, Any]:
    labels = {"alertname": "ServerDown", "instance_id": "11111111-aaaa"}
    return {"status": status, "labels": labels, "annotations": {"summary": "no answer"}, "startsAt": starts, **more}


def one(document: SourceDocument, body: Any) -> AlertReport | ReportOutcome:
    (found,) = read_delivery(document, body).reports
    return found


@pytest.mark.parametrize("name", ["alertmanager", "grafana"])
def test_an_alert(name: str) -> None:
    version = {"alertmanager": "4", "grafana": "1"}[name]
    body = {"version": version, "alerts": [alert(fingerprint="f1")], "receiver": "ignored", "truncatedAlerts": 3}
    delivery = read_delivery(source(name), body)
    assert delivery.truncated == 3
    assert read_delivery(source(name), {**body, "truncatedAlerts": True}).truncated is not True
    (report,) = delivery.reports
    assert isinstance(report, AlertReport)
    assert (report.key, report.word, report.starts_at) == ("f1", Word.FIRING, NOON)
    assert (report.physical_id, report.stack, report.resource) == ("11111111-aaaa", None, None)
    assert report.summary == "ServerDown: no answer"


@table(
    ("starts", "said"),
    [
        (None, '"startsAt" is missing'),
        ("noon", "\"startsAt\": 'noon' is not a time in ISO 8601, such as 2026-11-22T12:00:00Z."),
    ],
)
def test_a_time_that_is_none_is_explained(starts: object, said: str) -> None:
    found = one(source("alertmanager"), {"version": "4", "alerts": [alert(starts=starts)]})
    assert isinstance(found, ReportOutcome) and found.detail == said


def test_without_a_fingerprint_the_labels_are_the_key() -> None:
    first, second = (one(source("alertmanager"), {"version": "4", "alerts": [alert()]}) for _ in range(2))
    assert first.key == second.key
    assert len(first.key) == 64


@table(
    ("body", "words"),
    [
        ([], "JSON object"),
        ({}, '"version"'),
        ({"version": "3", "alerts": []}, '"version"'),
        ({"version": "4"}, '"alerts"'),
        ({"version": "4", "alerts": [alert()] * (MAX_REPORTS + 1)}, "max_alerts"),
    ],
)
def test_a_body_of_another_format_is_refused(body: Any, words: str) -> None:
    with pytest.raises(HTTPBadRequest, match=words):
        read_delivery(source("alertmanager"), body)


@table(
    "broken",
    [
        "text", {}, alert(status="maybe"), alert(starts="yesterday"), alert(starts=None), alert(labels=[]),
        alert(labels={"a": 1}), alert(labels={str(n): "x" for n in range(65)}), alert(annotations={"a": None}),
    ],
)  # fmt: skip
def test_a_report_that_does_not_match_is_a_result(broken: Any) -> None:
    found = read_delivery(source("alertmanager"), {"version": "4", "alerts": [broken, alert()]}).reports
    assert isinstance(found[0], ReportOutcome)
    assert (found[0].index, found[0].result) == (0, ReportResult.INVALID)
    assert found[0].detail
    assert isinstance(found[1], AlertReport)


@table(
    ("given", "word", "is_ignored"),
    [
        (alert(), Word.FIRING, False),
        (alert("resolved"), Word.RESOLVED, False),
        (alert(labels={"alertname": "DatasourceNoData"}), Word.BLIND, False),
        (alert("resolved", annotations={"grafana_state_reason": "MissingSeries"}), Word.RESOLVED, True),
        (alert("resolved", annotations={"grafana_state_reason": "NoData, KeepLast"}), Word.RESOLVED, False),
    ],
)
def test_words_of_grafana(given: Any, word: Word, is_ignored: bool) -> None:
    report = one(source("grafana"), {"version": "1", "alerts": [given]})
    assert isinstance(report, AlertReport)
    assert (report.word, report.is_ignored) == (word, is_ignored)


@pytest.mark.parametrize(("severity", "is_ignored"), [("critical", False), ("info", True)])
def test_a_condition_chooses(severity: str, is_ignored: bool) -> None:
    document = source("alertmanager", when={"labels.severity": ["critical", "page"]})
    report = one(document, {"version": "4", "alerts": [alert(labels={"severity": severity})]})
    assert isinstance(report, AlertReport)
    assert report.is_ignored is is_ignored


def test_a_mapping_names_other_labels() -> None:
    document = source("alertmanager", map={"physical_id": ["labels.vm", "labels.uuid"], "stack": ["annotations.stack"]})
    given = alert(labels={"uuid": "22222222", "vm": ""}, annotations={"stack": "shop"})
    report = one(document, {"version": "4", "alerts": [given]})
    assert isinstance(report, AlertReport)
    assert (report.physical_id, report.stack) == ("22222222", "shop")


def test_an_alarm_reports_each_member() -> None:
    members = [{"id": "vm-1"}, {"id": 5}]
    body = {"alarm_id": "al", "current": "alarm", "reason": "down", "reason_data": {"unhealthy_members": members}}
    first, second = read_delivery(source("aodh"), body).reports
    assert isinstance(first, AlertReport)
    assert (first.key, first.word, first.physical_id, first.summary) == ("al:vm-1", Word.FIRING, "vm-1", "down")
    assert isinstance(second, ReportOutcome)


@pytest.mark.parametrize(("current", "word"), [("ok", Word.RESOLVED), ("insufficient data", Word.BLIND)])
def test_the_end_of_an_alarm_is_about_all_its_members(current: str, word: Word) -> None:
    report = one(source("aodh"), {"alarm_id": "al", "current": current})
    assert isinstance(report, AlertReport)
    assert (report.key, report.word, report.is_prefix) == ("al:", word, True)


@pytest.mark.parametrize(
    ("status", "word"), [("unhealthy", Word.FIRING), ("healthy", Word.RESOLVED), ("unknown", Word.BLIND)]
)
def test_our_own_format(status: str, word: Word) -> None:
    given = {"key": "k", "status": status, "since": TIME, "reason": "a\x00b", "stack": "shop", "resource": "web/2"}
    report = one(source("generic"), {"reports": [given]})
    assert report == AlertReport("k", word, NOON, None, "shop", "web/2", "a b", given={"labels": {}})


@table(
    "broken",
    [
        {}, {"key": "", "status": "healthy"}, {"key": "k", "status": "ill"}, {"key": "k" * 256, "status": "healthy"},
        {"key": "k", "status": "healthy", "more": 1}, {"key": "k", "status": "healthy", "reason": "x" * 1001},
        {"key": "k", "status": "healthy", "stack": 5}, {"key": "k", "status": ["healthy"]},
    ],
)  # fmt: skip
def test_our_own_format_is_strict(broken: Any) -> None:
    found = one(source("generic"), {"reports": [broken]})
    assert isinstance(found, ReportOutcome)
    assert found.result is ReportResult.INVALID


@table(
    "document",
    [
        {}, {"format": "nagios"}, {"format": "generic", "more": 1}, {"format": "generic", "ttl": 5},
        {"format": "generic", "map": {"physical_id": ["vm"]}}, {"format": "generic", "when": {"labels.a": []}},
        {"format": "generic", "storm": {"percent": -1}},
    ],
)  # fmt: skip
def test_a_faulty_document_is_refused(document: Any) -> None:
    with pytest.raises(HTTPBadRequest):
        convert(document, SourceDocument)


def test_defaults() -> None:
    assert default_document("nagios") is None
    for name in ("alertmanager", "grafana", "generic"):
        found = default_document(name)
        assert found is not None
        assert (found.marks_member, found.unmarks, found.ttl) == (False, True, 21600)
    aodh = default_document("aodh")
    assert aodh is not None
    assert aodh.marks_member
