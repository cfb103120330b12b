"""Structures' sizes, as if machines were smaller or larger."""

import pytest

from ornstein.curvature.structures import limits


def set_limits(monkeypatch: pytest.MonkeyPatch, **changes: int) -> None:
    """Other sizes up to which structures are held, e.g. ``dense=12``."""
    monkeypatch.setattr(limits, "LIMITS", limits.LIMITS._replace(**changes))
