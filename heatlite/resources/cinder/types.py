"""Volume types, their encryption and their QoS specs. For administrators."""

from contextlib import suppress
from typing import cast

from heatlite.clients.cloud import Ambiguous, CloudConflict, CloudNotFound, NameNotFound
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.plugin import Change, CloudResource, Resource, Schema, SupportStatus, Unhealthy, prop
from heatlite.plugin.naming import is_as_requested, keys_as_given
from heatlite.resources.cinder.volumes import is_text_of, texts

PUBLIC = "os-volume-type-access:is_public"


class VolumeTypeProps(Schema):
    name: str = prop(update=True, doc="Its name.")
    metadata: dict[str, Json] | None = prop(update=True, api="", doc="Its extra specs: requirements for its volumes.")
    is_public: bool = prop(True, update=True, api=PUBLIC, doc="True if all projects may use it.")
    description: str | None = prop(update=True, doc="Its description.")
    projects: list[str] = prop(
        [], update=True, api="", items=prop(find="keystone.project"), doc="The projects with access to a private type."
    )

    def fault(self) -> str | None:
        if self.projects and self.is_public:
            return "projects cannot be given for a volume type that is public"
        return None


class VolumeType(CloudResource[VolumeTypeProps], type="OS::Cinder::VolumeType", kind="block_storage.type"):
    """A volume type."""

    support_status = SupportStatus(version="2015.1")
    kept_when_well = True

    # A type with volumes cannot be deleted: the old one is renamed until its volumes have the new type.

    def handle_create(self) -> Json:
        former = self._namesake(self.facts.former())
        if former is not None and self.physical_id is None:
            with suppress(CloudNotFound):
                self.service("update_type", former.physical_id, name=former.physical_name)
        return super().handle_create()

    def handle_delete(self) -> Json:
        """Delete the type.

        If the renamed predecessor stays (a rollback), restore its name.
        """
        token, former = super().handle_delete(), self._namesake(self.facts.former())
        if former is not None:
            with suppress(CloudNotFound):
                self.service("update_type", former.physical_id, name=former.props.name)
        return token

    def _namesake(self, other: Resource[Schema] | None) -> "VolumeType | None":
        if not isinstance(other, VolumeType) or other.physical_id is None:
            return None
        return other if other.facts.properties["name"] == self.facts.properties["name"] else None

    def needs_replace_failed(self) -> bool:
        """True also if some of its projects have no access to it."""
        if super().needs_replace_failed():
            return True
        return not set(self.props.projects) <= self._let_in_already()

    def live_parts(self, thing: JsonMap) -> JsonMap:
        parts, given = super().live_parts(thing), self.facts.properties
        if given.get("metadata") is not None:
            live, asked = as_map(thing.get("extra_specs")), as_map(given["metadata"])
            parts["metadata"] = keys_as_given(asked, live, is_text_of)
        if given.get("projects"):
            parts["projects"] = self.listed("projects", sorted(self._let_in_already()))
        return parts

    def alike(self) -> list[JsonMap]:
        # The service lists public types only. Names are unique.
        found = self.service("find_type", self.props.name)
        return [found] if isinstance(found, dict) and is_as_requested(found, self.identity()) else []

    def create_args(self) -> JsonMap:
        args = self.sent()
        if self.props.metadata:
            args["extra_specs"] = texts(self.props.metadata)
        return args

    def check_create_complete(self, token: Json) -> bool | float:
        for project in self.props.projects:
            self._let_in(project)
        return True

    def handle_update(self, change: Change) -> Json:
        args = self.update_args(change)
        if PUBLIC in args:
            args["is_public"] = args.pop(PUBLIC)
        if "description" in args:
            args["description"] = args["description"] or ""  # null would leave it unchanged
        if args:
            self.service("update_type", self.physical_id, **args)
        if "metadata" in change.changed:
            self._set_specs(cast(JsonMap, change.before.get("metadata") or {}))
        if change.changed & {"projects", "is_public"} and not self.props.is_public:
            admitted = self._let_in_already()
            for project in self.props.projects:
                if project not in admitted:
                    self._let_in(project)
            for project in sorted(admitted.difference(self.props.projects)):
                with suppress(CloudNotFound):
                    self.service("remove_type_access", self.physical_id, project)
        return None

    def _set_specs(self, before: JsonMap) -> None:
        after = texts(self.props.metadata or {})
        live = cast(JsonMap, self.fetch().get("extra_specs") or {})
        dropped = [key for key in before if key not in after and key in live]
        if dropped:
            self.service("delete_type_extra_specs", self.physical_id, cast(Json, dropped))
        if after:
            self.service("update_type_extra_specs", self.physical_id, **after)

    def _let_in_already(self) -> set[str]:
        """Return the projects with access to a private type; empty for a public one."""
        if self.props.is_public:
            return set()
        answer = cast(list[JsonMap], self.service("get_type_access", self.physical_id))
        return {str(one["project_id"]) for one in answer}

    def _let_in(self, project: str) -> None:
        with suppress(CloudConflict):  # it has access already
            self.service("add_type_access", self.physical_id, project)


class EncryptedVolumeTypeProps(Schema):
    provider: str = prop(update=True, doc="The encryption provider, such as luks.")
    control_location: str = prop(
        "front-end",
        update=True,
        one_of=("front-end", "back-end"),
        doc="The place of the encryption: front-end (Nova) or back-end (Cinder).",
    )
    cipher: str | None = prop(
        update=True, one_of=("aes-xts-plain64", "aes-cbc-essiv"), doc="The algorithm and its mode."
    )
    key_size: int | None = prop(update=True, doc="The length of the key in bits.")
    volume_type: str = prop(find="cinder.vtype", api="", doc="The volume type, by name or id, with no volumes yet.")


class EncryptedVolumeType(CloudResource[EncryptedVolumeTypeProps], type="OS::Cinder::EncryptedVolumeType"):
    """Encryption of the volumes of a volume type.

    The physical id is the volume type's id.
    """

    support_status = SupportStatus(version="5.0.0")
    kind = "block_storage.type_encryption"

    def fetch(self) -> JsonMap:
        found = {} if self.physical_id is None else self.map(self.service("get_type_encryption", self.physical_id))
        if not found.get("encryption_id"):
            text = f"volume type {self.physical_id} has no encryption"
            raise CloudNotFound("block_storage.get_type_encryption", text)
        return found

    def identity(self) -> JsonMap:
        return {}

    def key(self) -> str:
        return self.props.volume_type

    def alike(self) -> list[JsonMap]:
        if self.inherits:
            return []
        found = self.map(self.service("get_type_encryption", self.props.volume_type))
        return [{**found, "id": self.props.volume_type}] if found.get("encryption_id") else []

    def handle_create(self) -> Json:
        if self.inherits:
            self.service("update_type_encryption", volume_type=self.key(), **self.sent())
        else:
            self.service("create_type_encryption", self.key(), **self.sent())
        self.physical_id = self.key()
        return None

    def handle_update(self, change: Change) -> Json:
        self.service("update_type_encryption", volume_type=self.physical_id, **self.sent(change.changed))
        return None

    def handle_delete(self) -> Json:
        if self.physical_id is not None and not self.is_passed_on:
            with suppress(CloudNotFound):
                self.fetch()
                self.service("delete_type_encryption", volume_type=self.physical_id)
        return None


class QoSSpecsProps(Schema):
    name: str | None = prop(blank=True, doc="Its name.")
    specs: dict[str, Json] = prop(update=True, api="", doc="The specs: keys and values.")


class QoSSpecs(CloudResource[QoSSpecsProps], type="OS::Cinder::QoSSpecs", kind="block_storage.qos_spec"):
    """QoS specs for volume types: limits and guarantees such as operations per second."""

    support_status = SupportStatus(version="7.0.0")
    unique_name = True
    kept_when_well = True
    alone = frozenset({"name"})

    def create_args(self) -> JsonMap:
        return texts(self.props.specs)

    def live_parts(self, thing: JsonMap) -> JsonMap:
        parts, given = super().live_parts(thing), self.facts.properties
        if given.get("specs") is not None:
            live, asked = as_map(thing.get("specs")), as_map(given["specs"])
            parts["specs"] = keys_as_given(asked, live, is_text_of)
        return parts

    def handle_update(self, change: Change) -> Json:
        after = texts(self.props.specs)
        live = cast(JsonMap, self.fetch().get("specs") or {})
        dropped = [key for key in cast(JsonMap, change.before["specs"]) if key not in after and key in live]
        if dropped:
            self.service("delete_qos_spec_metadata", self.physical_id, cast(Json, dropped))
        if after:
            self.service("update_qos_spec", self.physical_id, **after)
        return None

    def handle_delete(self) -> Json:
        if self.physical_id is not None:
            with suppress(CloudNotFound):
                self.service("disassociate_all_qos_spec", self.physical_id)
        return super().handle_delete()


class QoSAssociationProps(Schema):
    qos_specs: str = prop(find="cinder.qos_specs", doc="The QoS specs, by name or id.")
    volume_types: list[str] = prop(
        update=True, items=prop(find="cinder.vtype"), doc="The volume types that they are for, by names or ids."
    )


class QoSAssociation(
    CloudResource[QoSAssociationProps], type="OS::Cinder::QoSAssociation", kind="block_storage.qos_spec"
):
    """Associates QoS specs with volume types.

    The physical id is the id of the QoS specs.
    """

    support_status = SupportStatus(version="8.0.0")
    shares_object = True
    searched = False  # associating is idempotent

    def handle_create(self) -> Json:
        self.physical_id = self.props.qos_specs
        for kind in self.props.volume_types:
            self.service("associate_qos_spec", self.physical_id, kind)
        return None

    def handle_update(self, change: Change) -> Json:
        if not change.changed:
            return None
        before = cast(list[str], self.known(cast(JsonMap, change.before))["volume_types"])
        for kind in before:
            if kind not in self.props.volume_types:
                with suppress(CloudNotFound):
                    self.service("disassociate_qos_spec", self.physical_id, kind)
        for kind in self.props.volume_types:
            self.service("associate_qos_spec", self.physical_id, kind)
        return None

    def handle_delete(self) -> Json:
        latter, theirs = self.facts.latter(), list[str]()
        if isinstance(latter, QoSAssociation) and self.is_passed_on:
            theirs = latter.props.volume_types
        for name in cast(list[str], self.facts.properties["volume_types"]) if self.physical_id is not None else []:
            with suppress(CloudNotFound):
                kind = self._finders.id_of("cinder.vtype", name)
                if kind not in theirs:
                    self.service("disassociate_qos_spec", self.physical_id, kind)
        return None

    def _kinds(self) -> list[str]:
        """Return the ids of the volume types.

        Without those that an external association does not tell, and names that lead nowhere any more.
        """
        found: list[str] = []
        for name in cast(list[str], self.facts.properties.get("volume_types") or []):
            with suppress(NameNotFound, Ambiguous):
                found += cast(list[str], self.resolved({"volume_types": [name]})["volume_types"])
        return found

    def handle_check(self) -> Json:
        with self.absent_if_missing():
            found = cast(list[JsonMap], self.service("qos_spec_associations", self.physical_id))
        existing = {one["id"] for one in found}
        missing = [kind for kind in self._kinds() if kind not in existing]
        if missing:
            text = f"the QoS specs are not those of volume types {', '.join(missing)} any more"
            raise Unhealthy(f"block_storage.qos_spec_associations: {text}")
        return None
