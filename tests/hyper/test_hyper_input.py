"""Hyperparameters that do not fit: every mistake has its message."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from support.hyper_posts import own, table
from support.problems import features

XY = {"x": features(5, 2), "y": np.ones(5)}


def broken(**options: Any) -> orn.Posterior:
    """Nothing constrains its hyperparameter."""
    given: dict[str, Any] = {"hyper": {"tau": 1.0}, "init": np.zeros(2), **options}
    return orn.Posterior(
        lambda p, row, h: -0.5 * (row["y"] - p @ row["x"]) ** 2 + 0.0 * h["tau"],
        lambda p, h: -0.5 * p @ p + h["tau"],
        XY,
        **given,
    )


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: broken(hyper={"tau": -1.0}), r"hyper 'tau' must be above 0, found -1"),
    (lambda: broken(hyper={"tau": np.nan}), r"hyper\['tau'\] holds NaN"),
    (lambda: broken(hyper={"tau": "a"}), r"hyper\['tau'\] must be a number"),
    (lambda: broken(hyper={}), r"hyper holds no numbers"),
    (lambda: broken(constraints="positve"), r"constraints='positve'.*Did you mean 'positive'"),
    (lambda: broken(constraints={"other": "real"}), r"constraints must be one for all"),
    (lambda: broken(constraints=3), r"constraints must be"),
    (lambda: broken(constraints=(jnp.log, jnp.sin)), r"whose second function must undo the first"),
    (lambda: broken(constraints="unit"), r"hyper 'tau' must lie between 0 and 1, found 1"),
    (lambda: broken(hyper=None, constraints="real"), r"constraints is given without hyper"),
    (lambda: broken().with_hyper({"rho": 1.0}), r"values does not fit the hyperparameters"),
    (lambda: broken().with_hyper({"tau": [1.0, 2.0]}), r"values 'tau' must have shape \(\)"),
    (lambda: orn.learn(broken()), r"tau grows or shrinks without limit.*must be normalised"),
    (
        lambda: orn.Posterior(lambda p, r: p * r["y"], lambda p: -(p**2), XY, 0.0, hyper=1.0),
        r"log_likelihood failed when called with parameters, one row and the hyperparameters",
    ),
    (lambda: orn.learn(own(*table()), tolerance=0), r"tolerance must be"),
    (lambda: orn.learn(own(*table()), moments="mean"), r"moments='mean'"),
    (lambda: orn.learn(own(*table()), at={"coef": np.zeros(12)}), r"at= fixes the optimum"),
    (lambda: orn.evidence(own(*table())), r"ready-made models only"),
    (lambda: orn.models.linear(*table(), groups=["a"]), r"groups must name a group for each of 12"),
    (lambda: orn.models.linear(*table(), groups="column"), r"Did you mean 'columns'"),
    (lambda: orn.models.linear(*table(), groups=[None] * 12), r"gives no column a label"),
    (lambda: orn.models.linear(*table(), learn="noise"), r"learn='noise'.*'noise_scale'"),
    (lambda: orn.models.logistic(*table(), learn="noise_scale"), r"y must hold"),
    (lambda: orn.learn(orn.models.linear(*table(), learn=())), r"has no hyperparameters"),
    (lambda: orn.cross_validate(orn.models.linear(*table()), []), r"grid is empty"),
    (lambda: orn.sample(own(*table()), learn_hyper={"step": 1}), r"learn_hyper='step'"),
]


@pytest.mark.parametrize(("build", "message"), BAD)
def test_bad_input(build: Callable[[], object], message: str) -> None:
    with pytest.raises(orn.InputError, match=message):
        build()


def test_a_plan_cannot_be_given_to_learning() -> None:
    post = orn.models.linear(*table())
    with pytest.raises(orn.InputError, match="a plan holds for one value"):
        orn.sample(post, orn.plan(post), learn_hyper=True)


def test_constraints_of_every_kind() -> None:
    hyper = {"rate": 0.3, "shift": -2.0, "tau": np.array([1.0, 2.0]), "odd": 4.0}
    square = (jnp.sqrt, jnp.square)
    post = orn.Posterior(
        lambda p, row, h: -0.5 * (row["y"] - p[0] - h["shift"]) ** 2,
        lambda p, h: -0.5 * (h["tau"] @ p**2) * h["rate"] * h["odd"],
        XY,
        init=np.zeros(2),
        hyper=hyper,
        constraints={"rate": "unit", "shift": "real", "tau": "positive", "odd": square},
    )
    learn = post.learnable
    assert learn.in_likelihood
    assert learn.labels == ["odd", "rate", "shift", "tau[0]", "tau[1]"]
    eta = learn.to_real(post.hyperparameters)
    np.testing.assert_allclose(eta, [2.0, np.log(3 / 7), -2.0, 0.0, np.log(2)])
    jax.tree.map(np.testing.assert_allclose, learn.host_values(eta), post.hyperparameters)
    unknown = orn.Posterior(
        post.log_likelihood, post.log_prior, XY, hyper=hyper, constraints="real"
    )
    moved = unknown.with_hyper({**hyper, "shift": 1.0}).at(np.zeros(2))
    assert moved.hyperparameters["shift"] == 1.0
