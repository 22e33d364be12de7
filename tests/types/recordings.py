"""Engines on services that keep any objects, or play recorded answers."""

from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from tests.engine.conftest import ADMIN
from tests.resource_types import SERVICES
from tests.types.lives import Living
from tests.types.marking import RECORDED
from tests.types.rest_services import VERSIONS, RestServices, rest_services


class Recording(Living):
    """An engine on a cloud whose answers are of a file or recorded."""

    services: RestServices

    def __init__(self, folder: Path, file: str) -> None:
        content, ends = RECORDED[file], ExitStack()
        services = RestServices(content.get("objects", {}), content.get("answers", {}))
        url = ends.enter_context(rest_services(services))
        names = {*SERVICES, *VERSIONS}
        places = {f"{service}_endpoint_override": f"{url}/{service}" for service in names}
        if "database" in SERVICES:
            places["database_endpoint_override"] += "/v1.0/PROJECT"
        self.url = url
        super().__init__(folder, services, url, {"auth_type": "none", "auth": {"endpoint": url}, **places})
        self.engine.who = replace(ADMIN, project="PROJECT")
        self.ends.push(ends)
