"""Conditional and marginal effects of functions whose effects are known."""

import numpy as np
import pandas as pd
import pytest

import ornstein as orn
from ornstein.results import effects
from ornstein.results.effects import Variable

DRAWS = np.random.default_rng(0).normal([1.0, 0.4, -0.7], 0.1, size=(300, 3))


def rows(count: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {"x": rng.uniform(-1, 2, count), "g": rng.choice(["a", "b"], count), "n": 3.0}
    )


def response(frame: pd.DataFrame) -> np.ndarray:
    """A Poisson regression's mean, refusing what is beyond the range of x."""
    x, b = frame["x"].to_numpy(float), (frame["g"] == "b").to_numpy(float)
    assert x.min() >= -1
    assert x.max() <= 2
    a, slope, level = DRAWS.T[:, :, None]
    return np.asarray(np.exp(a + slope * x + level * b * x))


def variables(frame: pd.DataFrame) -> list[Variable]:
    return [effects.variable("x", frame["x"]), effects.variable("g", frame["g"], ("a", "b"))]


def test_average_slopes_and_contrasts() -> None:
    """Over the rows, exact by draw but for the step of the difference."""
    frame = rows()
    found = effects.marginal_effects(response, frame, variables(frame))
    x, b = frame["x"].to_numpy(), (frame["g"] == "b").to_numpy(float)
    a, slope, level = DRAWS.T[:, :, None]
    slopes = ((slope + level * b) * response(frame)).mean(axis=1)
    line = found.xs(("x", "slope")).to_dict()
    assert line["mean"] == pytest.approx(slopes.mean(), rel=1e-4)
    assert line["sd"] == pytest.approx(slopes.std(), rel=1e-3)
    assert line["high 90%"] == pytest.approx(np.quantile(slopes, 0.95), rel=1e-3)
    contrast = (np.exp(a + (slope + level) * x) - np.exp(a + slope * x)).mean(axis=1)
    assert found.loc[("g", "b - a"), "mean"] == pytest.approx(contrast.mean(), rel=1e-9)
    assert found.loc[("g", "b - a"), "low 90%"] == pytest.approx(np.quantile(contrast, 0.05))


def test_curves_hold_the_other_columns() -> None:
    frame = rows()
    known = variables(frame)
    found = effects.conditional_effects(response, frame, known, [("x",), ("g",), ("x", "g")])
    curve = found[found["term"] == "x"]
    assert len(curve) == 50
    last = np.exp(DRAWS[:, 0] + DRAWS[:, 1] * frame["x"].max())  # at level a
    assert curve["value"].iloc[-1] == frame["x"].max()
    assert curve["mean"].iloc[-1] == pytest.approx(last.mean())
    assert curve["low 90%"].iloc[-1] == pytest.approx(np.quantile(last, 0.05))
    points = found[found["term"] == "g"].set_index("value")["mean"]
    middle = DRAWS[:, 0] + (DRAWS[:, 1] + DRAWS[:, 2]) * frame["x"].mean()
    assert points["b"] == pytest.approx(np.exp(middle).mean())
    both = found[found["term"] == "x:g"]
    assert both.groupby("beside").size().to_dict() == {"a": 50, "b": 50}
    assert both["mean"].iloc[:50].tolist() == pytest.approx(curve["mean"].tolist())


def test_several_outcomes() -> None:
    def chances(frame: pd.DataFrame) -> np.ndarray:
        one = np.exp(-response(frame))
        return np.stack([one, 1 - one], axis=1)

    frame = rows(200)
    known, outcomes = variables(frame), ("no", "yes")
    found = effects.marginal_effects(chances, frame, known, outcomes)
    slopes = found.xs("slope", level="contrast").set_index("outcome")["mean"]
    assert slopes["no"] == pytest.approx(-slopes["yes"])
    curves = effects.conditional_effects(chances, frame, known, [("g",)], outcomes)
    assert curves.groupby("value")["mean"].sum().tolist() == pytest.approx([1, 1])


def test_cost_is_bounded() -> None:
    """However many rows and columns there are."""
    count = 400
    wide = pd.DataFrame(np.random.default_rng(2).normal(size=(20_000, count)))
    wide.columns = [f"x{i}" for i in range(count)]
    seen = 0

    def counting(frame: pd.DataFrame) -> np.ndarray:
        nonlocal seen
        seen += len(frame)
        return frame["x0"].to_numpy()[None] * np.ones((2, 1))

    known = [effects.variable(name, wide[name]) for name in wide.columns]
    found = effects.marginal_effects(counting, wide, known)
    assert found.loc[("x0", "slope"), "mean"] == pytest.approx(1)
    assert seen <= 500_000
    seen = 0
    effects.conditional_effects(counting, wide, known, [(name,) for name in wide.columns])
    assert seen <= 20_000


def test_terms_by_name() -> None:
    terms = [("x",), ("g",), ("x", "g")]
    assert effects.chosen_terms(terms, ["x:g"]) == [("x", "g")]
    with pytest.raises(orn.InputError, match=r"no term 'X:g'.*Did you mean .x:g"):
        effects.chosen_terms(terms, ["X:g"])
