"""Bodies of reports, plain or as CloudEvents.

CloudEvents 1.0 (cloudevents.io) in structured, batched and binary mode.
"""

from heatlite.api.request import Request
from heatlite.api.wire import bodies
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json

STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch+json"


def reports_of(req: Request) -> Json:
    """Return the body of an intake request without the envelope of CloudEvents.

    The data of an event is a body of the generic format, or one report. One odd character refuses no delivery. Raises
    HTTPBadRequest.
    """
    content_type = (req.content_type or "").partition(";")[0].strip().lower()
    if content_type == BATCHED:
        events = bodies.read(req, BATCHED, cleans=True)
        if not isinstance(events, list):
            raise HTTPBadRequest("A batch of CloudEvents must be a JSON list.")
        return {"reports": [report for event in events for report in _reports(_data(event))]}
    if content_type == STRUCTURED:
        return {"reports": list(_reports(_data(bodies.read(req, STRUCTURED, cleans=True))))}
    body = bodies.read(req, cleans=True)
    return {"reports": list(_reports(body))} if req.get_header("ce-specversion") else body


def _data(event: Json) -> Json:
    if not isinstance(event, dict) or str(event.get("specversion")) != "1.0" or "data" not in event:
        raise HTTPBadRequest('A CloudEvent needs "specversion": "1.0" and "data".')
    data: Json = event["data"]
    return data


def _reports(data: Json) -> list[Json]:
    reports = data.get("reports") if isinstance(data, dict) else None
    return list(reports) if isinstance(reports, list) else [data]
