"""A posterior: a model, its prior and the rows it was shown."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from ornstein._base import captured
from ornstein._base.checks import same_layout
from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.trees import Layout, cast, num_rows
from ornstein._base.types import Array, Constrain, LogLikelihood, LogPrior, PyTree, Vector
from ornstein.data.on_disk import AnyRows, RowsOnDisk, map_as_rows
from ornstein.linalg.operators import Factor
from ornstein.models.contract import Generic, Model, map_rows, per_example
from ornstein.models.hyperparameters import Learnable, learnable


class Posterior:
    """``p(theta | data)``, proportional to ``p(theta) prod_n p(x_n | theta)``.

    Nothing here is scaled by the number of rows or the batch size: give the log-likelihood of
    *one* row and the log-prior once, and the library scales.

    Parameters
    ----------
    log_likelihood
        ``(params, example) -> scalar``; ``example`` is one row of ``data`` without its leading
        axis. With ``hyper``: ``(params, example, hyper) -> scalar``.
    log_prior
        ``params -> scalar``; with ``hyper``: ``(params, hyper) -> scalar``, up to a constant that
        depends on neither (a normal's ``0.5 log precision`` is needed, its ``log 2 pi`` is not).
    data
        Any pytree of arrays with the rows along the leading axis; memory maps and what
        :func:`ornstein.open_rows` opens stay on disk.
    init
        Parameters to start the search for the optimum from. Their pytree and shapes define the
        parameters; leave out only if every plan is given ``at=``.
    hyper
        Hyperparameters, any pytree of numbers: :func:`ornstein.learn` learns them,
        :meth:`with_hyper` changes them.
    constraints
        The range of every hyperparameter: ``positive``, ``real``, ``unit`` (between 0 and 1) or a
        pair of functions (to the real line, and back). One for all, or one per leaf of ``hyper``;
        ``positive`` if not given.
    constrain
        ``params -> any pytree``: what to report of parameters that are sampled on the real line,
        e.g. ``{"scale": exp(params["log_scale"])}``. Draws and summaries are in its terms. The
        log-prior is that of ``params``: it carries the Jacobian.

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

    With a prior precision that may be learned:

    >>> post = Posterior(
    ...     lambda params, row, tau: -0.5 * (row["y"] - params["mean"]) ** 2,
    ...     lambda params, tau: 0.5 * (jnp.log(tau) - tau * params["mean"] ** 2),
    ...     {"y": np.arange(10.0)},
    ...     init={"mean": 0.0},
    ...     hyper=1.0,
    ... )
    >>> post.with_hyper(3.0).hyperparameters
    array(3.)
    """

    def __init__(
        self,
        log_likelihood: LogLikelihood,
        log_prior: LogPrior,
        data: PyTree,
        init: PyTree | None = None,
        hyper: PyTree | None = None,
        constraints: Any = None,
        constrain: Constrain | None = None,
    ) -> None:
        functions = {"log_likelihood": log_likelihood, "log_prior": log_prior}
        if constrain is not None:
            functions["constrain"] = constrain
        for name, function in functions.items():
            if not callable(function):
                raise InputError(f"{name} must be a function, found {type(function).__name__}.")
        self.constrain = constrain
        self.log_likelihood = log_likelihood
        self.log_prior = log_prior
        self.data = _checked_data(data)
        self.num_data = num_rows(self.data)
        self.hyper: PyTree = None
        self.names: dict[str, tuple[str, ...]] = {}
        self.hyperparameters: PyTree = None
        self.units: Factor | None = None
        self._model: Model | None = None
        self._learnable: Learnable | None = None
        self._given = hyper, constraints
        if hyper is not None:
            self._learnable = learnable(hyper, constraints, _put_hyper, in_likelihood=True)
            self.hyperparameters = self._learnable.checked("hyper", hyper)
        elif constraints is not None:
            raise InputError("constraints are those of hyper, which is not given.")
        if init is not None:
            self.init = init
            self._model = self._generic(init)

    @classmethod
    def of_model(
        cls,
        model: Model,
        log_likelihood: LogLikelihood,
        log_prior: LogPrior,
        data: PyTree,
        hyper: PyTree,
        names: dict[str, tuple[str, ...]],
        learn: tuple[Learnable, PyTree] | None = None,
    ) -> "Posterior":
        """A posterior of a model that carries closed forms; ``hyper`` holds its fixed numbers.

        ``learn`` says which of them may be learned, and from which values.
        """
        post = cls(log_likelihood, log_prior, data)
        post._model, post.hyper, post.names = model, hyper, names
        post.init = model.layout.unravel(np.zeros(model.layout.dim))
        if learn is not None:
            post._learnable, post.hyperparameters = learn
        return post

    @property
    def learnable(self) -> Learnable:
        """What can be learned."""
        if self._learnable is None:
            raise InputError(
                "the posterior has no hyperparameters. Give Posterior hyper=, or a ready-made "
                "model learn=."
            )
        return self._learnable

    def with_hyper(
        self, values: PyTree, init: PyTree | None = None, units: Factor | None = None
    ) -> "Posterior":
        """The same posterior at other hyperparameters; nothing is compiled again.

        Parameters
        ----------
        values
            Hyperparameters in the structure of ``hyperparameters``.
        init
            Where to start the search for the optimum; as before if not given.
        units
            A root of the posterior's covariance near there, in whose units the search begins.

        Examples
        --------
        >>> import ornstein as orn
        >>> post = orn.models.logistic([[0.0], [1.0], [2.0]], [0, 1, 1])
        >>> post.with_hyper({"prior_precision": 0.1}).hyper["prior_precision"]
        array([0.1])
        """
        known = self.learnable
        post = copy.copy(self)
        post.units = units
        post.hyperparameters = known.checked("values", values)
        post._given = post.hyperparameters, self._given[1]
        if self._model is not None:
            with double_precision():
                put = known.assign(post.hyperparameters, self.hyper)
                post.hyper = jax.tree.map(np.asarray, put)
        if known.functions is not None:
            post.log_likelihood, post.log_prior = known.functions(post.hyper)
        if init is not None:
            _same_structure(post.layout, init)
            post.init = init
        return post

    def with_rows(self, rows: npt.NDArray[Any]) -> "Posterior":
        """The same model and prior over some of the rows."""
        post = copy.copy(self)
        post.data = jax.tree.map(lambda leaf: leaf[rows], self.data)
        post.num_data, post.units = num_rows(post.data), None
        if post.num_data == 0:
            raise InputError("rows is empty; name at least one.")
        return post

    def at(self, params: PyTree) -> "Posterior":
        """The same posterior, its parameters defined by an example of them."""
        if self._model is not None:
            _same_structure(self._model.layout, params)
            return self
        hyper, constraints = self._given
        functions = self.log_likelihood, self.log_prior
        return Posterior(*functions, self.data, params, hyper, constraints, self.constrain)

    @property
    def on_disk(self) -> bool:
        """Whether rows stay on disk."""
        return any(isinstance(leaf, RowsOnDisk) for leaf in jax.tree.leaves(self.data))

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

    def loss(self, params: PyTree, rows: PyTree) -> Array:
        """Mean over rows of ``-log p(x_n | theta)``, less ``(1/N) log p(theta)``.

        What a loop with :meth:`ornstein.Plan.as_optax` descends; ``rows`` are some of ``data``.
        """
        flat = self.layout.vector(params)
        hyper = cast(self.hyper, flat.dtype)
        losses = self.model.losses(flat, rows, hyper)
        prior = self.model.prior_loss(flat, hyper)
        return per_example(losses.sum(), num_rows(rows), prior, self.num_data)

    def constrained(self, flat: Vector) -> PyTree:
        """What ``constrain`` makes of vectors of parameters (..., D); the parameters without it."""
        if self.constrain is None:
            return self.layout.unravel(flat)
        return map_rows(self.constrain, self.layout, flat)

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
        """The model of a user's own functions, which are tried; sets ``hyper``."""
        layout = checked_layout("init", init)
        model = Generic(self.log_likelihood, self.log_prior, layout, self._learnable is not None)
        row = jax.tree.map(lambda leaf: leaf[0], self.data)
        zeros = layout.unravel(np.zeros(layout.dim))
        self.hyper, values = model.constants(), self.hyperparameters
        if self._learnable is not None:
            self.hyper = _put_hyper(values, self.hyper)
        last = " and the hyperparameters" if self._learnable is not None else ""
        _check_returns("log_likelihood", f"one row{last}", model.likelihood(self.hyper), zeros, row)
        _check_returns("log_prior", last.removeprefix(" and "), model.prior(self.hyper), zeros)
        if self._learnable is not None:
            taken = _takes(
                lambda h: model.likelihood(_put_hyper(h, self.hyper))(zeros, row), values
            )
            self._learnable = replace(self._learnable, in_likelihood=taken)
        if self.constrain is not None:
            values = captured.constants(self.constrain)
            _called("constrain", "the parameters", captured.bind(self.constrain, values), zeros)
        return model


def _takes(function: Callable[[PyTree], Any], values: PyTree) -> bool:
    """Whether a function does anything with its argument."""
    traced = jax.make_jaxpr(function)(values).jaxpr
    used = {id(v) for eqn in traced.eqns for v in eqn.invars} | {id(v) for v in traced.outvars}
    return any(id(variable) in used for variable in traced.invars)


def _put_hyper(values: PyTree, numbers: PyTree) -> PyTree:
    """Values of a user's own hyperparameters beside the constants of the functions."""
    return {**numbers, "hyper": values}


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


def _check_returns(name: str, others: str, function: Any, *args: PyTree) -> None:
    """Trace a user's function once and look at what it returns."""
    called = "parameters" + (f" and {others}".replace(" and one row and", ", one row and"))
    found = _called(name, called if others else "the parameters", function, *args)
    shape, dtype = getattr(found, "shape", None), getattr(found, "dtype", None)
    if shape != ():
        what = f"an array of shape {shape}" if shape is not None else type(found).__name__
        raise InputError(
            f"{name} must return one number, found {what}. "
            "It is called with one row at a time; sum over any other axis."
        )
    if not np.issubdtype(dtype, np.floating):
        raise InputError(f"{name} must return a float, found {dtype}; return 0.0 for a constant.")


def _called(name: str, called: str, function: Any, *args: PyTree) -> Any:
    """Shapes of what a user's function returns."""
    try:
        return jax.eval_shape(function, *args)
    except Exception as error:
        raise InputError(
            f"{name} failed when called with {called}: {type(error).__name__}: {error}. It must "
            "be written with jax.numpy, for one row at a time."
        ) from error


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
    data = jax.tree.map(_as_rows, data)
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
        if leaf.dtype.kind == "f" and (count := _not_finite(leaf)):
            raise InputError(f"{where} has {count} NaN or infinite values; drop those rows.")
    return data


def _as_rows(leaf: Any) -> AnyRows:
    leaf = map_as_rows(leaf)
    return leaf if isinstance(leaf, RowsOnDisk) else np.asarray(leaf)


def _not_finite(leaf: AnyRows) -> int:
    if isinstance(leaf, RowsOnDisk):
        return int(leaf.scan.bad.sum())
    finite = np.isfinite(leaf)
    return 0 if finite.all() else int((~finite).sum())


def _same_structure(layout: Layout, params: PyTree) -> None:
    checked_layout("at", params)
    same_layout("at=", params, layout)
