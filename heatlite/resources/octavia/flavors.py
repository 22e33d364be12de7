"""Flavors, availability zones and quotas of load balancers, for administrators."""


from heatlite.plugin import Change, CloudResource, Schema, SupportStatus, prop
from heatlite.resources.quotas import ProjectQuota, QuotaProps


class FlavorProfileProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    flavor_data: str = prop(update=True, custom="json_string", doc="Settings for the provider, as JSON text.")
    provider_name: str | None = prop(update=True, doc="The provider of load balancers that understands the settings.")


class FlavorProfile(
    CloudResource[FlavorProfileProps], type="OS::Octavia::FlavorProfile", kind="load_balancer.flavor_profile"
):
    """Settings of a provider of load balancers, for use by flavors."""

    support_status = SupportStatus(version="14.0.0")


class FlavorProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    flavor_profile: str = prop(
        find="octavia.flavorprofile", api="flavor_profile_id", doc="Its profile, by name or id."
    )
    enabled: bool = prop(True, update=True, doc="True if load balancers may use it.")
    description: str = prop("", update=True, doc="Its description.")


class Flavor(CloudResource[FlavorProps], type="OS::Octavia::Flavor", kind="load_balancer.flavor"):
    """A flavor of load balancers, which users choose by its name."""

    support_status = SupportStatus(version="14.0.0")
    unique_name = True
    alone = frozenset({"name"})
    blocks = frozenset({"OS::Octavia::FlavorProfile"})
    shown = {"flavor_profile_id": (str, "The id of its profile.")}


class AvailabilityZoneProfileProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    availability_zone_data: str = prop(
        update=True, custom="json_string", doc="Settings for the provider, as JSON text."
    )
    provider_name: str | None = prop(update=True, doc="The provider of load balancers that understands the settings.")


class AvailabilityZoneProfile(
    CloudResource[AvailabilityZoneProfileProps],
    type="OS::Octavia::AvailabilityZoneProfile",
    kind="load_balancer.availability_zone_profile",
):
    """Settings of a provider of load balancers, for use by availability zones."""

    support_status = SupportStatus(version="24.0.0")


class AvailabilityZoneProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    availability_zone_profile: str = prop(
        find="octavia.availabilityzoneprofile", api="availability_zone_profile_id", doc="Its profile, by name or id."
    )
    enabled: bool = prop(True, update=True, doc="True if load balancers may use it.")
    description: str = prop("", update=True, doc="Its description.")


class AvailabilityZone(
    CloudResource[AvailabilityZoneProps], type="OS::Octavia::AvailabilityZone", kind="load_balancer.availability_zone"
):
    """An availability zone of load balancers. The service identifies it by its name."""

    support_status = SupportStatus(version="24.0.0")
    unique_name = True
    alone = frozenset({"name"})
    lasting_reference = True
    blocks = frozenset({"OS::Octavia::AvailabilityZoneProfile"})
    shown = {"availability_zone_profile_id": (str, "The id of its profile.")}

    def needs_replace(self, change: Change) -> bool:
        """True for another name: the service cannot change it."""
        return "name" in change.changed


class BalancerQuotaProps(QuotaProps):
    healthmonitor: int | None = prop(
        update=True, between=(-1, None), doc="Maximum number of health monitors; -1: unlimited."
    )
    listener: int | None = prop(update=True, between=(-1, None), doc="Maximum number of listeners; -1: unlimited.")
    loadbalancer: int | None = prop(
        update=True, between=(-1, None), doc="Maximum number of load balancers; -1: unlimited."
    )
    pool: int | None = prop(update=True, between=(-1, None), doc="Maximum number of pools; -1: unlimited.")
    member: int | None = prop(update=True, between=(-1, None), doc="Maximum number of members; -1: unlimited.")


class Quota(ProjectQuota[BalancerQuotaProps], type="OS::Octavia::Quota", kind="load_balancer.quota"):
    """Load balancer quotas of a project. Deletion restores the default quotas."""

    support_status = SupportStatus(version="14.0.0")
