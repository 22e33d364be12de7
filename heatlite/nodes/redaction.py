"""Redaction of node actions: values of hidden parameters, and fields with secret names."""

from heatlite.core.json import Json, JsonMap
from heatlite.core.masking import Mask, named_secrets, without_named
from heatlite.store.nodes.records import NodeActionRecord


class NodeVeil:
    """Shows a node action.

    What is secret is not shown where it stands, nor wherever else it turns up.
    """

    def __init__(self, action: NodeActionRecord, hidden: Mask) -> None:
        """`hidden` is the mask of its stack (`StackReader.mask`)."""
        self._hidden = hidden
        self._named = Mask(lambda: named_secrets([action.args, action.outputs]))

    def text(self, text: str) -> str:
        """A text as it may be shown."""
        return self._named.text(self._hidden.text(text))

    def json(self, value: JsonMap) -> Json:
        """Arguments, outputs or progress as they may be shown."""
        return self._named.json(self._hidden.json(without_named(value)))
