"""Records whose `repr` omits secrets."""

from typing import ClassVar

from msgspec import Struct


class HidesSecrets(Struct, frozen=True):
    """Base of records with secrets, which `secret_fields` names."""

    secret_fields: ClassVar[frozenset[str]] = frozenset()

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in self.secret_fields)
        return f"{type(self).__qualname__}({', '.join(shown)})"
