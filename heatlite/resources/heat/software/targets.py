"""Targets of deployments: servers whose agent reads its metadata here."""

from collections.abc import Mapping
from typing import TypeVar, cast

from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import (
    Change,
    Schema,
    prop,
)
from heatlite.plugin.signing import KEY, Node
from heatlite.resources.heat.signals.queues import Queue, agents_cloud
from heatlite.resources.heat.signals.temp_urls import MetadataObject, place_of, signature_of

POLL_HEAT, POLL_TEMP_URL, ZAQAR = "POLL_SERVER_HEAT", "POLL_TEMP_URL", "ZAQAR_MESSAGE"
METADATA_URL, METADATA_QUEUE = "metadata_url", "metadata_queue"
"""Keys of a server's `data`: where its agent reads the metadata, with a transport beside the API."""


class SwiftData(Schema):
    container: str | None = prop(length=(1, None), doc="The container.")
    obj: str | None = prop(alias="object", length=(1, None), doc="The object.")


class TargetProps(Schema):
    software_config_transport: str = prop(
        "POLL_SERVER_CFN",
        one_of=("POLL_SERVER_CFN", POLL_HEAT, POLL_TEMP_URL, ZAQAR),
        update=True,
        api="",
        doc="The transport by which the agent on the server gets its deployments.",
    )
    deployment_swift_data: SwiftData = prop(
        {}, update=True, api="", doc="The object for POLL_TEMP_URL; default: one of its own."
    )


TargetSchema = TypeVar("TargetSchema", bound=TargetProps, covariant=True)


class Target(Node[TargetSchema]):
    """Base of the servers with a choice of transports for their metadata."""

    @property
    def _transport(self) -> Json:
        """The transport; null if no agent on the server gets deployments."""
        return self.facts.properties.get("software_config_transport", "POLL_SERVER_CFN") if self.has_agent else None

    @property
    def has_agent(self) -> bool:
        """True if an agent on the server gets deployments."""
        return True

    def wants_account(self) -> bool:
        return self._transport in (POLL_HEAT, ZAQAR) or METADATA_QUEUE in self.data

    def secrets(self) -> list[Json]:
        url = self.data.get(METADATA_URL)
        own = super().secrets()
        if not isinstance(url, str):
            return own
        return [*own, url, signature_of(url)]

    # -- metadata beside the API -------------------------------------------------------------------

    def open_metadata(self) -> bool:
        """Make the object or the queue for the agent, unless that was done. True if so.

        Raises CloudError, and StackValidationFailed for a queue without a stack domain.
        """
        if self._transport == POLL_TEMP_URL and METADATA_URL not in self.data:
            given = cast(Mapping[str, Json], self.facts.properties.get("deployment_swift_data") or {})
            container, name = given.get("container") or self.physical_name, given.get("object") or new_id()
            self.data[METADATA_URL] = MetadataObject(self.facts, str(container), str(name)).open()
        elif self._transport == ZAQAR and METADATA_QUEUE not in self.data:
            name = new_id()
            Queue(agents_cloud(self, ZAQAR), name).open()
            self.data[METADATA_QUEUE] = name
        else:
            return False
        return True

    def publish(self) -> None:
        """Write the metadata, also where an earlier transport had it.

        There the agent finds its new settings. Raises CloudError.
        """
        has_queue = METADATA_QUEUE in self.data and self.account is not None
        if METADATA_URL not in self.data and not has_queue:
            return
        facts = self.facts
        known = [] if self.physical_id is None else facts.services.software.deployed(facts.project, self.physical_id)
        metadata = {**self.live_metadata(), **({"deployments": known} if known else {})}
        if METADATA_URL in self.data:
            self._object().write(metadata)
        if has_queue:
            Queue(agents_cloud(self, ZAQAR), str(self.data[METADATA_QUEUE])).write(metadata)

    def _object(self) -> MetadataObject:
        return MetadataObject(self.facts, *place_of(str(self.data[METADATA_URL])))

    def close_metadata(self) -> None:
        """Remove the object and the queue. Raises CloudError.

        An object that the template names stays for the server's replacement.
        """
        url, latter = self.data.get(METADATA_URL), self.facts.latter()
        if url is not None and (latter is None or latter.data.get(METADATA_URL) != url):
            self._object().remove()
        if METADATA_QUEUE in self.data and self.account is not None:
            Queue(agents_cloud(self, ZAQAR), str(self.data[METADATA_QUEUE])).remove()

    # -- settings of the agent ---------------------------------------------------------------------

    def target_metadata(self) -> JsonMap:
        """Return the metadata for the agent: the section and its settings.

        The deployments are added when the metadata is requested.
        """
        return {"deployments": [], **self.metadata, "os-collect-config": self.collect_config()}

    def collect_config(self) -> dict[str, Json]:
        """Return the settings of os-collect-config.

        The collector `cfn` signs with the access key of the server. `heat` and `zaqar` need an account.
        """
        facts, account = self.facts, self.account
        login: JsonMap = {}
        if account is not None:
            login = {
                "auth_url": account.auth_url,
                "user_id": account.user_id,
                "password": account.password,
                "project_id": account.project_id,
            }
            login |= {} if account.region is None else {"region_name": account.region}
        match self._transport:
            case "POLL_SERVER_HEAT":
                stack = f"{facts.stack_name}/{facts.stack_id}"
                heat: JsonMap = {"project_id": facts.project, "stack_id": stack, "resource_name": facts.name, **login}
                return {"collectors": ["heat", "local"], "heat": heat}
            case "ZAQAR_MESSAGE":
                zaqar: JsonMap = {**login, "queue_id": self.data.get(METADATA_QUEUE)}
                return {"collectors": ["zaqar", "local"], "zaqar": zaqar}
            case "POLL_TEMP_URL":
                return {"collectors": ["request", "local"], "request": {"metadata_url": self.data.get(METADATA_URL)}}
        url = f"{facts.services.public_url.rstrip('/')}/v1/"
        cfn: JsonMap = {"metadata_url": url, "stack_name": facts.stack_name, "path": f"{facts.name}.Metadata"}
        if KEY in self.data:
            cfn |= {"access_key_id": self.access_key, "secret_access_key": self.secret_access_key}
        return {"collectors": ["cfn", "local"], "cfn": cfn}


# -- OS::Heat::DeployedServer ------------------------------------------------------------------------


class DeployedServerProps(TargetProps):
    name: str | None = prop(update=True, doc="The name of the server.")
    metadata: dict[str, Json] | None = prop(update=True, doc="Not used; use the metadata section instead.")


class DeployedServer(Target[DeployedServerProps], type="OS::Heat::DeployedServer"):
    """An existing server that this stack does not manage, as a target for deployments.

    An agent on it reads the metadata of this resource; `deployments` lists what to apply.
    """

    quick = True
    name_limit = 53
    snapshot_on_delete = True

    @property
    def is_quick(self) -> bool:
        return self._transport not in (POLL_TEMP_URL, ZAQAR) and not self.data.keys() & {METADATA_URL, METADATA_QUEUE}

    def handle_create(self) -> None:
        self.draw_key()
        self.open_metadata()
        self.publish()
        self.physical_id = new_id()

    def handle_update(self, change: Change) -> None:
        """Store a signing key if there is none, and write the metadata anew."""
        self.draw_key()
        self.open_metadata()
        self.publish()

    def handle_delete(self) -> None:
        self.close_metadata()

    def handle_suspend(self) -> None:
        """Do nothing: the stack does not manage the server."""

    def handle_resume(self) -> None:
        """Do nothing: the stack does not manage the server."""

    def live_metadata(self) -> JsonMap:
        return {**self.target_metadata(), **self.agent_metadata()}

    def attr_name(self) -> str:
        """The name of the server."""
        return self.props.name or self.physical_name

    def attr_os_collect_config(self) -> dict[str, Json]:
        """Configuration of os-collect-config, with credentials given a stack domain."""
        return self.collect_config()
