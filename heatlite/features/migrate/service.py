"""Requests to the Heat of a cloud, with the token of its Keystone."""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from heatlite.clients.cloud import CloudUnavailable, NoService
from heatlite.clients.connection import LOOKED_FOR
from heatlite.core.config import BadSetting
from heatlite.core.runtime.extras import MissingLibrary

if TYPE_CHECKING:
    from keystoneauth1.session import Session

VERB = "orchestration.request"
"""Verb of a request in errors."""


class Heat:
    """The orchestration service of one project.

    `origin` and `path` are those of its endpoint.
    """

    def __init__(self, session: "Session", origin: str, path: str) -> None:
        self._session = session
        self.origin = origin
        self.path = path

    def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request to a path of the server, without following redirects.

        Returns status, headers with names in lower case, and body. Raises CloudUnavailable without an answer.
        """
        from keystoneauth1.exceptions import ClientException

        try:
            answer = self._session.request(
                self.origin + target,
                method,
                headers=dict(headers),
                data=body or None,
                redirect=False,
                raise_exc=False,
            )
        except ClientException as error:
            raise CloudUnavailable(VERB, str(error)) from error
        return answer.status_code, {name.lower(): one for name, one in answer.headers.items()}, answer.content


def connect(cloud: str) -> Heat:
    """Return the Heat of a cloud: an entry of clouds.yaml, or `ENVIRONMENT`.

    Raises BadSetting, MissingLibrary, NoService and CloudUnavailable.
    """
    try:
        from keystoneauth1.exceptions import ClientException, EndpointNotFound
        from openstack import connect
        from openstack.exceptions import ConfigException, SDKException
    except ImportError as error:
        raise MissingLibrary(f"The cloud {cloud}", "openstacksdk", "openstack") from error
    try:
        connection = connect(cloud=cloud, app_name="heatlite")
        endpoint, project = connection.orchestration.get_endpoint(), connection.current_project_id
    except ConfigException as error:
        raise BadSetting(f"cloud {cloud!r}: {error} ({LOOKED_FOR})") from error
    except EndpointNotFound as error:
        raise NoService(VERB) from error
    except (ClientException, SDKException) as error:
        raise CloudUnavailable(VERB, str(error)) from error
    if not endpoint:
        raise NoService(VERB)
    parts = urlsplit(endpoint % {"project_id": project, "tenant_id": project} if "%(" in endpoint else endpoint)
    return Heat(connection.session, f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/"))
