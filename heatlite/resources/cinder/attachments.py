"""Attachments of volumes to servers."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TypeVar

from heatlite.clients.cloud import Ambiguous, CloudConflict, CloudNotFound, NameNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudResource, Schema, prop
from heatlite.plugin.cloud import FOUND_BEFORE
from heatlite.resources.cinder import attaching

P_co = TypeVar("P_co", bound=Schema, covariant=True)


class Attachment(CloudResource[P_co]):
    """Base of the types that attach a volume to a server.

    The physical id is the volume's id.
    """

    kind = "compute.volume_attachment"
    shares_object = True

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if another resource attaches the same volume to another server.

        An attachment of the same volume to the same server is taken over instead.
        """
        own, new = ([given.get(name) for name in self.names[:2]] for given in (self.facts.properties, properties))
        return (self.facts.leaves or own != new) and own[1] == new[1]

    names = ("instance_uuid", "volume_id", "mountpoint")
    """The properties that hold server, volume and device."""

    def parts(self, properties: JsonMap) -> tuple[str, str, str | None]:
        """Return server, volume and device. Raises CloudNotFound, CloudError."""
        server, volume, device = (self.resolved(properties).get(name) for name in self.names)
        return str(server), str(volume), None if device is None else str(device)

    def fetch(self) -> JsonMap:
        if self.physical_id is None:
            raise CloudNotFound("compute.get_volume_attachment", f"{self.name} has not been made")
        return self.map(self.service("get_volume_attachment", self._server(self.physical_id), self.physical_id))

    def _server(self, volume: str) -> Json:
        """Return the server. Where the properties do not tell it, the volume does.

        Those of an external attachment may be left out, and a name may lead nowhere. Raises CloudNotFound if the volume
        is not attached.
        """
        name = self.names[0]
        if name in self.facts.properties:
            with suppress(NameNotFound, Ambiguous):
                return self.ids_in(name, self.facts.properties[name])
        joined = attaching.attachments(attaching.of(self.cloud, volume))
        if not joined:
            raise CloudNotFound("compute.get_volume_attachment", f"volume {volume} is not attached to a server")
        return joined[0]["server_id"]

    def identity(self) -> JsonMap:
        return {}

    def alike(self) -> list[JsonMap]:
        server, volume, _ = self.parts(self.facts.properties)
        if self._takes_over(self.facts.former(), server, volume):
            return []
        try:
            self.service("get_volume_attachment", server, volume)
        except CloudNotFound:
            return []
        return [{"id": volume}]

    def is_held(self, key: str) -> bool:
        """Test whether another resource attaches the volume to the same server."""
        server, volume, _ = self.parts(self.facts.properties)
        return any(self._takes_over(one, server, volume) for one in self.facts.holders(key))

    def pairs(self) -> list[tuple[str, str]]:
        """Return server and volume, and those that a failed update has attached.

        Raises CloudNotFound, CloudError.
        """
        found = [self.parts(self.facts.properties)[:2]]
        if "joins" in self.data and self.physical_id is not None:
            found.append((str(self.data["joins"]), self.physical_id))
        return list(dict.fromkeys(found))

    def _takes_over(self, other: object, server: str, volume: str) -> bool:
        """True if the other resource attaches the same volume to the same server.

        `other` is the predecessor or the successor of this resource in a replacement.
        """
        if not isinstance(other, Attachment) or other.physical_id is None:
            return False
        return (server, volume) in other.pairs()

    def _former_servers(self, volume: str) -> list[str]:
        """Return the servers that the predecessor may have attached the volume to."""
        former = self.facts.former()
        assert isinstance(former, Attachment)
        return [server for server, theirs in former.pairs() if theirs == volume]

    def handle_create(self) -> Json:
        server, volume, device = self.parts(self.facts.properties)
        if self.data.get(FOUND_BEFORE):
            text = f"volume {volume} is attached to server {server} already"
            raise CloudConflict("compute.create_volume_attachment", text)
        if self._takes_over(self.facts.former(), server, volume):
            for one in () if self.data.get("parted") else self._former_servers(volume):
                attaching.detach(self.cloud, one, volume)
        else:
            attaching.attach(self.cloud, server, volume, device)
        self.physical_id = volume
        return None

    def check_create_complete(self, token: Json) -> bool | float:
        server, volume, device = self.parts(self.facts.properties)
        if self._takes_over(self.facts.former(), server, volume) and not self.data.get("parted"):
            if all(attaching.is_detached(self.cloud, one, volume) for one in self._former_servers(volume)):
                attaching.attach(self.cloud, server, volume, device)
                self.data["parted"] = True
            return False
        done = attaching.is_attached(self.cloud, server, volume)
        if done:
            self.data.pop("parted", None)
        return done

    def handle_delete(self) -> Json:
        if self.physical_id is None:
            return None
        try:
            pairs = self.pairs()
        except CloudNotFound:
            return None
        left: list[Json] = []
        others = [self.facts.latter(), self.facts.former()]
        for server, volume in pairs:
            if not any(self._takes_over(other, server, volume) for other in others):
                attaching.detach(self.cloud, server, volume)
                left += [server, volume]
        return left or None  # without any, the attachment belongs to the other resource

    def check_delete_complete(self, token: Json) -> bool | float:
        left = [str(one) for one in token] if isinstance(token, list) else []
        return all(attaching.is_detached(self.cloud, *one) for one in zip(left[::2], left[1::2], strict=True))


class VolumeAttachmentProps(Schema):
    instance_uuid: str = prop(update=True, doc="The id of the server.")
    volume_id: str = prop(update=True, find="cinder.volume", doc="The volume, by name or id.")
    mountpoint: str | None = prop(
        update=True, doc="The device on the server, such as /dev/vdc; a hypervisor may choose another one."
    )


class VolumeAttachment(Attachment[VolumeAttachmentProps], type="OS::Cinder::VolumeAttachment"):
    """Attaches a volume to a server.

    A change of any property detaches the volume, waits, and attaches it with the new properties.
    """

    def handle_update(self, change: Change) -> Json:
        if not change.changed:
            return None
        server, volume, _ = self.parts(dict(self.facts.before or self.facts.properties))
        if self.data.get("parted") != [server, volume]:
            attaching.detach(self.cloud, server, volume)
        return [server, volume]

    def check_update_complete(self, token: Json) -> bool | float:
        if token is None:
            return True
        server, volume, device = self.parts(self.facts.properties)
        if self.data.get("parted") != token:
            assert isinstance(token, list)
            if attaching.is_detached(self.cloud, str(token[0]), str(token[1])):
                self.data["parted"] = token
            return False
        if self.physical_id != volume or self.data.get("joins") != server:
            attaching.attach(self.cloud, server, volume, device)
            self.physical_id = volume
            self.data["joins"] = server
            return False
        if not attaching.is_attached(self.cloud, server, volume):
            return False
        del self.data["parted"], self.data["joins"]
        return True
