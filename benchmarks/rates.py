"""Steps per second: ornstein, other libraries and the limit, in turn in one process.

W1 linear regression (wine), W2 logistic (skin), W3 softmax (MNIST), W4 = W1 with 64 chains; single
precision, every tenth iterate kept. A rate counts the steps of all chains. Trust the ratios: they
are of medians of interleaved repeats, and the machine's speed drifts.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import ornstein as orn
from benchmarks.foreign import driver
from benchmarks.interleave import Contestant, interleave
from benchmarks.limit import check, limit
from benchmarks.machine import machine
from benchmarks.overhead import overhead, second_call
from benchmarks.peers import blackjax_sgld, optax_sgd
from benchmarks.ratios import ratios
from benchmarks.workloads import NAMES, THIN, Workload, load

FLAG = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=65536"

STEPS = {
    # Of one chain, so that a timed call lasts about half a second: ours, peers, limit.
    "W1": (800_000, 40_000, 2_000_000),
    "W2": (15_000, 1_000, 20_000),
    "W3": (5_120, 2_000, 4_000),
    "W4": (100_000, 1_500, 60_000),
}
_QUICK = 5  # a quick run makes this many times fewer steps
_OVERHEAD_SECONDS = 10

Table = dict[str, Any]


def run(repeats: int = 9, quick: bool = False) -> Table:
    """The section "rates"; quick runs are shorter, and for trying out only."""
    repeats = min(repeats, 3) if quick else repeats
    workloads = {name: measure(load(name), repeats, quick) for name in NAMES}
    wine = load("W1")
    plan = _plan(wine, "sgd", "windows")
    rate = workloads["W1"]["rates"]["sgd windows"]["median"]
    seconds = _OVERHEAD_SECONDS / _QUICK if quick else _OVERHEAD_SECONDS
    return {
        "machine": machine(),
        "repeats": repeats,
        "quick": quick,
        "workloads": workloads,
        "flag": {"xla_flags": FLAG, "workloads": _with_flag(repeats, quick)},
        "foreign": driver.run(min(repeats, 3)),
        "overhead": overhead(wine, plan, int(rate * seconds), rounds=1 if quick else 3),
        "second_call": second_call(wine, plan),
    }


def measure(work: Workload, repeats: int, quick: bool, peers: bool = True) -> Table:
    """Rates of all contestants on one workload, and ours over theirs."""
    ours, theirs, bound = (steps // (_QUICK if quick else 1) for steps in STEPS[work.name])
    check(work)
    contestants = {
        "sgd windows": _ours(work, "sgd", "windows", ours),
        "sgd independent": _ours(work, "sgd", "independent", ours),
    }
    if work.family != "softmax":  # a dense gain of 7840 parameters is not planned for
        contestants["exact windows"] = _ours(work, "exact", "windows", ours)
    if peers:
        contestants["blackjax sgld"] = blackjax_sgld(work, theirs)
        contestants["optax sgd"] = optax_sgd(work, theirs)
        if work.family == "softmax":
            contestants["optax sgd, as first written"] = optax_sgd(work, theirs, labels=True)
    contestants["limit independent"] = limit(work, bound, windows=False)
    contestants["limit windows"] = limit(work, bound, windows=True)
    rates = interleave(contestants, repeats)
    return {
        "rows": len(work.X),
        "columns": work.X.shape[1],
        "batch_size": work.batch_size,
        "chains": work.chains,
        "rates": rates,
        "ratios": ratios({name: row["median"] for name, row in rates.items()}),
    }


def _ours(work: Workload, method: str, batches: str, steps: int) -> Contestant:
    """``orn.sample`` by the clock around its loop."""
    post, plan = work.posterior, _plan(work, method, batches)

    def rate() -> float:
        result = orn.sample(
            post,
            plan,
            chains=work.chains,
            draws=steps // THIN,
            thin=THIN,
            warmup=0,
            dtype="float32",
        )
        if not result.status.ok:
            raise FloatingPointError(result.status.message)
        return work.chains * result.steps / result.seconds

    return rate


def _plan(work: Workload, method: str, batches: str) -> orn.Plan:
    options: Table = {"structure": "dense", "control_variates": False}
    if work.family == "softmax":  # any point will do for a rate
        start = np.zeros((work.outputs, work.X.shape[1]))
        options = {"structure": "scalar", "at": {"coef": start}, "geometry_rows": 2000}
    return orn.plan(
        work.posterior, method=method, batch_size=work.batch_size, batches=batches, **options
    )


def _with_flag(repeats: int, quick: bool) -> Table:
    """Ours and the limit again, in a process that was started with the flag."""
    command = [sys.executable, "-m", "benchmarks.rates", "--json", "-", "--no-peers"]
    command += ["--repeats", str(repeats)] + ["--quick"] * quick
    flags = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}".strip()
    done = subprocess.run(
        command,
        cwd=driver.ROOT,
        env=os.environ | {"XLA_FLAGS": flags},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout)


def _print_table(workloads: Table) -> None:
    for name, row in workloads.items():
        print(f"{name}: {row['rows']:,} rows, batches of {row['batch_size']:,}")
        for contestant, rate in row["rates"].items():
            spread = f"{rate['low']:,.0f} to {rate['high']:,.0f}"
            compiled = f"{rate['compile_seconds']:.1f} s to compile"
            print(f"  {contestant:20}{rate['median']:14,.0f}  ({spread}; {compiled})")
        for which, ratio in row["ratios"].items():
            print(f"  {which:36}{ratio:8.2f}")


def main() -> None:
    """Print a table, or write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="short runs, for trying out")
    parser.add_argument(
        "--no-peers", action="store_true", help="the workloads only, by ornstein and the limit"
    )
    parser.add_argument("--json", metavar="FILE", help="write JSON there; - for standard output")
    options = parser.parse_args()
    if options.no_peers:
        record = workloads = {
            name: measure(load(name), options.repeats, options.quick, peers=False) for name in NAMES
        }
    else:
        record = run(options.repeats, options.quick)
        workloads = record["workloads"]
    if options.json == "-":
        print(json.dumps(record))
    elif options.json:
        Path(options.json).write_text(json.dumps(record, indent=2) + "\n")
    else:
        _print_table(workloads)


if __name__ == "__main__":
    main()
