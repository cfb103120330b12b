"""A long run holds its kept draws, and a long table its blocks: nothing that grows with either."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import huge_table
from support.montecarlo import assert_covariance, rejects_covariance

SCRIPT = """
import json, sys
from contextlib import contextmanager
from pathlib import Path
import ornstein as orn, ornstein.api
from support.problems import regression

seen = []

def resident():
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096

@contextmanager
def opened(total):
    yield lambda done, total: seen.append((done, resident()))

ornstein.api.bar = lambda *_: opened
folder = sys.argv[1] or None
result = orn.sample(
    regression(rows=2000),
    method="sgd",
    batch_size=10,
    chains=2,
    draws=10_000,
    thin=100,
    dtype="float64",
    checkpoint=folder,
    **({"checkpoint_every": 0} if folder else {}),
)
print(json.dumps({"steps": result.steps, "kept": result.flat.nbytes, "seen": seen}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True])
def test_memory_does_not_grow_over_a_million_steps(tmp_path: Path, kept: bool) -> None:
    """After a tenth of the run, by no more than the draws kept since, twice, and 4 MiB."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "run") if kept else ""],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    found = json.loads(done.stdout)
    assert found["steps"] >= 1_000_000
    early = max(size for steps, size in found["seen"] if steps <= 0.1 * found["steps"])
    late = max(size for _, size in found["seen"])
    assert late - early <= 2 * found["kept"] + 2**22


@pytest.mark.slow
def test_a_hundred_million_rows_in_less_than_a_gibibyte(tmp_path: Path) -> None:
    """The posterior of a table of 4.4 GB on disk is that of the closed form."""
    _huge(tmp_path, 100_000_000)


def test_a_million_rows_on_disk_against_the_closed_form(tmp_path: Path) -> None:
    _huge(tmp_path, 1_000_000)


def _huge(folder: Path, rows: int) -> None:
    def run(*words: str) -> dict[str, Any]:
        command = [sys.executable, huge_table.__file__, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    exact = run("write", str(folder), str(rows))
    said = run("sample", str(folder), str(folder / "draws.npz"))
    print(json.dumps(said, indent=1))
    assert said["status"] == "ok"
    assert said["peak"] < 2**30
    assert said["seconds"]["sample rows"] < 3e6
    found = np.load(folder / "draws.npz")
    cov = np.linalg.inv(np.asarray(exact["precision"]))
    deviation = np.sqrt(np.diag(cov))
    assert np.abs((found["center"] - exact["mean"]) / deviation).max() < 1e-3
    assert_covariance(found["flat"], np.asarray(exact["mean"]), cov)
    assert rejects_covariance(found["flat"], np.asarray(exact["mean"]), 1.1 * cov)
