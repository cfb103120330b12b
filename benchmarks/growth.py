"""How the cost of an effective draw grows with rows and with parameters, on synthetic rows.

Linear and logistic regression on a Gaussian design whose columns correlate mildly (0.2). With
control variates the library chooses its batch; without, batches are a fiftieth of the rows. NUTS
is given the posterior covariance as its metric: its best case. One pass of a dot product over the
same rows, timed beside them, says what a growth owes to memory.
"""

from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console

from benchmarks.clock import median_seconds
from benchmarks.fit import fit
from benchmarks.ours import ours, ours_plain
from benchmarks.problems import synthetic
from benchmarks.rivals import nuts_given_metric
from benchmarks.score import Contestant, Settings, summary

MODELS = ("linear", "logistic")
_ROWS = (10**4, 10**5, 10**6, 10**7)
_COLUMNS = (10, 30, 100, 300, 1000)
_LOGISTIC_COLUMNS = 300  # beyond, finding the optimum alone takes minutes
_FIXED_ROWS, _FIXED_COLUMNS = 10**5, 10
_BUDGET, _QUICK = 8.0, 4.0  # seconds of sampling
_MANY_ROWS, _LONG_BUDGET = 10**7, 30.0  # redrawing a permutation takes seconds there

CONTESTANTS: dict[str, tuple[str, Contestant]] = {
    "ours": ("ornstein, control variates", ours),
    "ours_plain": ("ornstein, plain, S = N/50", ours_plain),
    "nuts_given_metric": ("NUTS (blackjax), posterior metric given", nuts_given_metric),
}


def run(quick: bool = False) -> dict[str, Any]:
    """Both models by rows at 10 columns, and by columns at 100,000 rows."""
    rows = _ROWS[:2] if quick else _ROWS
    columns = _COLUMNS[:3] if quick else _COLUMNS
    budget = _QUICK if quick else _BUDGET
    sizes = {
        "rows": [(model, N, _FIXED_COLUMNS) for model in MODELS for N in rows],
        "columns": [
            (model, _FIXED_ROWS, D)
            for model in MODELS
            for D in columns
            if model == "linear" or D <= _LOGISTIC_COLUMNS
        ],
    }
    distinct = dict.fromkeys(chain.from_iterable(sizes.values()))
    measured = {size: _measure(*size, budget) for size in distinct}
    return {
        "quick": quick,
        "budget_seconds": budget,
        "contestants": {name: title for name, (title, _) in CONTESTANTS.items()},
        **{sweep: [measured[size] for size in every] for sweep, every in sizes.items()},
    }


def _measure(model: str, num_data: int, dim: int, budget: float) -> dict[str, Any]:
    budget = _LONG_BUDGET if num_data >= _MANY_ROWS else budget
    problem = synthetic(model, num_data, dim, budget)
    one_pass = _seconds_of_a_pass(jnp.asarray(problem.post.data["x"]))
    reference = fit(problem.post)
    settings = Settings(budget, to_answer=False)
    records = {}
    for name, (title, contest) in CONTESTANTS.items():
        found = summary(contest(problem, reference, settings), reference)
        rate = found.get("ess_per_second")
        found["seconds_per_ess"] = 1 / rate if rate else None
        records[name] = found
        cost = f"{1e3 / rate:.3g} ms per effective draw" if rate else found.get("note", "no rate")
        Console().print(f"{problem.title}: {title}: {cost}")
    return {
        "model": model,
        "rows": num_data,
        "parameters": dim,
        "laplace_seconds": reference.seconds,
        "pass_seconds": one_pass,
        "records": records,
    }


def _seconds_of_a_pass(X: jax.Array) -> float:
    dot = jax.jit(jnp.matmul)
    return median_seconds(lambda: dot(X, jnp.ones(X.shape[1], X.dtype)))
