"""Alarms of the alarm service."""

from typing import ClassVar, Final, TypeVar, cast
from urllib.parse import parse_qs, urlencode, urlsplit

from heatlite.core.json import Json, JsonMap, as_maps
from heatlite.plugin import Change, CloudResource, Schema, SupportStatus, prop
from heatlite.plugin.naming import is_as_requested

COMPARISONS = ("le", "ge", "eq", "lt", "gt", "ne")
STATES = ("alarm", "ok", "insufficient_data")
OF_INSTANCES = frozenset({
    "instance", "memory", "memory.usage", "cpu", "cpu_util", "vcpus", "disk.read.requests", "disk.read.requests.rate",
    "disk.write.requests", "disk.write.requests.rate", "disk.read.bytes", "disk.read.bytes.rate", "disk.write.bytes",
    "disk.write.bytes.rate", "disk.root.size", "disk.ephemeral.size",
})  # fmt: skip
"""Meters of servers, whose metadata is what users gave them."""


QUEUE: Final = prop(custom="zaqar.queue", blank=True)


class TimeConstraint(Schema):
    name: str = prop(doc="Its name.")
    description: str | None = prop(doc="Its description.")
    start: str = prop(custom="cron_expression", doc="The begin of each period, in the format of cron.")
    duration: int = prop(between=(0, None), doc="The length of each period, in seconds.")
    timezone: str | None = prop(custom="timezone", doc="The time zone of start.")


class Query(Schema):
    field: str | None = prop(doc="The attribute that is compared.")
    op: str | None = prop(one_of=COMPARISONS, doc="The comparison.")
    type: str = prop(
        "string", one_of=("integer", "float", "string", "boolean", "datetime"), doc="The type of the value."
    )
    value: str | None = prop(doc="The value to compare with.")


class AlarmProps(Schema):
    description: str | None = prop(update=True, doc="Its description.")
    enabled: bool = prop(True, update=True, doc="True if it is evaluated.")
    alarm_actions: list[Json] | None = prop(update=True, doc="URLs called when the state becomes alarm.")
    insufficient_data_actions: list[Json] | None = prop(
        update=True, doc="URLs called when the state becomes insufficient data."
    )
    ok_actions: list[Json] | None = prop(update=True, doc="URLs called when the state becomes ok.")
    alarm_queues: list[str] = prop(
        [], items=QUEUE, update=True, api="", doc="Queues told when the state becomes alarm."
    )
    insufficient_data_queues: list[str] = prop(
        [],
        items=QUEUE,
        update=True,
        api="",
        doc="Queues told when the state becomes insufficient data.",
    )
    ok_queues: list[str] = prop([], items=QUEUE, update=True, api="", doc="Queues told when the state becomes ok.")
    repeat_actions: bool = prop(True, update=True, doc="True if actions repeat while the state lasts.")
    severity: str = prop("low", update=True, one_of=("low", "moderate", "critical"), doc="Its severity.")
    time_constraints: list[TimeConstraint] = prop([], doc="Periods in which it is evaluated; without any: always.")


P_co = TypeVar("P_co", bound=AlarmProps, covariant=True)


class AodhResource(CloudResource[P_co]):
    """Base of the types. Subclasses list the properties that make up the alarm's rule."""

    unique_name = True
    kind_of_alarm: ClassVar[str] = ""
    rule: ClassVar[str] = ""
    """Attribute with the rule."""
    ruled: ClassVar[frozenset[str]] = frozenset()
    """Properties within the rule, by their names in the API."""

    def __init_subclass__(cls, type: str = "", alarm: str = "") -> None:  # noqa: A002
        super().__init_subclass__(type=type, kind="alarming.alarm")
        cls.kind_of_alarm = alarm
        cls.rule = f"{alarm}_rule"
        cls.ruled = frozenset(field.api for name, field in cls.schema.fields.items() if name not in AlarmProps.fields)

    def create_args(self) -> JsonMap:
        sent = self.sent()
        rule = {name: sent.pop(name) for name in self.ruled & sent.keys()}
        for name in STATES:
            queues = getattr(self.props, f"{name}_queues")
            urls = [f"trust+zaqar://?{urlencode({'queue_name': queue})}" for queue in queues]
            if urls:
                given = sent.get(f"{name}_actions")
                sent[f"{name}_actions"] = [*(given if isinstance(given, list) else []), *urls]
        return {**sent, "type": self.kind_of_alarm, self.rule: self.rule_of(rule)}

    def rule_of(self, given: JsonMap) -> Json:
        """Return the rule of the properties in it."""
        return given

    def fetch(self) -> JsonMap:
        """Return the alarm, with what its rule contains as attributes of its own."""
        thing = super().fetch()
        rule = thing.get(self.rule)
        return {**thing, **self.told_by(rule)} if isinstance(rule, dict) else thing

    def told_by(self, rule: JsonMap) -> JsonMap:
        """Return the properties that a rule tells, by their names in the API."""
        return {name: rule[name] for name in self.ruled & rule.keys()}

    def handle_update(self, change: Change) -> Json:
        if change.changed:
            self._put()
        return None

    def _put(self, **more: Json) -> None:
        """Update the alarm as a whole: the service takes no partial updates."""
        absent: dict[str, Json] = {f"{name}_actions": [] for name in STATES}
        now = {**super().fetch(), "description": "", **absent, **self.create_args(), **self.identity(), **more}
        self.service("update_alarm", self.physical_id, **{key: value for key, value in now.items() if key != "id"})

    def handle_suspend(self) -> Json:
        self._put(enabled=False)
        return None

    def handle_resume(self) -> Json:
        self._put(enabled=True)
        return None

    def live_parts(self, thing: JsonMap) -> JsonMap:
        """Tell actions and queues apart, which the service has in one list."""
        found: dict[str, list[Json]] = {}
        for state in STATES:
            actions = found.setdefault(f"{state}_actions", [])
            queues = found.setdefault(f"{state}_queues", [])
            for action in cast(list[str], thing.get(f"{state}_actions") or []):
                url = urlsplit(action)
                names = parse_qs(url.query).get("queue_name", [])
                if url.scheme == "trust+zaqar" and names:
                    queues.append(names[0])
                else:  # the service writes its trust in front of the host
                    host = url.netloc.rpartition(":delete@")[2]
                    actions.append(action.replace(url.netloc, host, 1) if url.netloc else action)
        given = self.facts.properties
        return {name: self.listed(name, live) for name, live in found.items() if given.get(name) is not None}


class ThresholdProps(AlarmProps):
    threshold: float = prop(update=True, doc="The value that is compared with.")
    comparison_operator: str | None = prop(update=True, one_of=COMPARISONS, doc="The comparison with the threshold.")


class EvaluatedProps(ThresholdProps):
    evaluation_periods: int | None = prop(update=True, doc="The number of periods that the comparison must hold for.")


class ThresholdAlarmProps(EvaluatedProps):
    meter_name: str = prop(doc="The meter whose values are compared.")
    period: int | None = prop(update=True, doc="Seconds of a period.")
    statistic: str | None = prop(
        update=True, one_of=("count", "avg", "sum", "min", "max"), doc="The statistic of a period's values."
    )
    matching_metadata: dict[str, Json] = prop({}, update=True, doc="Metadata that samples must have.")
    query: list[Query] | None = prop(update=True, doc="Conditions that samples must meet.")


class Alarm(AodhResource[ThresholdAlarmProps], type="OS::Aodh::Alarm", alarm="threshold"):
    """An alarm by a threshold of a meter. Present services use metrics of Gnocchi."""

    support_status = SupportStatus(
        "DEPRECATED", "10.0.0", "Use an alarm on metrics of Gnocchi instead.", SupportStatus(version="2014.1")
    )

    def rule_of(self, given: JsonMap) -> Json:
        query = [*as_maps(given.get("query")), *self._of_metadata().values()]
        return {**{key: value for key, value in given.items() if key != "matching_metadata"}, "query": query}

    def _of_metadata(self) -> dict[str, JsonMap]:
        """Return the conditions on metadata, by its keys."""
        found: dict[str, JsonMap] = {}
        if not self.facts.properties.get("matching_metadata"):
            return found  # of an object to be imported nothing else is known
        prefix = "user_metadata." if self.props.meter_name in OF_INSTANCES else "metering."
        for name, value in sorted(self.props.matching_metadata.items()):
            key = name.removeprefix("metadata.")
            if key.startswith(("metering.", "user_metadata.")):
                key = prefix + key.partition(".")[2]
            found[name] = {"field": f"metadata.{key}", "op": "eq", "value": str(value)}
        return found

    def told_by(self, rule: JsonMap) -> JsonMap:
        told, own = super().told_by(rule), self._of_metadata()
        query, metadata = as_maps(rule.get("query")), dict[str, Json]()
        for name, condition in own.items():
            kept = [one for one in query if not is_as_requested(one, condition)]
            if len(kept) < len(query):
                query, metadata[name] = kept, self.props.matching_metadata[name]
        return {**told, "query": query, "matching_metadata": metadata} if own else told


class EventAlarmProps(AlarmProps):
    event_type: str = prop("*", update=True, doc="The type of the events; * stands for any part.")
    query: list[Query] | None = prop(update=True, doc="Conditions that events must meet.")


class EventAlarm(AodhResource[EventAlarmProps], type="OS::Aodh::EventAlarm", alarm="event"):
    """An alarm on events."""

    support_status = SupportStatus(version="8.0.0")


class CompositeRule(Schema):
    operator: str = prop(update=True, one_of=("or", "and"), doc="The combination of the rules.")
    rules: list[Json] = prop(update=True, length=(2, None), doc="The rules, which may be composite themselves.")


class CompositeAlarmProps(AlarmProps):
    composite_rule: CompositeRule = prop(update=True, doc="The rules and their combination.")


class CompositeAlarm(AodhResource[CompositeAlarmProps], type="OS::Aodh::CompositeAlarm", alarm="composite"):
    """An alarm on a combination of rules."""

    support_status = SupportStatus(version="8.0.0")

    def rule_of(self, given: JsonMap) -> Json:
        rule = self.props.composite_rule
        return {rule.operator: rule.rules}

    def told_by(self, rule: JsonMap) -> JsonMap:
        (operator,) = rule
        return {"composite_rule": {"operator": operator, "rules": rule[operator]}}


class GnocchiProps(EvaluatedProps):
    granularity: int | None = prop(update=True, doc="Seconds between two values of a metric.")
    aggregation_method: str | None = prop(update=True, doc="The aggregation of the values, such as mean.")


class OfResourcesProps(GnocchiProps):
    metric: str = prop(update=True, doc="The name of the metric.")
    resource_type: str = prop(update=True, doc="The type of the resources that have the metric.")


class GnocchiResourcesAlarmProps(OfResourcesProps):
    resource_id: str = prop(update=True, doc="The id of the resource that has the metric.")


class GnocchiResourcesAlarm(
    AodhResource[GnocchiResourcesAlarmProps],
    type="OS::Aodh::GnocchiResourcesAlarm",
    alarm="gnocchi_resources_threshold",
):
    """An alarm on a metric of one resource."""

    support_status = SupportStatus(version="2015.1")


class AggregationByMetricsProps(GnocchiProps):
    metrics: list[Json] = prop(update=True, doc="The ids of the metrics.")


class GnocchiAggregationByMetricsAlarm(
    AodhResource[AggregationByMetricsProps],
    type="OS::Aodh::GnocchiAggregationByMetricsAlarm",
    alarm="gnocchi_aggregation_by_metrics_threshold",
):
    """An alarm on an aggregation of metrics."""

    support_status = SupportStatus(version="2015.1")


class AggregationByResourcesProps(OfResourcesProps):
    query: str = prop(update=True, doc="The condition that resources must meet, as JSON text.")


class GnocchiAggregationByResourcesAlarm(
    AodhResource[AggregationByResourcesProps],
    type="OS::Aodh::GnocchiAggregationByResourcesAlarm",
    alarm="gnocchi_aggregation_by_resources_threshold",
):
    """An alarm on a metric of several resources."""

    support_status = SupportStatus(version="2015.1")

    def told_by(self, rule: JsonMap) -> JsonMap:
        told = super().told_by(rule)
        told.pop("query", None)  # the service adds the project
        return told


class PrometheusAlarmProps(ThresholdProps):
    query: str = prop(update=True, doc="The query of Prometheus whose value is compared.")


class PrometheusAlarm(AodhResource[PrometheusAlarmProps], type="OS::Aodh::PrometheusAlarm", alarm="prometheus"):
    """An alarm on a query of Prometheus."""

    support_status = SupportStatus(version="22.0.0")


class MemberHealthProps(AlarmProps):
    pool: str = prop(
        update=True,
        resolve="octavia.pool",
        api="pool_id",
        doc="The pool of a load balancer whose members are watched, by name or id.",
    )
    stack: str = prop(api="stack_id", doc="The id of the stack whose group has the members.")
    autoscaling_group_id: str = prop(update=True, doc="The group whose resources the members are, by its reference.")


class LBMemberHealthAlarm(
    AodhResource[MemberHealthProps], type="OS::Aodh::LBMemberHealthAlarm", alarm="loadbalancer_member_health"
):
    """An alarm on members of a load balancer that are in error."""

    support_status = SupportStatus(version="13.0.0")
