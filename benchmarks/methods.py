"""Methods of the library on the families, against the stored references.

``python -m benchmarks families`` runs every method below that is in the registry.
"""

import warnings
from collections.abc import Iterable
from time import perf_counter
from typing import Any, NamedTuple

from rich.console import Console

import ornstein as orn
from benchmarks.distance import Distance, compare_to_reference, effective
from benchmarks.families import FAMILIES
from benchmarks.families_page import ERRORS, shown
from benchmarks.references import load
from ornstein.planning.rules import Rotation

ESS = 4000.0
_QUICK = 1000.0
_CHAINS = 4


class Entry(NamedTuple):
    """A method and its options, under a title."""

    title: str
    method: str
    options: dict[str, Any]


METHODS = (
    Entry("Laplace", "laplace", {}),
    Entry("`exact`", "exact", {}),
    Entry("`exact`, rho = 20", "exact", {"rho": 20.0}),
    Entry("default: `rotation` with a pilot", "auto", {}),
    Entry("NUTS (blackjax)", "nuts", {}),
)


def run(
    quick: bool = False, only: Iterable[str] = (), methods: Iterable[Entry] = METHODS
) -> dict[str, Any]:
    """Every method on every family; methods that the library does not have are left out."""
    console = Console()
    references = load()
    chosen = [entry for entry in methods if entry.method in ("auto", *orn.METHODS)]
    found: dict[str, Any] = {
        "quick": quick,
        "target_ess": _QUICK if quick else ESS,
        "methods": [entry.title for entry in chosen],
        "families": {},
    }
    for name in [name for name in FAMILIES if not only or name in only]:
        post, records = FAMILIES[name](), {}
        for entry in chosen:
            result, seconds, said = _sampled(post, entry, found["target_ess"])
            record: dict[str, Any] = {"seconds": seconds, "warnings": said}
            if result.status.ok:
                record |= _measured(result, compare_to_reference(result.flat, references[name]))
            else:
                record["note"] = result.status.message
            records[entry.title] = record
            console.print(f"{name}: {entry.title}: {_line(record)}")
        reference = references[name].facts
        found["families"][name] = {
            "rows": post.num_data,
            "parameters": post.dim,
            "reference": reference,
            "records": records,
        }
    return found


def _sampled(post: orn.Posterior, entry: Entry, ess: float) -> tuple[orn.Result, float, list[str]]:
    """A run by the defaults, long enough; its seconds, compilation included, and warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = perf_counter()
        plan = orn.plan(post, entry.method, **entry.options)
        length: dict[str, Any] = {"draws": "auto", "target_ess": ess}
        if not plan.is_chain:
            length = {"draws": int(ess) // _CHAINS}
        result = orn.sample(post, plan, key=1, chains=_CHAINS, progress=False, **length)
        seconds = perf_counter() - began
    return result, seconds, [str(each.message) for each in caught]


def _measured(result: orn.Result, distance: Distance) -> dict[str, Any]:
    """What a table shows of a run."""
    plan, ess = result.plan, effective(result.flat)
    size = result.posterior.num_data if plan.method == "nuts" else plan.batch_size
    rows = size * _gradients(plan)
    made = result.flat.shape[0] * result.flat.shape[1]
    chain = plan.method != "laplace"
    return {
        "errors": {name: getattr(distance, name) for name in ERRORS},
        "verdict": orn.check(result.posterior, result.flat).verdict,
        "ess": ess,
        "draws": made,
        "loop_seconds": result.seconds,
        "batch_size": size if chain else None,
        "steps_per_draw": result.steps * result.flat.shape[0] / made if chain else None,
        "rows_per_effective": rows * result.steps * result.flat.shape[0] / ess if chain else None,
    }


def _gradients(plan: orn.Plan) -> int:
    """Of a step: one for every kick, and for a test, whose two losses cost about as much."""
    rule = plan.rule
    return rule.kicks + 1 if isinstance(rule, Rotation) and rule.is_tested else 1


def _line(record: dict[str, Any]) -> str:
    if "errors" not in record:
        return record["note"]
    errors = ", ".join(f"{name} {shown(record['errors'][name])}" for name in ERRORS)
    return f"{errors}; {record['verdict']}, ESS {record['ess']:.0f}, {record['seconds']:.1f} s"
