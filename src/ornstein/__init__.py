"""Constant-rate SGD as a posterior sampler that predicts its own error.

>>> import numpy as np
>>> import ornstein as orn
>>> X = np.random.default_rng(0).normal(size=(500, 2))
>>> post = orn.models.logistic(X, X[:, 0] > 0)
>>> result = orn.sample(post, batch_size=50, draws=200)
>>> result
Result(chains=4, draws=200, parameters=2)

What is here is listed in ``__init__.pyi`` and loads when it is first used, JAX included.
"""

import lazy_loader

from ornstein._base import extras

__getattr__, _, _public = lazy_loader.attach_stub(__name__, __file__)

_EXTRAS = {"estimators": "sklearn", "from_formula": "tables", "plots": "report"}
_EXTRAS |= {"report": "report", "tables": "tables"}
__all__ = [name for name in _public if name not in _EXTRAS or not extras.missing(_EXTRAS[name])]


def __dir__() -> list[str]:
    """Public names, without those whose extra is not installed: they raise when asked for."""
    return __all__
