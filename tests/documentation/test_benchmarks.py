"""Benchmarks run apart; some that reach into the library, and their page, are seen here."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import (
    coverage,
    coverage_page,
    large_tables,
    mixed,
    mixed_page,
    overhead,
    page,
    times_page,
    walk,
    walk_page,
)
from benchmarks.judged import judged, judged_table
from benchmarks.workloads import load
from scipy import stats

import ornstein as orn
from ornstein.curvature.arrow_anchor import find_anchor
from ornstein.data.datasets import Dataset

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_made_from_the_results(tmp_path: Path) -> None:
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    written, *_ = page.write(results, tmp_path)
    assert written.read_text() == (ROOT / "docs" / "benchmarks.md").read_text()


def test_answers_are_judged_by_the_posterior_itself() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    post = orn.models.logistic(X, X[:, 0] > rng.logistic(size=40))
    draws = orn.sample(post, method="laplace", draws=500).flat
    found = judged(post, {"laplace": draws, "nuts": draws[:, :4]})
    text = "\n".join(judged_table(found, {"laplace": "Laplace", "nuts": "NUTS"}))
    assert text.count("| Laplace | 2,000 | ") == 1
    assert "- NUTS: check needs at least 64 draws" in text


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


def test_coverage_is_of_simulated_tables_and_shown() -> None:
    one = coverage.covered("gaussian", 6, 5, 0.5, 1)
    assert set(one["covered"]) == {"x0", "x1", "intercept", "sd(g)"}
    assert set(one["covered"].values()) <= {0.0, 1.0}
    few = one | {"evidence_maximum": [0.9, 0.1]}
    shown = coverage_page.as_markdown({"level": 0.9, "few_rows": few, "families": {"linear": one}})
    assert "| bernoulli, 6 groups of 5 | 1 |" in shown
    assert "| 0.900 +- 0.100 |" in shown


def test_the_most_evident_sd_is_that_of_the_exact_evidence() -> None:
    """Laplace's approximation is exact for Gaussian rows: a search over dense determinants."""
    post = coverage.simulated("gaussian", 8, 5, 1.0, 0)
    anchor = find_anchor(post)
    found = coverage.most_evident(post, anchor)
    hot = np.kron(np.eye(8), np.ones((5, 1)))
    fixed = post.rows.in_memory().x * post.prior_precision**-0.5

    mean, noise = post.rows.in_memory().x @ post.prior_mean, np.exp(2 * anchor.lam[-1]) * np.eye(40)

    def evidence(sd: float) -> float:
        cov = noise + fixed @ fixed.T + sd**2 * hot @ hot.T
        return float(stats.multivariate_normal(mean, cov).logpdf(post.rows.in_memory().y))

    assert evidence(found) > max(evidence(0.95 * found), evidence(1.05 * found))


def test_counts_above_zero_have_the_mean_of_a_truncated_poisson() -> None:
    mean = np.full(40_000, 0.7)
    counts = coverage.truncated_poisson(mean, np.random.default_rng(0))
    assert counts.min() == 1
    expected = 0.7 / -np.expm1(-0.7)
    assert abs(counts.mean() - expected) < 4 * counts.std() / 200


def test_a_walk_is_shown_with_its_cross_checks() -> None:
    held = {"rows": 1000, "log score": -1.0, "90% coverage": 0.91}
    good: dict[str, Any] = {
        "model": "linear",
        "verdicts": {"convergence": "ok", "intervals": "ok", "fit": "warn"},
        "said": ["It bends."],
        "advice": ["add the square: --formula 'y ~ . + I(x**2)', or poly(x, 2)"],
        "held_out": held,
        "processor": 9.0,
    }
    assert walk.followed(good["advice"][0]) == ["--formula", "y ~ . + I(x**2)"]
    assert walk.followed("use student_t (--family student_t), by which outliers pull less") == [
        "--family",
        "student_t",
    ]
    assert walk.followed("look at these rows") is None
    after = good | {"verdicts": dict.fromkeys(good["verdicts"], "ok"), "options": "--family x"}
    better = good | {"followed": after | {"held_out": held | {"log score": -0.5}}}
    needless = good | {"followed": after}
    off = good | {"held_out": held | {"90% coverage": 0.7}}
    elsewhere = good | {"nuts": {"mean": 0.5, "mc": 0.05}}
    same = good | {"nuts": {"mean": 0.2, "mc": 0.05}}
    needed = [walk.without_need(one) for one in (good, better, needless, off, elsewhere, same)]
    assert needed == [True, False, True, False, False, True]
    shown = walk_page.as_markdown(
        {
            "rows": 5000,
            "tables": {
                "a": better | {"nuts": same["nuts"]},
                "b": off | {"nuts": elsewhere["nuts"]},
            },
        }
    )
    assert "Of 2 tables, 2 warn, 0 of them needlessly; 1 remedies were followed" in shown
    assert "| 91.0% | 0.20 (0.05) | `--family x` | yes | 0.500 | 9 |" in shown
    assert "| 70.0% ! | 0.50 (0.05) ! | - | - | - | 9 |" in shown


def test_large_tables_have_the_shapes_that_are_stated() -> None:
    made = {name: large_tables.large_tables()[name].make() for name in ("mushroom", "penbased")}
    levels = [len(column.unique()) for column in made["mushroom"].columns]
    assert made["mushroom"].shape == (8124, 23)
    assert sum(levels[1:]) == 117
    assert made["penbased"].shape == (10_992, 17)
    assert len(made["penbased"]["outcome"].unique()) == 10
    found = {"seconds": 5.0, "processor": 8.0, "bytes": 1.4e9, "prior_precision": 0.5}
    limits = {"limit_seconds": 40, "limit_bytes": 1.5e9}
    shown = times_page.as_markdown({"tables": {"million": found | limits}})
    assert "| million | 5 | 8 | 40 | 1.40 | 1.50 | 0.5 |" in shown
