"""Export and abandon stacks."""


from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionInputs
from heatlite.core.context import Context
from heatlite.core.errors import NotSupported, RequestLimitExceeded
from heatlite.core.json import JsonMap, size
from heatlite.core.status import Status, Verb
from heatlite.engine.admission.base import Parts, StackOperations
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.stack_document import check_document, stack_record
from heatlite.engine.state.unit_of_work import stack_event, with_state
from heatlite.engine.types.resource_factory import EngineServices, ResourceFactory
from heatlite.engine.types.type_calls import type_code
from heatlite.store.records import ResourceRecord, StackRecord


class Export(StackOperations):
    """Exports stacks with their objects, and abandons them."""

    def __init__(self, parts: Parts, engine_services: EngineServices) -> None:
        super().__init__(parts)
        self._engine_services = engine_services

    def export(self, stack: StackRecord) -> JsonMap:
        """Return the stack document.

        Raises NotSupported if the setting `enable_stack_abandon` is off, and RequestLimitExceeded.
        """
        self._check_enabled("Stack Export")
        return self._record(stack)

    def _record(self, stack: StackRecord) -> JsonMap:
        """Return the stack document, with what types have stored besides their rows.

        Raises RequestLimitExceeded.
        """
        most = self._settings.max_stack_data
        check_document(self._store, stack, most)
        taken = 0

        def exported(of: StackRecord, row: ResourceRecord) -> JsonMap:
            nonlocal taken
            resources = ResourceFactory(of, self._engine_services)
            if not resources.type_of(row).has("exported"):
                return {}
            with type_code():
                found = resources.make(row).exported()
            taken += size(found, most)
            if taken > most:
                text = f"signals and answers of machines come to more than {most} characters of JSON (max_stack_data)."
                raise RequestLimitExceeded(message=text)
            return found

        return stack_record(self._store, stack, exported=exported)

    def abandon(self, context: Context, stack: StackRecord) -> JsonMap:
        """Return the stack document and enqueue a deletion that keeps all objects.

        Raises as `export` and `Admission.admitted`.
        """
        self._check_enabled("Stack Abandon")
        prechecked = self._admission.precheck(context, Operation.ABANDON, stack, "DELETE", "/abandon", None)
        now = self._clock.now()
        with self._admission.admitted(prechecked) as stack:
            record = self._record(stack)
            stack = with_state(stack, Verb.DELETE, Status.IN_PROGRESS, "Stack DELETE started")
            stack = replace(stack, updated_at=now)
            self._store.stacks.save(stack)
            self._store.events.append_many([stack_event(stack, now)])
            self._admission.enqueue(context, stack, Verb.DELETE, ActionInputs(abandon=True))
        return record

    def _check_enabled(self, feature: str) -> None:
        if not self._settings.enable_stack_abandon:
            raise NotSupported(feature=feature)
