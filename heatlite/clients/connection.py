"""Real clouds, through openstacksdk, which is imported on first use."""

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import signature
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

from heatlite.clients import rest, sdk_compute, sdk_network, sdk_storage
from heatlite.clients.cloud import (
    Ambiguous,
    CloudConflict,
    CloudError,
    CloudNotFound,
    CloudUnavailable,
    CredentialsRefused,
    NoService,
    OverQuota,
)
from heatlite.core.clouds import CloudIdentity
from heatlite.core.config import BadSetting
from heatlite.core.errors import Unavailable
from heatlite.core.json import Json, JsonMap
from heatlite.core.runtime.bulkhead import Bulkhead, for_requests
from heatlite.core.runtime.extras import MissingLibrary

if TYPE_CHECKING:
    from keystoneauth1.identity import BaseIdentityPlugin
    from openstack.connection import Connection
    from requests import Response
    from requests.adapters import HTTPAdapter

log = logging.getLogger(__name__)

ENVIRONMENT = "envvars"
"""Name of the cloud that the OS_* environment variables describe (openstacksdk)."""


LOOKED_FOR = (
    "Clouds are described in clouds.yaml, which is looked for here, in ~/.config/openstack and in /etc/openstack, or"
    " which OS_CLIENT_CONFIG_FILE names; envvars stands for OS_AUTH_URL and the other OS_* variables."
)

CONNECTIONS = 64
"""Maximum of connections kept open to each service."""
SERVICES = 50
"""Maximum of addresses to which connections are kept open."""
API_VERSIONS = {"dns": "2", "image": "2"}
"""Versions for addresses of clouds.yaml, behind which the SDK finds none: Glance refuses to tell its version there."""


class RealCloud:
    """Cloud as one project sees it.

    Safe for threads: keystoneauth's session locks its own token.
    """

    def __init__(
        self,
        connection: "Connection",
        name: str = "",
        project_id: str | None = None,
        more: Mapping[str, Callable[..., object]] | None = None,
    ) -> None:
        """Wrap a connection.

        `name` is the operator's name of the cloud; `project_id` saves a request. `more` are verbs that the SDK lacks.
        """
        self._more = more or {}
        self._connection = connection
        self._name = name
        self._project_id = project_id

    @property
    def place(self) -> CloudIdentity:
        """See `Cloud`."""
        auth_url = str(self._connection.config.get_auth_args().get("auth_url") or "")
        return CloudIdentity(self._name, auth_url, self.region, self._project_id)

    @property
    def identity(self) -> CloudIdentity:
        """See `Cloud`."""
        if self._project_id is None:
            with _translated(TOKEN):
                self._project_id = str(self._connection.current_project_id or "")
        return self.place

    def call(self, verb: str, *arguments: Json, **attributes: Json) -> Json:
        """See `Cloud`."""
        service, _, name = verb.partition(".")
        with _translated(verb, *arguments):
            otherwise = _OTHERWISE.get(verb) or self._more.get(verb)
            if otherwise is not None:
                ask = partial(otherwise, self._connection)
            else:
                ask = getattr(getattr(self._connection, service), name)
                if name.startswith("delete_") and "ignore_missing" in signature(ask).parameters:
                    ask = partial(ask, ignore_missing=False)  # else the SDK hides a 404
            answer = _asked(ask, arguments, attributes)
            made = answer.get("id", "") if isinstance(answer, Mapping) else ""
            if name.startswith("create_") and getattr(answer, "id", made) is None:
                raise _Garbage("the service has answered without the object that it was to make")
            return _plain(answer)

    def has(self, service: str) -> bool:
        """See `Cloud`."""
        from keystoneauth1.identity import BaseIdentityPlugin

        config, kind, auth = self._connection.config, service.replace("_", "-"), self._connection.session.auth
        if config.get_endpoint(kind) or not isinstance(auth, BaseIdentityPlugin):
            return True  # without a catalog, assume that the service exists
        try:
            with _translated(f"{service}.endpoint"):
                found = auth.get_endpoint_data(
                    self._connection.session,
                    service_type=kind,
                    interface=config.get_interface(kind),  # type: ignore[arg-type]  # several are tried in turn
                    region_name=config.get_region_name(kind),
                    discover_versions=False,
                )
        except NoService:
            return False
        return found is not None

    @property
    def region(self) -> str | None:
        """Region of the connection, or None."""
        return self._connection.config.region_name or None

    @property
    def user_id(self) -> str:
        """Id of the authenticated user. Raises CloudError."""
        with _translated(TOKEN):
            return str(self._connection.current_user_id)


TOKEN = "identity.token"
"""Verb that stands for authentication in errors."""


REQUESTS = Bulkhead(
    4, 100, 2.0, lambda: Unavailable(service="The cloud", reason="too many requests wait for it; try again later")
)
"""Limit of concurrent cloud calls for API requests.

A server answers eight requests at once by default. More calls wait only while these make progress.
"""


@contextmanager
def _translated(verb: str, *arguments: Json) -> Iterator[None]:
    """Translate the SDK's errors to CloudError.

    Raises Unavailable if too many requests wait.
    """
    from keystoneauth1 import exceptions as auth
    from openstack import exceptions as sdk

    try:
        with for_requests(REQUESTS):
            yield
    except sdk.HttpException as error:
        reason = _description(error.response) or _details(error)
        raise _refusal(verb, error.status_code, reason, error.request_id) from error
    except auth.HttpError as error:
        # Raised by authentication only; services' answers raise the SDK's errors.
        # So a 404 means that a trust, a project or Keystone is missing, not that an object is.
        refusal = _refusal(verb, error.http_status, str(error.message), error.request_id)
        if isinstance(refusal, CloudNotFound):
            refusal = CredentialsRefused(verb, refusal.reason, refusal.status, refusal.request_id)
        raise refusal from error
    except auth.EndpointNotFound as error:
        raise NoService(verb) from error
    except sdk.DuplicateResource as error:
        raise Ambiguous(verb, str(arguments[0])) from error
    except (
        sdk.InvalidRequest, sdk.InvalidResourceQuery, sdk.MethodNotSupported, sdk.NotSupported, sdk.ValidationException,
    ) as error:  # fmt: skip
        raise CloudError(verb, str(error)) from error
    except (sdk.SDKException, auth.ClientException, OSError, _Garbage, _NoAnswer) as error:
        raise CloudUnavailable(verb, f"{type(error).__name__.strip('_')}: {error}") from error


class Connections:
    """Clouds by credentials. Safe for threads."""

    def __init__(self, cloud: str, timeout: float, services: Iterable[rest.RestTables] = ()) -> None:
        """Name a cloud: an entry of clouds.yaml, or `ENVIRONMENT`.

        `timeout` is for each request, in seconds. `services` are those beside `rest.CORE`.
        """
        self._more = {verb: ask for one in services for verb, ask in one.verbs()}
        self._cloud = cloud
        self._timeout = timeout
        self._lock = threading.Lock()
        self._own: RealCloud | None = None
        self._adapter: HTTPAdapter | None = None
        """Open connections, which all views share: there may be a view for each stack."""

    def open(self) -> RealCloud:
        """Return the cloud of the configured user without asking a service.

        Raises BadSetting, MissingLibrary.
        """
        with self._lock:
            if self._own is None:
                self._own = RealCloud(self._connect(), self._cloud, more=self._more)
            return self._own

    def of(self, project: str) -> RealCloud:  # noqa: ARG002 - one user acts for all projects
        """Return the cloud for a project without its own credential.

        Raises BadSetting, MissingLibrary.
        """
        return self.open()

    @property
    def region(self) -> str | None:
        """Region of the cloud's entry. Raises BadSetting, MissingLibrary."""
        return self.open().region

    def by(
        self, prove: "Callable[[Mapping[str, str]], BaseIdentityPlugin]", project_id: str | None = None
    ) -> RealCloud:
        """Return the cloud as another user sees it.

        `prove` maps the auth arguments of the configured user (``auth_url``, ``username`` …) to the auth plugin of the
        other user. `project_id` is the project, if known. Raises BadSetting, MissingLibrary.
        """
        return RealCloud(self._connect(prove), self._cloud, project_id, self._more)

    def _connect(self, prove: "Callable[[Mapping[str, str]], BaseIdentityPlugin] | None" = None) -> "Connection":
        try:
            from keystoneauth1.exceptions import AuthPluginException
            from openstack.config import get_cloud_region
            from openstack.config.cloud_region import CloudRegion
            from openstack.connection import Connection
            from openstack.exceptions import ConfigException
        except ImportError as error:
            raise MissingLibrary(f"The cloud {self._cloud}", "openstacksdk", "openstack") from error
        try:
            region = get_cloud_region(
                cloud=self._cloud,
                app_name="heatlite",
                api_timeout=self._timeout,
                image_status_code_retries=0,  # handle its 503 as those of other services
            )
            for service, version in API_VERSIONS.items():
                if region.get_endpoint(service) and not region.get_api_version(service):
                    region.config[f"{service}_api_version"] = version
            if prove is not None:
                region = CloudRegion(
                    name=region.name,
                    region_name=region.region_name,
                    config=region.config,
                    auth_plugin=prove(region.get_auth_args()),
                    app_name="heatlite",
                )
            # strict: do not keep proxies that were created while a service was unreachable
            connection = Connection(config=region, strict_proxies=True)
        except (ConfigException, AuthPluginException) as error:
            raise BadSetting(f"cloud {self._cloud!r}: {error} ({LOOKED_FOR})") from error
        if self._adapter is None:
            self._adapter = _adapter()
        _guard(connection, self._adapter)
        return connection


class _Garbage(Exception):
    """An answer that cannot be interpreted."""


class _NoAnswer(Exception):
    """No answer in time.

    Not keystoneauth's error, after which it would try the service's other addresses, each with the full timeout.
    """


def _adapter() -> "HTTPAdapter":
    """Return a pool of connections that reports timeouts as _NoAnswer."""
    from keystoneauth1.session import TCPKeepAliveAdapter
    from requests import PreparedRequest, Response, Timeout

    class Adapter(TCPKeepAliveAdapter):
        def send(self, request: PreparedRequest, *arguments: Any, **options: Any) -> Response:
            try:
                return super().send(request, *arguments, **options)
            except Timeout as error:
                raise _NoAnswer(f"{request.url} has not answered in time") from error

        def close(self) -> None:
            """Keep the connections: a session that ends is one of many."""

    return Adapter(pool_connections=SERVICES, pool_maxsize=CONNECTIONS)


def _guard(connection: "Connection", adapter: "HTTPAdapter") -> None:
    """Use the pool, and check answers before the SDK interprets them."""
    session = connection.session.session
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    session.hooks["response"].append(_look_at)


VERSION = re.compile(r"/v\d[\d.]*/?$")
"""URL of the root of an API, which the SDK asks for versions."""


def _look_at(response: "Response", *_: object, **__: object) -> "Response | None":
    """Raise _Garbage for a successful answer that is not JSON.

    The SDK would take it for an empty one. Returns an answer to replace one that the SDK could not read.

    HTML is garbage, too, except from the object store, which uses it in successful answers.
    """
    kind = response.headers.get("Content-Type", "")
    if not 200 <= response.status_code < 300 or "X-Trans-Id" in response.headers or not response.content:
        return None
    if kind and "json" not in kind and "html" not in kind:
        return None
    try:
        answer = response.json()
    except ValueError:
        start = response.content[:60].decode(errors="replace")
        raise _Garbage(f"{response.url} has answered what is no JSON: {start!r}") from None
    if isinstance(answer, dict | list):
        return None
    if answer is None and response.request.method != "GET":
        return _with_content(response, b"")  # Zun says null where other services say nothing
    if not VERSION.search(response.url):
        raise _Garbage(f"{response.url} has answered JSON that is neither an object nor a list")
    return _with_content(response, b"{}")  # Octavia tells its version as text there, at which the SDK would fail


def _with_content(response: "Response", content: bytes) -> "Response":
    from requests import Response

    made = Response()
    for name in ("status_code", "reason", "headers", "url", "encoding", "request", "elapsed", "history"):
        setattr(made, name, getattr(response, name))
    made.raw = BytesIO(content)
    return made


def _asked(ask: Callable[..., object], arguments: Sequence[Json], attributes: Mapping[str, Json]) -> object:
    """Call the SDK.

    Raises _Garbage if it fails on the service's answer, and the SDK's own errors.
    """
    try:
        answer = ask(*arguments, **attributes)
        return list(answer) if isinstance(answer, Iterator) else answer
    except (AttributeError, KeyError, TypeError) as error:
        log.warning("what a service has answered cannot be read, or was asked wrongly", exc_info=True)
        raise _Garbage(f"what the service has answered cannot be read: {error!r}") from error


def _grant(method: str, where: str, grantee: str) -> Callable[..., Json]:
    """Grant (``put``) or revoke (``delete``) a role.

    The SDK's verb does not raise errors.
    """

    def carry_out(connection: "Connection", target: str, who: str, role: str) -> Json:
        from openstack.exceptions import raise_from_response

        identity = connection.identity
        raise_from_response(getattr(identity, method)(f"/{where}s/{target}/{grantee}s/{who}/roles/{role}"))
        return None

    return carry_out


def _update_rule(connection: "Connection", rule: str, policy: str, **attributes: Json) -> object:
    """Update a load balancer's rule; the SDK fails on an attribute named value."""
    if "value" in attributes:
        attributes["rule_value"] = attributes.pop("value")
    return connection.load_balancer.update_l7_rule(rule, policy, **attributes)


def _order(connection: "Connection", key: str) -> object:
    """Return an order with all its results; the SDK drops them except one secret."""
    from openstack.exceptions import raise_from_response

    answer = connection.key_manager.get(f"/orders/{key}")
    raise_from_response(answer)
    return answer.json()


_OTHERWISE: Mapping[str, Callable[..., object]] = {
    **dict(rest.CORE.verbs()),
    **sdk_compute.OTHERWISE,
    **sdk_network.OTHERWISE,
    **sdk_storage.OTHERWISE,
    "key_manager.get_order": _order,
    "load_balancer.update_l7_rule": _update_rule,
    **{
        f"identity.{verb}_{where}_role_{way}_{grantee}": _grant(method, where, grantee)
        for verb, way, method in (("assign", "to", "put"), ("unassign", "from", "delete"))
        for where in ("project", "domain")
        for grantee in ("user", "group")
    },
}
"""Verbs that the SDK does not offer as JSON in and out."""


def _plain(answer: object) -> Json:
    """Return the SDK's result as JSON with the services' own names.

    An object's id is always ``id``.
    """
    from openstack.resource import Resource

    if isinstance(answer, Resource):
        # Only the service's attributes: to_dict() would add missing ones, and some names of the SDK.
        attributes = cast(JsonMap, _jsonable({**answer._header.attributes, **answer._body.attributes}))
        return attributes if answer.id is None else {"id": answer.id, **attributes}
    if isinstance(answer, str | int | float | bool | None):
        return answer
    return _jsonable(answer)


def _jsonable(value: object) -> Json:
    from openstack.resource import Resource

    if isinstance(value, Resource):
        return _plain(value)
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Iterable):
        return [_jsonable(item) for item in value]
    return None  # a response without a body


def _description(response: "Response | None") -> str:
    """Return an answer's own text for its reason, empty without one.

    Barbican and Zaqar give it as `description`, Blazar as `error_message`. The SDK reads neither.
    """
    try:
        answer = None if response is None else response.json()
    except ValueError:
        return ""
    if not isinstance(answer, Mapping):
        return ""
    return str(answer.get("description") or answer.get("error_message") or "")


def _details(error: object) -> str:
    """Return the service's own error text."""
    return str(getattr(error, "details", None) or getattr(error, "message", None) or error)


QUOTA = ("quota exceeded", "available quota", "exceeded for quota", "limit exceeded", "maximum number")
"""Texts that identify an exhausted quota; services report it as 403, 409 or 413."""


def _refusal(verb: str, status: int | None, reason: str, request_id: str | None) -> CloudError:
    """Map the error answer of a service to a CloudError."""
    reason = reason.partition(f" (HTTP {status})")[0].strip()  # keystoneauth appends the status
    if status is None or status >= 500 and status != 501 or status in (408, 429):
        return CloudUnavailable(verb, reason, status, request_id)
    if status == 401:
        return CredentialsRefused(verb, reason, status, request_id)
    if status == 404:
        return CloudNotFound(verb, reason, status, request_id)
    if status in (403, 409, 413) and any(words in reason.lower() for words in QUOTA):
        return OverQuota(verb, reason, status, request_id)
    if status in (409, 412):
        return CloudConflict(verb, reason, status, request_id)
    return CloudError(verb, reason, status, request_id)
