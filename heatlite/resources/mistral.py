"""Types of the workflow service."""

import json
from typing import ClassVar, cast

import yaml

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudResource, ResourceInError, Schema, SupportStatus, prop


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
    workflow: str | None = prop(custom="mistral.workflow", doc="The workflow that it executes.")
    publish: dict[str, Json] | None = prop(doc="Variables that it sets.")
    policies: dict[str, Json] | None = prop(hidden=True, doc="An old way to give retry, timeout and the like.")
    with_items: str | None = prop(api="with-items", doc="The items that its action is executed for.")
    keep_result: bool | None = prop(api="keep-result", doc="True if its result is kept.")
    target: str | None = prop(doc="The worker that executes it.")
    join: str | None = prop(doc="The number of tasks before it that must have ended, or all.")


class WorkflowProps(Schema):
    name: str | None = prop(doc="Its name.")
    type: str = prop(update=True, one_of=("direct", "reverse"), doc="The direction in which its tasks are connected.")
    description: str | None = prop(update=True, doc="Its description.")
    input: dict[str, Json] | None = prop(update=True, doc="Its input, and the values of an execution by a signal.")
    output: dict[str, Json] | None = prop(update=True, doc="Its output.")
    tags: list[Json] | None = prop(update=True, doc="Its tags.")
    params: dict[str, Json] | None = prop(update=True, doc="Parameters of an execution by a signal.")
    task_defaults: TaskDefaults | None = prop(update=True, doc="Defaults of its tasks.")
    tasks: list[Task] = prop(update=True, length=(1, None), doc="Its tasks.")
    use_request_body_as_input: bool | None = prop(update=True, doc="True if the body of a signal is the input.")

    def fault(self) -> str | None:
        for task in self.tasks:
            if task.action is not None and task.workflow is not None:
                return f"tasks: {task.name} has an action and a workflow: give one of them"
        return None


class Workflow(CloudResource[WorkflowProps], type="OS::Mistral::Workflow", kind="workflow.workflow"):
    """A workflow.

    The physical id is its name. It is executed by cron triggers and by calls of the service.
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
        wired = cast(list[Json], fields["tasks"].wire(given["tasks"]))
        flow["tasks"] = {task.name: one for task, one in zip(props.tasks, wired, strict=True)}
        return yaml.safe_dump({"version": "2.0", self.key(): flow}, sort_keys=False)

    def handle_create(self) -> Json:
        if self.physical_id is None:
            self.service("define_workflow", definition=self.definition())
            self.physical_id = self.key()
        return None

    def handle_update(self, change: Change) -> Json:
        self.service("redefine_workflow", definition=self.definition())
        return None

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
        """Its executions."""
        if self.physical_id is None:
            return []
        found = self.map(self.service("executions_of", workflow_name=self.physical_id))["executions"]
        names = ("id", "workflow_name", "created_at", "updated_at", "state")
        return [{name: one.get(name) for name in names} for one in cast(list[JsonMap], found)]

    def attr_alarm_url(self) -> str | None:
        """Null: signals do not execute workflows here.

        Let a queue or an alarm call the service instead.
        """
        return None


class CronWorkflow(Schema):
    name: str = prop(find="mistral.workflow", doc="Its name or id.")
    input: dict[str, Json] | None = prop(doc="Its input.")


class CronTriggerProps(Schema):
    name: str | None = prop(doc="Its name.")
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
        given = json.dumps(workflow.input or {}, sort_keys=True)
        return {**self.sent(), "workflow_id": workflow.name, "workflow_input": given}


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
    always_update: bool = prop(False, doc="Accepted as in Heat: an update is made if the input has changed.")


class ExternalResource(
    CloudResource[ExternalResourceProps], type="OS::Mistral::ExternalResource", kind="workflow.execution"
):
    """Something that workflows make, change and delete.

    The physical id is `resource_id` of a workflow's output, else the id of the first execution.
    """

    support_status = SupportStatus(version="9.0.0")
    ENDED: ClassVar[frozenset[str]] = frozenset({"SUCCESS", "ERROR", "CANCELLED"})

    def find(self) -> str | None:
        return None  # executions carry no mark

    def needs_replace(self, change: Change) -> bool:
        """True if a key of the input has changed that the template lists."""
        keys = change.after.get("replace_on_change_inputs") or []
        before, after = (one.get("input") or {} for one in (change.before, change.after))
        if not (isinstance(keys, list) and isinstance(before, dict) and isinstance(after, dict)):
            return False
        return any(before.get(key) != after.get(key) for key in keys)

    def _execute(self, action: str) -> Json:
        """Begin the workflow of an action. Returns the execution's id, None without one."""
        given = cast(JsonMap, self.resolved(self.facts.properties)["actions"]).get(action)
        if not isinstance(given, dict):
            return None
        params = given.get("params")
        made = self.map(
            self.service(
                "create_execution",
                workflow_id=given["workflow"],
                input=json.dumps(self.props.input, sort_keys=True),
                params=json.dumps(params or {}, sort_keys=True),
                description=self.props.description,
            )
        )
        return made["id"]

    def _has_ended(self, execution: Json) -> bool:
        """True if an execution has ended. Raises ResourceInError if it has failed."""
        if execution is None:
            return True
        said = self.map(self.service("get_execution", execution))
        if said["state"] not in self.ENDED:
            return False
        if said["state"] != "SUCCESS":
            raise ResourceInError(f"the execution {execution} ended in {said['state']}: {said.get('state_info')}")
        output = json.loads(str(said.get("output") or "{}"))
        self.data["output"] = output
        if output.get("resource_id"):
            self.physical_id = str(output["resource_id"])
        return True

    def handle_create(self) -> Json:
        execution = self._execute("CREATE")
        self.physical_id = self.physical_name if execution is None else str(execution)
        return execution

    def check_create_complete(self, token: Json) -> bool | float:
        return self._has_ended(token)

    def handle_update(self, change: Change) -> Json:
        return self._execute("UPDATE")

    def check_update_complete(self, token: Json) -> bool | float:
        return self._has_ended(token)

    def handle_suspend(self) -> Json:
        return self._execute("SUSPEND")

    def check_suspend_complete(self, token: Json) -> bool | float:
        return self._has_ended(token)

    def handle_resume(self) -> Json:
        return self._execute("RESUME")

    def check_resume_complete(self, token: Json) -> bool | float:
        return self._has_ended(token)

    def handle_delete(self) -> Json:
        return None if self.physical_id is None else self._execute("DELETE")

    def check_delete_complete(self, token: Json) -> bool | float:
        return self._has_ended(token)

    def handle_check(self) -> Json:
        return None  # only the workflows know the object

    def live_properties(self) -> JsonMap | None:
        return {}

    def fetch(self) -> JsonMap:
        return cast(JsonMap, self.data.get("output") or {})

    def attr_output(self) -> dict[str, Json]:
        """The output of the last workflow."""
        return self.fetch()
