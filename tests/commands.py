"""The command line with the commands of all features."""

from heatlite.cli.main import build_parser, with_features
from heatlite.cli.parser import CommandParser
from heatlite.feature import installed


def every_command() -> CommandParser:
    """Build the parser with all commands."""
    return build_parser(with_features(installed()))
