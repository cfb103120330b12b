"""``import ornstein`` is light: what is large loads when it is asked for."""

import json
import subprocess
import sys

import pytest

LARGE = (
    *("arviz", "h5netcdf", "jinja2", "matplotlib", "narwhals", "optax", "pandas"),
    *("pyarrow", "requests", "rich", "scipy.optimize", "scipy.stats", "sklearn", "typer", "xarray"),
)
SEEN = "import json, sys, ornstein; {code}; print(json.dumps(sorted(sys.modules)))"


def loaded(code: str = "pass") -> set[str]:
    """Modules of a fresh process after the import and some code."""
    command = [sys.executable, "-c", SEEN.format(code=code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_import_loads_nothing_large() -> None:
    assert sorted(loaded() & set(LARGE)) == []


@pytest.mark.parametrize(
    ("code", "name"),
    [("ornstein.tables", "pandas"), ("ornstein.estimators", "sklearn")],
)
def test_rooms_load_when_they_are_asked_for(code: str, name: str) -> None:
    assert name in loaded(code)
