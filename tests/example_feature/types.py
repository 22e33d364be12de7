"""A resource type of the feature."""

from heatlite.plugin import Resource, Schema, prop


class ReportProps(Schema):
    subject: str = prop(custom="example.subject", doc="What it is about.")


class ReportResource(Resource[ReportProps], type="Example::Report"):
    """A report."""
