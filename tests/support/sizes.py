"""Structures' sizes, as if machines were smaller or larger."""

import pytest

from ornstein.curvature.structures import contract


def set_limits(monkeypatch: pytest.MonkeyPatch, **changes: int) -> None:
    """Other sizes up to which structures are held, e.g. ``dense=12``."""
    monkeypatch.setattr(contract, "LIMITS", contract.LIMITS._replace(**changes))
