"""Types of the messaging service: queues, subscriptions and signed URLs."""

from collections.abc import Mapping
from typing import ClassVar, TypeVar, cast
from urllib.parse import urlencode

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.clock import to_text
from heatlite.core.json import Json, JsonMap, as_map, heat_text
from heatlite.plugin import Change, CloudResource, Schema, SupportStatus, prop

FOREVER = 220367260800
"""Default lifetime of a subscription, in seconds."""
HOUR = 3600

P_co = TypeVar("P_co", bound=Schema, covariant=True)


class QueueProps(Schema):
    name: str | None = prop(length=(None, 64), doc="Its name.")
    metadata: dict[str, Json] | None = prop(update=True, doc="Its metadata, which also has its settings.")


class Queue(CloudResource[QueueProps], type="OS::Zaqar::Queue", kind="messaging.queue"):
    """A queue of messages. The physical id is its name."""

    support_status = SupportStatus(version="2014.2")
    name_limit = 64
    alone = frozenset({"name"})
    lasting_reference = True
    searched = False  # creating a queue is idempotent

    def key(self) -> str:
        return self.props.name or self.physical_name

    def handle_create(self) -> Json:
        self.service("put_queue", self.key(), metadata=self.props.metadata or {})
        self.physical_id = self.key()
        return None

    def handle_update(self, change: Change) -> Json:
        before, after = (cast(JsonMap, one.get("metadata") or {}) for one in (change.before, change.after))
        changes: list[Json] = [{"op": "remove", "path": f"/metadata/{name}"} for name in before if name not in after]
        for name, value in after.items():
            verb = "replace" if name in before else "add"
            changes.append({"op": verb, "path": f"/metadata/{name}", "value": value})
        self.service("patch_queue", self.physical_id, changes=changes)
        return None

    def live_properties(self) -> Mapping[str, Json] | None:
        live = super().live_properties()
        return None if live is None else {}  # the service answers with settings of its own among the metadata

    def handle_delete(self) -> Json:
        return None if self.is_passed_on else super().handle_delete()

    def attr_queue_id(self) -> Json:
        """Its name."""
        return self.physical_id

    def attr_href(self) -> Json:
        """Its URL."""
        return None if self.physical_id is None else f"{self.service('endpoint')}/queues/{self.physical_id}"


class Subscribed(CloudResource[P_co]):
    """Base of the types that subscribe to a queue."""

    within = "queue_name"
    blocks = frozenset({"OS::Zaqar::Queue"})
    ours: ClassVar[tuple[str, ...]] = ("subscriber",)

    def identity(self) -> JsonMap:
        return {}

    def alike(self) -> list[JsonMap]:
        args = self.create_args()
        found = cast(list[JsonMap], self.service("subscriptions", *self.whole))
        return [one for one in found if all(one.get(name) == args[name] for name in self.ours)]


class SubscriptionProps(Schema):
    queue_name: str = prop(custom="zaqar.queue", blank=True, api="", doc="The queue, by name.")
    subscriber: str = prop(update=True, doc="The URL that gets the messages.")
    ttl: int = prop(FOREVER, update=True, between=(60, None), doc="Its lifetime in seconds.")
    options: dict[str, Json] | None = prop(update=True, doc="Options of the subscriber.")


class Subscription(Subscribed[SubscriptionProps], type="OS::Zaqar::Subscription", kind="messaging.subscription"):
    """A subscription of a URL to a queue's messages."""

    support_status = SupportStatus(version="8.0.0")


class MistralTriggerProps(Schema):
    queue_name: str = prop(custom="zaqar.queue", blank=True, api="", doc="The queue, by name.")
    workflow_id: str = prop(update=True, find="mistral.workflow", api="", doc="The workflow, by name or id.")
    input: dict[str, Json] = prop({}, update=True, api="", doc="The workflow's input.")
    params: dict[str, Json] = prop({}, update=True, api="", doc="Parameters of its execution.")
    ttl: int = prop(FOREVER, update=True, between=(60, None), doc="Its lifetime in seconds.")


class MistralTrigger(Subscribed[MistralTriggerProps], type="OS::Zaqar::MistralTrigger", kind="messaging.subscription"):
    """Executes a workflow for each message in a queue.

    The workflow finds the message in its environment as `notification`.
    """

    support_status = SupportStatus(version="8.0.0")
    ours = ("subscriber", "options")

    def create_args(self) -> JsonMap:
        props = self.props
        environment = as_map(props.params.get("env"))
        params = {**props.params, "env": {**environment, "notification": "$zaqar_message$"}}
        data = {"workflow_id": props.workflow_id, "input": props.input, "params": params}
        url = str(self.cloud.call("workflow.endpoint"))
        options: JsonMap = {"post_data": heat_text(data, sort_keys=True)}
        return {"subscriber": f"trust+{url}/executions", "ttl": props.ttl, "options": options}

    def update_args(self, change: Change) -> JsonMap:
        return self.create_args()


class SignedQueueURLProps(Schema):
    queue: str = prop(doc="The queue, by name.")
    paths: list[Json] | None = prop(doc="Parts of the queue that may be used, such as messages; default: messages.")
    ttl: int | None = prop(doc="Lifetime of the URL in seconds; default: an hour.")
    methods: list[str] | None = prop(
        items=prop(one_of=("GET", "DELETE", "PATCH", "POST", "PUT")), doc="The HTTP methods that may be used."
    )


class SignedQueueURL(CloudResource[SignedQueueURLProps], type="OS::Zaqar::SignedQueueURL", kind="messaging.signed_url"):
    """A signature for a queue, with which the queue may be used without a token."""

    support_status = SupportStatus(version="8.0.0")
    secret_attributes = frozenset({"signature", "query_str"})
    searched = False  # a signature is no object
    shown = {
        "signature": (Json, "The signature."),
        "expires": (Json, "The end of its lifetime."),
        "paths": (Json, "The parts of the queue that may be used."),
        "methods": (Json, "The HTTP methods that may be used."),
        "project": (Json, "The project that owns the queue."),
    }

    def handle_create(self) -> Json:
        props = self.props
        asked: JsonMap = {"expires": to_text(self.facts.now() + (HOUR if props.ttl is None else props.ttl))}
        for name, value in (("paths", props.paths), ("methods", props.methods)):
            if value is not None:
                asked[name] = cast(Json, value)
        self.data["signed"] = self.service("share_queue", props.queue, **asked)
        self.physical_id = self.physical_name
        return None

    def handle_delete(self) -> Json:
        return None  # it ends by itself

    def handle_check(self) -> Json:
        return None

    def live_properties(self) -> Mapping[str, Json] | None:
        return {}

    def secrets(self) -> list[Json]:
        return [] if not self._signed else [self._signed.get("signature"), self.attr_query_str()]

    def fetch(self) -> JsonMap:
        if not self._signed:
            raise CloudNotFound("messaging.share_queue", f"{self.name} has not been made")
        return self._signed

    @property
    def _signed(self) -> JsonMap:
        return cast(JsonMap, self.data.get("signed") or {})

    def attr_query_str(self) -> Json:
        """The signature and what it is for, as the query of a URL."""
        signed = self._signed
        if not signed:
            return None
        lists = {name: ",".join(cast(list[str], signed.get(name) or [])) for name in ("paths", "methods")}
        return urlencode({
            "signature": signed.get("signature"), "expires": signed.get("expires"), **lists,
            "project_id": signed.get("project"), "queue_name": self.facts.properties["queue"],
        })  # fmt: skip
