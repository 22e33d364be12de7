"""The audit log of a project, with its export."""

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import chain
from typing import Final

from falcon import Response

from heatlite.core.json import JsonMap, as_maps
from heatlite.core.redaction.texts import spreadsheet_cell
from heatlite.features.dashboard.client import ProjectApi, href, text
from heatlite.features.dashboard.site import BrowserRequest, Site, command

PAGE: Final = 100
EXPORT_PAGE, EXPORT_PAGES = 1000, 50
"""Rows of a page of an export, and its pages. The server holds an answer in memory."""
FILTERS: Final = ("user", "operation", "outcome", "stack", "address", "since", "until")
COLUMNS: Final = (
    "time", "last_time", "times", "user", "user_id", "address", "method", "path", "operation", "stack_name", "stack_id",
    "resource_name", "target", "outcome", "status", "reason", "plan_digest", "action_id", "request_id",
)  # fmt: skip


class AuditPage:
    """Requests that changed something, and refused ones, newest first."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: BrowserRequest, resp: Response, project: str) -> None:
        """Show a page of the log."""
        given, marker = filters(req), req.get_param("marker", default="")
        api = self._site.api(req, project)
        found = api.get("/audit", limit=PAGE, **given, **({"marker": marker} if marker else {}))
        rows = as_maps(found.get("audit"))
        options = [part for name, value in given.items() for part in (f"--{name}", value)]
        self._site.show(
            req,
            resp,
            "audit.html",
            project,
            tab="audit",
            rows=rows,
            filters={name: given.get(name, "") for name in FILTERS},
            given=given,
            marker=marker,
            next=text(rows[-1].get("request_id")) if href(found.get("links"), "next") else "",
            commands=[command(project, "audit", *options)],
        )


class AuditExport:
    """The same rows as a file for a spreadsheet."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: BrowserRequest, resp: Response, project: str) -> None:
        """Send the newest pages of the log as CSV (RFC 4180)."""
        chunks = lines(self._site.api(req, project), filters(req))
        # A wrong filter is answered with its error before the file begins.
        resp.stream = chain([next(chunks)], chunks)
        resp.content_type = "text/csv; charset=utf-8"
        resp.downloadable_as = f"audit-{project}.csv"


def filters(req: BrowserRequest) -> dict[str, str]:
    """Return the filters of a request that have a value."""
    values = {name: req.get_param(name, default="").strip() for name in FILTERS}
    return {name: value for name, value in values.items() if value}


def lines(api: ProjectApi, given: dict[str, str]) -> Iterator[bytes]:
    """Yield the log page by page as CSV. Raises ApiError."""
    head, marker = line(COLUMNS), dict[str, str]()
    for _ in range(EXPORT_PAGES):
        found = api.get("/audit", limit=EXPORT_PAGE, **given, **marker)
        rows = as_maps(found.get("audit"))
        yield head + b"".join(line([cell(row, name) for name in COLUMNS]) for row in rows)
        if not href(found.get("links"), "next"):
            return
        head, marker = b"", {"marker": text(rows[-1].get("request_id"))}


def cell(row: JsonMap, name: str) -> str:
    """Return a value as text that a spreadsheet does not run."""
    return spreadsheet_cell(text(row.get(name)))


def line(values: Sequence[str]) -> bytes:
    """Return a line of CSV."""
    out = StringIO()
    csv.writer(out).writerow(values)
    return out.getvalue().encode()
