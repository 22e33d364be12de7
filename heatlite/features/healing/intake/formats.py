"""Formats of reports: webhook bodies of monitoring systems, and our own. Pure.

Sources: Alertmanager's webhook payload version 4, Grafana's webhook contact point, Aodh's HTTP alarm action, and
docs/reference/healing.md for the generic format.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from heatlite.core.clock import from_text
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json, JsonMap, canonical
from heatlite.features.healing.intake.source_document import SourceDocument
from heatlite.features.healing.reports import AlertReport, ReportOutcome
from heatlite.features.healing.terms import ReportResult, Word

MAX_REPORTS = 5000
MAX_LABELS = 64
MAX_LABEL = 1024
MAX_KEY = 255
MAX_SUMMARY = 255
MAX_DETAIL = 255
MIN_PHYSICAL_ID = 8
ABSENT_REASONS = ("MissingSeries", "Updated", "Paused", "RuleDeleted")
"""Values of ``grafana_state_reason`` with which an alert resolves without a recovery."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
GENERIC_TEXTS = {"physical_id": MAX_LABEL, "stack": MAX_LABEL, "resource": 2000, "reason": 1000}
"""Texts of a generic report, with their largest size in characters."""
GENERIC_KEYS = frozenset({"key", "status", "since", "labels", *GENERIC_TEXTS})

Parsed: TypeAlias = AlertReport | ReportOutcome
"""A report, or the result of one that has none."""


class Delivery(Struct, frozen=True):
    """The reports of one request."""

    reports: tuple[Parsed, ...]
    truncated: int = 0
    """Alerts that the sender has left out."""
    lists_all: str | None = None
    """Begin of the keys of which all that are unhealthy are reported: the others have recovered."""


class _Invalid(ValueError):
    """A report does not match its format."""


def read_delivery(document: SourceDocument, body: Json) -> Delivery:
    """Read the body of one request.

    Raises HTTPBadRequest for a body of another format. A single report that does not match becomes a result.
    """
    if not isinstance(body, dict):
        raise HTTPBadRequest(f"The body must be a JSON object in the format {document.format}.")
    return FORMATS[document.format](document, body)


def _alerts(document: SourceDocument, body: JsonMap, version: str) -> Delivery:
    if str(body.get("version")) != version:
        raise HTTPBadRequest(f'The body needs "version": "{version}" of the format {document.format}.')
    alerts = _list(body, "alerts", "max_alerts")
    truncated = body.get("truncatedAlerts")
    count = max(0, truncated) if isinstance(truncated, int) and not isinstance(truncated, bool) else 0
    return Delivery(tuple(_each(alerts, lambda alert: _alert(document, alert))), count)


def _list(body: JsonMap, key: str, remedy: str) -> Sequence[Json]:
    found = body.get(key)
    if not isinstance(found, list):
        raise HTTPBadRequest(f'The body needs a list "{key}".')
    if len(found) > MAX_REPORTS:
        how = f"Send fewer at once (Alertmanager: {remedy})."
        raise HTTPBadRequest(f"The body has {len(found)} reports, {MAX_REPORTS} are allowed. {how}")
    return found


def _each(given: Sequence[Json], parse: Callable[[JsonMap], AlertReport]) -> Iterator[Parsed]:
    for index, one in enumerate(given):
        try:
            if not isinstance(one, dict):
                raise _Invalid("is not an object")
            yield parse(one)
        except _Invalid as error:
            key = one.get("key", one.get("fingerprint", "")) if isinstance(one, dict) else ""
            yield ReportOutcome(index, _clean(key)[:MAX_KEY], ReportResult.INVALID, detail=str(error)[:MAX_DETAIL])


def _alert(document: SourceDocument, alert: JsonMap) -> AlertReport:
    """Parse one alert of Alertmanager or Grafana."""
    labels, annotations = _texts(alert, "labels"), _texts(alert, "annotations", required=False)
    status = alert.get("status")
    if status not in ("firing", "resolved"):
        raise _Invalid('"status" must be firing or resolved')
    given = {"labels": labels, "annotations": annotations}
    fingerprint = alert.get("fingerprint")
    key = _clean(fingerprint)[:MAX_KEY] if isinstance(fingerprint, str) else ""
    key = key or hashlib.sha256(canonical(labels).encode()).hexdigest()
    is_blind = document.is_blind(given)
    word = Word.RESOLVED if status == "resolved" else Word.BLIND if is_blind else Word.FIRING
    why = annotations.get("grafana_state_reason") or labels.get("grafana_state_reason", "")
    is_ignored = not document.matches(given) or word is Word.RESOLVED and why in ABSENT_REASONS
    return _report(document, given, key, word, _time(alert.get("startsAt"), "startsAt"), is_ignored)


def _report(
    document: SourceDocument,
    given: Mapping[str, Mapping[str, str]],
    key: str,
    word: Word,
    starts_at: float | None,
    is_ignored: bool = False,
) -> AlertReport:
    found = {name: document.value(name, given) for name in ("physical_id", "stack", "resource", "reason")}
    name = given.get("labels", {}).get("alertname")
    reason = found["reason"] or ""
    summary = f"{name}: {reason}" if name and reason != name else reason or name or ""
    return AlertReport(
        key, word, starts_at, found["physical_id"], found["stack"], found["resource"], _clean(summary)[:MAX_SUMMARY],
        is_ignored, given,
    )  # fmt: skip


def _aodh(_document: SourceDocument, body: JsonMap) -> Delivery:
    """Parse the body of an alarm action: one report for each unhealthy member."""
    alarm, current = body.get("alarm_id"), body.get("current")
    if not isinstance(alarm, str) or not alarm or current not in ("alarm", "ok", "insufficient data"):
        raise HTTPBadRequest('The body needs "alarm_id", and "current": alarm, ok or "insufficient data".')
    reason = _clean(body.get("reason", ""))[:MAX_SUMMARY]
    if current != "alarm":
        word = Word.RESOLVED if current == "ok" else Word.BLIND
        return Delivery((AlertReport(f"{alarm}:"[:MAX_KEY], word, summary=reason, is_prefix=True),))
    data = body.get("reason_data")
    members = data.get("unhealthy_members") if isinstance(data, dict) else None
    if not isinstance(members, list) or len(members) > MAX_REPORTS:
        raise HTTPBadRequest('"reason_data" needs a list "unhealthy_members".')

    def member(one: JsonMap) -> AlertReport:
        identifier = one.get("id")
        if not isinstance(identifier, str) or not 0 < len(identifier) <= MAX_LABEL:
            raise _Invalid(f'a member needs an "id" of at most {MAX_LABEL} characters')
        return AlertReport(f"{alarm}:{identifier}"[:MAX_KEY], Word.FIRING, physical_id=identifier, summary=reason)

    return Delivery(tuple(_each(members, member)), lists_all=f"{alarm}:"[:MAX_KEY])


def _generic(document: SourceDocument, body: JsonMap) -> Delivery:
    unknown = sorted(body.keys() - {"reports"})
    if unknown:
        raise HTTPBadRequest(f"The body has unknown keys: {', '.join(unknown)[:MAX_DETAIL]}.")
    reports = _list(body, "reports", "max_alerts")
    if not reports:
        raise HTTPBadRequest('"reports" must have at least one report.')
    return Delivery(tuple(_each(reports, lambda report: _own(document, report))))


def _own(document: SourceDocument, report: JsonMap) -> AlertReport:
    """Parse one report of the generic format."""
    unknown = sorted(report.keys() - GENERIC_KEYS)
    if unknown:
        raise _Invalid(f"unknown keys: {', '.join(unknown)}")
    key = report.get("key")
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY:
        raise _Invalid(f'"key" must be a text of 1 to {MAX_KEY} characters')
    words = {"unhealthy": Word.FIRING, "healthy": Word.RESOLVED, "unknown": Word.BLIND}
    status = report.get("status")
    if not isinstance(status, str) or status not in words:
        raise _Invalid('"status" must be unhealthy, healthy or unknown')
    for name, most in GENERIC_TEXTS.items():
        text = report.get(name, "")
        if not isinstance(text, str) or len(text) > most:
            raise _Invalid(f'"{name}" must be a text of at most {most} characters')
    given = {"labels": _texts(report, "labels", required=False)}
    read = _report(document, given, key, words[status], _time(report.get("since"), "since", required=False),
                   not document.matches(given))  # fmt: skip
    own = {name: str(report[name]) for name in ("physical_id", "stack", "resource") if report.get(name)}
    summary = _clean(report.get("reason", ""))[:MAX_SUMMARY] or read.summary
    return AlertReport(
        read.key, read.word, read.starts_at, own.get("physical_id", read.physical_id), own.get("stack", read.stack),
        own.get("resource", read.resource), summary, read.is_ignored, given,
    )  # fmt: skip


FORMATS: dict[str, Callable[[SourceDocument, JsonMap], Delivery]] = {
    "alertmanager": partial(_alerts, version="4"), "grafana": partial(_alerts, version="1"), "aodh": _aodh,
    "generic": _generic,
}  # fmt: skip


def _texts(given: JsonMap, name: str, required: bool = True) -> dict[str, str]:
    found = given.get(name)
    if found is None and not required:
        return {}
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise _Invalid(f'"{name}" must be a map of text to text')
    if len(found) > MAX_LABELS:
        raise _Invalid(f'"{name}" may have {MAX_LABELS} entries')
    return {_clean(key)[:MAX_LABEL]: _clean(value)[:MAX_LABEL] for key, value in found.items()}


def _time(given: Json, name: str, required: bool = True) -> float | None:
    """Return seconds since the epoch. A time without a zone is UTC."""
    if given is None:
        if required:
            raise _Invalid(f'"{name}" is missing')
        return None
    try:
        return time_of(str(given))
    except HTTPBadRequest as error:
        raise _Invalid(f'"{name}": {error.message}') from error


def time_of(text: str) -> float:
    """Return a time in ISO 8601 as seconds since the epoch.

    One without a zone is UTC. Raises HTTPBadRequest.
    """
    try:
        return from_text(text)
    except (ValueError, OverflowError) as error:
        raise HTTPBadRequest(f"{text!r} is not a time in ISO 8601, such as 2026-11-22T12:00:00Z.") from error


def _clean(text: object) -> str:
    """Return text without control characters and lone surrogates."""
    return CONTROL.sub(" ", str(text)).encode(errors="replace").decode().strip()
