"""A mixed model of ten million rows on disk: written by one process, drawn by another.

``python huge_mixed.py write FOLDER ROWS`` writes ``X.npy``, ``y.npy`` and ``g.npy``;
``python huge_mixed.py sample FOLDER`` draws, and prints memory, processor times and the posterior.
"""

import json
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from numpy.lib.format import open_memmap

GROUPS, SD, INTERCEPT, BLOCK = 1000, 1.0, -0.2, 1_000_000
SLOPES = np.array([0.5, -0.5, 0.3, 0.0])


def write(folder: Path, count: int) -> None:
    """Binary targets, in groups of about one size, in no order."""
    rng = np.random.default_rng(0)
    effects = SD * rng.normal(size=GROUPS)
    X, y, g = (
        open_memmap(folder / f"{name}.npy", mode="w+", dtype=dtype, shape=shape)
        for name, dtype, shape in (
            ("X", np.float32, (count, len(SLOPES))),
            ("y", np.int8, (count,)),
            ("g", np.int32, (count,)),
        )
    )
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        rows, group = (
            rng.standard_normal((size, len(SLOPES)), np.float32),
            rng.integers(0, GROUPS, size),
        )
        eta = rows @ SLOPES + INTERCEPT + effects[group]
        at = slice(start, start + size)
        X[at], g[at], y[at] = rows, group, rng.uniform(size=size) < 1 / (1 + np.exp(-eta))


def sample(folder: Path) -> None:
    import ornstein as orn
    from support.huge_table import peak

    began, worked = perf_counter(), process_time()
    X, y, g = (orn.open_rows(folder / f"{name}.npy") for name in "Xyg")
    post = orn.models.mixed(X, y, {"g": g}, "bernoulli")
    plan = orn.plan(post)
    planned = perf_counter() - began, process_time() - worked
    result = orn.sample(post, plan, key=0)
    said = {"peak": peak(), "planned": planned, "all": perf_counter() - began}

    def drawn(count: int) -> float:
        before = process_time()
        orn.sample(post, plan, key=1, draws=count)
        return process_time() - before

    each = [(drawn(1250) - drawn(250)) / 4000 for _ in range(3)]
    table = result.summary()
    said |= {"draw": min(each), "batch_size": plan.batch_size, "steps": plan.steps}
    said |= {name: table[name].tolist() for name in ("mean", "sd", "ess_bulk", "r_hat")}
    print(json.dumps(said))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        sample(Path(sys.argv[2]))
