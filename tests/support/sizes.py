"""Structures' sizes, as if machines were smaller or larger."""

import pytest

from ornstein.curvature.structures import contract
from ornstein.models.random_effects import turns


def set_limits(monkeypatch: pytest.MonkeyPatch, **changes: int) -> None:
    """Other sizes up to which structures are held, e.g. ``dense=12``."""
    monkeypatch.setattr(contract, "LIMITS", contract.LIMITS._replace(**changes))


def set_heads(monkeypatch: pytest.MonkeyPatch, **changes: int) -> None:
    """Other sizes of mixed models' heads, e.g. ``beside=5``."""
    monkeypatch.setattr(turns, "LIMITS", turns.LIMITS._replace(**changes))
