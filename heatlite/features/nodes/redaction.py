"""Redaction of node actions: hidden parameters, and fields with secret names."""

from heatlite.core.json import Json, JsonMap
from heatlite.core.redaction.masking import Mask, named_secrets, without_named
from heatlite.features.nodes.store.records import NodeActionRecord


class NodeVeil:
    """Redacts a node action: masks secrets in their fields and in all other texts."""

    def __init__(self, action: NodeActionRecord, hidden: Mask) -> None:
        """Create it. `hidden` is the mask of the stack (`StackReader.mask`)."""
        self._hidden = hidden
        self._named = Mask(lambda: named_secrets([action.args, action.outputs]))

    def text(self, text: str) -> str:
        """Return a text with secrets masked."""
        return self._named.text(self._hidden.text(text))

    def json(self, value: JsonMap) -> Json:
        """Return arguments, outputs or progress with secrets masked."""
        return self._named.json(self._hidden.json(without_named(value)))
