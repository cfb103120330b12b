"""A ``draws.nc`` written beside one ArviZ opens in another: 0.x and 1.x, in both directions.

``make test-matrix`` and ``.ci/run`` name the interpreter of an environment with the other one.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

OTHER = os.environ.get("ORNSTEIN_OTHER_PYTHON")
WRITE = """
import sys, numpy as np, ornstein as orn
X = np.random.default_rng(0).normal(size=(40, 2))
result = orn.sample(orn.models.linear(X, X[:, 0], feature_names=["age", "dose"]), draws=10)
result.save(sys.argv[1])
print(repr(float(result.draws["coef"].sum())))
"""
READ = """
import sys, warnings
warnings.simplefilter("ignore")
import arviz
coef = arviz.from_netcdf(sys.argv[1] + "/draws.nc")["posterior"]["coef"]
print(repr(float(coef.values.sum())), *coef["coef_column"].values, arviz.__version__.split(".")[0])
"""


def run(python: str, code: str, folder: Path) -> list[str]:
    command = [python, "-c", code, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(
    OTHER is None and os.environ.get("ORNSTEIN_REQUIRE_PEERS") != "1",
    reason="ORNSTEIN_OTHER_PYTHON names no interpreter with another ArviZ",
)
def test_files_of_either_version_open_in_the_other(tmp_path: Path) -> None:
    assert OTHER is not None
    versions = set()
    for number, (writer, reader) in enumerate([(OTHER, sys.executable), (sys.executable, OTHER)]):
        folder = tmp_path / str(number)
        (written,) = run(writer, WRITE, folder)
        read, *columns, version = run(reader, READ, folder)
        assert (read, columns) == (written, ["age", "dose"])
        versions.add(version)
    assert versions == {"0", "1"}
