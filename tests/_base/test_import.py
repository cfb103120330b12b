"""``import ornstein`` is light: what is large loads when it is asked for."""

import json
import subprocess
import sys

import pytest

import ornstein

LARGE = (
    *("arviz", "arviz_base", "arviz_stats", "h5netcdf", "jinja2", "matplotlib", "narwhals"),
    *("optax", "pandas", "polars", "pyarrow", "requests", "rich", "scipy.optimize"),
    *("scipy.stats", "sklearn", "typer", "xarray"),
)
SEEN = "import json, sys, ornstein; {code}; print(json.dumps(sorted(sys.modules)))"


def loaded(code: str = "pass") -> set[str]:
    """Modules of a fresh process after the import and some code."""
    command = [sys.executable, "-c", SEEN.format(code=code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_loads_nothing_large() -> None:
    assert sorted(loaded() & {"jax", "numpy", *LARGE}) == []


def test_models_and_plans_load_nothing_large() -> None:
    assert sorted(loaded("ornstein.models, ornstein.plan, ornstein.sample") & set(LARGE)) == []


def test_help_is_shown_without_jax() -> None:
    seen = loaded("import ornstein.cli; ornstein.cli.app(['fit', '--help'], standalone_mode=False)")
    assert "jax" not in seen
    assert "numpy" not in seen


def test_every_public_name_can_be_had() -> None:
    """Its home is in ``__init__.pyi``, which type checkers read, too."""
    for name in ornstein.__all__:
        assert getattr(ornstein, name) is not None


@pytest.mark.parametrize(
    ("code", "name"),
    [("ornstein.tables", "pandas"), ("ornstein.estimators", "sklearn")],
)
def test_rooms_load_when_they_are_asked_for(code: str, name: str) -> None:
    assert name in loaded(code)
