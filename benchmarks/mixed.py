"""Mixed models of growing size: our whole posterior beside others' point estimates.

An intercept for every group and four columns, simulated. Every contestant runs in a process of its
own, in turn. The others are made by ``python -m benchmarks.foreign.driver --install``.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.foreign import driver
from benchmarks.foreign.mixed_task import MixedTask, save

_SLOPES = np.array([0.5, -0.5, 0.3, 0.0])
_INTERCEPT = -0.2


@dataclass(frozen=True)
class Case:
    """Rows in groups; ``sd`` is that of the groups' intercepts."""

    family: str
    rows: int
    groups: int

    @property
    def sd(self) -> float:
        """The truth."""
        return 0.5 if self.family == "poisson" else 1.0

    def simulate(self, seed: int = 0) -> MixedTask:
        """Rows in no order, and about as many in every group."""
        rng = np.random.default_rng(seed)
        g = rng.permutation(np.arange(self.rows) % self.groups)
        X = rng.normal(size=(self.rows, len(_SLOPES)))
        eta = self.sd * (X @ _SLOPES + rng.normal(size=self.groups)[g]) + _INTERCEPT
        if self.family == "bernoulli":
            y = (rng.uniform(size=self.rows) < 1 / (1 + np.exp(-eta))).astype(float)
        elif self.family == "poisson":
            y = rng.poisson(np.exp(eta)).astype(float)
        else:
            y = eta + rng.normal(size=self.rows)
        return MixedTask(X, y, g, self.family)


CASES = (
    Case("bernoulli", 10_000, 50),
    Case("bernoulli", 100_000, 5_000),
    Case("bernoulli", 100_000, 1_000),
    Case("bernoulli", 1_000_000, 1_000),
    Case("bernoulli", 10_000_000, 1_000),
    Case("bernoulli", 1_000_000, 5_000),
    Case("poisson", 1_000_000, 5_000),
    Case("gaussian", 1_000_000, 5_000),
    Case("bernoulli", 1_000_000, 100_000),
)
PEERS = {"gpboost": 10_000_000, "statsmodels": 10_000, "bambi": 10_000}
"""How many rows each is given at most: beyond, it would take an hour or the memory."""


def run(quick: bool = False, repeats: int = 3) -> dict[str, Any]:
    """A record for every case: ours, and each peer's."""
    cases = CASES[:1] if quick else CASES
    found = [_measured(case, 1 if quick else repeats) for case in cases]
    return {"quick": quick, "repeats": repeats, "cases": found}


def _measured(case: Case, repeats: int) -> dict[str, Any]:
    """Contestants in turn; of each the median by processor time."""
    records: dict[str, list[dict[str, Any]]] = {"ornstein": []}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        save(path, case.simulate())
        for _ in range(repeats):
            records["ornstein"].append(driver.ours("benchmarks.mixed_fit", str(path), "0", "1"))
            for name, most in PEERS.items():
                if case.rows <= most:
                    said = driver.call(name, f"{name}_fit", str(path))
                    records.setdefault(name, []).append(said)
    middle = {name: _median(own) for name, own in records.items()}
    facts = {"family": case.family, "rows": case.rows, "groups": case.groups, "sd": case.sd}
    return facts | {"records": middle}


def _median(records: list[dict[str, Any]]) -> dict[str, Any]:
    answers = [record for record in records if "processor" in record]
    if not answers:
        return records[0]
    middle = median(record["processor"] for record in answers)
    return min(answers, key=lambda record: abs(record["processor"] - middle))
