"""Records of change policies."""

from msgspec import Struct

from heatlite.core.json import JsonMap


class ChangePolicyRecord(Struct, frozen=True):
    """The change policy of a project, or of a root stack."""

    project: str
    stack_id: str
    """Empty: that of the project."""
    document: JsonMap | None = None
    """None: it was removed, or there was none."""
    version: int = 0
    """Number of its changes. A removal counts, so no two policies have the same."""
    updated_by: str | None = None
    updated_at: float | None = None
