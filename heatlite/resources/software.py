"""Software configs and their deployments to servers."""

from collections.abc import Mapping, Sequence
from email import message_from_string
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import PurePath
from typing import Final, TypeVar, cast
from uuid import UUID, uuid5

import yaml

from heatlite.core.errors import (
    HeatliteError,
    InvalidTemplateAttribute,
    NotFound,
    StackValidationFailed,
    Unavailable,
    UserParameterMissing,
)
from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap, dump
from heatlite.plugin import (
    Change,
    ChildStack,
    Facts,
    NoActionNeeded,
    Resource,
    Schema,
    Signalled,
    SupportStatus,
    prop,
)
from heatlite.plugin.ports import PASSWORD_INPUT, SIGNAL_INPUT, UNGROUPED, SoftwareConfig, SoftwareDeployment
from heatlite.plugin.signing import NATIVE, Node
from heatlite.resources.groups import Group
from heatlite.resources.members import definitions_in, template_of
from heatlite.resources.wait_conditions import ABSENT, NO_SIGNAL
from heatlite.template.expression import UNKNOWN, select
from heatlite.template.types import NestedTemplate

KINDS = ("String", "Number", "CommaDelimitedList", "Json", "Boolean")
ACTIONS = ("CREATE", "UPDATE", "DELETE", "SUSPEND", "RESUME")
COMPONENT = "component"
"""The group of a config that has separate configs for different actions."""

SPACE: Final = UUID("6d3a3c4e-0f6b-4f5c-8a0e-6f1f6d0c7b51")


def own_id(facts: Facts) -> str:
    """Return the id of the object that a resource stores outside its row.

    It is derived from the resource, so that a retry after a crash uses the same id and creates nothing twice.
    """
    return str(uuid5(SPACE, f"{facts.project}/{facts.stack_id}/{facts.physical_name}"))


# -- base of the configs -----------------------------------------------------------------------------


class Item(Schema):
    name: str = prop(doc="The name.")
    description: str | None = prop(doc="Its description.")
    kind: str = prop("String", alias="type", one_of=KINDS, doc="The type of the value.")

    def described(self) -> JsonMap:
        """Return the item as the tool on the server reads it."""
        description: JsonMap = {} if self.description is None else {"description": self.description}
        return {"name": self.name, "type": self.kind, **description}


class Input(Item):
    default: Json = prop(None, doc="The value if a deployment gives none.")
    replace_on_change: bool = prop(False, doc="True if another value replaces the deployment.")

    def described(self) -> JsonMap:
        default: JsonMap = {} if self.default is None else {"default": self.default}
        return {**super().described(), "replace_on_change": self.replace_on_change, **default}


class Output(Item):
    error_output: bool = prop(False, doc="True if this output in a server's answer means failure.")

    def described(self) -> JsonMap:
        return {**super().described(), "error_output": self.error_output}


class InterfaceProps(Schema):
    inputs: list[Input] | None = prop(doc="The inputs that a deployment may set.")
    outputs: list[Output] | None = prop(
        doc="The outputs in the server's answer; each is an attribute of the deployment."
    )
    options: dict[str, Json] | None = prop(doc="Options for the tool.")


ConfigSchema = TypeVar("ConfigSchema", bound=Schema, covariant=True)


class Config(Resource[ConfigSchema]):
    """Base of the configs.

    A stored config is immutable, so a change creates another one.
    """

    def content(self) -> SoftwareConfig:
        """Return the config to be stored."""
        raise NotImplementedError

    def handle_create(self) -> None:
        config_id = own_id(self.facts)
        self.facts.services.software.put_config(self.facts.project, config_id, self.content())
        self.physical_id = config_id

    def handle_delete(self) -> None:
        if self.physical_id is not None:
            try:
                self.facts.services.software.delete_config(self.facts.project, self.physical_id)
            except NotFound:
                return  # a client has deleted it already

    def attr_config(self) -> str:
        """The configuration for the tool on the server."""
        assert self.physical_id is not None
        kept = self.facts.services.software.config(self.facts.project, self.physical_id)
        return cast(str, kept.config)  # some types have a map here, though Heat documents text for all

    def _with_interface(self, props: InterfaceProps, group: str, config: Json) -> SoftwareConfig:
        return SoftwareConfig(
            name=self.physical_name,
            group=group,
            config=config,
            inputs=[one.described() for one in props.inputs or ()],
            outputs=[one.described() for one in props.outputs or ()],
            options=props.options or {},
        )


# -- OS::Heat::SoftwareConfig and similar types ------------------------------------------------------


class SoftwareConfigProps(InterfaceProps):
    group: str = prop(UNGROUPED, doc="The tool that applies it: script, ansible, puppet and so on.")
    config: str | None = prop(doc="The content for the tool.")


class SoftwareConfigResource(Config[SoftwareConfigProps], type="OS::Heat::SoftwareConfig"):
    """A software config: a text for a configuration tool on the server.

    get_resource returns the id by which deployments refer to it.
    """

    support_status = SupportStatus(version="2014.1")

    def content(self) -> SoftwareConfig:
        return self._with_interface(self.props, self.props.group, self.props.config or "")


class StructuredConfigProps(InterfaceProps):
    group: str = prop(UNGROUPED, doc="The tool that applies it.")
    config: dict[str, Json] | None = prop(doc="The content for the tool; deployments insert the values of inputs.")


class StructuredConfig(Config[StructuredConfigProps], type="OS::Heat::StructuredConfig"):
    """A software config whose content is a map instead of a text."""

    support_status = SupportStatus(version="2014.1")

    def content(self) -> SoftwareConfig:
        return self._with_interface(self.props, self.props.group, self.props.config or {})


class ComponentConfig(Schema):
    actions: list[str] = prop(["CREATE", "UPDATE"], length=(1, None), doc="The actions that this config is for.")
    config: str | None = prop(doc="The content for the tool.")
    tool: str = prop(doc="The tool that applies it.")


class SoftwareComponentProps(InterfaceProps):
    configs: list[ComponentConfig] = prop(length=(1, None), doc="The configs, at most one for each action.")

    def fault(self) -> str | None:
        actions = [action for config in self.configs for action in config.actions]
        twice = sorted({action for action in actions if actions.count(action) > 1})
        return f"More than one of the configs is for {', '.join(twice)}" if twice else None


class SoftwareComponent(Config[SoftwareComponentProps], type="OS::Heat::SoftwareComponent"):
    """Several configs for one piece of software: one to install it, one to update it and so on."""

    support_status = SupportStatus(version="2014.2")

    def content(self) -> SoftwareConfig:
        configs: list[Json] = [
            {"actions": config.actions, "config": config.config, "tool": config.tool} for config in self.props.configs
        ]
        return self._with_interface(self.props, COMPONENT, {"configs": configs})


# -- configs for cloud-init --------------------------------------------------------------------------


class CloudConfigProps(Schema):
    cloud_config: dict[str, Json] | None = prop(doc="The configuration for cloud-init.")


class CloudConfig(Config[CloudConfigProps], type="OS::Heat::CloudConfig"):
    """Instructions for cloud-init at the first boot of a server."""

    support_status = SupportStatus(version="2014.1")

    def content(self) -> SoftwareConfig:
        text = yaml.safe_dump(self.props.cloud_config or {}, allow_unicode=True)
        return SoftwareConfig(self.physical_name, UNGROUPED, f"#cloud-config\n{text}")


class Part(Schema):
    config: str = prop(doc="A text, or the id of a config.")
    filename: str | None = prop(doc="The file name of the part.")
    subtype: str | None = prop(doc="The subtype of the text; default: the filename without its extension.")
    kind: str = prop(
        "text", alias="type", one_of=("text", "multipart"), doc="multipart: the part has parts of its own."
    )


class MultipartMimeProps(Schema):
    group: str = prop(UNGROUPED, doc="The tool that applies it.")
    parts: list[Part] = prop([], doc="The parts in their order.")


class MultipartMime(Config[MultipartMimeProps], type="OS::Heat::MultipartMime"):
    """Several configs in one multipart text, for the user_data of a server."""

    support_status = SupportStatus(version="2014.1")

    def content(self) -> SoftwareConfig:
        parts = [one for part in self.props.parts for one in messages(part, self._text(part.config))]
        text = MIMEMultipart(_subparts=parts).as_string()
        return SoftwareConfig(self.physical_name, self.props.group, text)

    def _text(self, text_or_id: str) -> str:
        try:
            config = self.facts.services.software.config(self.facts.project, text_or_id).config
        except NotFound:
            return text_or_id
        return config if isinstance(config, str) else dump(config)


def messages(part: Part, text: str) -> Sequence[Message]:
    """Return the messages of a part: the part itself, or the parts of a multipart text.

    Nothing, if the type is multipart and the text is not.
    """
    if part.kind == "multipart":
        message = message_from_string(text)
        return cast(Sequence[Message], message.get_payload()) if message.is_multipart() else ()
    subtype = part.subtype or (PurePath(part.filename).stem if part.filename else "plain")
    made = MIMEText(text, subtype, "us-ascii" if text.isascii() else "utf-8")
    if part.filename:
        made.add_header("Content-Disposition", "attachment", filename=part.filename)
    return (made,)


# -- deployments -------------------------------------------------------------------------------------


class DeploymentFailed(HeatliteError):
    """The server, or a client in its place, has signalled a failure."""

    text = "The deployment to the server failed: {reason}"


class CommonProps(Schema):
    config: str | None = prop(update=True, doc="The id of the config.")
    input_values: dict[str, Json] | None = prop(
        update=True, doc="Values for the config's inputs and for additional ones."
    )
    actions: list[Json] = prop(
        ["CREATE", "UPDATE"],
        one_of=ACTIONS,
        update=True,
        doc="The actions on which to deploy. A config of OS::Heat::SoftwareComponent has its own.",
    )
    name: str | None = prop(
        update=True,
        doc="The name of the deployed config. The configs of a server are applied in the order of their names.",
    )
    signal_transport: str = prop(
        "CFN_SIGNAL",
        one_of=("CFN_SIGNAL", "TEMP_URL_SIGNAL", "HEAT_SIGNAL", NO_SIGNAL, "ZAQAR_SIGNAL"),
        doc="Transport of the server's answer: a pre-signed URL in the format of CloudFormation or heatlite, or none. "
        "HEAT_SIGNAL: with an account in the stack domain, if the installation has one.",
    )

    def fault(self) -> str | None:
        return absent(self.signal_transport)


def absent(transport: str) -> str | None:
    """Return the reason why a transport cannot be used, or None."""
    missing = ABSENT.get(transport)
    return f"{transport} needs {missing}, which this installation does not have" if missing else None


class StructuredProps(CommonProps):
    input_key: str = prop("get_input", doc="The key of a map that is replaced by the value of an input.")
    input_values_validate: str = prop(
        "LAX", one_of=("LAX", "STRICT"), doc="An input without a value is null (LAX) or an error (STRICT)."
    )


class SoftwareDeploymentProps(CommonProps):
    server: str = prop(doc="The id of the server.")


class StructuredDeploymentProps(StructuredProps):
    server: str = prop(doc="The id of the server.")


DeploymentSchema = TypeVar(
    "DeploymentSchema", bound=SoftwareDeploymentProps | StructuredDeploymentProps, covariant=True
)
OUTPUTS = ("deploy_stdout", "deploy_stderr", "deploy_status_code")
"""Outputs that every server sends."""
MOST_TOLD = 1000
"""Maximum characters of an output in the reason of a failure; the outputs have all of it."""


class Deployment(Signalled[DeploymentSchema]):
    """Base of the deployments.

    A handler only draws the id of the server's config. The check deploys that config once the row has the id. So a
    crash never causes a second deployment, and no answer arrives before it can be matched.
    """

    any_attribute = True
    longest_signal = 1024 * 1024
    """Maximum size of a signal, in bytes. Equals Heat's `max_json_body_size`."""
    no_signal_during = frozenset()

    # -- the config for the server -----------------------------------------------------------------

    def _source(self, config_id: Json) -> SoftwareConfig:
        """Return the config of a deployment; an empty one if it names none."""
        if not isinstance(config_id, str):
            return SoftwareConfig("", UNGROUPED, "")
        return self.facts.services.software.config(self.facts.project, config_id)

    def _is_for(self, action: str, source: SoftwareConfig) -> bool:
        if source.group != COMPONENT or not isinstance(source.config, Mapping):
            return action in self.props.actions
        configs = source.config.get("configs")
        parts = configs if isinstance(configs, list) else []
        return any(isinstance(part, Mapping) and action in cast(list[Json], part.get("actions")) for part in parts)

    def derived(self, action: str) -> SoftwareConfig:
        """Return the config for the server, with the values of the inputs and the inputs that the tool needs."""
        source = self._source(self.props.config)
        inputs = valued(source.inputs, self.props.input_values or {})
        for name, description, value in self._about(action):
            inputs.append({"name": name, "type": "String", "description": description, "value": value})
        return SoftwareConfig(
            name=self.props.name or self.physical_name,
            group=source.group,
            config=self.filled(source.config, {str(one["name"]): one["value"] for one in inputs}),
            inputs=inputs,
            outputs=source.outputs,
            options=source.options,
        )

    def filled(self, config: Json, values: Mapping[str, Json]) -> Json:
        """Return the content for the tool; some types insert the values of the inputs."""
        return config

    def _about(self, action: str) -> list[tuple[str, str, Json]]:
        facts, transport = self.facts, self.props.signal_transport
        about: list[tuple[str, str, Json]] = [
            ("deploy_server_id", "The server that gets this", self.props.server),
            ("deploy_action", "What the stack does", action),
            ("deploy_stack_id", "The stack, by name and id", f"{facts.stack_name}/{facts.stack_id}"),
            ("deploy_resource_name", "The resource of the stack that deploys this", facts.name),
            ("deploy_signal_transport", "How the server answers", transport),
        ]
        account = self.account
        if account is not None:
            about.append(("deploy_auth_url", "Where Keystone is", account.auth_url))
            about.append(("deploy_username", "The user who signals", account.username))
            about.append(("deploy_user_id", "The user's id", account.user_id))
            about.append((PASSWORD_INPUT, "The user's password", account.password))
            about.append(("deploy_project_id", "The project that the user is in", account.project_id))
            about.append(("deploy_domain_name", "The domain that the user is in", account.domain))
            about.append(("deploy_region_name", "The region of the API", account.region))
        elif transport != NO_SIGNAL:
            url = self.signed_url("signal" if transport == "CFN_SIGNAL" else NATIVE)
            about.append((SIGNAL_INPUT, "Where the server answers", url))
            about.append(("deploy_signal_verb", "The HTTP method of the answer", "POST"))
        return about

    def wants_account(self) -> bool:
        return self.facts.properties.get("signal_transport") == "HEAT_SIGNAL"

    # -- handlers ----------------------------------------------------------------------------------

    def _begin(self, action: str) -> Json:
        """Return the token: the id of the config for the server.

        None if there is none for the action.
        """
        if not self._is_for(action, self._source(self.props.config)):
            return None
        self.draw_key()
        self.physical_id = own_id(self.facts)
        return new_id()

    def _deployment(self) -> SoftwareDeployment | None:
        if self.physical_id is None:
            return None
        try:
            return self.facts.services.software.deployment(self.facts.project, self.physical_id)
        except NotFound:
            return None

    def _ended(self, action: str, token: Json) -> bool:
        """True if the server has answered the deployment, or none is needed."""
        if not isinstance(token, str) or self.physical_id is None:
            return True
        try:
            return self._answered(action, self.physical_id, token)
        except Unavailable:
            return False

    def _answered(self, action: str, deployment_id: str, token: str) -> bool:
        found = self._deployment()
        if found is None or found.config_id != token:
            awaited = self.props.signal_transport != NO_SIGNAL
            software, project = self.facts.services.software, self.facts.project
            software.deploy(project, deployment_id, self.props.server, action, token, self.derived(action), awaited)
            return not awaited
        if found.status == "FAILED":
            raise DeploymentFailed(reason=found.status_reason)
        return found.status == "COMPLETE"

    def handle_create(self) -> Json:
        if self._server_wants() not in (None, "SOFTWARE_CONFIG"):
            raise StackValidationFailed(
                f"The server {self.props.server} is no target for deployments: its user_data_format has to be"
                " SOFTWARE_CONFIG."
            )
        return self._begin("CREATE")

    def _server_wants(self) -> Json:
        """Return the `user_data_format` of a server in the same stack.

        Null if there is no such server.
        """
        server = self.facts.sibling(self.props.server)
        if server is None:
            return None
        field = server.schema.fields.get("user_data_format")
        return server.facts.properties.get("user_data_format", field.default if field else None)

    def check_create_complete(self, token: Json) -> bool:
        return self._ended("CREATE", token)

    def handle_update(self, change: Change) -> Json:
        return self._begin("UPDATE") if change.changed else None

    def check_update_complete(self, token: Json) -> bool:
        return self._ended("UPDATE", token)

    def handle_suspend(self) -> Json:
        return self._begin("SUSPEND")

    def check_suspend_complete(self, token: Json) -> bool:
        return self._ended("SUSPEND", token)

    def handle_resume(self) -> Json:
        return self._begin("RESUME")

    def check_resume_complete(self, token: Json) -> bool:
        return self._ended("RESUME", token)

    def handle_delete(self) -> Json:
        """Deploy the config for this action if the server still exists.

        A deleted server would never answer.
        """
        if self._deployment() is not None and self._has_server():
            try:
                return self._begin("DELETE")
            except NotFound:
                pass  # without the config, nothing can be deployed for this action
        return None

    def check_delete_complete(self, token: Json) -> bool:
        if self._deployment() is not None and self._has_server() and not self._ended("DELETE", token):
            return False
        self.facts.services.software.withdraw(self.facts.project, own_id(self.facts))
        return True

    def _has_server(self) -> bool:
        return self.facts.services.software.has_server(self.facts.project, self.props.server)

    def handle_cancel(self) -> None:
        if self._deployment() is not None:
            self._finish(failed=True, reason="Deployment cancelled.", outputs={})

    def _finish(self, failed: bool, reason: str, outputs: Mapping[str, Json]) -> bool:
        return self.facts.services.software.finish(
            self.facts.project, own_id(self.facts), failed=failed, reason=reason, outputs=outputs
        )

    def handle_signal(self, details: JsonMap | None) -> str:
        found = self._deployment()
        if found is None:
            raise NoActionNeeded
        given = details or {}
        declared = self.facts.services.software.config(self.facts.project, found.config_id).outputs
        outputs, problems = answered(declared, given)
        reason = ", ".join(problems) if problems else "The server has answered"
        if not self._finish(bool(problems), reason, outputs):
            raise NoActionNeeded
        return f"deployment {self.physical_id} {'failed' if problems else 'succeeded'}"

    # -- deciding ----------------------------------------------------------------------------------

    def needs_replace(self, change: Change) -> bool:
        """True if an input with replace_on_change has another value."""
        if not change.changed & {"config", "input_values"}:
            return False
        known = (change.before, change.after)
        if any(values.get(name) is UNKNOWN for values in known for name in ("config", "input_values")):
            return False
        (_, before), (schema, after) = map(self._inputs, known)
        return any(
            bool(one.get("replace_on_change")) and before[name] != after[name]
            for name, one in schema.items()
            if name in before
        )

    def _inputs(self, values: Mapping[str, object]) -> tuple[dict[str, JsonMap], dict[str, Json]]:
        """Return the inputs that a config declares and their values, both by name."""
        try:
            declared = self._source(cast(Json, values.get("config"))).inputs
        except NotFound:
            declared = ()
        given = cast(JsonMap, values.get("input_values") or {})
        names = [str(one["name"]) for one in declared]
        valued_ = valued(declared, given)
        return dict(zip(names, declared, strict=True)), {str(one["name"]): one["value"] for one in valued_}

    # -- attributes --------------------------------------------------------------------------------

    def attribute(self, name: str) -> Json:
        """Return an output of the config, or one that every server sends.

        Null before the server's answer.
        """
        found = self._deployment()
        if found is not None and name in found.output_values:
            return found.output_values[name]
        if name not in self.attribute_names and not any(one["name"] == name for one in self._declared()):
            raise InvalidTemplateAttribute(resource=self.name, key=name)
        return None

    def _declared(self) -> Sequence[JsonMap]:
        try:
            return self._source(self.props.config).outputs
        except NotFound:
            return ()

    def attr_deploy_stdout(self) -> str | None:
        """The standard output of the tool."""
        return cast(str | None, self.attribute("deploy_stdout"))

    def attr_deploy_stderr(self) -> str | None:
        """The standard error output of the tool."""
        return cast(str | None, self.attribute("deploy_stderr"))

    def attr_deploy_status_code(self) -> str | None:
        """The exit status of the tool."""
        return cast(str | None, self.attribute("deploy_status_code"))


def valued(declared: Sequence[JsonMap], given: Mapping[str, Json]) -> list[JsonMap]:
    """Return the inputs with their values: declared ones first, then those that only the deployment has."""
    names = {one["name"] for one in declared}
    inputs: list[JsonMap] = [{**one, "value": given.get(str(one["name"]), one.get("default"))} for one in declared]
    return inputs + [{"name": name, "type": "String", "value": given[name]} for name in given if name not in names]


def answered(declared: Sequence[JsonMap], details: JsonMap) -> tuple[JsonMap, list[str]]:
    """Return the outputs in a signal, and the problems that make it a failure."""
    problems = []
    code = details.get("deploy_status_code")
    if code not in (None, "", 0, "0"):
        problems.append(f"deploy_status_code : The exit status was {code}"[:MOST_TOLD])
    outputs: JsonMap = {name: details.get(name) for name in OUTPUTS}
    for one in declared:
        name = str(one["name"])
        if name in details:
            outputs[name] = details[name]
            if one.get("error_output"):
                problems.append(f"{name} : {details[name]}"[:MOST_TOLD])
    return outputs, problems


class SoftwareDeploymentResource(Deployment[SoftwareDeploymentProps], type="OS::Heat::SoftwareDeployment"):
    """Deploys a config to a server and waits for the server's answer.

    Each output of the config is an attribute.
    """

    support_status = SupportStatus(version="2014.1")


class StructuredDeployment(Deployment[StructuredDeploymentProps], type="OS::Heat::StructuredDeployment"):
    """Deploys an OS::Heat::StructuredConfig to a server and waits for the server's answer.

    ``{get_input: name}`` in the config is replaced by the value of that input. Each output of the config is an
    attribute.
    """

    support_status = SupportStatus(version="2014.1")

    def filled(self, config: Json, values: Mapping[str, Json]) -> Json:
        if isinstance(config, Mapping):
            name = config.get(self.props.input_key)
            if len(config) == 1 and isinstance(name, str):
                if name not in values and self.props.input_values_validate == "STRICT":
                    raise UserParameterMissing(key=name)
                return values.get(name)
            return {key: self.filled(value, values) for key, value in config.items()}
        if isinstance(config, list):
            return [self.filled(value, values) for value in config]
        return config


# -- groups of deployments ---------------------------------------------------------------------------


class Batches(Schema):
    max_batch_size: int = prop(1, between=(1, None), doc="Maximum number of servers at once.")
    pause_time: float = prop(0, between=(0, None), doc="Seconds between the batches.")


class GroupPolicy(Schema):
    batch_create: Batches | None = prop(doc="Batches in which the deployments are created; default: all at once.")
    rolling_update: Batches | None = prop(doc="Batches in which the deployments are changed; default: all at once.")


class SoftwareGroupProps(CommonProps):
    servers: dict[str, Json] = prop(update=True, doc="The ids of the servers, by unique names.")


class StructuredGroupProps(StructuredProps):
    servers: dict[str, Json] = prop(update=True, doc="The ids of the servers, by unique names.")


GroupSchema = TypeVar("GroupSchema", bound=SoftwareGroupProps | StructuredGroupProps, covariant=True)


class DeploymentGroup(Group[GroupSchema]):
    """Base of the groups: a nested stack with one deployment per server, named as in the map."""

    any_attribute = True
    update_policy = GroupPolicy
    member_type = "OS::Heat::SoftwareDeployment"

    @classmethod
    def nested_template(cls, given: Mapping[str, object]) -> NestedTemplate | None:
        coerced, faults = cls.schema.examine(given)
        members = None if faults else cls._members(coerced)
        return NestedTemplate(template_of(members), origin=("servers",)) if members else None

    @classmethod
    def _members(cls, given: Mapping[str, object]) -> dict[str, Json] | None:
        """Return the deployments by name; None while the servers are unknown."""
        servers = given.get("servers")
        if not isinstance(servers, Mapping):
            return None
        common = {name: value for name, value in given.items() if name != "servers" and value is not None}
        return {
            name: {"type": cls.member_type, "properties": cast(JsonMap, {**common, "server": server})}
            for name, server in servers.items()
        }

    def goal(self) -> ChildStack:
        members = self._members(self.facts.properties)
        if members is None:
            return ChildStack(template_of(self.definitions))
        self.limited(len(members))
        return ChildStack(template_of(members))

    def child(self, number: int) -> ChildStack | None:
        batches, goal = self._batches(), self.goal()
        members = definitions_in(goal.template)
        if not members or batches is None:
            return goal if number == 0 else None
        names, most, pause = list(members), batches.max_batch_size, batches.pause_time
        turns = [names[: start + most] for start in range(0, len(names), most)]
        if number == 0:
            self.fitting(turns, pause)
        if number >= len(turns):
            return None
        present = self.definitions
        now = {name: members[name] if name in turns[number] else present.get(name) for name in names}
        made = {name: member for name, member in now.items() if member is not None}
        return ChildStack(template_of(made), pause=pause if number else 0.0)

    def _batches(self) -> Batches | None:
        policy = GroupPolicy(GroupPolicy.coerce(self.facts.update_policy))
        return policy.batch_create if self.facts.before is None else policy.rolling_update

    def attribute_at(self, name: str, path: Sequence[object]) -> Json:
        """Return an attribute; any output of the config is one, too."""
        if name in self.attribute_names:
            return super().attribute_at(name, path)
        return cast(Json, select(self._answers(name), path, None))

    def _answers(self, name: str) -> dict[str, Json]:
        """Return an attribute of each deployment, by the names of the servers."""
        members = () if self.nested is None else self.nested.members
        return {member.name: member.attribute(name) for member in members}

    def attr_deploy_stdouts(self) -> dict[str, Json]:
        """The standard output of the tool on each server."""
        return self._answers("deploy_stdout")

    def attr_deploy_stderrs(self) -> dict[str, Json]:
        """The standard error output of the tool on each server."""
        return self._answers("deploy_stderr")

    def attr_deploy_status_codes(self) -> dict[str, Json]:
        """The exit status of the tool on each server."""
        return self._answers("deploy_status_code")


class SoftwareDeploymentGroup(DeploymentGroup[SoftwareGroupProps], type="OS::Heat::SoftwareDeploymentGroup"):
    """Deploys a config to several servers.

    Each output of the config is an attribute: a map of the servers' answers.
    """

    support_status = SupportStatus(version="5.0.0")


class StructuredDeploymentGroup(DeploymentGroup[StructuredGroupProps], type="OS::Heat::StructuredDeploymentGroup"):
    """Deploys an OS::Heat::StructuredConfig to several servers.

    Each output of the config is an attribute: a map of the servers' answers.
    """

    member_type = "OS::Heat::StructuredDeployment"
    support_status = SupportStatus(version="5.0.0")


def _replaced_by(name: str) -> SupportStatus:
    return SupportStatus("HIDDEN", "7.0.0", f"{name} has taken its place.", SupportStatus("DEPRECATED", "2014.2"))


class SoftwareDeployments(SoftwareDeploymentGroup, type="OS::Heat::SoftwareDeployments"):
    """The old name of OS::Heat::SoftwareDeploymentGroup."""

    support_status = _replaced_by("OS::Heat::SoftwareDeploymentGroup")


class StructuredDeployments(StructuredDeploymentGroup, type="OS::Heat::StructuredDeployments"):
    """The old name of OS::Heat::StructuredDeploymentGroup."""

    support_status = _replaced_by("OS::Heat::StructuredDeploymentGroup")


# -- targets of deployments --------------------------------------------------------------------------


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
    """True if the agent on a server polls the API for metadata with a Keystone account."""
    return facts.properties.get("software_config_transport") == "POLL_SERVER_HEAT"


def target_metadata(server: Resource[TargetProps]) -> JsonMap:
    """Return the metadata for the agent on a server: the metadata section and the agent's configuration.

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
        """The configuration of the agent os-collect-config, with credentials if there is a stack domain."""
        return collect_config(self)
