"""Lines of `heatlite plan` and `up` about approvals."""

from collections.abc import Sequence

from heatlite.cli.client import Object, an_object


def planned(facts: Object) -> Sequence[str]:
    """Return the line of a plan that needs an approval."""
    approval = an_object(facts, "approval") if "approval" in facts else {}
    because = approval.get("because")
    if not approval.get("needed") or not isinstance(because, list):
        return []
    return [f"Approval: needed ({', '.join(map(str, because))}). It begins once somebody has approved it."]
