"""Settings of laws over random inputs, by the run's profile of hypothesis.

`tests/conftest.py` has the profiles. Import this in tests only: a `conftest.py` is read before hypothesis has loaded
the profile.
"""

from hypothesis import HealthCheck, settings

FEW_EXAMPLES = settings(max_examples=max(2, settings().max_examples // 4), suppress_health_check=list(HealthCheck))
"""A quarter of the examples, for a law whose example is a history of an engine."""
