"""Posteriors made from other libraries' models."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ornstein._base import extras
from ornstein._base.checks import flag
from ornstein.models.posterior import Posterior

__all__ = ["from_numpyro"]


def from_numpyro(
    model: Callable[..., Any],
    *args: Any,
    plate: str = "data",
    rows: Sequence[str] | None = None,
    init: Mapping[str, Any] | None = None,
    hierarchical: bool = True,
    **kwargs: Any,
) -> Posterior:
    """The posterior of a NumPyro model whose observations are in one plate.

    Parameters are the latent sites, by name, on the real line: constrained ones are mapped by
    NumPyro's own bijections, with the Jacobian. Draws are returned on the constrained scale, with
    the deterministic sites that do not depend on the rows.

    The library draws minibatches and scales by rows: the plate's ``subsample_size`` is ignored,
    and ``handlers.scale`` is refused.

    Parameters
    ----------
    model
        A function of NumPyro's primitives. It is run on one row at a time, with a plate of size
        one, so rows must be independent given the latent sites outside the plate.
    *args, **kwargs
        The model's arguments, with all rows. Arrays whose first axis is as long as the plate are
        taken as rows, also inside lists and dicts. Observed values need not be arguments: they are
        read from the plate. Other arrays of rows must be arguments.
    plate
        Name of the plate of the rows.
    rows
        Names of the arguments that hold rows, where their lengths are ambiguous.
    init
        Values of some latent sites, by name, from which to start the search for the optimum;
        others start where zero on the real line is mapped to, e.g. at 1 if positive.
    hierarchical
        Recognise scales of effects, centred or not, and draw them as hyperparameters: see
        ``hyper="draw"`` of :func:`ornstein.sample`, which is the default then. False for one
        posterior of all sites, as other methods than ``rotation`` need it.

    Raises
    ------
    InputError
        If NumPyro is not installed, or the model is not supported: observations in several plates,
        discrete latent sites, latent sites inside the plate, observed sites outside it, or sizes
        that do not match.

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
    extras.require("numpyro", "from_numpyro")
    from ornstein.models.adapters.numpyro import posterior

    hierarchical = flag("hierarchical", hierarchical)
    return posterior(model, args, kwargs, plate, rows, init, hierarchical)
