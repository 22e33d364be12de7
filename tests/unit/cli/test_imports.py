"""Slow modules that a command for a running server does not import."""

import subprocess
import sys
from pathlib import Path

import pytest

from heatlite.cli.main import build_parser, with_features
from heatlite.feature import installed
from tests.tables import table

HEAVY = (
    "falcon", "peewee", "jsonschema", "yaml", "rich", "playhouse", "psycopg", "pymysql", "cryptography", "re2",
    "heatlite.api", "heatlite.engine", "heatlite.plugin", "heatlite.resources", "heatlite.template", "heatlite.wiring",
    "heatlite.features.nodes",
)  # fmt: skip


@pytest.mark.slow
def test_a_client_loads_neither_engine_nor_api_nor_orm(tmp_path: Path) -> None:
    code = (
        "import sys; from heatlite.__main__ import main;"
        "codes = [main([*words.split(), '--endpoint', 'http://127.0.0.1:1'])"
        " for words in ('ls', 'show s', 'resources s', 'lock s', 'unlock s')];"
        f"print(codes, [name for name in {HEAVY!r} if name in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[3], env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[1, 1, 1, 1, 1] []\n", done.stdout + done.stderr


@pytest.mark.slow
def test_an_engine_on_sqlite_loads_no_driver_of_a_server_and_no_runner_of_migrations(tmp_path: Path) -> None:
    unused = ("psycopg", "pymysql", "playhouse", "tomllib")
    drivers = f"[name for name in {unused!r} if name in sys.modules]"
    code = f"import sys; sys.argv[1:] = ['ls']; from heatlite.__main__ import main; print(main(), {drivers})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[3], env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("0 []\n"), done.stdout + done.stderr


@table("module", [name for modules in with_features(installed()).values() for name in modules])
def test_the_sections_name_the_commands_of_each_module(module: str) -> None:
    (names,) = (modules[module] for modules in with_features(installed()).values() if module in modules)
    assert build_parser({"": {module: names}}).commands.keys() == set(names)


@pytest.mark.slow
@table(
    "program, module",
    [
        ("__main__", "dataclasses"),
        ("__main__", "heatlite.cli.main"),
        ("__main__", "heatlite.cli.commands.stacks"),
        ("__main__", "heatlite.wiring"),
        ("agent.program", "argparse"),
        ("agent.program", "heatlite.agent.daemon"),
    ],
)
def test_ctrl_c_during_the_imports_ends_quietly(program: str, module: str, tmp_path: Path) -> None:
    code = (
        "import importlib.abc, os, signal, sys\n"
        "class CtrlC(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"sys.modules.pop({module!r}, None)\n"
        "sys.meta_path.insert(0, CtrlC())\n"
        "sys.argv[1:] = ['ls']\n"
        f"from heatlite.{program} import main\n"
        "sys.exit(main())"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[3], env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
