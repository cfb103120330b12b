"""Columns of many levels as fixed effects: looked up, reported as one-hot columns are."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ornstein as orn
from ornstein import tables
from ornstein.cli import app
from ornstein.tables.levels import MANY
from ornstein.tables.mixed import MixedTableModel
from support.montecarlo import agree

LEVELS = MANY + 20
ROWS = 12 * LEVELS


def frame(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    carrier, h = rng.permutation(np.arange(ROWS) % LEVELS), rng.integers(0, 8, ROWS)
    x = rng.normal(3, 2, ROWS)
    eta = 0.4 * x + rng.normal(size=LEVELS)[carrier] + 0.5 * rng.normal(size=8)[h] - 1
    return pd.DataFrame(
        {
            "y": 50 + 10 * (eta + rng.normal(size=ROWS)),
            "won": (rng.uniform(size=ROWS) < 1 / (1 + np.exp(-eta))).astype(int),
            "grade": rng.choice(["low", "mid", "top"], ROWS),
            "x": x,
            "carrier": [f"c{i:03d}" for i in carrier],
            "year": 1800 + carrier,
            "h": [f"h{i}" for i in h],
            "kind": rng.choice(["a", "b"], ROWS),
        }
    )


def features(formula: str, **options: Any) -> tuple[list[str], list[str]]:
    """Columns whose levels are looked up, and the first few that are columns of X."""
    encoding = tables.learn_formula(frame(), formula, **options).encoding
    return [one.name for one in encoding.many], list(encoding.features[:3])


@pytest.mark.parametrize(
    ("formula", "looked_up", "first"),
    [
        ("y ~ x + carrier", ["carrier"], ["x"]),
        ("y ~ carrier", ["carrier"], []),
        ("y ~ x*kind + C(year) + (x|h)", ["year"], ["x", "kind[T.b]", "x:kind[T.b]"]),
        ("y ~ 0 + carrier", [], ["carrier[c000]", "carrier[c001]", "carrier[c002]"]),
        ("y ~ carrier:kind", [], ["kind[T.b]", "carrier[T.c001]:kind[a]"]),
        ("y ~ C(carrier, Treatment())", [], ["C(carrier, Treatment())[T.c001]"]),
        ("y ~ kind", [], ["kind[T.b]"]),
    ],
)
def test_a_term_of_many_levels_is_looked_up_where_it_stands_alone(
    formula: str, looked_up: list[str], first: list[str]
) -> None:
    many, columns = features(formula)
    assert many == looked_up
    assert columns[: len(first)] == first
    assert bool(first) == bool(columns)


def test_a_target_of_several_predictors_has_indicators() -> None:
    many, columns = features("grade ~ carrier", family="softmax")
    assert many == []
    assert columns[0] == "carrier[T.c001]"


@pytest.fixture(scope="module")
def model() -> MixedTableModel:
    table = tables.learn_formula(frame(), "y ~ x + carrier + (1|h)")
    found = tables.fit_table(table, draws=200, progress=False, holdout=0.2)
    assert isinstance(found, MixedTableModel)
    return found


def test_coefficients_are_differences_from_the_first_level(model: MixedTableModel) -> None:
    found: Any = model.summary()
    assert found.index[:5].tolist() == ["x", "intercept", "sd(h)", "sigma", "carrier[T.c001]"]
    assert len(found) == 2 + LEVELS - 1 + 2
    own = frame()
    dummies = pd.get_dummies(own[["carrier", "h"]], drop_first=True, dtype=float)
    X = np.column_stack([np.ones(ROWS), own["x"], dummies])
    (_, slope, *rest), *_ = np.linalg.lstsq(X, own["y"].to_numpy(), rcond=None)
    assert found.loc["x", "mean"] == pytest.approx(slope, abs=0.2 * found.loc["x", "sd"])
    levels = found.iloc[4:]
    off = (levels["mean"].to_numpy() - np.array(rest[: LEVELS - 1])) / levels["sd"].to_numpy()
    assert np.abs(off).max() < 0.5
    assert model.scores is not None
    assert model.scores.values["R^2"] > 0.4


def test_predictions_follow_what_is_asked_for_unseen_levels(
    model: MixedTableModel, tmp_path: Path
) -> None:
    new = frame().iloc[:3].assign(carrier=["c003", "zz", "c000"], x=1.0, h="h1")
    with pytest.raises(orn.InputError, match=r"'carrier' has levels.*row 3|'zz'.*'average'"):
        model.predict(new)
    (unseen,) = model.new_levels(new)
    assert (unseen.levels, unseen.rows.tolist()) == (("zz",), [1])
    baseline, average = (model.predict(new, unseen=how)["mean"] for how in ("baseline", "average"))
    assert baseline[1] == pytest.approx(baseline[2])
    result = model.result
    step = result["carrier[T.c003]"].mean()
    assert average[0] - average[2] == pytest.approx(step, rel=1e-5)
    middle = result.contrasts.mean() * (LEVELS - 1) / LEVELS  # every level has as many rows
    assert average[1] - average[2] == pytest.approx(middle, rel=1e-4)
    model.save(tmp_path / "run")
    loaded = tables.TableModel.load(tmp_path / "run")
    pd.testing.assert_series_equal(loaded.predict(new, unseen="average")["mean"], average)


def test_the_toolbox_takes_such_columns(model: MixedTableModel) -> None:
    own = frame()
    first, again = model.loo(), model.loo(own)
    np.testing.assert_allclose(first.score, again.score, atol=1e-6)
    assert model.marginal_effects(own).index.get_level_values(0).tolist() == ["x"]
    found: Any = model.conditional_effects(own, ["x"])
    at_mean = found.loc[(found["value"].astype(float) - 3).abs().idxmin()]
    expected = model.result["intercept"] + at_mean["value"] * model.result["x"]
    assert at_mean["mean"] == pytest.approx(expected.mean(), rel=0.02)
    assert float(model.r2()["mean"]) > 0.4
    assert len(model.fit_picture(own)) == 3


def test_a_plain_table_takes_many_levels(tmp_path: Path) -> None:
    own = frame()[["won", "x", "carrier", "kind"]]
    table = tables.learn(own, "won")
    assert table.encoding.features == ("x", "kind=b")
    assert table.X.shape == (ROWS, 3)
    fitted = tables.fit_table(table, draws=60, progress=False, holdout=0.2)
    found: Any = fitted.summary()
    assert found.index[:4].tolist() == ["x", "kind=b", "intercept", "carrier=c001"]
    assert found.loc["carrier=c001", "odds ratio"] > 0
    fitted.save(tmp_path / "run")
    loaded = tables.TableModel.load(tmp_path / "run")
    new = own.head(3).assign(carrier=["c003", "zz", "c000"])
    for how in ("baseline", "average"):
        pd.testing.assert_frame_equal(
            loaded.predict(new, unseen=how), fitted.predict(new, unseen=how)
        )
    with pytest.raises(orn.InputError, match=f"'carrier' has {LEVELS} levels.*fit_table"):
        tables.posterior(table.X, table.y, table.encoding)
    own.to_csv(tmp_path / "t.csv", index=False)
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "t.csv"), "--target", "won"])
    assert f"'carrier' has {LEVELS} levels" in str(done.exception)
    gaps = own.assign(carrier=own["carrier"].where(own["carrier"] != "c004"))
    filled = tables.learn(gaps, "won", missing="impute").encoding.many[0]
    assert filled.words[-1] == "(missing)"


def test_names_of_rows_are_not_taken_for_levels() -> None:
    """A text that hardly two rows share is likelier to be a name, unless it is said to be none."""
    own = frame()[["y", "x"]].assign(name=[f"n{i // 3}" for i in range(ROWS)])
    with pytest.raises(orn.InputError, match=r"at most 100 are taken of so few rows.*categorical"):
        tables.learn(own, "y")
    assert tables.learn(own, "y", categorical=["name"]).encoding.many[0].name == "name"
    with pytest.raises(orn.InputError, match="a different level in every row"):
        tables.learn_formula(own.assign(name=[f"n{i}" for i in range(ROWS)]), "y ~ name")
    more = pd.DataFrame({"y": np.arange(4000.0), "g": [f"g{i % 1500}" for i in range(4000)]})
    with pytest.raises(orn.InputError, match=r"'g' has 1,500 levels. As a term of its own"):
        tables.learn_formula(more.assign(x=1.0 * (more.index % 7)), "y ~ x:g")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "exact"}, r"'carrier' has 120\).*steps of its own.*Treatment"),
        ({"hyper": "learn"}, "draws standard deviations"),
        ({"noise_scale": 2.0}, "whose fit draws it"),
        ({"checkpoint": "somewhere"}, "cannot be checkpointed"),
        ({"clusters": np.arange(ROWS)}, "leave them out"),
        ({"priors": {"carrier[T.c003]": orn.Normal()}}, "levels, which share one prior"),
    ],
)
def test_what_does_not_suit_is_refused_by_name(options: dict[str, Any], match: str) -> None:
    with pytest.raises(orn.InputError, match=match):
        tables.fit_table(tables.learn_formula(frame(), "y ~ x + carrier"), **options)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["y", "won"])
def test_draws_agree_with_those_of_indicators(target: str) -> None:
    """Means and covariances of some coefficients of a formula, either way."""
    draws = []
    own = frame()
    for term in ("carrier", "C(carrier, Treatment())"):
        fitted = tables.fit_table(
            tables.learn_formula(own, f"{target} ~ x + {term}"), draws=1000, progress=False
        )
        if isinstance(fitted, MixedTableModel):
            result = fitted.result
            names = ["x", "intercept", *(f"carrier[T.c{i:03d}]" for i in (1, 2, 3, 50, 119))]
            draws.append(np.stack([result[name] for name in names], axis=-1))
            continue
        coef, shift = fitted.encoding.units.own(fitted.result.unconstrained)
        columns = [0, 1, 2, 3, 50, 119]
        together = np.concatenate([coef[..., columns], shift[..., None]], axis=-1)
        draws.append(together[..., [0, 6, 1, 2, 3, 4, 5]])
    agree(draws[0], draws[1], 0.05)
