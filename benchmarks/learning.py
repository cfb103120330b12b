"""What learning a prior precision while sampling costs: the paper's Figure 3 by the clock.

Next to sampling at a fixed value, and to five-fold cross-validation of the optimum over the
figure's grid: by ``orn.cross_validate``, and by scikit-learn's solver at its default tolerance.
Every search of either starts where the last one ended; of scikit-learn's five folds one is run.
Each way runs in a fresh process, the joint run before, between and after the others.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import ornstein as orn
from benchmarks.clock import once
from ornstein.experiments.held_out import DRAWS, KEY, PROBLEMS, START, TOLERANCE

FOLDS = 5
_FEW_ROWS = 5000  # of a quick run
_OPTIONS: Mapping[str, Any] = {"draws": DRAWS, "key": KEY, "dtype": "float32", "progress": False}

Table = dict[str, Any]
Rows = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def run(quick: bool = False) -> Table:
    """The section "learning"; quick runs see some rows only, and are for trying out."""
    problems = {name: measure(name, quick) for name in PROBLEMS}
    return {"quick": quick, "draws": 4 * DRAWS, "problems": problems}


def measure(name: str, quick: bool) -> Table:
    """Seconds of every way on a data set."""
    joint = [_alone(_joint, name, quick)]
    learned = joint[0]["lambda"]
    rest = _alone(_fixed, name, quick, learned)
    joint.append(_alone(_joint, name, quick))
    rest |= _alone(_cross_validation, name, quick)
    joint.append(_alone(_joint, name, quick))
    rest |= _alone(_scikit_learn, name, quick)
    for part in ("joint_seconds", "learning_seconds"):
        rest[part] = median(record[part] for record in joint)
    return {"lambda": learned, **rest}


def _alone(way: Callable[..., Table], *given: Any) -> Table:
    """Measured in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(way, *given).result()


def _rows(name: str, quick: bool) -> Rows:
    X, y, *_ = PROBLEMS[name].rows()
    return (X[:_FEW_ROWS], y[:_FEW_ROWS]) if quick else (X, y)


def _posterior(name: str, quick: bool) -> orn.Posterior:
    X, y = _rows(name, quick)
    return orn.models.softmax(X, y, prior_precision=START, num_classes=int(y.max()) + 1)


def _joint(name: str, quick: bool) -> Table:
    post = _posterior(name, quick)
    learned, seconds = once(lambda: orn.learn(post, tolerance=TOLERANCE, **_OPTIONS))
    return {
        "lambda": float(learned.values["prior_precision"]),
        "joint_seconds": seconds,
        "learning_seconds": learned.seconds,
    }


def _fixed(name: str, quick: bool, value: float) -> Table:
    post = _posterior(name, quick).with_hyper({"prior_precision": value})
    _, seconds = once(lambda: orn.sample(post, **_OPTIONS))
    return {"rows": post.num_data, "parameters": post.dim, "fixed_seconds": seconds}


def _cross_validation(name: str, quick: bool) -> Table:
    post = _posterior(name, quick)
    grid = [{"prior_precision": value} for value in PROBLEMS[name].grid]
    found, seconds = once(lambda: orn.cross_validate(post, grid, folds=FOLDS))
    return {
        "values": len(grid),
        "cross_validated": float(found.best["prior_precision"]),
        "cross_validation_seconds": seconds,
    }


def _scikit_learn(name: str, quick: bool) -> Table:
    X, y = _rows(name, quick)
    rest = np.random.default_rng(0).permutation(len(X))[len(X) // FOLDS :]
    _, fold = once(lambda: _path(X[rest], y[rest], PROBLEMS[name].grid))
    return {"scikit_learn_seconds": FOLDS * fold}


def _path(X: npt.NDArray[Any], y: npt.NDArray[Any], grid: Sequence[float]) -> None:
    """The optima of one fold by scikit-learn."""
    model = LogisticRegression(fit_intercept=False, warm_start=True, max_iter=1000)
    for value in grid:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.set_params(C=1 / value).fit(X, y)
