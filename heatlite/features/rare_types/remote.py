"""OS::Heat::Stack: a stack in another region or at this server."""

import ssl
from collections.abc import Mapping
from typing import cast
from urllib.parse import quote, urlencode

from heatlite.core.errors import EntityNotFound, HeatliteError
from heatlite.core.json import Json, JsonMap, as_map, as_maps, dump
from heatlite.plugin import Absent, Change, ReplaceResource, Resource, Schema, Unhealthy, prop
from heatlite.plugin.ports import RegionUnavailable, refusal
from heatlite.template.parameters.constraints import RemoteTemplate, remote_fault
from heatlite.template.types import Fault, Installation

FIRST_PAUSE, MAX_PAUSE = 0.1, 5.0
"""Seconds between two polls of the stack: the first and the longest pause. Each pause doubles."""


DEEPEST = 20
"""Levels of nested stacks in which a check looks for unhealthy resources."""


class RegionRefused(HeatliteError):
    """The region has rejected a request."""

    text = "{region} has answered {status}: {reason}"


class ResourceInError(HeatliteError):
    """The stack has failed (Heat's name).

    There is no retry: its region has retried transient errors.
    """

    text = 'Went to status {status} due to "{reason}"'


class ContextProps(Schema):
    region_name: str | None = prop(doc="A region configured by the operator; default: this server.")
    credential_secret_id: str | None = prop(update=True, doc="Not supported: it needs a key manager.")
    ca_cert: str | None = prop(update=True, doc="The certificates to trust there, as text (PEM).")
    insecure: bool = prop(False, update=True, doc="True if any certificate is trusted.")

    def fault_credential(self) -> str | None:
        if self.credential_secret_id is not None:
            return "credential_secret_id needs a key manager, which this installation does not have"
        return None

    def fault_certificate(self) -> str | None:
        try:
            ssl.create_default_context(cadata=self.ca_cert)
        except (ssl.SSLError, ValueError, TypeError) as error:  # TypeError: not ASCII
            return f"ca_cert holds no certificate: {error}"
        return None


class StackProps(Schema):
    context: ContextProps | None = prop(update=True, doc="The region of the stack and its connection.")
    template: str = prop(update=True, doc="Its template, as text.")
    parameters: dict[str, Json] = prop({}, update=True, doc="The parameters of its template.")
    timeout: int | None = prop(update=True, doc="Timeout of an operation on it, in minutes.")


class RemoteStack(Resource[StackProps], type="OS::Heat::Stack"):
    """A separate stack in another region or at this server.

    It gets the files and the environment of this stack. Every update of this stack also updates the separate one; the
    resources there decide if there is anything to do.
    """

    always_updated = True

    # -- attributes --------------------------------------------------------------------------------

    def attr_stack_name(self) -> str:
        """Its name."""
        return str(self.data.get("stack_name", self.physical_name))

    def attr_outputs(self) -> dict[str, Json]:
        """Its outputs as a map, read after the last create, update, resume or check."""
        return as_map(self.data.get("outputs"))

    # -- deciding ------------------------------------------------------------------------------------

    @classmethod
    def check_installation(cls, given: Mapping[str, object], installation: Installation) -> list[Fault]:
        region, regions = _region(given), installation.regions
        if regions is None or not isinstance(region, str):
            return []
        if region in regions:
            text = _refusal(region, given)
            return [Fault(("template",), f'region "{region}" refuses the template: {text}')] if text else []
        known = ", ".join(sorted(regions)) or "none"
        text = f'there is no region "{region}"; the setting regions of the server lists: {known}'
        return [Fault(("context", "region_name"), text)]

    def needs_replace(self, change: Change) -> bool:
        old, new = _region(change.before), _region(change.after)
        return old != new and all(region is None or isinstance(region, str) for region in (old, new))

    def needs_replace_failed(self) -> bool:
        """True if there is no stack: an existing one is updated, as in Heat.

        After a failed check the engine replaces it.
        """
        return self.physical_id is None

    def find(self) -> str | None:
        if "stack_name" in self.data and "sent" not in self.data:
            return None  # no request has been sent, so there is nothing to find or delete
        status, body = self._ask("GET", f"/stacks?{urlencode({'name': self.physical_name})}")
        for stack in as_maps(self._good(status, body, 200).get("stacks")):
            if stack.get("stack_name") == self.physical_name:
                return str(stack["id"])
        return None

    @classmethod
    def restored(cls, properties: JsonMap, saved: JsonMap) -> JsonMap:
        """Return the properties with template and parameters from the stack's snapshot."""
        snapshot = saved.get("snapshot")
        if not isinstance(snapshot, dict):
            return properties
        return {**properties, "template": snapshot["template"], "parameters": snapshot["parameters"]}

    # -- handlers ------------------------------------------------------------------------------------

    def handle_create(self) -> Json:
        return self._begin("CREATE")

    def check_create_complete(self, token: Json) -> bool | float:
        return self._go_on("CREATE", token)

    def handle_update(self, change: Change) -> Json:  # the stack's own engine computes the changes
        return self._begin("UPDATE")

    def check_update_complete(self, token: Json) -> bool | float:
        return self._go_on("UPDATE", token)

    def handle_delete(self) -> Json:
        return self._begin("DELETE")

    def check_delete_complete(self, token: Json) -> bool | float:
        return self._go_on("DELETE", token)

    def handle_check(self) -> Json:
        return self._begin("CHECK")

    def check_check_complete(self, token: Json) -> bool | float:
        return self._go_on("CHECK", token)

    def handle_suspend(self) -> Json:
        return self._begin("SUSPEND")

    def check_suspend_complete(self, token: Json) -> bool | float:
        return self._go_on("SUSPEND", token)

    def handle_resume(self) -> Json:
        return self._begin("RESUME")

    def check_resume_complete(self, token: Json) -> bool | float:
        return self._go_on("RESUME", token)

    def handle_snapshot(self, name: str) -> Json:
        self.data.pop("snapshot", None)  # that of an earlier snapshot, until this one is taken
        return self._begin("SNAPSHOT", name)

    def check_snapshot_complete(self, token: Json) -> bool | float:
        return self._go_on("SNAPSHOT", token)

    def handle_delete_snapshot(self) -> None:
        snapshot = self.data.get("snapshot")
        if isinstance(snapshot, dict):
            # The resource of that time is known only by this record, without properties.
            context = ContextProps(as_map(snapshot.get("context")))
            self._good(*self._ask("DELETE", str(snapshot["path"]), context=context), 204, 404)

    # -- one operation: request it, then poll until it has ended -----------------------------------------

    def _begin(self, verb: str, name: str = "") -> Json:
        token: JsonMap = {"asked": False, "missed": 0, "pause": FIRST_PAUSE, "name": name}
        self._go_on(verb, token)
        return token

    def _checked(self) -> None:
        """Raise the error of a failed check.

        It is Unhealthy if a resource of the stack is known to be unhealthy. Otherwise the check itself failed:
        ResourceInError.
        """
        answer = self._good(*self._ask("GET", f"{self._path()}/resources?nested_depth={DEEPEST}"), 200)
        stack = self._show() or {}
        error = ResourceInError(status=stack.get("stack_status"), reason=stack.get("stack_status_reason"))
        if any(one.get("resource_status") == "CHECK_FAILED" for one in as_maps(answer.get("resources"))):
            raise Unhealthy(error.message) from error
        raise error

    def _go_on(self, verb: str, token: Json) -> bool | float:
        """Return True after a success, else the seconds until the next poll.

        Raises the operation's failure.
        """
        if not isinstance(token, dict):  # resumed after a crash
            token = {"asked": True, "missed": 0, "pause": FIRST_PAUSE, "name": ""}
        try:
            if not token["asked"]:
                token["asked"] = self._request(verb, str(token["name"]))
            elif self._has_saved() if verb == "SNAPSHOT" else self._has_ended(verb):
                return True
        except RegionUnavailable as error:
            missed = token["missed"] = cast(int, token["missed"]) + 1
            gives_up = missed > self.facts.services.client_retry_limit
            if verb == "CREATE":
                # True if a stack may exist. Before a repeated attempt that is always assumed.
                self.data["sent"] = error.sent or self.data.get("sent", False)
                if gives_up and not self.data["sent"]:
                    del self.data["sent"]
            if gives_up:
                raise
            return 2.0 ** (missed - 1)
        token["missed"] = 0
        pause = cast(float, token["pause"])
        token["pause"] = min(MAX_PAUSE, pause * 2)
        return pause

    def _request(self, verb: str, name: str) -> bool:
        """Request the operation.

        False while another operation on the stack is in progress.
        """
        match verb:
            case "CREATE":
                self._create()
                return True
            case "DELETE":
                if self._state() is not None:
                    self._good(*self._ask("DELETE", self._path()), 204, 404)
                return True
        state = self._state()
        if state is None:
            if verb == "UPDATE":
                raise ReplaceResource
            raise self._lost(verb)
        if state == f"{verb}_COMPLETE" and verb in ("SUSPEND", "RESUME"):
            return True  # done before a crash
        if state.endswith("_IN_PROGRESS"):
            return False
        match verb:
            case "UPDATE":
                self._good(*self._ask("PUT", self._path(), self._wanted()), 202)
            case "SNAPSHOT":
                self._save(name)
            case _:
                self._good(*self._ask("POST", f"{self._path()}/actions", {verb.lower(): None}), 200, 201, 202)
        return True

    def _create(self) -> None:
        self.data["stack_name"] = self.physical_name
        if "sent" in self.data:
            self.physical_id = self.find()
        if self.physical_id is None:
            body = {**self._wanted(), "stack_name": self.physical_name, "disable_rollback": True}
            status, answer = self._ask("POST", "/stacks", body)
            if status == 409:  # created by an attempt that a crash interrupted
                self.data["sent"] = True
                self.physical_id = self.find()
            if self.physical_id is None:
                self.physical_id = str(as_map(self._good(status, answer, 201).get("stack"))["id"])

    def _wanted(self) -> JsonMap:
        props, inherited = self.props, self.facts.inherited()
        body: JsonMap = {
            "template": props.template,
            "parameters": props.parameters,
            "environment": inherited.environment,
            "files": dict(inherited.files),
        }
        return body if props.timeout is None else {**body, "timeout_mins": props.timeout}

    def _has_ended(self, verb: str) -> bool:
        if verb == "DELETE" and self.physical_id is None:
            return True
        stack = self._show()
        if stack is None:
            if verb == "DELETE":
                return True
            raise self._lost(verb)
        state = str(stack["stack_status"])
        action, _, status = state.partition("_")
        if action != verb or status == "IN_PROGRESS":
            return False
        if status == "FAILED" and verb == "CHECK":
            self._checked()
        if status == "FAILED":
            raise ResourceInError(status=state, reason=stack.get("stack_status_reason"))
        if verb != "SUSPEND":
            shown = self._show(outputs=True) or {}
            self.data["outputs"] = {
                str(output["output_key"]): output.get("output_value") for output in as_maps(shown.get("outputs"))
            }
        return True

    # -- snapshots -------------------------------------------------------------------------------------

    def _save(self, name: str) -> None:
        """Take a snapshot, unless one with that name exists from before a crash."""
        path = f"{self._path()}/snapshots"
        snapshots = as_maps(self._good(*self._ask("GET", path), 200).get("snapshots"))
        found = next((one for one in snapshots if one.get("name") == name), None)
        if found is None:
            answer = self._good(*self._ask("POST", path, {"name": name}), 200)
            found = as_map(answer.get("snapshot")) or answer
        context = self.facts.properties.get("context") or {}
        self.data["snapshot"] = {"path": f"{path}/{quote(str(found['id']), safe='')}", "context": context}

    def _has_saved(self) -> bool:
        """True if the snapshot is complete; then stores the data that a restore needs."""
        kept = as_map(self.data.get("snapshot"))
        answer = self._good(*self._ask("GET", str(kept["path"])), 200)
        snapshot = as_map(answer.get("snapshot"))
        if snapshot.get("status") == "FAILED":
            raise ResourceInError(status="SNAPSHOT_FAILED", reason=snapshot.get("status_reason"))
        if snapshot.get("status") != "COMPLETE":
            return False
        record = as_map(snapshot.get("data"))
        parameters = as_map(as_map(record.get("environment")).get("parameters"))
        self.data["snapshot"] = {**kept, "template": dump(record["template"]), "parameters": parameters}
        return True

    # -- requests --------------------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        context = self.props.context
        return "This server" if context is None or context.region_name is None else f"Region {context.region_name}"

    def _ask(
        self, method: str, path: str, body: Json = None, context: ContextProps | None = None
    ) -> tuple[int, Json]:
        context = context or self.props.context or ContextProps({})
        regions, project = self.facts.services.regions, self.facts.project
        return regions.ask(
            context.region_name, project, method, path, body, ca_cert=context.ca_cert, insecure=context.insecure
        )

    def _good(self, status: int, body: Json, *expected: int) -> JsonMap:
        """Return the body of an answer.

        Raises RegionRefused for another status than the `expected` ones.
        """
        found = as_map(body)
        if status in expected:
            return found
        raise RegionRefused(region=self._where, status=status, reason=refusal(body))

    def _path(self) -> str:
        """Return ``/stacks/{name}/{id}``. The name of an adopted stack is requested once."""
        if "stack_name" not in self.data:
            answer = self._good(*self._ask("GET", f"/stacks?{urlencode({'id': self.physical_id or ''})}"), 200)
            found = [one for one in as_maps(answer.get("stacks")) if one.get("id") == self.physical_id]
            if not found:
                raise self._gone()
            self.data["stack_name"] = found[0]["stack_name"]
        return f"/stacks/{quote(self.attr_stack_name(), safe='')}/{quote(self.physical_id or '', safe='')}"

    def _show(self, outputs: bool = False) -> JsonMap | None:
        """Return the stack as it is now; None if it does not exist."""
        try:
            path = self._path()
        except EntityNotFound:
            return None
        status, body = self._ask("GET", f"{path}?resolve_outputs={outputs}")
        if status == 404:
            return None
        stack = as_map(self._good(status, body, 200).get("stack"))
        return None if stack.get("stack_status") == "DELETE_COMPLETE" else stack

    def _state(self) -> str | None:
        """Return the stack's state; None if it does not exist."""
        stack = None if self.physical_id is None else self._show()
        return None if stack is None else str(stack["stack_status"])

    def _lost(self, verb: str) -> Exception:
        """Return the error for a stack that no longer exists; for a check it is Absent."""
        gone = self._gone()
        if verb != "CHECK":
            return gone
        unhealthy = Absent(gone.message)
        unhealthy.__cause__ = gone
        return unhealthy

    def _gone(self) -> EntityNotFound:
        return EntityNotFound(f"{self._where} has no stack {self.attr_stack_name()} ({self.physical_id}).")


def _region(values: Mapping[str, object]) -> object:
    """Return the region's name; None for this server. It may be UNKNOWN."""
    context = values.get("context")
    return context.get("region_name") if isinstance(context, Mapping) else context


def _refusal(region: str, given: Mapping[str, object]) -> str:
    """Return why the region refuses the template; "" without a known reason."""
    context = given["context"]
    assert isinstance(context, Mapping)
    text, ca_cert, insecure = given.get("template"), context.get("ca_cert"), context.get("insecure", False)
    if not isinstance(text, str) or not isinstance(ca_cert, str | None) or not isinstance(insecure, bool):
        return ""
    return remote_fault(RemoteTemplate(region, text, ca_cert, insecure))
