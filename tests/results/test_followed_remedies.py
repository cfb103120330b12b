"""Every remedy, followed once: its warning goes away, or what it was about is explained."""

import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import ornstein as orn
from ornstein import tables
from ornstein._base.types import Vector
from ornstein.cli.wording import answer_in_options
from ornstein.results.answers import Answer, answers

ROWS = 600
QUICK: dict[str, Any] = {"method": "laplace", "hyper": "learn", "draws": 200}
KINDS = {
    "outliers": "far from what the model expects",
    "spread": "The rows scatter",
    "zeros": "zeros than the model expects",
    "tails": "Intervals for new rows are off",
    "bend": "The target bends with",
    "separation": "separate",
    "intervals": "if rows are independent",
}


class Case(NamedTuple):
    """A table that a family does not fit: its column y, or a formula's target."""

    family: str
    made: Callable[[np.random.Generator, pd.DataFrame], Vector | pd.Series]
    kind: str
    formula: str = ""


def rate(frame: pd.DataFrame, level: float = 1.0) -> Vector:
    return np.exp(level + 0.4 * frame["a"].to_numpy())


def of_gamma(rng: np.random.Generator, mean: Vector, shape: float) -> Vector:
    return mean * rng.gamma(shape, size=ROWS) / shape


def with_outliers(rng: np.random.Generator, frame: pd.DataFrame) -> Vector:
    y = frame["a"].to_numpy() + rng.normal(size=ROWS)
    y[[11, 87, 300]] += [500.0, -700.0, 600.0]
    return y


def inflated(rng: np.random.Generator, counts: Vector) -> Vector:
    return np.asarray(counts * (rng.random(ROWS) < 0.7))


def varying(rng: np.random.Generator, frame: pd.DataFrame, shape: float) -> Vector:
    return rng.poisson(of_gamma(rng, rate(frame, 1.5), shape)).astype(float)


def overdispersed(rng: np.random.Generator, frame: pd.DataFrame) -> Vector:
    p = 1 / (1 + np.exp(-frame["a"].to_numpy()))
    return rng.binomial(20, rng.beta(4 * p, 4 * (1 - p))).astype(float)


def skewed(rng: np.random.Generator, frame: pd.DataFrame) -> Vector:
    return np.exp(frame["a"].to_numpy() + rng.normal(size=ROWS))


def separated(rng: np.random.Generator, frame: pd.DataFrame) -> Vector:
    frame["town"] = np.where(rng.random(ROWS) < 0.3, "Bonn", "Ulm")
    won = (frame["town"] == "Ulm") & (rng.random(ROWS) < 0.4)
    return np.where(won, "yes", "no")


def heavy(rng: np.random.Generator, frame: pd.DataFrame) -> Vector:
    return rate(frame) * np.exp(0.8 * rng.standard_t(2.2, size=ROWS))


CASES = {
    "linear, outliers": Case("linear", with_outliers, "outliers"),
    "linear, a square left out": Case(
        "linear", lambda rng, f: f["a"] + 0.8 * f["b"] ** 2 + rng.normal(size=ROWS), "bend"
    ),
    "linear, squares and a cube left out": Case(
        "linear",
        lambda rng, f: f["b"] ** 2 - f["a"] ** 2 + 0.3 * f["a"] ** 3 + 0.5 * rng.normal(size=ROWS),
        "bend",
    ),
    "linear, noise that differs": Case(
        "linear",
        lambda rng, f: f["a"] + rng.normal(size=ROWS) * np.where(f["a"].abs() > 1, 2.2, 0.6),
        "intervals",
    ),
    "linear, skewed": Case("linear", skewed, "tails"),
    "linear, heavy tails": Case(
        "linear", lambda rng, f: f["a"] + rng.standard_t(2.5, size=ROWS), "tails"
    ),
    "logistic, separated": Case("logistic", separated, "separation"),
    "logistic, separated throughout": Case(
        "logistic", lambda _, f: np.where(f["a"] + f["b"] > 0, "yes", "no"), "separation"
    ),
    "binomial, overdispersed": Case("binomial", overdispersed, "spread", "p(y, n) ~ a + b"),
    "poisson, varying": Case("poisson", lambda rng, f: varying(rng, f, 0.5), "spread"),
    "poisson, zeros": Case(
        "poisson", lambda rng, f: inflated(rng, rng.poisson(rate(f, 1.5)).astype(float)), "zeros"
    ),
    "poisson, no zeros": Case(
        "poisson",
        lambda rng, f: np.where((x := rng.poisson(rate(f))) == 0, 1, x) * (rng.random(ROWS) < 0.98),
        "zeros",
    ),
    "negative binomial, zeros": Case(
        "negative_binomial", lambda rng, f: inflated(rng, varying(rng, f, 5.0) + 2), "zeros"
    ),
    "zero-inflated poisson, varying": Case(
        "zero_inflated_poisson", lambda rng, f: inflated(rng, varying(rng, f, 1.5)), "spread"
    ),
    "hurdle poisson, varying": Case(
        "hurdle_poisson", lambda rng, f: inflated(rng, varying(rng, f, 1.5)), "spread"
    ),
    "gamma, heavy": Case("gamma", heavy, "spread"),
    "weibull, heavy": Case("weibull", heavy, "spread"),
    "exponential, regular": Case(
        "exponential", lambda rng, f: rate(f) * rng.weibull(3.0, size=ROWS), "spread"
    ),
}
QUICK_ONES = {
    "linear, squares and a cube left out",
    "logistic, separated",
    "binomial, overdispersed",
}


def table(case: Case) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 2)), columns=["a", "b"])
    frame["y"] = case.made(rng, frame)
    return frame.assign(n=20) if case.formula else frame


def answer(frame: pd.DataFrame, given: dict[str, str]) -> tuple[Answer, orn.Diagnosis]:
    """What the command line says of the fit, by its options."""
    options, family, formula = dict(QUICK), given.get("family"), given.get("formula", "")
    options |= {"method": given["method"]} if "method" in given else {}
    if "prior-precision" in given:
        options["prior_precision"] = float(given["prior-precision"])
    frame = frame.drop(columns=given.get("drop", []))
    if formula:
        encoded: Any = tables.learn_formula(frame, formula, family)
    else:
        encoded = tables.learn(frame, "y", family)
    model = tables.fit_table(encoded, **options)
    diagnosis = model.result.diagnose()
    *_, found = answers(model.result, diagnosis, None, model.encoding.target.name, formula)
    return answer_in_options(found), diagnosis


def kinds(found: Answer) -> set[str]:
    return {name for name, words in KINDS.items() for p in found.points if words in p.sentence}


def ways(remedy: str) -> Iterator[dict[str, str]]:
    """The options that a remedy names, each way by itself."""
    for part in re.split(r"[;,:]? (?:or|else|if|and) |; ", remedy):
        words = re.findall(r"--[\w-]+(?: '[^']*'| [\w.]+)?", part)
        pairs = [shlex.split(word) for word in words]
        named = {pair[0][2:]: pair[1] for pair in pairs if pair[1:]}
        if named:
            yield named


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in QUICK_ONES else pytest.mark.slow) for n in CASES],
)
def test_a_remedy_that_is_followed_works(name: str) -> None:
    case = CASES[name]
    frame = table(case)
    given = {"family": case.family} | ({"formula": case.formula} if case.formula else {})
    first, _ = answer(frame, given)
    assert case.kind in kinds(first), str(first)
    assert first.verdict in ("warn", "fail")
    for point in first.points:
        assert point.remedy
        own = kinds(Answer("fit", "warn", "", [point]))
        steps = list(ways(point.remedy))
        assert steps, f"no option: {point.remedy}"
        for step in steps:
            after, diagnosis = answer(frame, given | step)
            assert not own & kinds(after), f"{step}: {after}"
            assert diagnosis.verdict in ("ok", "warn"), f"{step}: {diagnosis}"
