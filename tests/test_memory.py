"""A long run holds its kept draws, and nothing that grows with its steps."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, sys
from contextlib import contextmanager
from pathlib import Path
import ornstein as orn, ornstein.api
from tables import regression

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
    )
    found = json.loads(done.stdout)
    assert found["steps"] >= 1_000_000
    early = max(size for steps, size in found["seen"] if steps <= 0.1 * found["steps"])
    late = max(size for _, size in found["seen"])
    assert late - early <= 2 * found["kept"] + 2**22
