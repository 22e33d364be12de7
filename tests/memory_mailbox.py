"""A mailbox without a database, for tests of resource types."""

from heatlite.core.json import Json, dump


class MemoryMailbox:
    def __init__(self) -> None:
        self.contents: dict[str, dict[str, Json]] = {}

    def read(self, address: str) -> dict[str, Json]:
        return dict(self.contents.get(address, {}))

    def size(self, address: str, besides: str) -> tuple[int, int]:
        others = [content for key, content in self.read(address).items() if key != besides]
        return len(others), sum(len(dump(content)) for content in others)

    def put(self, address: str, key: str, content: Json) -> None:
        self.contents.setdefault(address, {})[key] = content

    def agree(self, address: str, key: str, content: Json) -> Json:
        return self.contents.setdefault(address, {}).setdefault(key, content)

    def clear(self, address: str) -> None:
        self.contents.pop(address, None)
