"""OS::Heat::ScalingPolicy, AWS::AutoScaling::ScalingPolicy: signals resize groups."""

from abc import abstractmethod

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, NoActionNeeded, Resize, Schema, Signalled, prop
from heatlite.plugin.resource import P_co
from heatlite.plugin.signing import NATIVE

PERCENT = "percent_change_in_capacity"


class Policy(Signalled[P_co]):
    """Base of the policies.

    The engine rejects signals to suspended resources, so policies need not check.
    """

    quick = True

    resizes = True

    def handle_create(self) -> None:
        self.draw_key()
        self.physical_id = self.physical_name

    def handle_update(self, change: Change) -> None:
        """Do nothing: the next signal reads the properties."""

    def handle_suspend(self) -> None:
        pass

    def handle_resume(self) -> None:
        pass

    @abstractmethod
    def resize(self) -> Resize:
        """Return the change of size that a signal requests."""

    def handle_signal(self, details: JsonMap | None) -> Resize:
        """Return the resize.

        Raises NoActionNeeded for an alarm in another state than "alarm".
        """
        given = details or {}
        state = given.get("current", given.get("state", "alarm"))
        if not isinstance(state, str) or state.lower() != "alarm":
            raise NoActionNeeded("not_alarm")
        return self.resize()


# -- OS::Heat::ScalingPolicy -------------------------------------------------------------------------


class ScalingPolicyProps(Schema):
    adjustment_type: str = prop(
        one_of=("change_in_capacity", "exact_capacity", PERCENT), update=True, doc="The meaning of scaling_adjustment."
    )
    auto_scaling_group_id: str = prop(doc="The group, by its reference.")
    scaling_adjustment: float = prop(update=True, doc="The change of the group's size by a signal, or the new size.")
    cooldown: float | None = prop(
        update=True, doc="Seconds after a scaling in which signals are ignored; default: the group's."
    )
    min_adjustment_step: int | None = prop(
        between=(0, None), update=True, doc="Minimum change of size, for percentages."
    )

    def fault(self) -> str | None:
        if self.min_adjustment_step is not None and self.adjustment_type != PERCENT:
            return f"min_adjustment_step property should only be specified for adjustment_type with value {PERCENT}."
        return None


class ScalingPolicy(Policy[ScalingPolicyProps], type="OS::Heat::ScalingPolicy"):
    """Resizes a scaling group on each signal."""

    def resize(self) -> Resize:
        props = self.props
        wanted: JsonMap = {
            "kind": props.adjustment_type,
            "adjustment": props.scaling_adjustment,
            "least": props.min_adjustment_step,
            "cooldown": props.cooldown,
        }
        return Resize(props.auto_scaling_group_id, wanted)

    def attr_alarm_url(self) -> str | None:
        """A pre-signed URL in CloudFormation's format; a POST to it signals the policy."""
        return None if self.physical_id is None else self.signed_url("signal")

    def attr_signal_url(self) -> str | None:
        """A pre-signed URL of the orchestration API; a POST to it signals the policy."""
        return None if self.physical_id is None else self.signed_url(NATIVE)


# -- AWS::AutoScaling::ScalingPolicy -----------------------------------------------------------------

KINDS = {
    "ChangeInCapacity": "change_in_capacity",
    "ExactCapacity": "exact_capacity",
    "PercentChangeInCapacity": PERCENT,
}


class CfnScalingPolicyProps(Schema):
    AdjustmentType: str = prop(one_of=tuple(KINDS), update=True, doc="The meaning of ScalingAdjustment.")
    AutoScalingGroupName: str = prop(doc="The group, by its reference.")
    ScalingAdjustment: int = prop(update=True, doc="The change of the group's size by a signal, or the new size.")
    Cooldown: int | None = prop(
        update=True, doc="Seconds after a scaling in which signals are ignored; default: the group's."
    )
    MinAdjustmentStep: int | None = prop(between=(0, None), update=True, doc="Minimum change of size, for percentages.")

    def fault(self) -> str | None:
        if self.MinAdjustmentStep is not None and KINDS[self.AdjustmentType] != PERCENT:
            kind = "PercentChangeInCapacity"
            return f"MinAdjustmentStep property should only be specified for AdjustmentType with value {kind}."
        return None


class CfnScalingPolicy(Policy[CfnScalingPolicyProps], type="AWS::AutoScaling::ScalingPolicy"):
    """Resizes a scaling group on each signal. get_resource returns its pre-signed URL."""

    def resize(self) -> Resize:
        props = self.props
        wanted: JsonMap = {
            "kind": KINDS[props.AdjustmentType],
            "adjustment": props.ScalingAdjustment,
            "least": props.MinAdjustmentStep,
            "cooldown": props.Cooldown,
        }
        return Resize(props.AutoScalingGroupName, wanted)

    def reference(self) -> Json:
        return self.name if self.physical_id is None else self.signed_url("signal")

    def attr_AlarmUrl(self) -> str | None:  # noqa: N802  # Heat's name
        """A pre-signed URL; a POST to it signals the policy."""
        return None if self.physical_id is None else self.signed_url("signal")
