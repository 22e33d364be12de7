"""Tests of rules need the library of expressions."""

import pytest


@pytest.fixture(autouse=True)
def library() -> None:
    """Skip where it is not installed."""
    pytest.importorskip("cel_expr_python", reason="cel-expr-python is not installed: pip install -e '.[rules]'")
