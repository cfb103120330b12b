"""Benchmarks run apart; some that reach into the library, and their page, are seen here."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from benchmarks import mixed, mixed_page, overhead, page
from benchmarks.workloads import load

import ornstein as orn
from ornstein.data.datasets import Dataset

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_made_from_the_results(tmp_path: Path) -> None:
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    written, *_ = page.write(results, tmp_path)
    assert written.read_text() == (ROOT / "docs" / "benchmarks.md").read_text()


def test_the_bare_loop_makes_the_steps_of_sample(dataset: Callable[[str], Dataset]) -> None:
    dataset("wine")
    work = load("W1")
    plan = orn.plan(work.posterior, "sgd", batch_size=100, control_variates=False)
    found = overhead.overhead(work, plan, steps=20_000, rounds=1)
    assert found["bare_steps"] == found["steps"] >= overhead.CHAINS * 20_000


def test_mixed_models_are_simulated_and_shown() -> None:
    task = mixed.Case("bernoulli", 600, 20).simulate()
    assert task.X.shape == (600, 4)
    assert np.bincount(task.g).tolist() == [30] * 20
    ours = {"seconds": 2.0, "processor": 3.0, "sd": 0.8, "sd_error": 0.1, "gib": 0.5}
    records = {
        "ornstein": ours | {"sampling": 1.0, "draws": 2000, "ess": 1200.0},
        "gpboost": {"unavailable": "not installed"},
    }
    case = {"family": "poisson", "rows": 10_000, "groups": 50, "sd": 0.5, "records": records}
    shown = mixed_page.as_markdown({"repeats": 3, "cases": [case]})
    assert (
        "| poisson, 10,000 rows, 50 groups (true sd 0.5) | ornstein | 2 | 3 | 0.8 +- 0.1 |" in shown
    )
    assert "| 1,200 | 0.5 | 0.5 |" in shown
    assert "not installed" in shown
