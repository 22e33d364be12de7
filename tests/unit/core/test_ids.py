"""Identifiers."""

import base64
import uuid

from heatlite.core.ids import new_id, short_id


def test_an_id_is_a_uuid_of_version_7() -> None:
    made = [new_id() for _ in range(1000)]
    assert len({*made}) == len(made)
    for one in made:
        parsed = uuid.UUID(one)
        assert (str(parsed), parsed.version, parsed.variant) == (one, 7, uuid.RFC_4122)
    assert len({one[19] for one in made}) == 4, "the variant has two random bits"
    assert [one[:13] for one in made] == sorted(one[:13] for one in made)


def test_a_short_id_is_the_random_part_in_base_32() -> None:
    for one in [new_id() for _ in range(100)]:
        random = bytes.fromhex(one.replace("-", "")[16:])
        assert short_id(one) == base64.b32encode(random).decode().lower()[:12]
