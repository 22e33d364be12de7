"""Access keys of machines."""

from heatlite.features.query_api.machine_keys import Machine


def test_a_machine_hides_its_secret() -> None:
    assert Machine.secret_fields == {"secret"} <= {*Machine.__struct_fields__}
