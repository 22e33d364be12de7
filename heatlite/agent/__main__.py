"""Entry point of ``python -m heatlite.agent``."""

import sys

from heatlite.agent.program import main

if __name__ == "__main__":
    sys.exit(main())
