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
    """What was learned (see :class:`Learning`), and the draws made there.

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

    With q the sampler's stationary distribution, ``E_q[log p(y, theta | hyper)]`` is ascended on
    the unconstrained scale, and the gain tuned again as the hyperparameters move.

    Parameters
    ----------
    post
        A posterior with hyperparameters: from ``Posterior(..., hyper=...)`` or a ready-made model.
    start
        Hyperparameters to start from; the posterior's own if not given.
    tolerance
        Learning ends when the step to where the slope vanishes is shorter than this many posterior
        standard deviations of the hyperparameters, plus twice its Monte-Carlo error, and that
        error is as small.
    moments
        Where q's moments come from: ``plan``, T2's prediction; ``draws``, corrected by the running
        mean of what draws show; ``auto``, draws unless the posterior is Gaussian.
    ascent
        ``newton``, steps by the evidence's curvature; ``em``, the M-step of variational EM, in
        closed form where it is known: the same end, more slowly.
    rounds
        Rounds of draws at one plan, at most; 8 if not given, or 1 for models too wide for matrices.
    max_plans
        Plans, at most.
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
    given = {
        "start": start,
        "tolerance": tolerance,
        "moments": moments,
        "ascent": ascent,
        "rounds": rounds,
        "max_plans": max_plans,
    }
    result = sample(post, key=key, learn_hyper=given, **options)
    learning = result.learning
    assert learning is not None
    known = {field.name: getattr(learning, field.name) for field in fields(Learning)}
    return Learned(**known, result=result)
