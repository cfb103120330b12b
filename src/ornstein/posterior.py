"""A posterior: a model, its prior and the rows it was shown."""

from typing import Any

import jax
import numpy as np

from ornstein._check import InputError
from ornstein._tree import Layout, num_rows
from ornstein._types import LogLikelihood, LogPrior, PyTree, Vector
from ornstein.model import Generic, Model


class Posterior:
    """``p(theta | data)``, proportional to ``p(theta) prod_n p(x_n | theta)``.

    Nothing here is scaled by the number of rows or the batch size: give the log-likelihood of
    *one* row and the log-prior once, and the library scales.

    Parameters
    ----------
    log_likelihood
        ``(params, example) -> scalar``; ``example`` is one row of ``data`` without its leading
        axis.
    log_prior
        ``params -> scalar``.
    data
        Any pytree of arrays with the rows along the leading axis.
    init
        Parameters to start the search for the optimum from. Their pytree and shapes define the
        parameters; leave out only if every plan is given ``at=``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> post = Posterior(
    ...     lambda params, row: -0.5 * (row["y"] - params["mean"]) ** 2,
    ...     lambda params: -0.5 * params["mean"] ** 2,
    ...     {"y": np.arange(10.0)},
    ...     init={"mean": 0.0},
    ... )
    >>> post
    Posterior(rows=10, parameters=1: mean)
    """

    def __init__(
        self,
        log_likelihood: LogLikelihood,
        log_prior: LogPrior,
        data: PyTree,
        init: PyTree | None = None,
    ) -> None:
        for name, function in (("log_likelihood", log_likelihood), ("log_prior", log_prior)):
            if not callable(function):
                raise InputError(f"{name} must be a function, found {type(function).__name__}.")
        self.log_likelihood = log_likelihood
        self.log_prior = log_prior
        self.data = _checked_data(data)
        self.num_data = num_rows(self.data)
        self.hyper: PyTree = None
        self.names: dict[str, tuple[str, ...]] = {}
        self._model: Model | None = None
        if init is not None:
            self.init = init
            self._model = self._generic(init)
            self.hyper = self._model.constants()

    @classmethod
    def of_model(
        cls,
        model: Model,
        log_likelihood: LogLikelihood,
        log_prior: LogPrior,
        data: PyTree,
        hyper: PyTree,
        names: dict[str, tuple[str, ...]],
    ) -> "Posterior":
        """A posterior of a model that carries closed forms; ``hyper`` holds its fixed numbers."""
        post = cls(log_likelihood, log_prior, data)
        post._model, post.hyper, post.names = model, hyper, names
        post.init = model.layout.unravel(np.zeros(model.layout.dim))
        return post

    def at(self, params: PyTree) -> "Posterior":
        """The same posterior, its parameters defined by an example of them."""
        if self._model is not None:
            _same_structure(self._model.layout, params)
            return self
        return Posterior(self.log_likelihood, self.log_prior, self.data, init=params)

    @property
    def known(self) -> bool:
        """Whether the parameters' shapes are known yet."""
        return self._model is not None

    @property
    def model(self) -> Model:
        """The model over flat vectors."""
        if self._model is None:
            raise InputError(
                "The parameters' shapes are not known. Pass init= to Posterior, or at= to plan: "
                "any parameters of the right structure, such as zeros."
            )
        return self._model

    @property
    def layout(self) -> Layout:
        """How the parameters lie in a flat vector."""
        return self.model.layout

    @property
    def dim(self) -> int:
        """Number of parameters, flattened."""
        return self.layout.dim

    @property
    def quadratic(self) -> bool:
        """Whether the posterior is known to be Gaussian."""
        return self.model.quadratic

    @property
    def labels(self) -> list[str]:
        """A readable name for every parameter."""
        return self.layout.labels(self.names)

    @property
    def start(self) -> Vector:
        """``init`` as a flat vector."""
        return self.layout.ravel(self.init)

    def __repr__(self) -> str:
        """One line: rows and parameters."""
        if self._model is None:
            return f"Posterior(rows={self.num_data}, parameters not yet known)"
        shown = self.labels if self.dim <= 4 else [*self.labels[:3], "..."]
        return f"Posterior(rows={self.num_data}, parameters={self.dim}: {', '.join(shown)})"

    def _generic(self, init: PyTree) -> Generic:
        layout = checked_layout("init", init)
        model = Generic(self.log_likelihood, self.log_prior, layout)
        row = jax.tree.map(lambda leaf: leaf[0], self.data)
        zeros = layout.unravel(np.zeros(layout.dim))
        constants = model.constants()
        _check_returns("log_likelihood", model.likelihood(constants), zeros, row)
        _check_returns("log_prior", model.prior(constants), zeros)
        return model


def checked_layout(name: str, params: PyTree) -> Layout:
    """The layout of parameters, which must be finite real numbers."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        array = np.asarray(leaf)
        if array.dtype.kind not in "fiub":
            where = name + jax.tree_util.keystr(path)
            raise InputError(f"{where} must be numeric, found dtype {array.dtype}.")
        if not np.all(np.isfinite(array)):
            raise InputError(f"{name} holds NaN or infinite values; give finite numbers.")
    layout = Layout.of(params)
    if layout.dim == 0:
        raise InputError(f"{name} holds no numbers: the model would have no parameters.")
    return layout


def _check_returns(name: str, function: Any, *args: PyTree) -> None:
    """Trace a user's function once and look at what it returns."""
    called = "parameters and one row" if len(args) == 2 else "the parameters"
    try:
        found = jax.eval_shape(function, *args)
    except Exception as error:
        raise InputError(
            f"{name} failed when called with {called}: {type(error).__name__}: {error}. It must "
            "be written with jax.numpy, for one row at a time."
        ) from error
    shape, dtype = getattr(found, "shape", None), getattr(found, "dtype", None)
    if shape != ():
        what = f"an array of shape {shape}" if shape is not None else type(found).__name__
        raise InputError(
            f"{name} must return one number, found {what}. "
            "It is called with one row at a time; sum over any other axis."
        )
    if not np.issubdtype(dtype, np.floating):
        raise InputError(f"{name} must return a float, found {dtype}; return 0.0 for a constant.")


def _checked_data(data: PyTree) -> PyTree:
    keyed = jax.tree_util.tree_leaves_with_path(data)
    if not keyed:
        raise InputError("data holds no arrays.")
    for path, leaf in keyed:
        where = "data" + jax.tree_util.keystr(path)
        if hasattr(leaf, "tocsr"):
            raise InputError(f"{where} is sparse; convert it with .toarray() if it fits memory.")
        if isinstance(leaf, np.ma.MaskedArray):
            raise InputError(f"{where} has a mask; drop the masked rows, or fill them.")
        if np.ndim(leaf) == 0:
            raise InputError(
                f"{where} is a {type(leaf).__name__} without an axis of rows; data is made of "
                "arrays with rows along the first axis (lists and tables: numpy.asarray first)."
            )
    data = jax.tree.map(np.asarray, data)
    keyed = jax.tree_util.tree_leaves_with_path(data)
    rows = len(keyed[0][1])
    for path, leaf in keyed:
        where = "data" + jax.tree_util.keystr(path)
        if len(leaf) != rows or rows == 0:
            first = "data" + jax.tree_util.keystr(keyed[0][0])
            raise InputError(
                f"{where} has {len(leaf)} rows and {first} has {rows}; data's arrays must share a "
                "leading axis of rows, at least one."
            )
        if leaf.dtype.kind not in "fiub":
            raise InputError(f"{where} must be numeric, found dtype {leaf.dtype}.")
        if leaf.dtype.kind == "f" and not np.isfinite(leaf).all():
            count = int((~np.isfinite(leaf)).sum())
            raise InputError(f"{where} has {count} NaN or infinite values; drop those rows.")
    return data


def _same_structure(layout: Layout, params: PyTree) -> None:
    found = checked_layout("at", params)
    if found != layout:
        raise InputError(
            f"at= does not fit the model's parameters: expected {layout.treedef} with shapes "
            f"{layout.shapes}, found {found.treedef} with shapes {found.shapes}."
        )
