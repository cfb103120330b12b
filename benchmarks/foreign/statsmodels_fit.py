"""statsmodels: restricted maximum likelihood, or for counts a variational approximation."""

from typing import Any

import numpy as np
import scipy.sparse
from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM, PoissonBayesMixedGLM
from statsmodels.regression.mixed_linear_model import MixedLM

from benchmarks.foreign.mixed_task import MixedTask, main


def fit(task: MixedTask) -> dict[str, Any]:
    """By the package's defaults."""
    X = np.column_stack([np.ones(len(task.y)), task.X])
    if task.family == "gaussian":
        found = MixedLM(task.y, X, task.g).fit()
        return {"sd": float(np.sqrt(found.cov_re[0, 0]))}
    kind = {"bernoulli": BinomialBayesMixedGLM, "poisson": PoissonBayesMixedGLM}[task.family]
    rows = np.arange(len(task.y))
    hot = scipy.sparse.csr_matrix((np.ones(len(rows)), (rows, task.g)))
    found = kind(task.y, X, hot, np.zeros(hot.shape[1], int)).fit_vb()
    return {"sd": float(np.exp(found.vcp_mean[0]))}


if __name__ == "__main__":
    main(fit)
