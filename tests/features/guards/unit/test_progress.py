"""Lines of a terminal while an update bakes."""

from rich.console import Console

from heatlite.cli.client import Stack
from heatlite.cli.output.progress import TreeView


def test_a_bake_is_named() -> None:
    """Nobody waits in silence: nothing else moves while an update bakes."""
    console = Console(width=100)
    view, stack = TreeView(), Stack("web", "1", "UPDATE_IN_PROGRESS", "", {})
    for reason, told in (("Stack UPDATE started", ""), ("Baking until 2026-11-30T05:45:56Z", "Baking until 2026-11")):
        event = {"resource_status": "UPDATE_IN_PROGRESS", "resource_status_reason": reason}
        view.show(stack, {**event, "resource_name": "web", "physical_resource_id": "1"})
        with console.capture() as shown:
            console.print(view._draw())
        assert told in shown.get() and ("Baking" in shown.get()) is bool(told)
