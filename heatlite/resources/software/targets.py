"""Targets of deployments: servers whose agent reads its metadata here."""

from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import (
    Change,
    Facts,
    Resource,
    Schema,
    prop,
)
from heatlite.plugin.signing import Node
from heatlite.resources.wait_conditions import ABSENT


class SwiftData(Schema):
    container: str | None = prop(length=(1, None), doc="The container.")
    obj: str | None = prop(alias="object", length=(1, None), doc="The object.")


class TargetProps(Schema):
    software_config_transport: str = prop(
        "POLL_SERVER_CFN",
        one_of=("POLL_SERVER_CFN", "POLL_SERVER_HEAT", "POLL_TEMP_URL", "ZAQAR_MESSAGE"),
        update=True,
        api="",
        doc="The transport by which the agent on the server gets its deployments.",
    )
    deployment_swift_data: SwiftData = prop({}, update=True, api="", doc="Not used: it is for POLL_TEMP_URL.")

    def fault(self) -> str | None:
        services = {"POLL_TEMP_URL": "TEMP_URL_SIGNAL", "ZAQAR_MESSAGE": "ZAQAR_SIGNAL"}
        missing = ABSENT.get(services.get(self.software_config_transport, ""))
        transport = self.software_config_transport
        return f"{transport} needs {missing}, which this installation does not have" if missing else None


def polls_heat(facts: Facts) -> bool:
    """True if a server's agent polls the API for metadata with a Keystone account."""
    return facts.properties.get("software_config_transport") == "POLL_SERVER_HEAT"


def target_metadata(server: Resource[TargetProps]) -> JsonMap:
    """Return the metadata for a server's agent: the section and its configuration.

    The deployments are added when the metadata is requested.
    """
    return {"deployments": [], **server.metadata, "os-collect-config": collect_config(server)}


def collect_config(server: Resource[TargetProps]) -> dict[str, Json]:
    """Return the configuration of the agent os-collect-config.

    Without an account it has no credentials.
    """
    facts = server.facts
    if polls_heat(facts):
        stack, account = f"{facts.stack_name}/{facts.stack_id}", server.account
        heat: JsonMap = {"project_id": facts.project, "stack_id": stack, "resource_name": facts.name}
        if account is not None:
            heat |= {
                "auth_url": account.auth_url,
                "user_id": account.user_id,
                "password": account.password,
                "project_id": account.project_id,
            }
            heat |= {} if account.region is None else {"region_name": account.region}
        return {"collectors": ["heat", "local"], "heat": heat}
    url = f"{facts.services.public_url.rstrip('/')}/v1/"
    cfn: JsonMap = {"metadata_url": url, "stack_name": facts.stack_name, "path": f"{facts.name}.Metadata"}
    return {"collectors": ["cfn", "local"], "cfn": cfn}


# -- OS::Heat::DeployedServer ------------------------------------------------------------------------


class DeployedServerProps(TargetProps):
    name: str | None = prop(update=True, doc="The name of the server.")
    metadata: dict[str, Json] | None = prop(update=True, doc="Not used; use the metadata section instead.")


class DeployedServer(Node[DeployedServerProps], type="OS::Heat::DeployedServer"):
    """An existing server that this stack does not manage, as a target for deployments.

    An agent on it reads the metadata of this resource; `deployments` lists what to apply.
    """

    quick = True
    name_limit = 53
    snapshot_on_delete = True

    def wants_account(self) -> bool:
        return polls_heat(self.facts)

    def handle_create(self) -> None:
        self.draw_key()
        self.physical_id = new_id()

    def handle_update(self, change: Change) -> None:
        """Store a signing key if there is none; all else is read on request."""
        self.draw_key()

    def handle_suspend(self) -> None:
        """Do nothing: the stack does not manage the server."""

    def handle_resume(self) -> None:
        """Do nothing: the stack does not manage the server."""

    def live_metadata(self) -> JsonMap:
        return {**target_metadata(self), **self.agent_metadata()}

    def attr_name(self) -> str:
        """The name of the server."""
        return self.props.name or self.physical_name

    def attr_os_collect_config(self) -> dict[str, Json]:
        """Configuration of os-collect-config, with credentials given a stack domain."""
        return collect_config(self)
