"""The check of private parts of libraries."""

import pytest

from tests.private_parts import Module
from tests.tables import table


@pytest.mark.slow
@table(
    "text, found",
    [
        ("import argparse\nargparse._SubParsersAction", "argparse._SubParsersAction  underscore name"),
        ("from argparse import _sys", "argparse._sys  underscore name"),
        ("def f(parser):\n    return parser._actions", "_actions  underscore name: parser._actions"),
        ("def f(parser):\n    return getattr(parser, '_actions')", "_actions  underscore name as a text"),
        ("def f(base):\n    return type('X', (base,), {'_known': 1})", "_known  underscore name as a text"),
        ("from json.decoder import scanstring", "json.decoder.scanstring  not in __all__"),
        ("from yaml.constructor import SafeConstructor", "yaml.constructor.SafeConstructor  undocumented"),
        ("import yaml\nyaml.SafeLoader.yaml_constructors", "yaml.SafeLoader.yaml_constructors  undocumented"),
        ("import tqdm", "tqdm  undocumented"),
        (
            "import argparse\nclass P(argparse.ArgumentParser):\n    def _check_value(self): pass",
            "ArgumentParser._check_value  underscore name, in P",
        ),
        (
            "def f():\n    import argparse\n    class H(argparse.HelpFormatter):\n        def add_usage(self): pass",
            "HelpFormatter.add_usage  undocumented, in H",
        ),
        (
            "from yaml import SafeLoader\nclass L(SafeLoader):\n    def f(self): return self._x\n    _x = 1",
            None,
        ),
        ("import yaml\nclass A:\n    def f(self):\n        self._x = yaml.safe_load('')\n    __repr__ = f", None),
        ("import os\nos._exit(0)", None),
    ],
)
def test_private_parts_are_found(text: str, found: str | None) -> None:
    lines = [*Module("heatlite/x.py", text).findings()]
    assert [found in line for line in lines] == [True] if found else lines == []
