"""`growth_behaviour` on PostgreSQL and MariaDB."""

from growth_behaviour import *  # noqa: F403
