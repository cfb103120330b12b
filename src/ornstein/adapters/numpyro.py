"""A NumPyro model as a posterior: its sites' log-densities, row by row, over the real line.

The model is run twice in every log-likelihood. The first run gives latent sites their constrained
values; its rows do not matter, unless the prior looks at them. The second substitutes those values
and sees one row.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.primitives import Messenger

from ornstein._check import InputError
from ornstein._tree import Layout, cast
from ornstein._types import Array, PyTree
from ornstein.adapters._sites import (
    Free,
    Plate,
    Trace,
    captured_axes,
    check_sites,
    inside,
    plate_size,
    refuse_unknown,
)
from ornstein.posterior import Posterior

Rows: TypeAlias = dict[str, Any]
"""``arguments`` and ``observed``, each by name, rows along the first axis."""

Call: TypeAlias = Callable[..., Trace]
"""``(arguments, size, *handlers) -> trace`` of the model on so many rows."""

_COMPARED = 50  # rows on which the model is run together and one by one
_AWAY = 0.1  # distance from the start of the point where that is done


class _Prior(NamedTuple):
    """What a run of the model says of parameters on the real line."""

    values: dict[str, Array]
    log_density: Array
    deterministic: dict[str, Array]


def posterior(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    plate: str,
    rows: Sequence[str] | None,
    init: Mapping[str, Any] | None,
) -> Posterior:
    """See :func:`ornstein.from_numpyro`."""
    with jax.enable_x64(True):
        arguments = _Arguments(model, args, kwargs)
        whole, free = Plate(plate, None), Free({}, init or {}, plate)
        with _explained("on all rows"):
            found = _run(arguments.call, whole, free)
        size = plate_size(found, whole, plate)
        refuse_unknown("init", init or {}, free.values)
        check_sites(found, plate, size)
        if not free.values:
            raise InputError("the model has no latent sites: there is nothing to sample.")
        names = arguments.of_rows(size, rows)
        given = {name: arguments.leaves[name] for name in names}
        call = _caller(model, arguments, {*given}, plate)
        with _explained("on one row"):
            single = call(_first(given), 1, handlers.substitute(data=free.values))
        axes = captured_axes(single, plate, size)
        observed = {
            name: np.moveaxis(np.asarray(found[name]["value"]), axis, 0)
            for name, axis in axes.items()
        }
        data = {"arguments": given, "observed": observed}
        start = {name: np.asarray(value) for name, value in free.params.items()}
        return _assemble(call, plate, axes, data, start)


def _assemble(
    call: Call, plate: str, axes: dict[str, int], data: Rows, start: dict[str, Any]
) -> Posterior:
    """The posterior of a model that was looked at, tried at a point near the start."""
    rng = np.random.default_rng(0)
    point = {name: free + _AWAY * rng.normal(size=free.shape) for name, free in start.items()}
    exact, first, size = cast(data, np.float64), _first(data), len(jax.tree.leaves(data)[0])
    prior, everywhere = _prior(call, plate, first, 1), _prior(call, plate, exact, size)
    with _explained("on all rows"):
        here, there = prior(point), everywhere(point)
    by_rows = not _same((here.values, here.log_density), (there.values, there.log_density))
    shown = tuple(
        name
        for name, value in here.deterministic.items()
        if np.shape(value) == np.shape(there.deterministic[name])
        and _same(value, there.deterministic[name])
    )
    # What looks at the rows keeps a copy of all of them.
    used = _prior(call, plate, data, size) if by_rows else prior
    observe = _observer(call, plate, axes)
    _check_independent(observe, there.values, exact)

    def log_likelihood(params: PyTree, row: PyTree) -> Array:
        return observe(used(params).values, jax.tree.map(lambda leaf: leaf[None], row), 1)

    def log_prior(params: PyTree) -> Array:
        return used(params).log_density

    def constrain(params: PyTree) -> PyTree:
        found = used(params)
        return {**found.values, **{name: found.deterministic[name] for name in shown}}

    return Posterior(log_likelihood, log_prior, data, init=start, constrain=constrain)


class _Arguments:
    """What the model is called with, as leaves with names."""

    def __init__(
        self, model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        if not callable(model):
            raise InputError(f"model must be a function, found {type(model).__name__}.")
        try:
            self.signature = inspect.signature(model)
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputError(f"the model does not take these arguments: {error}.") from error
        self.model = model
        keyed, self.treedef = jax.tree_util.tree_flatten_with_path(dict(bound.arguments))
        names = Layout.of(dict(bound.arguments)).leaf_names()
        self.owners = {
            name: path[0].key  # type: ignore[attr-defined]
            for name, (path, _) in zip(names, keyed, strict=True)
        }
        self.leaves = {
            name: _host(name, leaf) for name, (_, leaf) in zip(names, keyed, strict=True)
        }

    def call(self) -> None:
        bound = _bound(self.signature, self.treedef, self.leaves)
        self.model(*bound.args, **bound.kwargs)

    def of_rows(self, size: int, wanted: Sequence[str] | None) -> list[str]:
        """Names of the leaves that hold rows."""
        long = [
            name
            for name, leaf in self.leaves.items()
            if isinstance(leaf, np.ndarray) and leaf.ndim and len(leaf) == size
        ]
        if wanted is None:
            return long
        if isinstance(wanted, str):
            wanted = [wanted]
        refuse_unknown("rows", wanted, self.owners.values())
        chosen = [name for name, owner in self.owners.items() if owner in wanted]
        for name in chosen:
            if name not in long:
                raise InputError(
                    f"rows names {self.owners[name]!r}, but {name} has shape "
                    f"{np.shape(self.leaves[name])} and the plate {size} rows."
                )
        return chosen


def _host(name: str, leaf: Any) -> Any:
    """Arrays on the host, where they follow the precision of a call; others as they are."""
    if isinstance(leaf, jax.Array) and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(leaf)
    if hasattr(leaf, "columns") or hasattr(leaf, "iloc"):
        raise InputError(f"{name} is a {type(leaf).__name__}; give numpy.asarray of it.")
    return leaf


def _bound(
    signature: inspect.Signature, treedef: Any, leaves: Mapping[str, Any]
) -> inspect.BoundArguments:
    arguments = jax.tree.unflatten(treedef, list(leaves.values()))
    return inspect.BoundArguments(signature, arguments)


def _caller(model: Callable[..., Any], arguments: _Arguments, rows: set[str], plate: str) -> Call:
    """Runs the model on other rows than it was given."""
    signature, treedef, names = arguments.signature, arguments.treedef, tuple(arguments.leaves)
    fixed = {name: leaf for name, leaf in arguments.leaves.items() if name not in rows}

    def call(given: Mapping[str, Any], size: int, *inner: Messenger) -> Trace:
        leaves = {name: given[name] if name in given else fixed[name] for name in names}
        bound = _bound(signature, treedef, leaves)
        return _run(lambda: model(*bound.args, **bound.kwargs), Plate(plate, size), *inner)

    return call


def _run(function: Callable[[], Any], *inner: Messenger) -> Trace:
    with ExitStack() as stack:
        found: Trace = stack.enter_context(handlers.trace())
        for handler in inner:
            stack.enter_context(handler)
        function()
    return found


def _prior(call: Call, plate: str, rows: Rows, size: int) -> Callable[[PyTree], _Prior]:
    """Log-density and values of the latent sites, their priors looking at these rows."""
    arguments = rows["arguments"]

    def prior(params: PyTree) -> _Prior:
        free = Free(params, {}, plate)
        found = call(arguments, size, free)
        log_density = free.log_jacobian
        for site in found.values():
            if site["type"] == "sample" and not inside(site, plate):
                log_density = log_density + jnp.sum(site["fn"].log_prob(site["value"]))
        deterministic = {
            name: jnp.asarray(site["value"])
            for name, site in found.items()
            if site["type"] == "deterministic"
        }
        return _Prior(free.values, jnp.asarray(log_density), deterministic)

    return prior


def _observer(
    call: Call, plate: str, axes: dict[str, int]
) -> Callable[[dict[str, Array], Rows, int], Array]:
    """Log-likelihood of some rows, unscaled, given the latent sites' values."""

    def observe(values: dict[str, Array], rows: Rows, size: int) -> Array:
        seen = {name: jnp.moveaxis(rows["observed"][name], 0, axis) for name, axis in axes.items()}
        found = call(rows["arguments"], size, handlers.substitute(data={**values, **seen}))
        terms = [
            jnp.sum(site["fn"].log_prob(site["value"]))
            for site in found.values()
            if site["type"] == "sample" and inside(site, plate)
        ]
        return sum(terms[1:], start=terms[0])

    return observe


def _check_independent(observe: Any, values: dict[str, Array], data: Rows) -> None:
    """Some rows together must be as likely as the same rows one by one."""
    some = jax.tree.map(lambda leaf: jnp.asarray(leaf[:_COMPARED]), data)
    count = len(jax.tree.leaves(some)[0])
    with _explained(f"on {count} rows"):
        together = observe(values, some, count)
        singles = jax.vmap(
            lambda row: observe(values, jax.tree.map(lambda leaf: leaf[None], row), 1)
        )(some)
    apart, scale = jnp.sum(singles), jnp.sum(jnp.abs(singles))
    if np.isfinite(together) and not abs(together - apart) <= 1e-8 * scale:
        raise InputError(
            f"{count} rows together have log-likelihood {together:.6g}, one by one {apart:.6g}: "
            "rows must be independent given the latent sites. Compute what needs several rows, "
            "such as means of columns, outside the model."
        )


@contextmanager
def _explained(how: str) -> Iterator[None]:
    """The model's own failures, as what a user can mend."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the model failed {how}: {type(error).__name__}: {error}") from error


def _first(rows: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[:1], rows)


def _same(one: PyTree, other: PyTree) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(
        np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-9, atol=0.0, equal_nan=True)
        for a, b in pairs
    )
