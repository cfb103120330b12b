"""Duels with exact samplers on many rows: effective draws per second and their error.

Contestants take turns, so that a busy moment of the machine meets all of them; a round is compiled
before the first that counts. Errors are those of all rounds' draws together.
"""

import warnings
from collections.abc import Iterable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

import ornstein as orn
from benchmarks.clock import once
from benchmarks.distance import compare_to_reference, effective
from benchmarks.families import LARGE
from benchmarks.families_page import ERRORS, shown
from benchmarks.fit import Fit, fit
from benchmarks.references import load
from benchmarks.subsampling import (
    Prepared,
    Round,
    Sampler,
    Unavailable,
    hmcecs,
    mh_ss,
    numpyro_nuts,
)

_REPEATS, _QUICK_REPEATS = 5, 2
_CHAINS = 4
_WARMUP = {"nuts": 300, "hmcecs": 500}
_DRAWS = {"nuts": 200, "hmcecs": 1000, "mh_ss": 20_000, "ours": 4000}
"""Draws a chain of a round."""
_MANY = 500_000  # rows beyond which NUTS makes fewer draws
_FEW = {"nuts": 40}


def ours(post: orn.Posterior, fit: Fit, draws: int, warmup: int, method: str = "exact") -> Prepared:
    """A method of this library by its defaults; the plan is its setup."""
    del fit, warmup
    plan, planning = once(lambda: orn.plan(post, method))

    def one(number: int) -> Round:
        began = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", orn.DivergenceWarning)
            result = orn.sample(post, plan, key=number, chains=_CHAINS, draws=draws, progress=False)
        kept = min(1.0, result.flat.shape[1] * result.settings.thin / result.steps)
        rows = plan.batch_size * result.steps * _CHAINS if plan.is_chain else 0
        seconds = kept * result.seconds
        return Round(result.flat, seconds, kept * rows, perf_counter() - began - seconds)

    return Prepared(one, planning)


CONTESTANTS: dict[str, tuple[str, Sampler, str]] = {
    "nuts": ("NUTS (NumPyro)", numpyro_nuts, "nuts"),
    "hmcecs": ("HMCECS (NumPyro)", hmcecs, "hmcecs"),
    "mh_ss": ("MH-SS (PyMHSS)", mh_ss, "mh_ss"),
    "laplace": ("Laplace (ours)", partial(ours, method="laplace"), "ours"),
    "exact": ("`exact` (ours)", partial(ours, method="exact"), "ours"),
    "rotation": ("`rotation`, the default (ours)", partial(ours, method="rotation"), "ours"),
}
"""Title, sampler and length of a round; ours only if the library has the method."""


def run(quick: bool = False, only: Iterable[str] = ()) -> dict[str, Any]:
    """Every contestant on every table."""
    console = Console()
    references, repeats = load(), _QUICK_REPEATS if quick else _REPEATS
    chosen = {
        name: entry
        for name, entry in CONTESTANTS.items()
        if entry[2] != "ours" or name in orn.METHODS
    }
    found: dict[str, Any] = {
        "quick": quick,
        "repeats": repeats,
        "contestants": {name: title for name, (title, *_) in chosen.items()},
        "tables": {},
    }
    for name in [name for name in LARGE if not only or name in only]:
        post, reference = LARGE[name](), references[name]
        laplace = fit(post)
        table: dict[str, Any] = {
            "rows": post.num_data,
            "positives": int(np.sum(post.data["y"])),
            "parameters": post.dim,
            "reference": reference.facts,
            "records": _rounds(post, laplace, chosen, repeats),
        }
        for contestant, record in table["records"].items():
            draws = record.pop("draws", None)
            if draws is not None:
                distance = compare_to_reference(draws, reference)
                record["errors"] = {part: getattr(distance, part) for part in ERRORS}
            console.print(f"{name}: {chosen[contestant][0]}: {_line(record)}")
        found["tables"][name] = table
    return found


def _rounds(
    post: orn.Posterior,
    laplace: Fit,
    chosen: dict[str, tuple[str, Sampler, str]],
    repeats: int,
) -> dict[str, dict[str, Any]]:
    """Records of all contestants, with their draws; one after another in every round."""
    records: dict[str, dict[str, Any]] = {}
    prepared: dict[str, Prepared] = {}
    for name, (_, sampler, length) in chosen.items():
        few = _FEW if post.num_data > _MANY else {}
        draws = few.get(length, _DRAWS[length])
        try:
            made = sampler(post, laplace, draws, _WARMUP.get(length, 0))
            _, first = once(partial(_one, made, 0))
        except Unavailable as reason:
            records[name] = {"note": str(reason)}
            continue
        prepared[name] = made
        records[name] = {"setup_seconds": made.setup, "first_seconds": first}
    rounds: dict[str, list[Round]] = {name: [] for name in prepared}
    walls: dict[str, list[float]] = {name: [] for name in prepared}
    for number in range(1, repeats + 1):
        for name, made in prepared.items():
            began = perf_counter()
            rounds[name].append(_one(made, number))
            walls[name].append(perf_counter() - began)
    for name, parts in rounds.items():
        records[name] |= _record(parts)
        records[name]["setup_seconds"] += float(np.median([part.setup for part in parts]))
        records[name]["compile_seconds"] = max(
            0.0, records[name].pop("first_seconds") - float(np.median(walls[name]))
        )
    return records


def _one(made: Prepared, number: int) -> Round:
    return made.round(number)


def _record(parts: list[Round]) -> dict[str, Any]:
    """Medians over rounds, and the draws of all as further chains."""
    whole = np.concatenate([part.draws for part in parts])
    if not np.isfinite(whole).all() or min(part.draws.shape[1] for part in parts) < 4:
        return {"note": "draws are not finite"}
    ess = [effective(part.draws) for part in parts]
    rates = [e / part.seconds for e, part in zip(ess, parts, strict=True)]
    low, median, high = np.quantile(rates, [0.25, 0.5, 0.75])
    cost = [part.rows / e for e, part in zip(ess, parts, strict=True)]
    return {
        "draws": whole,
        "effective": float(np.sum(ess)),
        "effective_per_second": float(median),
        "low": float(low),
        "high": float(high),
        "rows_per_effective": float(np.median(cost)),
    }


def _line(record: dict[str, Any]) -> str:
    if "errors" not in record:
        return record["note"]
    errors = ", ".join(f"{part} {shown(record['errors'][part])}" for part in ERRORS)
    return (
        f"{record['effective_per_second']:.3g} effective draws a second, "
        f"{record['rows_per_effective']:.3g} rows each, setup {record['setup_seconds']:.1f} s; "
        f"{errors}"
    )
