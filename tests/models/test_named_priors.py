"""Priors of mixed models by name: in arrays and in formulas, and what is refused."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import ornstein as orn
from ornstein.models import Effects
from ornstein.models.random_effects.covariances import Covariance
from ornstein.models.random_effects.posterior import MixedPosterior

X = np.arange(12.0)[:, None] % 5
Y = np.array([1.0, 2, 0, 3, 1, 1, 4, 2, 2, 0, 1, 3])
G = np.repeat([0, 1, 2], 4)
H = np.arange(12) % 2


def made(**options: Any) -> MixedPosterior:
    groups = {"h": H, "g": Effects(G, slopes=("x",))}
    return orn.models.mixed(X, Y, groups, feature_names=["x"], **options)


def formula(**options: Any) -> MixedPosterior:
    frame = pd.DataFrame({"x": X[:, 0], "y": Y, "g": G.astype(str), "h": H.astype(str)})
    post = orn.from_formula("y ~ x + (x|g) + (1|h)", frame, "linear", **options)
    assert isinstance(post, MixedPosterior)
    return post


def priors(post: MixedPosterior) -> dict[str, Any]:
    """Of standard deviations by name, and the concentrations."""
    found: dict[str, Any] = {"sigma": post.specification.noise_prior}
    for grouping in post.specification.groupings:
        drawn = [cov for cov in grouping.covariances if isinstance(cov, Covariance)]
        own = [prior for cov in drawn for prior in cov.priors]
        found |= dict(zip(grouping.hyper_labels(), own, strict=False))
        found[f"cor({grouping.name})"] = [cov.concentration for cov in drawn]
    return found


@pytest.mark.parametrize("make", [made, formula])
def test_priors_are_set_by_name_and_others_stay(make: Any) -> None:
    usual = priors(make())
    given = {
        "x": orn.Normal(1.0, 0.5),
        "sd(g: x)": orn.HalfNormal(0.3),
        "sd(h)": orn.Exponential(2.0),
        "sigma": orn.HalfStudentT(4.0, 1.0),
        "cor(g)": orn.LKJ(3.0),
    }
    post = make(priors=given)
    found = priors(post)
    assert found["sd(g: x)"] == given["sd(g: x)"]
    assert found["sd(h)"] == given["sd(h)"]
    assert found["sigma"] == given["sigma"]
    assert found["cor(g)"] == [3.0]
    assert found["sd(g: 1)"] == usual["sd(g: 1)"]
    assert found["cor(h)"] == usual["cor(h)"] == [1.0]
    at = post.fixed_labels.index("x")
    assert (post.prior_mean[at], post.prior_precision[at]) == (1.0, 4.0)


def test_a_name_goes_before_a_prior_for_all() -> None:
    post = made(
        sd_prior=orn.HalfNormal(9.0),
        correlation_concentration=2.0,
        priors={"sd(h)": orn.HalfNormal(0.1)},
    )
    found = priors(post)
    assert found["sd(h)"] == orn.HalfNormal(0.1)
    assert found["sd(g: 1)"] == orn.HalfNormal(9.0)
    assert found["cor(g)"] == [2.0]


@pytest.mark.parametrize("make", [made, formula])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"sd(k)": orn.HalfNormal()}, r"priors='sd\(k\)' is not known.*sd\(h\)"),
        ({"sd(h)": orn.Normal()}, r"priors\['sd\(h\)'\] must be ornstein.HalfNormal"),
        ({"sd(h)": orn.HalfNormal(-1.0)}, r"priors\['sd\(h\)'\].scale must be .*above 0"),
        ({"x": orn.HalfNormal()}, r"priors\['x'\] must be ornstein.Normal"),
        ({"cor(g)": 2.0}, r"priors\['cor\(g\)'\] must be ornstein.LKJ"),
        ({"cor(h)": orn.LKJ()}, r"priors='cor\(h\)' is not known"),
        ([1], "priors must be a mapping"),
    ],
)
def test_what_is_no_prior_is_refused(make: Any, given: Any, says: str) -> None:
    with pytest.raises(orn.InputError, match=says):
        make(priors=given)


def test_a_narrow_prior_of_a_standard_deviation_is_felt() -> None:
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(8), 5)
    y = rng.normal(size=8)[g] + rng.normal(size=40)
    narrow = orn.models.mixed(None, y, {"g": g}, priors={"sd(g)": orn.HalfNormal(0.05)})
    wide = orn.models.mixed(None, y, {"g": g})
    found = [orn.sample(post, key=0, draws=200)["sd(g)"] for post in (narrow, wide)]
    assert np.quantile(found[0], 0.95) < 0.2 < np.quantile(found[1], 0.5)
