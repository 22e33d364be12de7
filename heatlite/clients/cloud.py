"""What a cloud is to everybody else: verbs by name, JSON in and out, a few errors.

The verbs are openstacksdk's (``network.create_port``), so that its documentation is ours. What goes in and what comes
out is called as the services' own APIs call it (``admin_state_up``, not the SDK's ``is_admin_state_up``): those names
are what Heat's properties and attributes are called, too. A verb that lists gives a list.
"""

from typing import Protocol

from heatlite.core.clouds import CloudIdentity
from heatlite.core.errors import Conflict, HeatliteError, Unavailable, Unsupported
from heatlite.core.json import Json


class Cloud(Protocol):
    """A cloud, as one project may use it. Safe for threads."""

    @property
    def simulated(self) -> bool:
        """Whether it only stands in for a real one."""

    @property
    def place(self) -> CloudIdentity:
        """Which cloud it is, as far as that is known without asking it."""

    @property
    def identity(self) -> CloudIdentity:
        """Which project of which cloud it is. The cloud is asked once. Raises CloudError."""

    def has(self, service: str) -> bool:
        """Whether its catalog has a service (``block_storage``). Raises CloudUnavailable, CredentialsRefused."""

    def call(self, verb: str, *arguments: Json, **attributes: Json) -> Json:
        """Ask a service: ``call("network.update_port", port_id, name="new")``.

        Gives what the service answers; null where it answers nothing. Raises CloudError.
        """


class CloudError(HeatliteError):
    """A service has refused, or not answered."""

    text = "{verb}: {reason}"
    status: int | None = None
    """The service's HTTP status; None where there was no answer."""

    def __init__(self, verb: str, reason: str, status: int | None = None, request_id: str | None = None) -> None:
        self.verb = verb
        self.reason = reason
        self.request_id = request_id
        if status is not None:
            self.status = status
        said = reason
        if self.status is not None:
            said += f" (HTTP {self.status})"
        if request_id:
            said += f" (request {request_id})"
        super().__init__(verb=verb, reason=said)

    @property
    def service(self) -> str:
        """``network``, ``compute`` and so on."""
        return self.verb.partition(".")[0]


class CloudNotFound(CloudError):
    """There is no such object, or not for this project."""

    status = 404


class NameNotFound(CloudNotFound):
    """Nothing has a name that a property gives. It tells nothing about the object that has the property."""


class CloudConflict(CloudError):
    """The object is in a state, or in use, so that the service refuses now; it may not later."""

    status = 409


class OverQuota(CloudError):
    """The project has as much as it may have; once something is gone there may be room."""

    status = 403


class CloudUnavailable(CloudError, Unavailable):
    """A service was not reached, has not answered in time, or is out of order. What was asked may have happened."""


class CredentialsRefused(CloudError, Unavailable):
    """The cloud does not let in whoever asks: a wrong password, an account that is gone."""

    text = "{verb}: the cloud does not accept the credentials: {reason}"
    status = 401


class NoService(CloudError):
    """The cloud has no such service, or none that these credentials lead to."""

    def __init__(self, verb: str) -> None:
        service = verb.partition(".")[0].replace("_", "-")
        super().__init__(verb, f"the cloud has no {service} service (nothing in its catalog)")


class Ambiguous(CloudError):
    """Several objects have the name that is to mean one."""

    def __init__(self, verb: str, name: str) -> None:
        noun = verb.partition(".find_")[2].replace("_", " ")
        super().__init__(verb, f"More than one {noun} is called '{name}': give the id of the one that is meant.")


class NoCloud(Unsupported):
    """A type needs a cloud, and there is none."""

    text = "No cloud is set: give one with --cloud NAME (an entry of clouds.yaml), or --cloud simulated for a trial."


class OtherCloud(Conflict):
    """A stack has its objects in another cloud than the one that is set here."""

    text = (
        "{stack} has its objects in the cloud {recorded}, and {here}. Nothing was changed. Use the recorded cloud"
        " (--cloud NAME, the setting `cloud`). If it is to have its objects in the cloud that is set here, adopt that"
        " one with an update (heatlite up FILE --adopt-cloud, or adopt_cloud: true in the body). To give the stack up"
        " and leave its objects where they are: heatlite down --force."
    )


def other_cloud(stack: str, recorded: CloudIdentity, here: CloudIdentity | None) -> OtherCloud:
    """The refusal of an operation on a stack whose objects are elsewhere; `here` None: no cloud is set."""
    text = "no cloud is set here" if here is None else f"the cloud that is set here is {here}"
    return OtherCloud(stack=stack, recorded=recorded, here=text)
