"""Our draws of a mixed model, from arrays: a script, so that its memory is its own.

Called with a file of rows, a number of draws a chain (0 for the plan's), and repeats. The first run
compiles and is not counted.
"""

import gc
import json
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import ornstein as orn
from benchmarks.foreign.mixed_task import MixedTask, clocked, load, peak_gib
from ornstein.results.arviz import ess

_EFFECTS = 20  # groups whose effective draws are counted, spread over all


def fit(task: MixedTask, draws: int | None, key: int) -> dict[str, Any]:
    """Everything from arrays to draws, and how many are effective."""
    post = orn.models.mixed(task.X, task.y, {"g": task.g}, task.family)
    plan = orn.plan(post)
    began = perf_counter()
    result = orn.sample(post, plan, key=key, draws=draws, progress=False)
    return {"sampling": perf_counter() - began, "result": result}


def judged(found: dict[str, Any]) -> dict[str, Any]:
    """The record, with effective draws in place of the draws."""
    result = found.pop("result")
    sd = result["sd(g)"].astype(float)
    levels = np.linspace(0, result.b.shape[-1] - 1, _EFFECTS).astype(int)
    several = [result[name] for name in result.names]
    several += [result.b[:, :, 0, level] for level in levels]
    low, high = np.quantile(sd, [0.05, 0.95])
    return found | {
        "steps": result.plan.steps,
        "batch_size": result.plan.batch_size,
        "draws": int(sd.size),
        "sd": float(sd.mean()),
        "sd_error": float(sd.std()),
        "interval": [float(low), float(high)],
        "ess_sd": float(ess(sd)),
        "ess": min(float(ess(one.astype(float))) for one in several),
    }


def main() -> None:
    """Print the median run."""
    task, draws = load(Path(sys.argv[1])), int(sys.argv[2]) or None
    fit(task, draws, 0)
    gc.collect()
    runs = [clocked(lambda: fit(task, draws, 1)) for _ in range(int(sys.argv[3]))]
    gib, middle = peak_gib(), median(run["processor"] for run in runs)
    best = min(runs, key=lambda run: abs(run["processor"] - middle))
    print(json.dumps(judged(best) | {"gib": gib}))


if __name__ == "__main__":
    main()
