"""``python -m heatlite.agent``, and what the one file runs."""

import sys

from heatlite.agent.program import main

if __name__ == "__main__":
    sys.exit(main())
