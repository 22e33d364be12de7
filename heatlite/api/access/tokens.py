"""`auth` = ``tokens``: tokens in a file."""

from datetime import UTC, datetime
from pathlib import Path

from heatlite.api.access.account_files import WatchedFile, digest, parse_tokens
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
        if found is None or found.expires and found.expires <= datetime.fromtimestamp(self._clock.now(), UTC):
            return None
        return Identity(found.user, found.projects)
