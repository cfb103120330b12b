"""Mixed models whose rows stay on disk: the same model, the same draws, and what is refused."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ornstein as orn
from ornstein._base.types import Vector
from ornstein.curvature import arrow_sums
from ornstein.curvature.arrow_anchor import MixedAnchor, find_anchor, start
from ornstein.curvature.arrow_noise import remainder_noise
from ornstein.models import Effects
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.rows import MixedRowsOnDisk
from support import huge_mixed
from support.disk_tables import npy, parquet

NAMES = ["hours", "absences"]


def columns(family: str, rows: int = 3000, groups: int = 40) -> dict[str, Any]:
    """A table with slopes of its groups, weights and an offset."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2)).astype(np.float32)
    g = 10 + 3 * rng.permutation(np.arange(rows) % groups)
    effects = rng.normal(size=(2, 10 + 3 * groups)) * [[0.8], [0.4]]
    offset = 0.1 * rng.normal(size=rows)
    eta = 0.2 + X @ [0.5, -0.5] + effects[0][g] + effects[1][g] * X[:, 1] + offset
    if family == "bernoulli":
        y = (rng.uniform(size=rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    elif family == "poisson":
        y = rng.poisson(np.exp(0.5 * eta)).astype(np.int32)
    elif family == "binomial":
        y = rng.binomial(4, 1 / (1 + np.exp(-eta))).astype(np.int32)
    elif family == "exponential":
        y = rng.exponential(np.exp(eta)).astype(np.float32)
    else:
        y = (eta + 0.7 * rng.normal(size=rows)).astype(np.float32)
    weight = rng.uniform(0.5, 1.5, rows)
    return {"X": X, "y": y, "g": g, "weight": weight, "offset": offset}


def opened(folder: Path, given: dict[str, Any]) -> Any:
    """The same, each on disk."""
    for name, values in given.items():
        npy(folder, values, f"{name}.npy")
    return {name: orn.open_rows(folder / f"{name}.npy") for name in given}


def model(given: dict[str, Any], family: str, **more: Any) -> MixedPosterior:
    return orn.models.mixed(
        given["X"],
        given["y"],
        {"school": Effects(given["g"], slopes=("absences",))},
        family,
        feature_names=NAMES,
        sample_weight=given["weight"],
        offset=given["offset"],
        **more,
    )


def by_blocks(post: MixedPosterior, rows: int = 700) -> MixedPosterior:
    """Passes take blocks of so many rows, the last one shorter."""
    assert isinstance(post.rows, MixedRowsOnDisk)
    return replace(post, rows=replace(post.rows, block_rows=rows))


def both(folder: Path, family: str, **more: Any) -> tuple[MixedPosterior, MixedPosterior]:
    """A model of rows in memory, and of the same on disk."""
    given = columns(family)
    return model(given, family, **more), by_blocks(model(opened(folder, given), family, **more))


def assert_equal(here: MixedAnchor, there: MixedAnchor) -> None:
    for name in ("phi", "b", "lam", "slope_phi", "slope_b"):
        np.testing.assert_allclose(getattr(here, name), getattr(there, name), atol=1e-7)
    for name in ("head", "cross", "blocks"):
        own, other = getattr(here.data, name), getattr(there.data, name)
        np.testing.assert_allclose(own, other, rtol=1e-8, atol=1e-7)
    assert here.loss == pytest.approx(there.loss, rel=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "poisson"])
def test_X14_the_posterior_of_rows_on_disk_is_that_in_memory(tmp_path: Path, family: str) -> None:
    memory, disk = both(tmp_path, family)
    assert disk.on_disk
    assert "rows=3000 on disk" in repr(disk)
    assert disk.labels == memory.labels
    np.testing.assert_allclose(disk.prior_mean, memory.prior_mean, atol=1e-12)
    np.testing.assert_allclose(disk.prior_precision, memory.prior_precision)
    np.testing.assert_allclose(start(disk), start(memory))
    assert_equal(find_anchor(disk), find_anchor(memory))


def test_X14_sums_over_blocks_are_those_over_all_rows_of_crossed_groups(tmp_path: Path) -> None:
    given = columns("gaussian")
    h = np.random.default_rng(1).integers(0, 7, len(given["y"]))
    there = opened(tmp_path, given)
    posts = []
    for own in (given, there):
        effects = {"g": Effects(own["g"], slopes=(0,)), "h": Effects(h, slopes=(1,))}
        posts.append(orn.models.mixed(own["X"], own["y"], effects, intercept=False))
    memory, disk = posts[0], by_blocks(posts[1])
    spec = memory.specification
    theta = np.random.default_rng(2).normal(size=spec.dim)
    point = theta[: spec.head], theta[spec.head :].reshape(spec.leaf.width, -1), start(memory)
    one, other = arrow_sums.sums(memory, *point), arrow_sums.sums(disk, *point)
    assert one.loss == pytest.approx(other.loss)
    np.testing.assert_allclose(one.slope_phi, other.slope_phi, atol=1e-8)
    np.testing.assert_allclose(one.slope_b, other.slope_b, atol=1e-8)
    assert one.data is not None
    assert other.data is not None
    np.testing.assert_allclose(one.data.dense(spec.dim), other.data.dense(spec.dim), atol=1e-8)


def test_X10_noise_of_remainders_is_that_of_rows_in_memory(tmp_path: Path) -> None:
    memory, disk = both(tmp_path, "bernoulli")
    anchor = find_anchor(memory)
    one, other = remainder_noise(memory, anchor), remainder_noise(disk, anchor)
    np.testing.assert_allclose(one.head, other.head)
    np.testing.assert_allclose(one.leaf, other.leaf)
    assert (one.kick, one.share, one.bend) == pytest.approx((other.kick, other.share, other.bend))


@pytest.mark.parametrize("family", [pytest.param("gaussian", marks=pytest.mark.slow), "bernoulli"])
def test_the_same_key_gives_the_same_draws(tmp_path: Path, family: str) -> None:
    """Of steps that need no rows, and of steps whose rows are read ahead."""
    memory, disk = both(tmp_path, family)
    options = {} if family == "gaussian" else {"batch_size": 500}
    plan = orn.plan(disk, **options)
    assert plan.steps == ("gaussian" if family == "gaussian" else "minibatch")
    assert ("rows, parameters", "3,000 on disk, 83") in plan.lines()
    one = orn.sample(memory, orn.plan(memory, **options), key=1, chains=3, draws=60)
    other = orn.sample(disk, plan, key=1, chains=3, draws=60)
    # Rounding is magnified by a chain, but little in so few draws.
    for name in ("phi", "b", "lam"):
        here, there = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(here[:, :30], there[:, :30], atol=2e-3 * here.std())


@pytest.mark.slow
def test_small_tables_on_disk_are_drawn_from_batches(tmp_path: Path) -> None:
    """In memory the same rows are few enough for steps with all of them: the truth here."""
    given = columns("bernoulli", 6000, 12)
    memory, disk = model(given, "bernoulli"), model(opened(tmp_path, given), "bernoulli")
    plans = orn.plan(memory), orn.plan(disk)
    assert [plan.steps for plan in plans] == ["tested", "minibatch"]
    one, other = (
        orn.sample(post, plan, key=0, draws=300)
        for post, plan in zip((memory, disk), plans, strict=True)
    )
    a, b = one.summary(), other.summary()
    error = np.hypot(a["mcse_mean"], b["mcse_mean"]) + 0.03 * a["sd"]
    assert (np.abs(a["mean"] - b["mean"]) < 4 * error).all()
    np.testing.assert_allclose(np.log(a["sd"] / b["sd"]), 0, atol=0.3)
    diagnosis = other.diagnose()
    assert diagnosis["stationarity"].verdict == "ok"
    expected = replace(other, posterior=memory).diagnose().accuracy
    assert diagnosis.accuracy is not None
    assert expected is not None
    for name in ("mean_error", "sd_error"):
        found = getattr(diagnosis.accuracy, name)
        np.testing.assert_allclose(found, getattr(expected, name), atol=1e-6)
    assert "6,000 on disk" in (other.save(tmp_path / "run") / "plan.txt").read_text()
    parts = [result.variance_components()["variance"] for result in (one, other)]
    np.testing.assert_allclose(parts[0], parts[1], rtol=0.3)


@pytest.mark.parametrize("family", ["binomial", "exponential"])
def test_trials_and_events_are_read_by_blocks(tmp_path: Path, family: str) -> None:
    given = columns(family)
    rng = np.random.default_rng(3)
    name = "trials" if family == "binomial" else "event"
    given[name] = np.full(3000, 4) if family == "binomial" else rng.integers(0, 2, 3000)
    there = opened(tmp_path, given)
    memory = model(given, family, **{name: given[name]})
    disk = by_blocks(model(there, family, **{name: there[name]}))
    assert_equal(find_anchor(disk), find_anchor(memory))


def test_some_columns_may_be_in_memory(tmp_path: Path) -> None:
    given = columns("poisson")
    there = opened(tmp_path, given)
    expected = find_anchor(model(given, "poisson"))
    for name in ("X", "g", "weight"):
        mixture = given | {name: there[name]}
        assert_equal(find_anchor(by_blocks(model(mixture, "poisson"))), expected)
    text = given | {"X": there["X"], "g": np.char.add("s", given["g"].astype(str))}
    assert "b[school=s13: 1]" in model(text, "poisson").labels


def test_parquet_and_no_columns(tmp_path: Path) -> None:
    """Labels that Parquet gives as floats are whole again."""
    given = columns("gaussian")
    table = np.column_stack([given["g"], given["y"]]).astype(float)
    place = parquet(tmp_path, table)
    g, y = (orn.open_rows(place, columns=name) for name in ("c0", "c1"))
    disk, memory = (
        orn.models.mixed(None, *own) for own in ((y, {"g": g}), (table[:, 1], {"g": given["g"]}))
    )
    assert disk.labels == memory.labels
    assert_equal(find_anchor(disk), find_anchor(memory))


def test_far_apart_labels_are_found_too(tmp_path: Path) -> None:
    given = columns("gaussian")
    far = given | {"g": given["g"].astype(np.int64) * 10**12}
    assert_equal(
        find_anchor(by_blocks(model(opened(tmp_path, far), "gaussian"))),
        find_anchor(model(given, "gaussian")),
    )


def _spoiled(values: Vector) -> Vector:
    values = values.astype(float)
    values[2017, ..., -1:] = np.nan
    return values


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "column": ({"X": lambda c: _spoiled(c["X"])}, r"absences \(1\), the first being in row 2017"),
    "target": ({"y": lambda c: 0.5 * c["y"]}, "class labels"),
    "one level": ({"g": lambda c: 0 * c["g"] + 4}, "has one level only, 4"),
    "missing level": ({"g": lambda c: np.where(c["g"] > 10, c["g"], np.nan)}, "missing label"),
    "short labels": ({"g": lambda c: c["g"][1:]}, r"each of 3000 rows, found shape \(2999,\)"),
    "weight": ({"weight": lambda c: -c["weight"]}, "sample_weight must be 0 or above"),
    "offset": ({"offset": lambda c: c["offset"][:5]}, "offset must hold one number for each"),
}


@pytest.mark.parametrize("what", WRONG)
def test_mistakes_in_rows_on_disk_are_named(tmp_path: Path, what: str) -> None:
    changes, message = WRONG[what]
    given = columns("bernoulli")
    given |= {name: change(given) for name, change in changes.items()}
    with pytest.raises(orn.InputError, match=message):
        model(opened(tmp_path, given), "bernoulli")


def test_steps_that_need_all_rows_are_refused(tmp_path: Path) -> None:
    """With what they would take in memory."""
    given = columns("bernoulli", 3000, 1000)
    there = opened(tmp_path, given)
    remedy = r"stay on disk\. Read them with rows\[:\] if about 0\.\d+ GiB fit in memory"
    crossed = {"g": there["g"], "h": np.arange(3000) % 5}
    with pytest.raises(orn.InputError, match=f"there are several groups: .*{remedy}"):
        orn.plan(orn.models.mixed(there["X"], there["y"], crossed, "bernoulli"))
    with pytest.raises(orn.InputError, match=f"3 rows a group, steps need a test .*{remedy}"):
        orn.plan(model(there, "bernoulli"))
    with pytest.raises(orn.InputError, match=r"its own parameters.*must be in memory"):
        model(there, "negative_binomial")


def test_new_rows_are_in_memory(tmp_path: Path) -> None:
    given = columns("gaussian")
    there = opened(tmp_path, given)
    result = orn.sample(model(there, "gaussian"), key=0, draws=20)
    offset = given["offset"][:5]
    predicted = result.predict(given["X"][:5], {"school": given["g"][:5]}, offset=offset)
    assert predicted.mean.shape == (5,)
    with pytest.raises(orn.InputError, match=r"some rows of X at a time, such as rows\[:1000\]"):
        result.predict(there["X"], {"school": given["g"]}, offset=given["offset"])


@pytest.mark.slow
def test_a_draw_costs_as_much_of_ten_million_rows_on_disk(tmp_path: Path) -> None:
    """In half a gibibyte beside what compiled code takes; the truth within the posterior."""
    truth = np.array([*huge_mixed.SLOPES, huge_mixed.INTERCEPT, huge_mixed.SD])
    costs = []
    for rows in (100_000, 1_000_000, 10_000_000):
        command = [sys.executable, huge_mixed.__file__]
        subprocess.run([*command, "write", str(tmp_path), str(rows)], check=True)
        run = subprocess.run(
            [*command, "sample", str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        said = json.loads(run.stdout)
        print(rows, run.stdout)
        costs.append(said["draw"])
        assert said["steps"] == "minibatch"
        assert said["peak"] < 2**30
        assert max(said["r_hat"]) < 1.02
        off = (np.array(said["mean"]) - truth) / np.hypot(said["sd"], [0, 0, 0, 0, 0.033, 0])
        assert np.abs(off).max() < 4
    assert max(costs[1:]) < 2 * costs[0]
