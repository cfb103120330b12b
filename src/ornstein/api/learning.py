"""Learn hyperparameters and sample at the learned values, in one call."""

from dataclasses import dataclass, fields
from typing import Any

from ornstein._base.types import Key, PyTree
from ornstein.api.sampling import sample
from ornstein.hyper import Learning
from ornstein.models.posterior import Posterior
from ornstein.results.result import Result


@dataclass(frozen=True, eq=False, repr=False)
class Learned(Learning):
    """Learned hyperparameters (see :class:`Learning`), and draws at their values.

    Attributes
    ----------
    result
        Draws at the learned values.
    """

    result: Result

    @property
    def posterior(self) -> Posterior:
        """The posterior at the learned values."""
        return self.result.posterior


def learn(
    post: Posterior,
    start: PyTree | None = None,
    tolerance: float = 0.02,
    moments: str = "auto",
    ascent: str = "newton",
    rounds: int | None = None,
    max_plans: int = 20,
    key: Key = 0,
    **options: Any,
) -> Learned:
    """Learn a posterior's hyperparameters by variational EM, then sample at the learned values.

    Variational EM maximises ``E_q[log p(y, theta | hyper)]``, where q is the sampler's stationary
    distribution. The sampler is planned again as the hyperparameters change.

    Parameters
    ----------
    post
        A posterior with hyperparameters: ``Posterior(..., hyper=...)`` or a ready-made model.
    start
        Hyperparameters to start from; the posterior's own if not given.
    tolerance
        Learning ends when the next step would be shorter than this many posterior standard
        deviations of the hyperparameters, plus twice its Monte-Carlo error, and that error is
        below the tolerance too.
    moments
        Where q's moments come from: ``plan``, the plan's prediction (T2); ``draws``, the same
        corrected by the running mean over draws; ``auto``, draws unless the posterior is Gaussian.
    ascent
        ``newton``, Newton steps on the evidence; ``em``, M-steps of variational EM (in closed form
        for ready-made models), which lead to the same values more slowly.
    rounds
        Largest number of rounds of draws per plan; 8 by default, or 1 for models with too many
        parameters for dense matrices.
    max_plans
        Largest number of plans.
    key
        As for :func:`ornstein.sample`.
    **options
        Passed to :func:`ornstein.sample` and :func:`ornstein.plan`, such as ``method``,
        ``structure``, ``draws`` and ``chains``.

    Examples
    --------
    >>> import numpy as np
    >>> import ornstein as orn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 8))
    >>> y = X @ rng.normal(size=8) + 0.5 * rng.normal(size=500)
    >>> found = orn.learn(orn.models.linear(X, y), draws=100)
    >>> found
    Learned(noise_scale=0.5056, prior_precision=1.89, converged=True)
    >>> found.result
    Result(chains=4, draws=100, parameters=8)
    """
    given = {"start": start, "tolerance": tolerance, "moments": moments, "ascent": ascent}
    given |= {"rounds": rounds, "max_plans": max_plans}
    result = sample(post, key=key, learn_hyper=given, **options)
    learning = result.learning
    assert learning is not None
    learned = {field.name: getattr(learning, field.name) for field in fields(Learning)}
    return Learned(**learned, result=result)
