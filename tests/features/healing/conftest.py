import pytest

# Tests that run on SQLite in the folder `unit`, and on servers in `services`.
pytest.register_assert_rewrite(
    "tests.features.healing.unit.store.healing_behaviour", "tests.features.healing.unit.store.healing_limits"
)
