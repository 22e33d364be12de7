"""Builds the agent as a distribution of its own: one program, no engine, no dependencies.

It does not install a package ``heatlite``, so that both distributions can share an environment.
"""

import runpy
import sys
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAM = HERE / "heatlite-agent"

if (ROOT / "heatlite" / "agent").is_dir():  # not in an sdist of the agent, which has the program
    sys.path.insert(0, str(ROOT))
    from heatlite.cli.agent_package import write

    write(PROGRAM)
    version = runpy.run_path(str(ROOT / "heatlite" / "__init__.py"))["__version__"]
    (HERE / "VERSION").write_text(f"{version}\n")

setup(
    version=(HERE / "VERSION").read_text().strip(),
    packages=[],
    data_files=[("bin", ["heatlite-agent"])],
)
