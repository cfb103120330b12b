"""Seconds from rows to a posterior, by this library and by other ways."""

from typing import Any

from rich.console import Console

from benchmarks.fit import fit
from benchmarks.judged import judged
from benchmarks.ours import ours, ours_plain
from benchmarks.problems import REAL
from benchmarks.rivals import laplace, nuts, nuts_given_metric, sgld, svi
from benchmarks.score import PER_PARAMETER, TARGET_KL, Contestant, Settings, summary

_QUICK = 15.0  # seconds of sampling

CONTESTANTS: dict[str, tuple[str, Contestant]] = {
    "ours": ("ornstein, control variates", ours),
    "ours_plain": ("ornstein, plain minibatches", ours_plain),
    "nuts": ("NUTS (blackjax), window adaptation", nuts),
    "nuts_given_metric": ("NUTS (blackjax), Laplace's metric", nuts_given_metric),
    "sgld": ("SGLD, best constant step", sgld),
    "laplace": ("Laplace", laplace),
    "svi": ("full-rank SVI (NumPyro)", svi),
}


def run(quick: bool = False, problems: tuple[str, ...] = tuple(REAL)) -> dict[str, Any]:
    """Every contestant on every problem."""
    console = Console()
    found: dict[str, Any] = {
        "quick": quick,
        "target_kl": TARGET_KL,
        "target_per_parameter": PER_PARAMETER,
        "contestants": {name: title for name, (title, _) in CONTESTANTS.items()},
        "problems": {},
    }
    for name in problems:
        problem = REAL[name]()
        reference = fit(problem.post)
        budget = _QUICK if quick else problem.budget
        records, drawn = {}, {}
        for contestant, (title, contest) in CONTESTANTS.items():
            record = contest(problem, reference, Settings(budget))
            records[contestant] = summary(record, reference)
            if record.draws is not None and not problem.post.quadratic:
                drawn[contestant] = record.draws
            console.print(f"{problem.title}: {title}: {_line(records[contestant])}")
        found["problems"][name] = {
            "title": problem.title,
            "rows": problem.post.num_data,
            "parameters": problem.post.dim,
            "budget_seconds": budget,
            "optimum_seconds": reference.optimum_seconds,
            "hessian_seconds": reference.hessian_seconds,
            "records": records,
        }
        if drawn:
            found["problems"][name]["judged"] = judged(problem.post, drawn)
    return found


def _line(record: dict[str, Any]) -> str:
    """What to print while the next one runs."""
    names = ("seconds_to_kl", "kl", "ess_per_second", "setup_seconds", "sampling_seconds", "ess")
    shown = [f"{name} {record[name]:.3g}" for name in names if record.get(name) is not None]
    return ", ".join([*shown, *([record["note"]] if "note" in record else [])])
