"""`auth` = ``tokens``: tokens in a file."""

from datetime import UTC, datetime
from pathlib import Path

from heatlite.api.access.account_files import TokenRecord, WatchedFile, digest, parse_tokens
from heatlite.api.access.authentication import Identity
from heatlite.api.request import Request
from heatlite.core.clock import Clock


class Tokens:
    """Identifies callers by a token."""

    challenge = 'X-Auth-Token realm="heatlite"'

    def __init__(self, tokens_file: Path, clock: Clock) -> None:
        """Raises BadSetting."""
        self._tokens = WatchedFile(tokens_file, "The list of tokens", parse_tokens)
        self._clock = clock

    def identify(self, req: Request) -> Identity | None:
        token = req.env.get("HTTP_X_AUTH_TOKEN")
        # The look-up uses digests, so that its duration does not reveal parts of a valid token.
        found = self._tokens.get().get(digest(token)) if token else None
        return Identity(found.user, found.projects) if found and self._is_valid(found) else None

    def roles(self, user: str, project: str) -> frozenset[str]:
        """Return the roles of all valid tokens of the user."""
        own = [one for one in self._tokens.get().values() if one.user == user and self._is_valid(one)]
        return frozenset().union(*(one.projects.get(project, frozenset()) for one in own))

    def _is_valid(self, token: TokenRecord) -> bool:
        return token.expires is None or token.expires > datetime.fromtimestamp(self._clock.now(), UTC)
