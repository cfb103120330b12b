"""What learning a prior precision while sampling costs: the paper's Figure 3 by the clock.

Next to sampling at a fixed value, and to five-fold cross-validation of the optimum over the
figure's grid: by ``orn.cross_validate``, and by scikit-learn's solver at its default tolerance.
Every search of either starts where the last one ended; of scikit-learn's five folds one is run.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import ornstein as orn
from benchmarks.clock import once
from ornstein.experiments.figure3 import DRAWS, KEY, PROBLEMS, START, TOLERANCE, Problem

FOLDS = 5
_FEW_ROWS = 5000  # of a quick run

Table = dict[str, Any]


def run(quick: bool = False) -> Table:
    """The section "learning"; quick runs see some rows only, and are for trying out."""
    problems = {name: measure(problem, quick) for name, problem in PROBLEMS.items()}
    return {"quick": quick, "draws": 4 * DRAWS, "problems": problems}


def measure(problem: Problem, quick: bool) -> Table:
    """Seconds of every way, in one process."""
    X, y, *_ = problem.rows()
    if quick:
        X, y = X[:_FEW_ROWS], y[:_FEW_ROWS]
    post = orn.models.softmax(X, y, prior_precision=START, num_classes=int(y.max()) + 1)
    options: Table = {"draws": DRAWS, "key": KEY, "dtype": "float32", "progress": False}
    learned, joint = once(lambda: orn.learn(post, tolerance=TOLERANCE, **options))
    there = post.with_hyper(learned.values)
    _, fixed = once(lambda: orn.sample(there, **options))
    grid = [{"prior_precision": value} for value in problem.grid]
    found, validation = once(lambda: orn.cross_validate(post, grid, folds=FOLDS))
    rest = np.random.default_rng(0).permutation(len(X))[len(X) // FOLDS :]
    _, fold = once(lambda: _path(X[rest], y[rest], problem.grid))
    return {
        "rows": len(X),
        "parameters": post.dim,
        "values": len(grid),
        "lambda": float(learned.values["prior_precision"]),
        "cross_validated": float(found.best["prior_precision"]),
        "joint_seconds": joint,
        "learning_seconds": learned.seconds,
        "fixed_seconds": fixed,
        "cross_validation_seconds": validation,
        "scikit_learn_seconds": FOLDS * fold,
    }


def _path(X: npt.NDArray[Any], y: npt.NDArray[Any], grid: Sequence[float]) -> None:
    """The optima of one fold by scikit-learn."""
    model = LogisticRegression(fit_intercept=False, warm_start=True, max_iter=1000)
    for value in grid:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.set_params(C=1 / value).fit(X, y)
