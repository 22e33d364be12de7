"""L7 policies and rules: the treatment of certain requests by a listener."""

from heatlite.core.json import JsonMap
from heatlite.plugin import Change, Resource, Schema, SupportStatus, prop
from heatlite.resources.octavia.base import OctaviaResource


class L7PolicyProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    listener: str = prop(find="octavia.listener", api="listener_id", doc="The listener it is part of, by name or id.")
    action: str = prop(
        update=True, one_of=("REJECT", "REDIRECT_TO_POOL", "REDIRECT_TO_URL"), doc="The action for matching requests."
    )
    redirect_pool: str | None = prop(
        update=True, find="octavia.pool", api="redirect_pool_id", doc="The pool to redirect requests to, by name or id."
    )
    redirect_url: str | None = prop(update=True, doc="The URL to redirect the client to.")
    position: float | None = prop(update=True, between=(1, None), doc="Its position among the listener's policies.")
    admin_state_up: bool = prop(True, update=True, doc="True if it is administratively up.")

    def fault(self) -> str | None:
        if self.action == "REDIRECT_TO_POOL" and self.redirect_pool is None:
            return "REDIRECT_TO_POOL needs redirect_pool."
        if self.action == "REDIRECT_TO_URL" and self.redirect_url is None:
            return "REDIRECT_TO_URL needs redirect_url."
        return None


class L7Policy(OctaviaResource[L7PolicyProps], type="OS::Octavia::L7Policy", kind="load_balancer.l7_policy"):
    """An L7 policy: the treatment of requests that match its rules."""

    support_status = SupportStatus(version="10.0.0")
    blocks = frozenset({"OS::Octavia::Listener"})
    joins = frozenset({"OS::Octavia::Pool"})
    plural = "l7_policies"
    shown = {"rules": (list, "Its rules.")}

    def update_args(self, change: Change) -> JsonMap:
        """Return the changes with the action, which `detach_from` may have changed."""
        args = super().update_args(change)
        return {**self.sent(frozenset({"action"})), **args} if args or not change.changed else args

    def detach_from(self, gone: Resource[Schema]) -> None:
        """Reject requests until there is a pool again."""
        if self.fetched.get("redirect_pool_id") == gone.physical_id:
            self.service("update_l7_policy", self.physical_id, action="REJECT", redirect_pool_id=None)

    def sent(self, names: frozenset[str] | None = None) -> JsonMap:
        """Send the position as a whole number."""
        args = super().sent(names)
        if isinstance(args.get("position"), float):
            args["position"] = int(float(str(args["position"])))
        return args


class L7RuleProps(Schema):
    l7policy: str = prop(find="octavia.l7policy", api="", doc="The policy it is part of, by name or id.")
    type: str = prop(
        update=True,
        one_of=("HOST_NAME", "PATH", "FILE_TYPE", "HEADER", "COOKIE"),
        doc="The part of a request to compare.",
    )
    compare_type: str = prop(
        update=True,
        one_of=("REGEX", "STARTS_WITH", "ENDS_WITH", "CONTAINS", "EQUAL_TO"),
        doc="The method of comparison.",
    )
    key: str | None = prop(update=True, doc="The name of the header or the cookie.")
    value: str = prop(update=True, doc="The value to compare with.")
    invert: bool = prop(False, update=True, doc="True if the condition is inverted.")
    admin_state_up: bool = prop(True, update=True, doc="True if it is administratively up.")

    def fault(self) -> str | None:
        if self.type in ("HEADER", "COOKIE") and self.key is None:
            return f"A rule for a {self.type} needs its name: give key."
        return None


class L7Rule(OctaviaResource[L7RuleProps], type="OS::Octavia::L7Rule", kind="load_balancer.l7_rule"):
    """An L7 rule: a condition for requests."""

    support_status = SupportStatus(version="10.0.0")
    within = "l7policy"
    blocks = frozenset({"OS::Octavia::L7Policy"})

    def identity(self) -> JsonMap:
        """Return a tag as the mark: rules have no names."""
        return {"tags": [self.physical_name]}

    def asked(self, mark: JsonMap) -> JsonMap:
        """Return {} to list all rules of the policy: they are few."""
        return {}
