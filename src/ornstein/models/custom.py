"""Custom models: a user's own log-likelihood of one row and log-prior, and checks of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ornstein._base import captured
from ornstein._base.checks import same_layout
from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.trees import Layout
from ornstein._base.types import Array, Constrain, LogLikelihood, LogPrior, PyTree, Vector
from ornstein.data.on_disk import AnyRows, RowsOnDisk, map_as_rows
from ornstein.data.passes import blocks
from ornstein.models.contract import Model
from ornstein.models.hyperparameters import checked_layout

_MAPPED = 1024  # vectors that a user's function is mapped over at once


@dataclass(frozen=True)
class CustomModel(Model):
    """The model of a user's two functions, differentiated automatically."""

    log_likelihood: LogLikelihood
    log_prior: LogPrior
    layout: Layout
    with_hyper: bool = False
    """Whether the two take hyperparameters, ``hyper["hyper"]``, as their last argument."""

    def constants(self) -> PyTree:
        """The arrays that the two functions capture, to be passed as ``hyper``."""
        return {
            "log_likelihood": captured.constants(self.log_likelihood),
            "log_prior": captured.constants(self.log_prior),
        }

    def likelihood(self, hyper: PyTree) -> LogLikelihood:
        """The user's log-likelihood with its constants and hyperparameters filled in."""
        bound = captured.bind(self.log_likelihood, hyper["log_likelihood"])
        if not self.with_hyper:
            return bound
        return lambda params, row: bound(params, row, hyper["hyper"])

    def prior(self, hyper: PyTree) -> LogPrior:
        """The user's log-prior with its constants and hyperparameters filled in."""
        bound = captured.bind(self.log_prior, hyper["log_prior"])
        return (lambda params: bound(params, hyper["hyper"])) if self.with_hyper else bound

    def losses(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        mapped = jax.vmap(self.likelihood(hyper), in_axes=(None, 0))
        return -mapped(self.layout.unravel(theta), rows)

    def prior_loss(self, theta: Array, hyper: PyTree) -> Array:
        return -self.prior(hyper)(self.layout.unravel(theta))


def put_hyper(values: PyTree, numbers: PyTree) -> PyTree:
    """The functions' constants with these hyperparameters beside them."""
    return {**numbers, "hyper": values}


def map_vectors(function: Constrain, layout: Layout, flat: Vector) -> PyTree:
    """A user's function of the parameters, mapped over vectors of them (..., D) in float64."""

    @jax.jit
    def some(constants: list[Array], vectors: Array) -> PyTree:
        return jax.vmap(captured.bind(function, constants))(layout.unravel(vectors))

    rows = np.asarray(flat).reshape(-1, layout.dim)
    with double_precision():
        constants = captured.constants(function)
        some_rows = rows if len(rows) else np.zeros((1, layout.dim))  # for the shapes
        parts = [
            jax.tree.map(lambda leaf, kept=weights > 0: np.asarray(leaf)[kept], some(constants, v))
            for v, weights in blocks(some_rows, _MAPPED)
        ]

    def whole(*leaves: Vector) -> Vector:
        joined = np.concatenate(leaves)[: len(rows)]
        return joined.reshape(flat.shape[:-1] + joined.shape[1:])

    return jax.tree.map(whole, *parts)


def check_callable(**functions: Any) -> None:
    """Refuse arguments that are not functions."""
    for name, function in functions.items():
        if not callable(function):
            raise InputError(f"{name} must be a function, found {type(function).__name__}.")


def check_model(model: CustomModel, hyper: PyTree, row: PyTree) -> bool:
    """Trace both functions once; whether the log-likelihood depends on the hyperparameters."""
    zeros = model.layout.unravel(np.zeros(model.layout.dim))
    hyper = captured.fresh(hyper)
    extra = ["the hyperparameters"] if model.with_hyper else []
    _check_number("log_likelihood", model.likelihood(hyper), [zeros, row], ["one row", *extra])
    _check_number("log_prior", model.prior(hyper), [zeros], extra)
    if not model.with_hyper:
        return False
    return any(_depends(_likelihood_by_hyper(model, hyper, zeros, row), hyper["hyper"]))


def hyper_in_likelihood(model: Model, hyper: PyTree, data: PyTree) -> list[bool]:
    """Of every leaf of a custom model's hyperparameters, whether its log-likelihood takes it."""
    if not isinstance(model, CustomModel):
        raise TypeError(f"a {type(model).__name__} has no hyperparameters of its own")
    zeros, row = model.layout.unravel(np.zeros(model.layout.dim)), first_row(data)
    hyper = captured.fresh(hyper)
    return _depends(_likelihood_by_hyper(model, hyper, zeros, row), hyper["hyper"])


def first_row(data: PyTree) -> PyTree:
    """The first row."""
    return jax.tree.map(lambda leaf: leaf[0], data)


def _likelihood_by_hyper(
    model: CustomModel, hyper: PyTree, params: PyTree, row: PyTree
) -> Callable[[PyTree], Any]:
    return lambda values: model.likelihood(put_hyper(values, hyper))(params, row)


def check_constrain(constrain: Constrain, layout: Layout, *hyper: PyTree) -> None:
    """Trace a user's function of the parameters, and of hyperparameters if there are any, once."""
    zeros = layout.unravel(np.zeros(layout.dim))
    bound = captured.bind(constrain, captured.constants(constrain))
    also = " and the hyperparameters" if hyper else ""
    _returned("constrain", bound, [zeros, *hyper], f"the parameters{also}")


def params_layout(name: str, params: PyTree) -> Layout:
    """The layout of parameters, which must be finite real numbers."""
    return checked_layout(name, params, "the model would have no parameters", "fiub")


def check_structure(layout: Layout, params: PyTree) -> None:
    """Refuse parameters of another structure than the model's."""
    params_layout("at", params)
    same_layout("at=", params, layout)


def checked_data(data: PyTree) -> PyTree:
    """Arrays with the rows along the first axis, numeric and finite; memory maps stay on disk."""
    keyed, treedef = jax.tree_util.tree_flatten_with_path(data)
    if not keyed:
        raise InputError("data holds no arrays.")
    named: dict[str, AnyRows] = {}
    for path, given in keyed:
        where = "data" + jax.tree_util.keystr(path)
        if hasattr(given, "tocsr"):
            raise InputError(f"{where} is sparse; convert it with .toarray() if it fits memory.")
        if isinstance(given, np.ma.MaskedArray):
            raise InputError(f"{where} is a masked array; drop the masked rows, or fill them.")
        if np.ndim(given) == 0:
            raise InputError(
                f"{where} is a {type(given).__name__} without an axis of rows; give arrays with "
                "the rows along the first axis (lists and tables: numpy.asarray first)."
            )
        mapped = map_as_rows(given)
        named[where] = mapped if isinstance(mapped, RowsOnDisk) else np.asarray(mapped)
    first, rows = next((where, len(leaf)) for where, leaf in named.items())
    for where, leaf in named.items():
        if len(leaf) != rows or rows == 0:
            raise InputError(
                f"{where} has {len(leaf)} rows and {first} has {rows}; the arrays of data must "
                "share a leading axis of rows, at least one."
            )
        if leaf.dtype.kind not in "fiub":
            raise InputError(f"{where} must be numeric, found dtype {leaf.dtype}.")
        if leaf.dtype.kind == "f" and (count := _count_not_finite(leaf)):
            raise InputError(f"{where} has {count} NaN or infinite values; drop those rows.")
    return jax.tree.unflatten(treedef, named.values())


def _check_number(name: str, function: Any, args: list[PyTree], others: list[str]) -> None:
    """Refuse a function that does not return one floating-point number."""
    several = [", ".join(["parameters", *others[:-1]]), *others[-1:]]
    called = " and ".join(several) if others else "the parameters"
    found = _returned(name, function, args, called)
    shape, dtype = getattr(found, "shape", None), getattr(found, "dtype", None)
    if shape != ():
        what = f"an array of shape {shape}" if shape is not None else type(found).__name__
        raise InputError(
            f"{name} must return one number, found {what}. "
            "It is called with one row at a time; sum over any other axis."
        )
    if not np.issubdtype(dtype, np.floating):
        raise InputError(f"{name} must return a float, found {dtype}; return 0.0 for a constant.")


def _returned(name: str, function: Any, args: list[PyTree], called: str) -> Any:
    """Shapes of what a user's function returns."""
    try:
        return jax.eval_shape(function, *args)
    except Exception as error:
        raise InputError(
            f"{name} failed when called with {called}: {type(error).__name__}: {error}. Write it "
            "with jax.numpy, for one row at a time."
        ) from error


def _depends(function: Callable[[PyTree], Any], values: PyTree) -> list[bool]:
    """Of every leaf of its argument, whether a function uses it."""
    traced = jax.make_jaxpr(function)(values).jaxpr
    used = {id(v) for eqn in traced.eqns for v in eqn.invars} | {id(v) for v in traced.outvars}
    return [id(variable) in used for variable in traced.invars]


def _count_not_finite(leaf: AnyRows) -> int:
    if isinstance(leaf, RowsOnDisk):
        return int(leaf.scan.bad.sum())
    finite = np.isfinite(leaf)
    return 0 if finite.all() else int((~finite).sum())
