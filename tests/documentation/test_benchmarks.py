"""Benchmarks run apart; some that reach into the library, and their page, are seen here."""

import json
from collections.abc import Callable
from pathlib import Path

from benchmarks import overhead, page
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
