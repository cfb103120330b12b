"""GPBoost: maximises the Laplace approximation of the likelihood, a point without an interval."""

from typing import Any

import gpboost
import numpy as np

from benchmarks.foreign.mixed_task import MixedTask, main

_LIKELIHOODS = {"bernoulli": "bernoulli_logit", "poisson": "poisson", "gaussian": "gaussian"}


def fit(task: MixedTask) -> dict[str, Any]:
    """By the package's defaults."""
    model = gpboost.GPModel(group_data=task.g, likelihood=_LIKELIHOODS[task.family])
    model.fit(y=task.y, X=np.column_stack([np.ones(len(task.y)), task.X]))
    variances = np.asarray(model.get_cov_pars(), float).ravel()
    return {"sd": float(np.sqrt(variances[-1]))}  # the noise's comes first


if __name__ == "__main__":
    main(fit)
