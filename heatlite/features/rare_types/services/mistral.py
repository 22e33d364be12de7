"""Types of the workflow service."""

from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar, cast

import yaml

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.errors import InvalidValue, ResourceNotAvailable
from heatlite.core.json import Json, JsonMap, heat_text, parse
from heatlite.plugin import Change, CloudResource, ResourceInError, Schema, Signalled, SupportStatus, prop
from heatlite.plugin.signing import KEY

EXECUTIONS = "executions"
"""Mailbox key of the ids of the executions that signals have begun.

The same key of a recorded workflow's `resource_data` holds them with commas between.
"""
MAX_EXECUTIONS = 100
MAX_ID = 255


class TaskDefaults(Schema):
    on_success: list[Json] | None = prop(api="on-success", doc="Tasks that follow on success.")
    on_error: list[Json] | None = prop(api="on-error", doc="Tasks that follow on an error.")
    on_complete: list[Json] | None = prop(api="on-complete", doc="Tasks that follow in any case.")
    requires: list[Json] | None = prop(doc="Tasks that must have ended before, in reverse workflows.")
    wait_before: int | None = prop(api="wait-before", doc="Seconds to wait before it begins.")
    wait_after: int | None = prop(api="wait-after", doc="Seconds to wait after its end.")
    pause_before: bool | None = prop(api="pause-before", doc="True if the workflow pauses before it.")
    timeout: int | None = prop(doc="Timeout in seconds.")
    retry: dict[str, Json] | None = prop(doc="Repetitions on an error.")
    concurrency: int | None = prop(doc="Maximum number of actions at once.")


class Task(TaskDefaults):
    name: str = prop(api="", doc="Its name.")
    description: str | None = prop(doc="Its description.")
    input: dict[str, Json] | None = prop(doc="The input of its action or workflow.")
    action: str | None = prop(doc="The action that it executes.")
    workflow: str | None = prop(custom="mistral.workflow", blank=True, doc="The workflow that it executes.")
    publish: dict[str, Json] | None = prop(doc="Variables that it sets.")
    policies: dict[str, Json] | None = prop(hidden=True, doc="An old way to give retry, timeout and the like.")
    with_items: str | None = prop(api="with-items", doc="The items that its action is executed for.")
    keep_result: bool | None = prop(api="keep-result", doc="True if its result is kept.")
    target: str | None = prop(doc="The worker that executes it.")
    join: str | None = prop(doc="The number of tasks before it that must have ended, or all.")

    def fault_actions(self) -> str | None:
        if (self.action is None) != (self.workflow is None):
            return None
        return f"has {'no action and no' if self.action is None else 'an action and a'} workflow: give one of them"

    def fault_concurrency(self) -> str | None:
        return "has concurrency without with_items" if self.with_items is None and self.given("concurrency") else None

    def fault_policies(self) -> str | None:
        known = (name.replace("-", "_") for name in self.policies or {})
        twice = self.given(*(name for name in known if name in self.fields))
        return f"has {', '.join(twice)} twice: in policies, too" if twice else None


class WorkflowProps(Schema):
    name: str | None = prop(blank=True, doc="Its name.")
    type: str = prop(update=True, one_of=("direct", "reverse"), doc="The direction in which its tasks are connected.")
    description: str | None = prop(update=True, doc="Its description.")
    input: dict[str, Json] | None = prop(update=True, doc="Its input, and the values of an execution by a signal.")
    output: dict[str, Json] | None = prop(update=True, doc="Its output.")
    tags: list[Json] | None = prop(update=True, doc="Its tags.")
    params: dict[str, Json] | None = prop(update=True, doc="Parameters of an execution by a signal.")
    task_defaults: TaskDefaults | None = prop(update=True, doc="Defaults of its tasks.")
    tasks: list[Task] = prop(update=True, length=(1, None), doc="Its tasks.")
    use_request_body_as_input: bool | None = prop(update=True, doc="True if the body of a signal is the input.")

    def fault_params(self) -> str | None:
        if self.type == "reverse" and not (self.params or {}).get("task_name"):
            return "params: a reverse workflow needs task_name, the task that it leads to"
        return None

    def fault_tasks(self) -> str | None:
        if self.type == "direct" and any(task.given("requires") for task in self.tasks):
            return "tasks: only those of a reverse workflow may have requires"
        return None


class Workflow(
    CloudResource[WorkflowProps], Signalled[WorkflowProps], type="OS::Mistral::Workflow", kind="workflow.workflow"
):
    """A workflow.

    The physical id is its name. It is executed by signals, by cron triggers and by calls of the service.
    """

    support_status = SupportStatus(version="2015.1")
    kept_when_well = True
    unique_name = True
    alone = frozenset({"name"})

    def key(self) -> str:
        return self.props.name or self.physical_name

    def find(self) -> str | None:
        try:
            return str(self.map(self.service("get_workflow", self.key()))["name"])
        except CloudNotFound:
            return None

    def survey(self) -> bool:
        return False

    def definition(self) -> str:
        """Return the workflow in the service's language."""
        props, given = self.props, self.resolved(self.facts.properties)
        fields = self.schema.fields
        flow: JsonMap = {"type": props.type}
        for name in ("description", "output", "tags"):
            if given.get(name) is not None:
                flow[name] = given[name]
        if props.input:
            flow["input"] = [*props.input]
        if given.get("task_defaults") is not None:
            flow["task-defaults"] = fields["task_defaults"].wire(given["task_defaults"])
        wired = cast(list[JsonMap], fields["tasks"].wire(given["tasks"]))
        for one in wired:
            policies = cast(JsonMap, one.pop("policies", {}))
            one.update({name.replace("_", "-"): value for name, value in policies.items()})
        flow["tasks"] = {task.name: one for task, one in zip(props.tasks, wired, strict=True)}
        return yaml.safe_dump({"version": "2.0", self.key(): flow}, sort_keys=False)

    def handle_create(self) -> Json:
        if self.physical_id is None:
            self.service("define_workflow", definition=self.definition())
            self.physical_id = self.key()
        self.draw_key()
        return None

    def handle_adopt(self) -> None:
        super().handle_adopt()
        recorded = self.data.get(EXECUTIONS)
        if isinstance(recorded, str) and recorded:
            self._keep(recorded.split(","))
        self.data.pop(EXECUTIONS, None)  # a repetition after a failure needs them

    def handle_update(self, change: Change) -> Json:
        self.service("redefine_workflow", definition=self.definition())
        self.draw_key()
        return None

    def handle_delete(self) -> Json:
        for execution in self._executions():
            with suppress(CloudNotFound):
                self.service("delete_execution", execution)
        self.facts.services.mailbox.clear(self.mailbox_address)
        return super().handle_delete()

    # -- signals -----------------------------------------------------------------------------------

    def prepare_signal(self, details: JsonMap | None) -> JsonMap | None:
        """Execute the workflow. The signal may have values of its input and parameters."""
        props, given = self.props, details or {}
        own = {"input": given} if props.use_request_body_as_input else given
        values, params = (_signalled(own, key) for key in ("input", "params"))
        for name in values:
            if name not in (props.input or {}):
                raise InvalidValue(f"Signal data error: Unknown input {name}")
        if self.physical_id is None:
            raise ResourceNotAvailable(resource_name=self.name)
        made = self.map(
            self.service(
                "create_execution",
                workflow_name=self.physical_id,
                input=heat_text({**(props.input or {}), **values}, sort_keys=True),
                params=heat_text({**(props.params or {}), **params}, sort_keys=True),
            )
        )
        return {"id": made["id"]}

    def handle_signal(self, details: JsonMap | None) -> None:
        """Keep the id of the execution that `prepare_signal` has begun."""
        self._keep([str((details or {})["id"]), *self._executions()])

    def _executions(self) -> list[str]:
        """Ids of the executions that signals have begun, the newest first."""
        return cast(list[str], self.facts.services.mailbox.read(self.mailbox_address).get(EXECUTIONS, []))

    def _keep(self, executions: list[str]) -> None:
        self.facts.services.mailbox.put(self.mailbox_address, EXECUTIONS, [*executions[:MAX_EXECUTIONS]])

    def handle_suspend(self) -> Json:
        return None

    def handle_resume(self) -> Json:
        return None

    def live_properties(self) -> JsonMap | None:
        live = super().live_properties()
        return None if live is None else {}  # the service tells the definition as text

    def attr_data(self) -> dict[str, Json]:
        """Its name and its input."""
        return {"name": self.physical_id, "input": self.props.input}

    def attr_executions(self) -> list[Json]:
        """The executions that signals have begun, the newest first."""
        found: list[Json] = []
        names = ("id", "workflow_name", "created_at", "updated_at", "state")
        for execution in self._executions():
            with suppress(CloudNotFound):
                one = self.map(self.service("get_execution", execution))
                texts = {name: parse(str(one.get(name) or "{}")) for name in ("input", "output")}
                found.append({**{name: one.get(name) for name in names}, **texts})
        return found

    def attr_alarm_url(self) -> str | None:
        """A pre-signed URL; a POST to it executes the workflow."""
        return None if self.physical_id is None or KEY not in self.data else self.signed_url("signal")


def _signalled(given: Mapping[str, Json], key: str) -> JsonMap:
    """Return the values of a signal. Raises InvalidValue."""
    values = given.get(key)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InvalidValue(f"Signal data error: {key} must be a map")
    return values


class CronWorkflow(Schema):
    name: str = prop(find="mistral.workflow", doc="Its name or id.")
    input: dict[str, Json] | None = prop(doc="Its input.")


class CronTriggerProps(Schema):
    name: str | None = prop(blank=True, doc="Its name.")
    pattern: str | None = prop(custom="cron_expression", doc="The times of the executions, in the format of cron.")
    workflow: CronWorkflow = prop(api="", doc="The workflow that is executed.")
    first_time: str | None = prop(api="first_execution_time", doc="The time of the first execution.")
    count: int | None = prop(api="remaining_executions", doc="Number of executions.")


class CronTrigger(CloudResource[CronTriggerProps], type="OS::Mistral::CronTrigger", kind="workflow.cron_trigger"):
    """Executes a workflow at set times."""

    support_status = SupportStatus(version="5.0.0")
    unique_name = True
    alone = frozenset({"name"})
    blocks = frozenset({"OS::Mistral::Workflow"})
    shown = {
        "next_execution_time": (str, "The time of the next execution."),
        "remaining_executions": (int, "Number of executions that are left."),
    }

    def create_args(self) -> JsonMap:
        workflow = self.props.workflow
        given = heat_text(workflow.input or {}, sort_keys=True)
        return {**self.sent(), "workflow_id": workflow.name, "workflow_input": given}

    def live_properties(self) -> JsonMap | None:
        live = super().live_properties()
        # The service writes the first time in its own format, and counts the executions that are left.
        return None if live is None else {name: live[name] for name in ("name", "pattern") if name in live}


class Execution(Schema):
    workflow: str = prop(find="mistral.workflow", doc="The workflow, by name or id.")
    params: dict[str, Json] = prop({}, doc="Parameters of the execution.")


class Actions(Schema):
    create: Execution | None = prop(alias="CREATE", doc="The workflow that makes it.")
    update: Execution | None = prop(alias="UPDATE", doc="The workflow that updates it.")
    suspend: Execution | None = prop(alias="SUSPEND", doc="The workflow that suspends it.")
    resume: Execution | None = prop(alias="RESUME", doc="The workflow that resumes it.")
    delete: Execution | None = prop(alias="DELETE", doc="The workflow that deletes it.")


class ExternalResourceProps(Schema):
    actions: Actions = prop(doc="The workflows that act on it.")
    input: dict[str, Json] = prop({}, update=True, doc="The input of the workflows.")
    description: str = prop("Heat managed", doc="The description of the executions.")
    replace_on_change_inputs: list[Json] = prop([], doc="Keys of the input whose changes replace it.")
    always_update: bool = prop(False, doc="True if each update of the stack executes `update`.")


class ExternalResource(
    CloudResource[ExternalResourceProps], type="OS::Mistral::ExternalResource", kind="workflow.execution"
):
    """Something that workflows make, change and delete.

    The physical id is `resource_id` of the last workflow's output, else the id of its execution. Each workflow gets
    the outputs of the earlier ones as `heat_extresource_data` in its environment.
    """

    support_status = SupportStatus(version="9.0.0")
    always_updated_if = "always_update"
    ENDED: ClassVar[frozenset[str]] = frozenset({"SUCCESS", "ERROR", "CANCELLED"})
    searched = False  # executions carry no mark

    def needs_replace(self, change: Change) -> bool:
        """True if a key of the input has changed that the template lists."""
        keys = change.after.get("replace_on_change_inputs") or []
        before, after = (one.get("input") or {} for one in (change.before, change.after))
        if not (isinstance(keys, list) and isinstance(before, dict) and isinstance(after, dict)):
            return False
        return any(before.get(key) != after.get(key) for key in keys)

    def _execute(self, action: str) -> Json:
        """Begin the workflow of an action. Returns the execution's id, None without one."""
        given = cast(JsonMap, self.resolved({"actions": self.facts.properties["actions"]})["actions"]).get(action)
        if not isinstance(given, dict):
            return None
        params = {**cast(JsonMap, given.get("params") or {})}
        if self.physical_id is not None:
            params["env"] = {**cast(JsonMap, params.get("env") or {}), "heat_extresource_data": self.fetch()}
        made = self.map(
            self.service(
                "create_execution",
                workflow_id=given["workflow"],
                input=heat_text(self.props.input, sort_keys=True),
                params=heat_text(params, sort_keys=True),
                description=self.props.description,
            )
        )
        return made["id"]

    def check_create_complete(self, token: Json) -> bool | float:
        """Return True if the execution `token` has ended.

        Raises ResourceInError if it has failed.
        """
        if token is None:
            return True
        execution = self.map(self.service("get_execution", token))
        if execution["state"] not in self.ENDED:
            return False
        if execution["state"] != "SUCCESS":
            raise ResourceInError(f"the execution {token} ended in {execution['state']}: {execution.get('state_info')}")
        output = parse(str(execution.get("output") or "{}"))
        self.data["output"] = {**self.fetch(), **output}
        self.physical_id = str(output.get("resource_id") or token)[:MAX_ID]
        return True

    check_update_complete = check_suspend_complete = check_resume_complete = check_create_complete
    check_delete_complete = check_create_complete

    def handle_create(self) -> Json:
        execution = self._execute("CREATE")
        self.physical_id = self.physical_name if execution is None else str(execution)
        return execution

    def handle_update(self, change: Change) -> Json:
        return self._execute("UPDATE")

    def handle_suspend(self) -> Json:
        return self._execute("SUSPEND")

    def handle_resume(self) -> Json:
        return self._execute("RESUME")

    def handle_delete(self) -> Json:
        return None if self.physical_id is None else self._execute("DELETE")

    def handle_check(self) -> Json:
        return None  # only the workflows know the object

    def live_properties(self) -> JsonMap | None:
        return {}

    def fetch(self) -> JsonMap:
        return cast(JsonMap, self.data.get("output") or {})

    def attr_output(self) -> dict[str, Json]:
        """The outputs of its workflows, later ones over earlier ones."""
        return self.fetch()
