"""Posteriors made from other libraries' models."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from ornstein._base.errors import InputError
from ornstein.models.posterior import Posterior

__all__ = ["from_numpyro"]


def from_numpyro(
    model: Callable[..., Any],
    *args: Any,
    plate: str = "data",
    rows: Sequence[str] | None = None,
    init: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Posterior:
    """The posterior of a NumPyro model whose observations lie in one plate.

    Parameters are the latent sites, by their names, on the real line: constrained ones through
    NumPyro's own bijections, with the Jacobian. Draws come back constrained, deterministic sites
    included that do not depend on the rows.

    The library draws minibatches and scales by rows: a ``subsample_size`` of the plate is not used,
    and ``handlers.scale`` is refused.

    Parameters
    ----------
    model
        A function with NumPyro's primitives. It is run on one row at a time, its plate one row
        long, so rows must be independent given the latent sites outside the plate.
    *args, **kwargs
        What the model is called with, all rows of it. Arrays whose first axis is as long as the
        plate are taken as rows, also inside lists and dicts. Observed values that are no arguments
        are found in the plate; other arrays of rows must be arguments.
    plate
        Name of the plate over rows.
    rows
        Names of the arguments that hold rows, where the lengths do not tell.
    init
        Values of some latent sites, by name, to start the search for the optimum from; others
        start at the image of zero, e.g. 1 for positive ones.

    Returns
    -------
    Posterior
        With per-row log-likelihood, log-prior and data; ``post.constrain`` maps its parameters to
        the sites' own values.

    Raises
    ------
    InputError
        Where NumPyro is not installed, or the model is none of these: several plates with
        observations, discrete latent sites, latent sites inside the plate, observed sites outside,
        sizes that do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import numpyro
    >>> import numpyro.distributions as dist
    >>> import ornstein as orn
    >>> def model(x, y):
    ...     slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    ...     noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    ...     with numpyro.plate("data", len(x)):
    ...         numpyro.sample("y", dist.Normal(slope * x, noise), obs=y)
    >>> x = np.linspace(-1.0, 1.0, 200)
    >>> post = orn.from_numpyro(model, x, x + np.sin(20 * x))
    >>> post
    Posterior(rows=200, parameters=2: noise, slope)
    >>> orn.sample(post, draws=50).draws["noise"].min() > 0
    np.True_
    """
    if find_spec("numpyro") is None:
        raise InputError(
            "from_numpyro needs NumPyro, which is not installed: pip install 'ornstein[numpyro]'."
        )
    from ornstein.models.adapters.numpyro import posterior

    return posterior(model, args, kwargs, plate, rows, init)
