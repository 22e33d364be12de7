"""AWS::S3::Bucket: a container of the object store."""

from typing import cast
from urllib.parse import urlsplit

from heatlite.clients.cloud import CloudConflict
from heatlite.core.json import Json, JsonMap
from heatlite.features.rare_types.aws.base import Tag
from heatlite.plugin import Schema, ServiceConflict, prop
from heatlite.resources.swift import StoreContainer

EVERYBODY = ".r:*"


class Website(Schema):
    index: str | None = prop(alias="IndexDocument", doc="The page for a folder.")
    error: str | None = prop(alias="ErrorDocument", doc="The ending of the names of error pages.")


class BucketProps(Schema):
    access: str | None = prop(
        alias="AccessControl",
        one_of=(
            "Private", "PublicRead", "PublicReadWrite", "AuthenticatedRead", "BucketOwnerRead",
            "BucketOwnerFullControl",
        ),
        doc="The access list; BucketOwnerRead and BucketOwnerFullControl mean Private.",
    )  # fmt: skip
    website: Website | None = prop(alias="WebsiteConfiguration", doc="Pages of the website that it is.")
    tags: list[Tag] | None = prop(alias="Tags", doc="Its tags.")


class Bucket(StoreContainer[BucketProps], type="AWS::S3::Bucket"):
    """A container for objects.

    The physical id is its name. Deletion requires that it is empty.
    """

    searched = False  # creating a container is idempotent, and its name is unique

    def handle_create(self) -> Json:
        self.service("create_container", self.physical_name, **self._headers())
        self.physical_id = self.physical_name
        return None

    def _headers(self) -> JsonMap:
        props = self.props
        own = f"{self.facts.project}:*"
        readers = {"PublicRead": EVERYBODY, "PublicReadWrite": EVERYBODY, "AuthenticatedRead": own}
        headers: JsonMap = {}
        if props.access in readers:
            headers["X-Container-Read"] = readers[props.access]
        if props.access == "PublicReadWrite":
            headers["X-Container-Write"] = EVERYBODY
        if props.website is not None:
            for name, value in (("Index", props.website.index), ("Error", props.website.error)):
                if value is not None:
                    headers[f"X-Container-Meta-Web-{name}"] = value
        headers.update({f"X-Container-Meta-S3-Tag-{tag.key}": tag.value for tag in props.tags or []})
        return headers

    def handle_delete(self) -> Json:
        try:
            return super().handle_delete()
        except CloudConflict as error:
            raise ServiceConflict(f"{error}. The bucket {self.physical_id} has objects: empty it") from error

    def attr_DomainName(self) -> str | None:  # noqa: N802 - Amazon's
        """The name of its host."""
        return urlsplit(cast(str, self.service("get_endpoint"))).hostname

    def attr_WebsiteURL(self) -> str | None:  # noqa: N802 - Amazon's
        """The URL of the website that it is."""
        return None if self.physical_id is None else f"{self.service('get_endpoint')}/{self.physical_id}"
