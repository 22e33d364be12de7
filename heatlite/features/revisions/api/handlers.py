"""S/revisions: the definitions that a stack was given."""

from falcon import Response
from msgspec.structs import replace

from heatlite.api import query
from heatlite.api.components import Components
from heatlite.api.handlers.common import StackFinder
from heatlite.api.request import Request
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import as_map
from heatlite.core.redaction.masking import NOTHING, Mask
from heatlite.engine.state.definitions import secrets_of
from heatlite.engine.state.stack_document import without_sinks
from heatlite.features.revisions.api import views
from heatlite.features.revisions.differences import Content, Veil, changes
from heatlite.features.revisions.store.records import RevisionRecord
from heatlite.features.revisions.undoing import Revisions
from heatlite.store.records import StackRecord


class StackRevisions:
    """S/revisions and below."""

    def __init__(self, core: Components, finder: StackFinder) -> None:
        self._store = core.store
        self._definitions = core.definitions
        self._reader = core.reader
        self._revisions = core.of(Revisions)
        self._finder = finder

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """List the revisions of a stack, newest first, without their content."""
        stack = self._finder.find(req, stack_name, stack_id)
        resp.media = {"revisions": [views.listed(one) for one in self._revisions.of_stack(stack)]}

    def on_get_one(self, req: Request, resp: Response, stack_name: str, stack_id: str, number: str) -> None:
        """Show a revision."""
        stack = self._finder.find(req, stack_name, stack_id)
        found = self._revisions.get(stack, _number(number))
        veil, content = self._veil(stack, found), self._content(found)
        environment = self._definitions.of(_standing(stack, found)).shown_environment(veil.hidden)
        if not req.caller.may_see_hidden:
            environment = without_sinks(environment)
        resp.media = {
            "revision": {
                **views.listed(found),
                "template": veil.template(content.template),
                "files": veil.files(content.files),
                "environment": as_map(veil.mask.json(environment)),
            }
        }

    def on_get_diff(self, req: Request, resp: Response, stack_name: str, stack_id: str, number: str) -> None:
        """Show the changes between two revisions, from the earlier to the later one."""
        stack, other = self._finder.find(req, stack_name, stack_id), query.text(req, "with")
        one = self._revisions.get(stack, _number(number))
        if other is None:
            beside = self._revisions.before(stack, one.number)
        else:
            beside = self._revisions.get(stack, _number(other))
        old, new = sorted((one, beside), key=lambda each: each.number)
        veil = self._veil(stack, old, new)
        differences = changes(self._content(old), self._content(new))
        resp.media = {"changes": [views.change(veil.change(each)) for each in differences]}

    def _content(self, revision: RevisionRecord) -> Content:
        template = self._store.templates.get(revision.template_id)
        return Content(
            template.document,
            template.files,
            revision.environment,
            revision.tags,
            revision.timeout_mins,
            revision.disable_rollback,
        )

    def _veil(self, stack: StackRecord, *revisions: RevisionRecord) -> Veil:
        """Return what masks all that is hidden now, or was hidden in the revisions."""
        if not stack.sealed:
            return Veil(NOTHING, frozenset())
        stands = [stack, *(_standing(stack, one) for one in revisions)]
        hidden = frozenset[str]().union(*map(self._reader.hidden, stands))
        return Veil(Mask(lambda: [value for one in stands for value in self._secrets(one)]), hidden)

    def _secrets(self, stack: StackRecord) -> list[object]:
        return secrets_of(self._store, self._definitions, stack)


def _standing(stack: StackRecord, revision: RevisionRecord) -> StackRecord:
    """Return a stack with the definition of a revision."""
    return replace(
        stack,
        template_id=revision.template_id,
        environment=revision.environment,
        previous_template_id=None,
        previous_environment=None,
    )


def _number(text: str) -> int:
    """Return the number of a revision. Raises HTTPBadRequest."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise HTTPBadRequest(f"{text[:20]} is no number of a revision.")
    return int(text)
