"""Shared by tests and doctests: no pilots but where they are the subject, and bounded memory."""

import gc
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

MOST_MAPPINGS = 20_000


@pytest.fixture(autouse=True, scope="module")
def _few_mappings() -> Iterator[None]:
    """Forget compiled code before there is too much: a process may map 65,530 regions of memory."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPPINGS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(autouse=True)
def _without_pilots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are not piloted, which would double the suite's time, but by tests that say so."""
    if request.node.get_closest_marker("pilot") is None:
        why = "left out of this test"
        monkeypatch.setattr("ornstein.api.pilots._unmeasurable", lambda *_: why)
