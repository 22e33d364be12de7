"""Interface of a cloud: verbs by name, JSON in and out, a few errors.

The verbs are openstacksdk's (``network.create_port``), so its documentation applies. Attributes have the names of the
services' own APIs (``admin_state_up``, not the SDK's ``is_admin_state_up``), which are also the names of Heat's
properties and attributes. A verb that lists returns a list.
"""

from typing import Protocol

from heatlite.core.clouds import CloudIdentity
from heatlite.core.errors import Conflict, HeatliteError, Unavailable, Unsupported
from heatlite.core.json import Json
from heatlite.core.wire.why import WayOut


class Cloud(Protocol):
    """Cloud as one project may use it. Safe for threads."""

    @property
    def place(self) -> CloudIdentity:
        """Identity of the cloud, as far as it is known without a request."""

    @property
    def identity(self) -> CloudIdentity:
        """Identity of the cloud and the project.

        The cloud is asked once. Raises CloudError.
        """

    def has(self, service: str) -> bool:
        """True if the catalog has a service (``block_storage``).

        Raises CloudUnavailable, CredentialsRefused.
        """

    def call(self, verb: str, *arguments: Json, **attributes: Json) -> Json:
        """Call a service: ``call("network.update_port", port_id, name="new")``.

        Returns the service's answer, null if it is empty. Raises CloudError; CloudNotFound also for the deletion of
        what is gone.
        """


class CloudError(HeatliteError):
    """A service rejected a request, or did not answer."""

    text = "{verb}: {reason}"
    status: int | None = None
    """HTTP status of the service; None without an answer."""

    def __init__(self, verb: str, reason: str, status: int | None = None, request_id: str | None = None) -> None:
        self.verb = verb
        self.reason = reason
        self.request_id = request_id
        if status is not None:
            self.status = status
        text = reason
        if self.status is not None:
            text += f" (HTTP {self.status})"
        if request_id:
            text += f" (request {request_id})"
        super().__init__(verb=verb, reason=text)

    @property
    def is_refusal(self) -> bool:
        """True if the service has refused the request, so that nothing has changed."""
        return self.status is not None and 400 <= self.status < 500 and self.status != 404

    @property
    def service(self) -> str:
        """Name of the service: ``network``, ``compute`` and so on."""
        return self.verb.partition(".")[0]


class CloudNotFound(CloudError):
    """The object does not exist, or is not visible to this project."""

    status = 404


class NameNotFound(CloudNotFound):
    """No object has the name given by a property.

    The object that has the property may still exist.
    """


class CloudConflict(CloudError):
    """The object's state or use makes the service reject the request for now.

    A retry may succeed.
    """

    status = 409


class OverQuota(CloudError):
    """The project's quota is exhausted; deleting objects may make room."""

    status = 403


class CloudUnavailable(CloudError, Unavailable):
    """A service is unreachable, out of order, or did not answer in time.

    The request may have been executed.
    """


class CredentialsRefused(CloudError, Unavailable):
    """The cloud rejects the credentials: wrong password, deleted account."""

    text = "{verb}: the cloud does not accept the credentials: {reason}"
    status = 401


class NoService(CloudError):
    """The cloud has no such service, or none for these credentials."""

    def __init__(self, verb: str) -> None:
        service = verb.partition(".")[0].replace("_", "-")
        super().__init__(verb, f"the cloud has no {service} service (nothing in its catalog)")


class Ambiguous(CloudError):
    """Several objects have a name that must identify one."""

    def __init__(self, verb: str, name: str) -> None:
        noun = verb.partition(".find_")[2].replace("_", " ")
        super().__init__(verb, f"More than one {noun} is called '{name}': give the id of the one that is meant.")


class NoCloud(Unsupported):
    """A resource type needs a cloud, and none is configured."""

    text = "No cloud is set: give one with --cloud NAME (an entry of clouds.yaml), or --cloud simulated for a trial."


class OtherCloud(Conflict):
    """The stack's objects are in another cloud than the configured one."""

    text = (
        "{stack} has its objects in the cloud {recorded}, and {here}. Nothing was changed. Use the recorded cloud"
        " (--cloud NAME, the setting `cloud`). If it is to have its objects in the cloud that is set here, adopt that"
        " one with an update (heatlite up FILE --adopt-cloud, or adopt_cloud: true in the body). To give the stack up"
        " and leave its objects where they are: heatlite down --force."
    )
    ways = (
        WayOut(text="takes the cloud that is set here", command="heatlite up FILE -n {stack_name} --adopt-cloud"),
    )


def other_cloud(stack: str, recorded: CloudIdentity, here: CloudIdentity | None) -> OtherCloud:
    """Return the error for a stack whose objects are in another cloud.

    `here` None: none is configured.
    """
    text = "no cloud is set here" if here is None else f"the cloud that is set here is {here}"
    return OtherCloud(stack=stack, recorded=recorded, here=text)
