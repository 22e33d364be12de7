"""Statement of the feature query_api."""


from heatlite.feature import Feature


class QueryApiFeature(Feature):
    """Routes of the query API and of access keys."""

    name = "query_api"
    routes = "heatlite.features.query_api.routes"


feature = QueryApiFeature()
