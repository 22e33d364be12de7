"""Types of the DNS service: zones and their records.

The service is asynchronous, also on deletions.
"""

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudResource, Schema, SupportStatus, prop


class ZoneProps(Schema):
    name: str = prop(length=(None, 255), doc="Its name, with a dot at the end.")
    type: str = prop(
        "PRIMARY",
        one_of=("PRIMARY", "SECONDARY"),
        doc="PRIMARY if the service is the master of the zone, SECONDARY if it copies the zone.",
    )
    email: str | None = prop(update=True, doc="The email address of its administrator; a primary zone needs one.")
    description: str | None = prop(update=True, length=(None, 160), doc="Its description.")
    ttl: int | None = prop(update=True, between=(1, 2147483647), doc="Time to live of its records, in seconds.")
    primaries: list[Json] | None = prop(
        update=True, api="masters", doc="The servers that a secondary zone is copied from."
    )
    masters: list[Json] | None = prop(update=True, means="primaries", api="", doc="An old name of primaries.")
    attributes: dict[str, Json] | None = prop(doc="Attributes by which the service chooses its servers.")

    def fault(self) -> str | None:
        if self.type == "PRIMARY" and self.email is None:
            return "A primary zone needs an email."
        if self.type == "SECONDARY" and not self.primaries:
            return "A secondary zone needs primaries, which it is copied from."
        return None


class Zone(CloudResource[ZoneProps], type="OS::Designate::Zone", kind="dns.zone"):
    """A DNS zone: a domain and its names."""

    support_status = SupportStatus(version="8.0.0")
    unique_name = True
    kept_when_well = True
    alone = frozenset({"name"})
    ready = frozenset({"ACTIVE"})
    shown = {"serial": (str, "Its serial number.")}


class RecordSetProps(Schema):
    zone: str = prop(find="designate.zone", api="", doc="The zone it is in, by name or id.")
    name: str | None = prop(
        length=(None, 255), api="", doc="Its name; without a trailing dot the zone's name is appended."
    )
    type: str = prop(
        one_of=(
            "A", "AAAA", "CNAME", "MX", "SRV", "TXT", "SPF", "NS", "PTR", "SSHFP", "SOA", "CAA", "CERT", "NAPTR",
        ),
        doc="The type of the records.",
    )  # fmt: skip
    records: list[Json] = prop(update=True, doc="The records.")
    description: str | None = prop(update=True, length=(None, 160), doc="Its description.")
    ttl: int | None = prop(update=True, between=(1, 2147483647), doc="Time to live of the records, in seconds.")


class RecordSet(CloudResource[RecordSetProps], type="OS::Designate::RecordSet", kind="dns.recordset"):
    """The records of one name and one type."""

    support_status = SupportStatus(version="8.0.0")
    within = "zone"
    kept_when_well = True
    alone = frozenset({"zone", "name", "type"})
    ready = frozenset({"ACTIVE"})

    def identity(self) -> JsonMap:
        """Return name and type: a zone has one record set for each name and type."""
        name = str(self.facts.properties.get("name") or self.physical_name)
        if not name.endswith("."):
            zone = self.map(self.service("get_zone", *self.whole))
            name = f"{name}.{zone['name']}"
        return {"name": name, "type": self.facts.properties["type"]}

    def handle_update(self, change: Change) -> Json:
        """Update the record set. The verb takes the zone as an attribute."""
        zone = self.whole[0]
        self.service("update_recordset", self.physical_id, zone_id=zone, **self.update_args(change))
        return None
