"""The field's tables with groups, where they are at hand."""

import os

import pytest

from ornstein.data import datasets


def require(name: str) -> None:
    """Skip with a reason where a table is missing; fail where data is required."""
    if name in datasets.available():
        return
    reason = f"{name} is not in ORNSTEIN_DATA ({os.environ.get('ORNSTEIN_DATA') or 'not set'})"
    if os.environ.get("ORNSTEIN_REQUIRE_DATA") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
