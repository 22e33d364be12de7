"""Statement of the feature migrate."""

from heatlite.feature import Feature


class Migrate(Feature):
    """Commands that take stacks over."""

    name = "migrate"
    commands = {"Moving from Heat": {"heatlite.features.migrate.commands": ("migrate",)}}


feature = Migrate()
