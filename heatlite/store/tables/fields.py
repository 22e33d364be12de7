"""Field classes that select how a column is stored."""

import peewee


class LongTextField(peewee.TextField):
    """Text of any length. MariaDB's TEXT ends at 64 KiB, less than a template needs."""

    field_type = "LONGTEXT"


class ContentField(LongTextField):
    """JSON that may contain secrets; encrypted for sealed stacks (`FieldEncryption`)."""


class MaskedField(LongTextField):
    """A JSON object for display; sealed stacks store masks in place of its values."""


class EncryptedField(LongTextField):
    """JSON that is always encrypted if there is a key."""


class SecretField(EncryptedField):
    """Text, not JSON, that is always encrypted if there is a key."""
