"""Records whose `repr` omits secrets."""

import pytest

from heatlite.api.access.authentication import Identity, Login
from heatlite.clients.clouds import DomainAdmin
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.redaction.secret_fields import HidesSecrets
from heatlite.plugin.ports import Account
from heatlite.store.records import AccessKeyRecord, AccountRecord
from tests.tables import table

KINDS: list[type[HidesSecrets]] = [
    Account, AccessKeyRecord, AccountRecord, Context, DomainAdmin, Identity, Login, Settings,
]  # fmt: skip


@table("kind", KINDS)
def test_the_secret_fields_are_fields(kind: type[HidesSecrets]) -> None:
    assert kind.secret_fields
    assert kind.secret_fields <= {*kind.__struct_fields__}


def test_a_representation_has_the_other_fields() -> None:
    login = Login("ann", "sesame", {"p": "demo"})
    assert repr(login) == str(login) == "Login(user='ann', projects={'p': 'demo'})"
    assert "sesame" not in f"{[login]}"


def test_a_record_is_frozen_at_run_time() -> None:
    login = Login("ann", "sesame", {})
    with pytest.raises(AttributeError, match="immutable type"):
        login.user = "bob"  # type: ignore[misc]
