"""Client of a Heat of a cloud in clouds.yaml."""

from collections.abc import Mapping

from heatlite.cli.client import Client
from heatlite.cli.errors import CommandError
from heatlite.cli.transport import ApiTransport, HttpAnswer, Unreachable, decode
from heatlite.clients.cloud import CloudError
from heatlite.core.errors import HeatliteError
from heatlite.features.migrate import service


class HeatTransport(ApiTransport):
    """HTTP with tokens of Keystone."""

    def __init__(self, heat: service.Heat) -> None:
        self._heat = heat

    def close(self) -> None:
        """Do nothing: the session closes its connections itself."""

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        try:
            status, answered, content = self._heat.send(method, target, headers, body)
        except CloudError as error:
            raise Unreachable(str(error)) from None
        return decode(status, answered, content)


def client(cloud: str) -> tuple[Client, str]:
    """Return a client of the Heat of a cloud, and the address of its project.

    The cloud is an entry of clouds.yaml, or envvars.

    Raises CommandError if the cloud is unknown or has no Heat.
    """
    try:
        heat = service.connect(cloud)
    except (HeatliteError, CloudError) as error:
        raise CommandError(f"--from {cloud}: {error}") from None
    return Client(HeatTransport(heat), heat.path), f"{heat.origin}{heat.path}"
