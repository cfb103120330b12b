"""Shared by all tests: double precision, strict JAX, and the real data sets."""

import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest
from filelock import FileLock

import ornstein as orn
from ornstein.data.datasets import Dataset
from support.browser import Browser, find
from support.publisher import Server
from support.sizes import set_limits

# ArviZ 0.x notes the date of its first import of a day, and fails if two processes do so at once.
with FileLock(Path(tempfile.gettempdir()) / "ornstein-arviz.lock"), warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)
    import arviz  # noqa: F401

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)


@pytest.fixture(autouse=True)
def _strict_dtypes() -> Iterator[None]:
    with jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = find()
    if program is None:
        reason = "no Chromium was found; install Debian's package chromium"
        if os.environ.get("ORNSTEIN_REQUIRE_CHROMIUM") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with Browser(program) as opened:
        yield opened


@pytest.fixture(scope="session")
def dataset() -> Callable[[str], Dataset]:
    """Load a real data set, or skip with a reason; fail where the data is required."""

    def load(name: str) -> Dataset:
        folder = os.environ.get("ORNSTEIN_DATA")
        if folder and os.path.exists(os.path.join(folder, f"{name}.npz")):
            return orn.datasets.load(name, folder)
        reason = f"{name}.npz is not in ORNSTEIN_DATA ({folder or 'not set'})"
        if os.environ.get("ORNSTEIN_REQUIRE_DATA") == "1":
            pytest.fail(reason)
        pytest.skip(reason)

    return load


@pytest.fixture
def no_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if matrices of twelve parameters did not fit."""
    set_limits(monkeypatch, dense=12)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()
