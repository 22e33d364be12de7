"""Deployments of software configs to a server."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeVar, cast

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.errors import (
    HeatliteError,
    InvalidTemplateAttribute,
    NotFound,
    StackValidationFailed,
    Unavailable,
    UserParameterMissing,
)
from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.plugin import (
    Change,
    NoActionNeeded,
    Schema,
    Signalled,
    SupportStatus,
    prop,
)
from heatlite.plugin.ports import PASSWORD_INPUT, SIGNAL_INPUT, UNGROUPED, SoftwareConfig, SoftwareDeployment
from heatlite.plugin.signing import NATIVE, Node
from heatlite.resources.heat.signals.queues import AnswerQueue
from heatlite.resources.heat.signals.temp_urls import AGAIN, AnswerBox
from heatlite.resources.heat.signals.transports import NO_SIGNAL, TEMP_URL, WITH_ACCOUNT, ZAQAR
from heatlite.resources.heat.software.configs import COMPONENT, own_id
from heatlite.template.expression import UNKNOWN

ACTIONS = ("CREATE", "UPDATE", "DELETE", "SUSPEND", "RESUME")

ANSWER_PLACE = "answer_url"
"""Key of the data for the place of the server's answer: temporary URL of an object, or name of a queue."""
PUBLISHED = "published"
"""Key of the data for the config that was written into the metadata of the server."""
LOOK_AGAIN = 30.0
"""Seconds until a deployment is read again if no message about its end arrives."""


class DeploymentFailed(HeatliteError):
    """The server, or a client in its place, has signalled a failure."""

    text = "Deployment to server failed: {reason}"


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
        one_of=("CFN_SIGNAL", TEMP_URL, "HEAT_SIGNAL", NO_SIGNAL, ZAQAR),
        doc="Transport of the server's answer: a pre-signed URL in the format of CloudFormation or heatlite, the "
        "temporary URL of an object in the object store, a queue of Zaqar, or none. "
        "HEAT_SIGNAL: with an account in the stack domain, if the installation has one. ZAQAR_SIGNAL needs one.",
    )


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
DEPLOYMENT = "deployment"
"""Key of a recorded deployment's `resource_data`: the deployment as GET /software_deployments shows it."""
MAX_REPORTED = 1000
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
        """Return the config for the server, with input values and the tool's inputs."""
        source = self._source(self.props.config)
        inputs = valued(source.inputs, self.props.input_values or {})
        for name, description, value in self._about(action):
            inputs.append({"name": name, "type": "String", "description": description, "value": value})
        return SoftwareConfig(
            name=self.props.name or source.name or self.physical_name,
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
            if transport == ZAQAR:
                about.append(("deploy_queue_id", "The queue for the answer", self.data.get(ANSWER_PLACE)))
        elif transport == TEMP_URL:
            about.append((SIGNAL_INPUT, "Where the server answers", self.data.get(ANSWER_PLACE)))
            about.append(("deploy_signal_verb", "The HTTP method of the answer", "PUT"))
        elif transport != NO_SIGNAL:
            url = self.signed_url("signal" if transport == "CFN_SIGNAL" else NATIVE)
            about.append((SIGNAL_INPUT, "Where the server answers", url))
            about.append(("deploy_signal_verb", "The HTTP method of the answer", "POST"))
        return about

    def wants_account(self) -> bool:
        return self.facts.properties.get("signal_transport") in WITH_ACCOUNT

    def secrets(self) -> list[Json]:
        return [*super().secrets(), self.data.get(ANSWER_PLACE)]

    # -- handlers ----------------------------------------------------------------------------------

    def _begin(self, action: str) -> Json:
        """Return the token: the id of the config for the server.

        None if there is none for the action.
        """
        if not self._is_for(action, self._source(self.props.config)):
            return None
        self.draw_key()
        self.physical_id = self.physical_id or own_id(self.facts)  # an adopted one has an id of its own
        return new_id()

    def _deployment(self) -> SoftwareDeployment | None:
        if self.physical_id is None:
            return None
        try:
            return self.facts.services.software.deployment(self.facts.project, self.physical_id)
        except NotFound:
            return None

    def _ended(self, action: str, token: Json) -> bool | float:
        """True if the server has answered the deployment, or none is needed."""
        if not isinstance(token, str) or self.physical_id is None:
            return True
        try:
            return self._answered(action, self.physical_id, token)
        except Unavailable:
            return False

    def _place(self) -> AnswerBox | AnswerQueue | None:
        """Return the place that has to be polled for answers; None: the server signals."""
        match self.props.signal_transport:
            case "TEMP_URL_SIGNAL":
                return AnswerBox(self.facts, self.secret_access_key)
            case "ZAQAR_SIGNAL":
                return AnswerQueue(self, ZAQAR, self.data.get(ANSWER_PLACE))
        return None

    def _publish(self) -> None:
        """Write the new metadata of the server, unless its agent asks the API."""
        for server in self.facts.holders(self.props.server):
            if isinstance(server, Node):
                server.publish()

    def _answered(self, action: str, deployment_id: str, token: str) -> bool | float:
        found, place = self._deployment(), self._place()
        if found is None or found.config_id != token:
            if place is not None:
                self.data[ANSWER_PLACE] = place.open(token)
            awaited = self.props.signal_transport != NO_SIGNAL
            self.facts.services.software.deploy(
                self.facts.project,
                deployment_id,
                self.props.server,
                action,
                token,
                self.derived(action),
                self.props.input_values or {},
                awaited,
            )
            self._publish()
            self.data[PUBLISHED] = token
            return not awaited
        if self.data.get(PUBLISHED) != token:  # an earlier check was interrupted
            self._publish()
            self.data[PUBLISHED] = token
        if place is not None and found.status == "IN_PROGRESS":
            answer = place.answer(token)
            if answer is None:
                return AGAIN
            with suppress(NoActionNeeded):  # an answer by another way was first
                self.handle_signal(answer)
            found = self._deployment() or found
        if found.status == "FAILED":
            raise DeploymentFailed(reason=found.status_reason)
        return found.status == "COMPLETE" or LOOK_AGAIN

    def awaited_address(self) -> str | None:
        """Return the address of the message that the end of the deployment stores."""
        return None if self._place() is not None else self.physical_id

    def handle_create(self) -> Json:
        if self._server_wants() not in (None, "SOFTWARE_CONFIG"):
            raise StackValidationFailed(
                f"The server {self.props.server} is no target for deployments: its user_data_format must be"
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

    def handle_adopt(self) -> None:
        """Store the recorded deployment with its id, unless it is there.

        It has the answer of the server.
        """
        super().handle_adopt()
        recorded, found = self.data.get(DEPLOYMENT), self._deployment()
        if isinstance(recorded, dict) and (found is None or found.status == "IN_PROGRESS"):
            self._adopt(recorded)
        self.data.pop(DEPLOYMENT, None)  # a repetition after a failure needs it

    def _adopt(self, recorded: JsonMap) -> None:
        assert self.physical_id is not None
        software, project, action = self.facts.services.software, self.facts.project, str(recorded.get("action"))
        config_id, derived, values = str(recorded.get("config_id")), self.derived(action), self.props.input_values or {}
        software.deploy(project, self.physical_id, self.props.server, action, config_id, derived, values, awaited=True)
        outputs, reason = as_map(recorded.get("output_values")), str(recorded.get("status_reason") or "")
        self._finish(recorded.get("status") == "FAILED", reason, outputs)

    def exported(self) -> JsonMap:
        found = self._deployment()
        if found is None or found.status == "IN_PROGRESS":
            return {}
        outputs = dict(found.output_values)
        about: JsonMap = {"action": found.action, "status": found.status, "status_reason": found.status_reason}
        return {DEPLOYMENT: {**about, "config_id": found.config_id, "output_values": outputs}}

    def check_create_complete(self, token: Json) -> bool | float:
        return self._ended("CREATE", token)

    def handle_update(self, change: Change) -> Json:
        return self._begin("UPDATE") if change.changed else None

    def check_update_complete(self, token: Json) -> bool | float:
        return self._ended("UPDATE", token)

    def handle_suspend(self) -> Json:
        return self._begin("SUSPEND")

    def check_suspend_complete(self, token: Json) -> bool | float:
        return self._ended("SUSPEND", token)

    def handle_resume(self) -> Json:
        return self._begin("RESUME")

    def check_resume_complete(self, token: Json) -> bool | float:
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

    def check_delete_complete(self, token: Json) -> bool | float:
        if self._deployment() is not None and self._has_server():
            ended = self._ended("DELETE", token)
            if ended is not True:
                return ended
        place = self._place() if ANSWER_PLACE in self.data else None
        if place is not None and not place.remove():
            return AGAIN
        self.facts.services.software.withdraw(self.facts.project, self.physical_id or own_id(self.facts))
        with suppress(CloudNotFound):  # the server may be on its way out
            self._publish()
        return True

    def _has_server(self) -> bool:
        return self.facts.services.software.has_server(self.facts.project, self.props.server)

    def handle_cancel(self) -> None:
        if self._deployment() is not None:
            self._finish(failed=True, reason="Deployment cancelled.", outputs={})

    def _finish(self, failed: bool, reason: str, outputs: Mapping[str, Json]) -> bool:
        return self.facts.services.software.finish(
            self.facts.project, self.physical_id or own_id(self.facts), failed=failed, reason=reason, outputs=outputs
        )

    def simple_signal(self, success: bool, identifier: str) -> JsonMap | None:
        return {"deploy_status_code": 0 if success else 1}

    def handle_signal(self, details: JsonMap | None) -> str:
        found = self._deployment()
        if found is None:
            raise NoActionNeeded(detail="the deployment is gone.")
        given = details or {}
        declared = self.facts.services.software.config(self.facts.project, found.config_id).outputs
        outputs, problems = answered(declared, given)
        reason = ", ".join(problems) if problems else "Outputs received"
        if not self._finish(bool(problems), reason, outputs):
            raise NoActionNeeded(detail="the deployment has ended already.")
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
    """Return the inputs with values: declared ones first, then the deployment's own."""
    names = {one["name"] for one in declared}
    inputs: list[JsonMap] = [{**one, "value": given.get(str(one["name"]), one.get("default"))} for one in declared]
    return inputs + [{"name": name, "type": "String", "value": given[name]} for name in given if name not in names]


def answered(declared: Sequence[JsonMap], details: JsonMap) -> tuple[JsonMap, list[str]]:
    """Return the outputs in a signal, and the problems that make it a failure."""
    problems = []
    code = details.get("deploy_status_code")
    if code not in (None, "", 0, "0"):
        problems.append(f"deploy_status_code : Deployment exited with non-zero status code: {code}"[:MAX_REPORTED])
    outputs: JsonMap = {name: details.get(name) for name in OUTPUTS}
    for one in declared:
        name = str(one["name"])
        if name in details:
            outputs[name] = details[name]
            if one.get("error_output"):
                problems.append(f"{name} : {details[name]}"[:MAX_REPORTED])
    return outputs, problems


class SoftwareDeploymentResource(Deployment[SoftwareDeploymentProps], type="OS::Heat::SoftwareDeployment"):
    """Deploys a config to a server and waits for the server's answer.

    Each output of the config is an attribute.
    """

    support_status = SupportStatus(version="2014.1")


class StructuredDeployment(Deployment[StructuredDeploymentProps], type="OS::Heat::StructuredDeployment"):
    """Deploys an OS::Heat::StructuredConfig to a server and awaits its answer.

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
