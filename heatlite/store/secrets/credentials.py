"""Credentials with which stacks act for their owners, without a request.

A credential is an application credential, a trust, or user and password. It is stored encrypted only.
"""


from heatlite.core.errors import NotSupported
from heatlite.core.json import JsonMap, dump, parse
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.access import Credential
from heatlite.store.tables.stacks import Stack


class Credentials:
    """Credentials, one per tree. A nested stack uses its root's."""

    def __init__(self, encryption: FieldEncryption) -> None:
        self._encryption = encryption
        self._database = encryption.database

    def put(self, stack_id: str, credential: JsonMap) -> None:
        """Store a tree's credential. Raises NotSupported without a key."""
        cipher = self._encryption.cipher
        if cipher is None:
            raise NotSupported(feature="Storing a credential without encryption_keys")
        root, content = self._root(stack_id), cipher.encrypt_text(dump(credential))
        if self._database.select(Credential.select(Credential.stack_id).where(Credential.stack_id == root)):
            self._database.change(Credential.update(content=content).where(Credential.stack_id == root))
        else:
            self._database.change(Credential.insert(stack_id=root, content=content))

    def of(self, stack_id: str) -> JsonMap | None:
        """Return the credential of a stack, if it has one. Raises UnreadableSecret."""
        kept = Credential.select(Credential.content).where(Credential.stack_id == self._root(stack_id))
        for (content,) in self._database.select(kept):
            found: JsonMap = parse(self._encryption.decrypt(content))
            return found
        return None

    def delete(self, stack_id: str) -> None:
        """Erase the credential of a tree.

        `stack_id` is its root; nested stacks have none of their own.
        """
        self._database.change(Credential.delete().where(Credential.stack_id == stack_id))

    def _root(self, stack_id: str) -> str:
        for (root_id,) in self._database.select(Stack.select(Stack.root_id).where(Stack.id == stack_id)):
            return str(root_id or stack_id)
        return stack_id
