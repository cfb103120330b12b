"""A posterior: a model, its prior and its data."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from ornstein._base import captured
from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.trees import Layout, cast, num_rows
from ornstein._base.types import Array, Constrain, LogLikelihood, LogPrior, PyTree, Vector
from ornstein.data.on_disk import RowsOnDisk
from ornstein.linalg.operators import Factor
from ornstein.models import custom
from ornstein.models.contract import Model
from ornstein.models.hyperparameters import Learnable, checked_learnable
from ornstein.models.local import per_example


class Posterior:
    """``p(theta | data)``, proportional to ``p(theta) prod_n p(x_n | theta)``.

    Give the log-likelihood of *one* row, and the log-prior once; the library scales them by the
    number of rows and the batch size.

    Parameters
    ----------
    log_likelihood
        ``(params, example) -> scalar``; ``example`` is one row of ``data`` without its leading
        axis. With ``hyper``: ``(params, example, hyper) -> scalar``.
    log_prior
        ``params -> scalar``; with ``hyper``: ``(params, hyper) -> scalar``, up to a constant that
        depends on neither (a normal's ``0.5 log precision`` is needed, its ``log 2 pi`` is not).
    data
        Any pytree of arrays with the rows along the leading axis; memory maps and arrays from
        :func:`ornstein.open_rows` stay on disk.
    init
        Parameters to start the search for the optimum from. They define the structure and shapes
        of the parameters; leave out only if every plan is given ``at=``.
    hyper
        Hyperparameters, any pytree of numbers: :func:`ornstein.learn` learns them,
        :meth:`with_hyper` changes them.
    constraints
        The range of every hyperparameter: ``positive``, ``real``, ``unit`` (between 0 and 1) or a
        pair of functions (to the real line, and back). One for all, or one per leaf of ``hyper``;
        ``positive`` if not given.
    constrain
        ``params -> any pytree``: what to report in place of parameters sampled on the real line,
        e.g. ``{"scale": exp(params["log_scale"])}``. With ``hyper``: ``(params, hyper) -> any
        pytree``. Draws and summaries show its values. The log-prior is the density of ``params``,
        so it must include the Jacobian.
    unconstrain
        What undoes ``constrain``: from its values to ``params``, or with ``hyper`` to ``(params,
        hyper)``. :func:`ornstein.check` takes draws of these values with it, as other programs
        make them.
    hyper_prior
        The hyperparameters' own prior: their log-density. With it, :func:`ornstein.sample` draws
        them unless it is told otherwise.

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

    With a prior precision that can be learned:

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
        hyper_prior: Callable[[PyTree], Any] | None = None,
        unconstrain: Constrain | None = None,
    ) -> None:
        custom.check_callable(log_likelihood=log_likelihood, log_prior=log_prior)
        if constrain is not None:
            custom.check_callable(constrain=constrain)
        if unconstrain is not None:
            custom.check_callable(unconstrain=unconstrain)
            if constrain is None:
                raise InputError("unconstrain is given without constrain; give both, or neither.")
        if hyper_prior is not None:
            custom.check_callable(hyper_prior=hyper_prior)
            if hyper is None:
                raise InputError("hyper_prior is given without hyper; give both, or neither.")
        self.constrain, self.hyper_prior, self.unconstrain = constrain, hyper_prior, unconstrain
        self.every_hyper: Constrain | None = None
        self.log_likelihood = log_likelihood
        self.log_prior = log_prior
        self.data = custom.checked_data(data)
        self.num_data = num_rows(self.data)
        self.hyper: PyTree = None
        self.names: dict[str, tuple[str, ...]] = {}
        self.hyperparameters: PyTree = None
        self.units: Factor | None = None
        self._model: Model | None = None
        self._learnable: Learnable | None = None
        self._given = hyper, constraints
        if hyper is not None:
            self._learnable, self.hyperparameters = checked_learnable(
                hyper, constraints, custom.put_hyper, in_likelihood=True
            )
        elif constraints is not None:
            raise InputError("constraints is given without hyper; give both, or neither.")
        if init is not None:
            self.init = init
            self._model = self._custom(init)

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
        """The posterior of a model with closed forms; ``hyper`` holds its fixed numbers.

        ``learn`` says which of them can be learned, and their values.
        """
        post = cls(log_likelihood, log_prior, data)
        post._model, post.hyper, post.names = model, hyper, names
        post.init = model.layout.unravel(np.zeros(model.layout.dim))
        if learn is not None:
            post._learnable, post.hyperparameters = learn
        return post

    @property
    def learnable(self) -> Learnable:
        """The hyperparameters that can be learned."""
        if self._learnable is None:
            raise InputError(
                "the posterior has no hyperparameters. Give Posterior hyper=, or a ready-made "
                "model learn=."
            )
        return self._learnable

    def with_hyper(
        self, values: PyTree, init: PyTree | None = None, units: Factor | None = None
    ) -> "Posterior":
        """The same posterior at other hyperparameters, without compiling anything again.

        Parameters
        ----------
        values
            Hyperparameters in the structure of ``hyperparameters``.
        init
            Parameters to start the search for the optimum from; as before if not given.
        units
            A root of the posterior's covariance near ``init``: the units of that search.

        Examples
        --------
        >>> import ornstein as orn
        >>> post = orn.models.logistic([[0.0], [1.0], [2.0]], [0, 1, 1])
        >>> post.with_hyper({"prior_precision": 0.1}).hyper["prior_precision"]
        array([0.1])
        """
        learnable = self.learnable
        post = copy.copy(self)
        post.units = units
        post.hyperparameters = learnable.checked("values", values)
        post._given = post.hyperparameters, self._given[1]
        if self._model is not None:
            with double_precision():
                put = learnable.assign(post.hyperparameters, self.hyper)
                post.hyper = jax.tree.map(np.asarray, put)
        if learnable.functions is not None:
            post.log_likelihood, post.log_prior = learnable.functions(post.hyper)
        if init is not None:
            custom.check_structure(post.layout, init)
            post.init = init
        return post

    def with_rows(self, rows: npt.NDArray[Any]) -> "Posterior":
        """The same model and prior with a subset of the rows."""
        post = copy.copy(self)
        post.data = jax.tree.map(lambda leaf: leaf[rows], self.data)
        post.num_data, post.units = num_rows(post.data), None
        if post.num_data == 0:
            raise InputError("rows is empty; give at least one.")
        return post

    def with_data(self, data: PyTree) -> "Posterior":
        """The same model and prior with other rows of the same kind."""
        post = copy.copy(self)
        post.data = custom.checked_data(data)
        post.num_data, post.units = num_rows(post.data), None
        return post

    def at(self, params: PyTree) -> "Posterior":
        """The same posterior, its parameters' structure defined by an example of them."""
        if self._model is not None:
            custom.check_structure(self._model.layout, params)
            return self
        hyper, constraints = self._given
        functions = self.log_likelihood, self.log_prior
        more = self.constrain, self.hyper_prior, self.unconstrain
        return Posterior(*functions, self.data, params, hyper, constraints, *more)

    @property
    def hyper_of_rows(self) -> bool:
        """Whether the log-likelihood of a custom model takes hyperparameters."""
        found = self._learnable
        return found is not None and found.ties is None and found.in_likelihood

    @property
    def on_disk(self) -> bool:
        """Whether the rows stay on disk."""
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
                "The shapes of the parameters are unknown. Pass init= to Posterior, or at= to "
                "plan: any parameters of the right structure, such as zeros."
            )
        return self._model

    @property
    def layout(self) -> Layout:
        """The order of the parameters in a flat vector."""
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

        The loss to minimise with :func:`ornstein.as_optax`; ``rows`` is a batch of ``data``.
        """
        flat = self.layout.vector(params)
        hyper = cast(captured.fresh(self.hyper), flat.dtype)
        losses = self.model.losses(flat, rows, hyper)
        prior = self.model.prior_loss(flat, hyper)
        return per_example(losses.sum(), num_rows(rows), prior, self.num_data)

    def constrained(self, flat: Vector, eta: Vector | None = None) -> PyTree:
        """Vectors of parameters (..., D) mapped by ``constrain``; unraveled if there is none.

        ``eta`` are hyperparameters on the real line, (..., m), if other than the posterior's.
        """
        if self.constrain is None:
            return self.layout.unravel(flat)
        return self.mapped(self.constrain, flat, eta)

    def mapped(self, function: Constrain, flat: Vector, eta: Vector | None = None) -> PyTree:
        """The same by any function of parameters, and of hyperparameters if there are any."""
        if self._learnable is None:
            return custom.map_vectors(function, self.layout, flat)
        learnable = self._learnable
        if eta is None:
            fixed = learnable.to_real(self.hyperparameters)
            eta = np.broadcast_to(fixed, (*flat.shape[:-1], len(fixed)))
        both = Layout.of((self.init, self.hyperparameters))

        def mapped(pair: PyTree) -> PyTree:
            params, hyper = pair
            return function(params, learnable.from_real(learnable.layout.vector(hyper)))

        return custom.map_vectors(mapped, both, np.concatenate([flat, eta], axis=-1))

    @property
    def start(self) -> Vector:
        """``init`` as a flat vector."""
        return self.layout.ravel(self.init)

    def __repr__(self) -> str:
        if self._model is None:
            return f"Posterior(rows={self.num_data}, parameters not yet known)"
        shown = self.labels if self.dim <= 4 else [*self.labels[:3], "..."]
        return f"Posterior(rows={self.num_data}, parameters={self.dim}: {', '.join(shown)})"

    def _custom(self, init: PyTree) -> custom.CustomModel:
        """The model of the user's functions, which are tried; sets ``hyper``."""
        layout = custom.params_layout("init", init)
        model = custom.CustomModel(
            self.log_likelihood, self.log_prior, layout, with_hyper=self._learnable is not None
        )
        self.hyper = model.constants()
        if self._learnable is not None:
            self.hyper = custom.put_hyper(self.hyperparameters, self.hyper)
        in_likelihood = custom.check_model(model, self.hyper, custom.first_row(self.data))
        if self._learnable is not None:
            self._learnable = replace(self._learnable, in_likelihood=in_likelihood)
        if self.constrain is not None:
            hyper = () if self._learnable is None else (self.hyperparameters,)
            custom.check_constrain(self.constrain, layout, *hyper)
        return model


def as_posterior(post: object) -> Posterior:
    """``post``, or an error if it is something else."""
    if isinstance(post, Posterior):
        return post
    raise InputError(
        f"post must be an ornstein Posterior, found {type(post).__name__}. Make one with "
        "ornstein.models or ornstein.Posterior."
    )
