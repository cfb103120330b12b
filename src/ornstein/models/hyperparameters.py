"""Learnable hyperparameters: their values, constraints, and how a model takes them."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base.checks import choice, shown
from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.trees import Layout
from ornstein._base.types import Array, LogLikelihood, LogPrior, PyTree, Vector
from ornstein.models.glm import Glm

Assign: TypeAlias = Callable[[PyTree, PyTree], PyTree]
"""``(values, numbers) -> numbers``: the model's fixed numbers with the hyperparameters replaced."""

Groups: TypeAlias = Sequence[Hashable] | str | None
"""A label per column (None: fixed), ``"columns"`` for a precision each, None for one in all."""

_ROUND_TRIP = 1e-6  # relative error allowed when a custom constraint is undone


class Constraint(NamedTuple):
    """A smooth one-to-one map of a hyperparameter's range to the real line."""

    name: str
    to_real: Callable[[Any], Any]
    from_real: Callable[[Any], Any]


CONSTRAINTS = {
    "positive": Constraint("positive", jnp.log, jnp.exp),
    "real": Constraint("real", lambda x: x, lambda x: x),
    "unit": Constraint("unit", lambda x: jnp.log(x) - jnp.log1p(-x), jax.nn.sigmoid),
}
"""By name: above 0 (log scale), any number, between 0 and 1 (logit)."""


class Ties(NamedTuple):
    """Hyperparameters of a ready-made model, whose E- and M-step have closed forms."""

    groups: npt.NDArray[np.int64]  # of every parameter, its prior precision; -1 where that is fixed
    precisions: int  # to learn
    noise: bool  # whether the noise scale of a linear regression is learned

    @property
    def members(self) -> npt.NDArray[np.bool_]:
        """Which parameters have which prior precision, (precisions, D)."""
        return np.arange(self.precisions)[:, None] == self.groups[None]

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Number of parameters of every prior precision."""
        return self.members.sum(axis=1)


@dataclass(frozen=True, eq=False)
class Learnable:
    """A posterior's learnable hyperparameters.

    Hashable by identity, since compiled code is keyed on it. ``layout`` is their order in a flat
    vector; they have a constraint per leaf, and ``names`` for the entries along a leaf's last axis.
    """

    layout: Layout
    constraints: tuple[Constraint, ...]
    assign: Assign
    in_likelihood: bool  # or in the prior only
    ties: Ties | None = None  # of a ready-made model
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # Log-likelihood and log-prior of a ready-made model at given fixed numbers. Those of custom
    # models take the hyperparameters as an argument.
    functions: Callable[[PyTree], tuple[LogLikelihood, LogPrior]] | None = None

    @property
    def labels(self) -> list[str]:
        """A readable name for every hyperparameter."""
        return self.layout.labels(self.names)

    def checked(self, name: str, values: PyTree) -> PyTree:
        """The values as float64 arrays, after checking their structure and range."""
        try:
            found = self.layout.treedef.flatten_up_to(values)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{name} does not fit the hyperparameters {self.layout.treedef}: {error}"
            ) from error
        leaves = []
        for leaf, label, shape, constraint in zip(
            found, self.layout.leaf_names(), self.layout.shapes, self.constraints, strict=True
        ):
            where = f"{name} {label!r}"
            array = finite_numbers(where, leaf)
            if array.shape != shape:
                raise InputError(f"{where} must have shape {shape}, found {array.shape}.")
            _check_range(where, array, constraint)
            leaves.append(array)
        return jax.tree.unflatten(self.layout.treedef, leaves)

    def to_real(self, values: PyTree) -> Vector:
        """The values as a flat vector on the unconstrained scale."""
        with double_precision():
            mapped = [
                np.asarray(constraint.to_real(jnp.asarray(leaf, float)), float).reshape(-1)
                for constraint, leaf in zip(self.constraints, jax.tree.leaves(values), strict=True)
            ]
        return np.concatenate(mapped)

    def from_real(self, eta: Array | Vector) -> PyTree:
        """Values from a vector on the unconstrained scale, which may be traced."""
        leaves = jax.tree.leaves(self.layout.unravel(eta))
        mapped = [c.from_real(leaf) for c, leaf in zip(self.constraints, leaves, strict=True)]
        return jax.tree.unflatten(self.layout.treedef, mapped)

    def host_values(self, eta: Vector) -> PyTree:
        """Values from such a vector, as float64 host arrays."""
        with double_precision():
            return jax.tree.map(lambda leaf: np.asarray(leaf, float), self.from_real(eta))


def checked_learnable(
    values: PyTree, constraints: Any, assign: Assign, in_likelihood: bool, **more: Any
) -> tuple[Learnable, PyTree]:
    """Hyperparameters and their values, checked; constraints are one for all, or one per leaf."""
    layout = checked_layout("hyper", values, "leave it out if nothing is to be learned")
    made = Learnable(layout, _constraints(constraints, layout), assign, in_likelihood, **more)
    return made, made.checked("hyper", values)


def checked_layout(name: str, values: PyTree, if_empty: str, kinds: str = "fiu") -> Layout:
    """The layout of finite numbers, of the given kinds of dtype."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(values):
        finite_numbers(name + jax.tree_util.keystr(path), leaf, kinds)
    layout = Layout.of(values)
    if layout.dim == 0:
        raise InputError(f"{name} holds no numbers: {if_empty}.")
    return layout


def finite_numbers(where: str, leaf: Any, kinds: str = "fiu") -> Vector:
    """A leaf as a float64 array, which must be finite."""
    try:
        array = np.asarray(leaf)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in kinds:
        raise InputError(f"{where} must be a number or an array of numbers, found {shown(leaf)}.")
    if not np.all(np.isfinite(array)):
        raise InputError(f"{where} holds NaN or infinite values; give finite numbers.")
    return array.astype(float)


def _constraints(given: Any, layout: Layout) -> tuple[Constraint, ...]:
    if given is None:
        given = "positive"
    if isinstance(given, str) or _is_pair(given):
        return (_constraint(given),) * len(layout.shapes)
    try:
        each = layout.treedef.flatten_up_to(given)
    except (TypeError, ValueError) as error:
        raise InputError(
            "constraints must be one for all hyperparameters, or one for each, in the structure "
            f"of hyper ({layout.treedef}): {error}"
        ) from error
    return tuple(_constraint(one) for one in each)


def _constraint(given: Any) -> Constraint:
    if _is_pair(given):
        return Constraint("custom", *given)
    if isinstance(given, str):
        return CONSTRAINTS[choice("constraints", given, tuple(CONSTRAINTS))]
    raise InputError(
        f"constraints must be {', '.join(map(repr, CONSTRAINTS))} or a pair of functions "
        f"(to_real, from_real), found {shown(given)}."
    )


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and all(callable(one) for one in given)


def _check_range(where: str, leaf: Vector, constraint: Constraint) -> None:
    if constraint.name == "positive" and not (leaf > 0).all():
        raise InputError(f"{where} must be above 0, found {shown(leaf.tolist())}.")
    if constraint.name == "unit" and not ((leaf > 0) & (leaf < 1)).all():
        raise InputError(f"{where} must lie between 0 and 1, found {shown(leaf.tolist())}.")
    if constraint.name in CONSTRAINTS:
        return
    with double_precision():
        real = np.asarray(constraint.to_real(jnp.asarray(leaf)), float)
        back = np.asarray(constraint.from_real(jnp.asarray(real)), float)
    if back.shape != leaf.shape or not np.allclose(back, leaf, rtol=_ROUND_TRIP, atol=1e-12):
        raise InputError(
            f"{where}: constraints is a pair (to_real, from_real) whose second function must undo "
            f"the first, but it maps {shown(leaf.tolist())} to {shown(back.tolist())}."
        )


def glm_hyperparameters(
    model: Glm,
    numbers: dict[str, Any],
    names: tuple[str, ...] | None,
    groups: Groups,
    learn: str | Sequence[str],
    functions: Callable[[PyTree], Any],
) -> tuple[Learnable, PyTree] | None:
    """A model's learnable hyperparameters and their values; None if ``learn`` names none."""
    possible = sorted({*numbers, "prior_precision"})
    asked = [learn] if isinstance(learn, str) else learn
    wanted = {choice("learn", name, possible) for name in asked}
    of_column, labels = _labels(groups, model, names)
    values: dict[str, Any] = {}
    if "noise_scale" in wanted:
        values["noise_scale"] = np.asarray(numbers["noise_scale"], float)
    index = np.full(model.layout.dim, -1)
    if "prior_precision" in wanted:
        shared = np.tile(of_column, model.family.outputs)[model.order]
        index[: len(shared)] = shared  # auxiliary parameters follow, each with its own prior
        logs = np.log(numbers["prior_precision"])
        given = np.exp([logs[index == group].mean() for group in range(len(labels))])
        values["prior_precision"] = np.asarray(given[0]) if groups is None else given
    if not values:
        return None
    named = {} if groups is None else {"prior_precision": labels}
    ties = Ties(index, len(labels) if "prior_precision" in wanted else 0, "noise_scale" in wanted)
    return checked_learnable(
        values, "positive", _assign(index), ties.noise, ties=ties, names=named, functions=functions
    )


def _assign(index: npt.NDArray[np.int64]) -> Callable[[PyTree, PyTree], PyTree]:
    def assign(values: PyTree, numbers: PyTree) -> PyTree:
        put = dict(numbers)
        if "noise_scale" in values:
            put["noise_scale"] = values["noise_scale"]
        if "prior_precision" in values:
            each = jnp.reshape(values["prior_precision"], (-1,))
            fixed = jnp.asarray(numbers["prior_precision"], each.dtype)
            put["prior_precision"] = jnp.where(index >= 0, each[np.maximum(index, 0)], fixed)
        return put

    return assign


def _labels(
    groups: Groups, model: Glm, names: tuple[str, ...] | None
) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """The group of every column of the design (-1: fixed), and the groups' names."""
    width = model.features + model.intercept
    if groups is None:
        each: list[Hashable] = ["all"] * model.features
    elif isinstance(groups, str):
        choice("groups", groups, ("columns",))
        each = list(names or map(str, range(model.features)))
    else:
        each = list(groups)
        if len(each) not in (model.features, width):
            raise InputError(
                f"groups must name a group for each of {model.features} columns"
                f"{' (and the intercept, last)' if model.intercept else ''}, found {len(each)}."
            )
    each += [None] * (width - len(each))
    labels = list(dict.fromkeys(label for label in each if label is not None))
    if not labels:
        raise InputError(
            "groups gives no column a label, so there is no precision to learn; label some, or "
            "use learn=()."
        )
    index = [-1 if label is None else labels.index(label) for label in each]
    return np.asarray(index), tuple(map(str, labels))
