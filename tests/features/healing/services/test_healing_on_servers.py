"""Rows of the healing loop, on databases with a server."""

import pytest

from tests.features.healing.unit.store.healing_behaviour import *  # noqa: F403
from tests.features.healing.unit.store.healing_limits import *  # noqa: F403

pytestmark = pytest.mark.slow
