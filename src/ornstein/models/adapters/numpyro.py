"""A NumPyro model as a posterior: its sites' log-densities, row by row, over the real line.

Every evaluation of the log-likelihood runs the model twice. The first run maps the parameters to
the latent sites' constrained values; its rows matter only if the prior depends on them. The second
run substitutes these values and sees one row.
"""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.primitives import Messenger

from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.trees import Layout, cast
from ornstein._base.types import Array, Constrain, PyTree
from ornstein.models.adapters.hierarchies import Hierarchy, recognise
from ornstein.models.adapters.sites import (
    Free,
    Plate,
    Trace,
    captured_axes,
    check_sites,
    inside,
    plate_size,
    refuse_missing,
    refuse_outside,
    refuse_unknown,
)
from ornstein.models.likelihood_hyper import in_the_prior
from ornstein.models.posterior import Posterior

Rows: TypeAlias = dict[str, Any]
"""``arguments`` and ``observed``, each by name, rows along the first axis."""

Call: TypeAlias = Callable[..., Trace]
"""``(arguments, *handlers) -> trace`` of the model."""

_COMPARED = 50  # rows on which the model is evaluated together and one by one
_OFF = 1e-3  # standard deviation of the start around zero
_AWAY = 0.1  # standard deviation of the random step from the start to where that is done


class _Prior(NamedTuple):
    """What a run of the model gives for parameters on the real line."""

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
    hierarchical: bool,
) -> Posterior:
    """See :func:`ornstein.from_numpyro`."""
    with double_precision():
        arguments = _Arguments(model, args, kwargs)
        seen = _traced(arguments, plate, init or {})
        size = plate_size(seen.trace, seen.sizes, plate)
        refuse_unknown("init", init or {}, seen.params)
        refuse_outside(seen.params)
        check_sites(seen.trace, seen.scales, plate, size)
        if not seen.params:
            raise InputError("the model has no latent sites, so there is nothing to sample.")
        given = {name: arguments.arrays[name] for name in arguments.of_rows(size, rows)}
        call = arguments.caller(given)
        axes = captured_axes(_single(call, plate, given, seen.params), plate, size)
        observed = {name: np.moveaxis(seen.observed[name], axis, 0) for name, axis in axes.items()}
        data = {"arguments": given, "observed": observed}
        start = _off_zero(seen.params, init or {})
        return _assemble(call, plate, axes, data, start, hierarchical)


def _off_zero(params: dict[str, Any], given: Collection[str]) -> dict[str, Any]:
    """Where to start, sites that are not given a little off zero on the real line.

    At zero itself NumPyro's gradient is wrong for a Bernoulli variable given by its logit: there it
    is that of one side of a kink which the log-density does not have.
    """
    rng = np.random.default_rng(0)
    moved = {name: _OFF * rng.normal(size=free.shape) for name, free in params.items()}
    return {name: free + (0.0 if name in given else moved[name]) for name, free in params.items()}


class _Seen(NamedTuple):
    """The model run on all rows: its sites, the sizes of its plate, and its numbers."""

    trace: Trace
    sizes: set[int]
    params: dict[str, Any]
    observed: dict[str, Any]
    scales: dict[str, Any]


def _traced(arguments: "_Arguments", plate: str, init: Mapping[str, Any]) -> _Seen:
    """Run the model on all rows, compiled, which is faster."""
    call, notes = arguments.caller(arguments.arrays), dict[str, Any]()

    def run(arrays: Mapping[str, Array]) -> tuple[Any, ...]:
        whole, free = Plate(plate, None), Free({}, init, plate)
        found = call(arrays, whole, free)
        notes.update(trace=found, sizes=whole.sizes)
        sites = {name: site for name, site in found.items() if site["type"] == "sample"}
        observed = {name: site["value"] for name, site in sites.items() if site["is_observed"]}
        scales = {name: 1.0 if s["scale"] is None else s["scale"] for name, s in sites.items()}
        return free.params, observed, scales

    with _explained("on all rows"):
        found = jax.tree.map(np.asarray, jax.jit(run)(arguments.arrays))
    return _Seen(notes["trace"], notes["sizes"], *found)


def _single(call: Call, plate: str, given: Mapping[str, Any], params: PyTree) -> Trace:
    """The model's sites on one row; only their shapes are meaningful."""
    notes: Trace = {}

    def run(arguments: Mapping[str, Array], params: PyTree) -> None:
        notes.update(call(arguments, Plate(plate, 1), Free(params, {}, plate)))

    with _explained("on one row"):
        jax.eval_shape(run, _first(given), params)
    return notes


def _assemble(
    call: Call,
    plate: str,
    axes: dict[str, int],
    data: Rows,
    start: dict[str, Any],
    hierarchical: bool,
) -> Posterior:
    """The posterior of a traced model, after a trial at a point near the start."""
    prior, observe = _prior(call, plate), _observer(call, plate, axes)
    size = len(jax.tree.leaves(data)[0])
    on_one, on_all = _tried(prior, observe, data, start, size)
    ones, alls = on_one.deterministic, on_all.deterministic
    shown = tuple(name for name in ones if _same(ones[name], alls[name]))
    alike = _same(on_one[:2], on_all[:2])
    # A prior that depends on the rows needs all of them.
    prior_rows, rows = (_first(data["arguments"]), 1) if alike else (data["arguments"], size)

    def values(params: PyTree) -> PyTree:
        return prior(params, prior_rows, rows).values

    def log_likelihood(params: PyTree, row: PyTree) -> Array:
        return observe(values(params), _alone(row), 1)

    def log_prior(params: PyTree) -> Array:
        return prior(params, prior_rows, rows).log_density

    def constrain(params: PyTree) -> PyTree:
        found = prior(params, prior_rows, rows)
        return {**found.values, **{name: found.deterministic[name] for name in shown}}

    def unconstrain(values: PyTree) -> PyTree:
        refuse_missing(values, start)
        free = Free({}, {name: values[name] for name in start}, plate)
        call(prior_rows, Plate(plate, rows), free)
        return free.params

    found = None
    if hierarchical:
        some = jax.tree.map(lambda leaf: leaf[:_COMPARED], cast(data, np.float64))
        found = recognise(lambda params: _each(log_likelihood, params, some), values, start)
    if found is None:
        maps = {"constrain": constrain, "unconstrain": unconstrain}
        return Posterior(log_likelihood, log_prior, data, init=start, **maps)
    return _hierarchy(found, log_likelihood, log_prior, (constrain, unconstrain), data, start)


def _each(log_likelihood: Any, params: PyTree, rows: Rows) -> Array:
    found: Array = jax.vmap(lambda row: log_likelihood(params, row))(rows)
    return found


def _hierarchy(
    hierarchy: Hierarchy,
    joint_likelihood: Any,
    joint_prior: Any,
    maps: tuple[Constrain, Constrain],
    data: Rows,
    start: dict[str, Any],
) -> Posterior:
    """The posterior of a model whose scales are hyperparameters with a prior of their own."""
    # Plain variables, not attributes: arrays that functions capture are found by variable.
    divided, log_volume = hierarchy.divided, hierarchy.log_volume
    multiplied, (joint_constrain, joint_unconstrain) = hierarchy.effects, maps
    hyper = {name: np.asarray(start[name], float) for name in hierarchy.scales}
    params = {name: free for name, free in start.items() if name not in hyper}
    ones = {name: np.zeros_like(free) for name, free in hyper.items()}  # on the real line

    def log_likelihood(params: PyTree, row: PyTree, hyper: PyTree) -> Array:
        del hyper  # the same for all, so for scales of 1
        like = jax.tree.leaves(params)[0].dtype
        free = {name: jnp.asarray(scale, like) for name, scale in ones.items()}
        return joint_likelihood(divided(params, free), row)

    def log_prior(params: PyTree, hyper: PyTree) -> Array:
        return joint_prior(divided(params, hyper)) + log_volume(params, hyper)

    def constrain(params: PyTree, hyper: PyTree) -> PyTree:
        return joint_constrain(divided(params, hyper))

    def unconstrain(values: PyTree) -> PyTree:
        return multiplied(joint_unconstrain(values))

    def every_hyper(params: PyTree, hyper: PyTree) -> PyTree:
        del params
        return {name: jnp.exp(free) for name, free in hyper.items()}

    post = Posterior(
        log_likelihood,
        log_prior,
        data,
        init=params,
        hyper=hyper,
        constraints="real",
        constrain=constrain,
        hyper_prior=in_the_prior,
        unconstrain=unconstrain,
    )
    post.every_hyper = every_hyper
    return post


def _tried(
    prior: Any, observe: Any, data: Rows, start: dict[str, Any], size: int
) -> tuple[_Prior, _Prior]:
    """The prior run on one row and on all; some rows together must be as likely as apart."""
    rng = np.random.default_rng(0)
    point = {name: free + _AWAY * rng.normal(size=free.shape) for name, free in start.items()}

    def trial(point: PyTree, data: Rows, some: Rows) -> PyTree:
        on_one = prior(point, _first(data["arguments"]), 1)
        on_all = prior(point, data["arguments"], size)
        apart = jax.vmap(lambda row: observe(on_all.values, _alone(row), 1))(some)
        return on_one, on_all, observe(on_all.values, some, len(apart)), apart

    exact = cast(data, np.float64)
    some = jax.tree.map(lambda leaf: leaf[:_COMPARED], exact)
    with _explained("on some rows"):
        found = jax.tree.map(np.asarray, jax.jit(trial)(point, exact, some))
    on_one, on_all, together, apart = found
    total, scale = apart.sum(), np.abs(apart).sum()
    if np.isfinite(together) and not abs(together - total) <= 1e-8 * scale:
        raise InputError(
            f"{len(apart)} rows together have log-likelihood {together:.6g}, one by one "
            f"{total:.6g}: rows must be independent given the latent sites. Compute anything "
            "that needs several rows, such as column means, outside the model."
        )
    return on_one, on_all


class _Arguments:
    """The model's arguments, as named leaves."""

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
        keyed, self.treedef = jax.tree_util.tree_flatten_with_path(dict(bound.arguments))
        names = Layout.of(dict(bound.arguments)).leaf_names()
        self.model, self.names = model, names
        self.owners = {name: path[0].key for name, (path, _) in zip(names, keyed, strict=True)}
        leaves = {name: _host(name, leaf) for name, (_, leaf) in zip(names, keyed, strict=True)}
        self.arrays = {k: leaf for k, leaf in leaves.items() if isinstance(leaf, np.ndarray)}
        self.others = {k: leaf for k, leaf in leaves.items() if k not in self.arrays}

    def caller(self, rows: Collection[str]) -> Call:
        """A function that runs the model on other rows, the other arguments as given."""
        # Plain variables, not attributes: arrays that functions capture are found by variable.
        model, signature, treedef = self.model, self.signature, self.treedef
        names, others = self.names, self.others
        fixed = {name: leaf for name, leaf in self.arrays.items() if name not in rows}

        def call(given: Mapping[str, Any], *inner: Messenger) -> Trace:
            arrays = {name: jnp.asarray(leaf) for name, leaf in {**fixed, **given}.items()}
            leaves = [{**others, **arrays}[name] for name in names]
            bound = inspect.BoundArguments(signature, jax.tree.unflatten(treedef, leaves))
            with ExitStack() as stack:
                found: Trace = stack.enter_context(handlers.trace())
                for handler in inner:
                    stack.enter_context(handler)
                model(*bound.args, **bound.kwargs)
            return found

        return call

    def of_rows(self, size: int, wanted: Sequence[str] | None) -> list[str]:
        """Names of the leaves that hold rows."""
        long = [name for name, leaf in self.arrays.items() if leaf.shape[:1] == (size,)]
        if wanted is None:
            return long
        if isinstance(wanted, str):
            wanted = [wanted]
        refuse_unknown("rows", wanted, self.owners.values())
        chosen = [name for name, owner in self.owners.items() if owner in wanted]
        for name in chosen:
            if name not in long:
                shape = np.shape(self.arrays.get(name, 0))
                raise InputError(
                    f"rows names {self.owners[name]!r}, but {name} has shape {shape} and the plate "
                    f"has {size} rows."
                )
        return chosen


def _host(name: str, leaf: Any) -> Any:
    """Arrays as host arrays, whose precision follows that of a call; others unchanged."""
    if isinstance(leaf, jax.Array) and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(leaf)
    if hasattr(leaf, "columns") or hasattr(leaf, "iloc"):
        raise InputError(f"{name} is a {type(leaf).__name__}; pass numpy.asarray of it.")
    return leaf


def _prior(call: Call, plate: str) -> Callable[[PyTree, Mapping[str, Any], int], _Prior]:
    """Log-density and values of the latent sites, whose priors may depend on the rows given."""

    def prior(params: PyTree, arguments: Mapping[str, Any], size: int) -> _Prior:
        free = Free(params, {}, plate)
        found = call(arguments, Plate(plate, size), free)
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
        given = handlers.substitute(data={**values, **seen})
        found = call(rows["arguments"], Plate(plate, size), given)
        terms = [
            jnp.sum(site["fn"].log_prob(site["value"]))
            for site in found.values()
            if site["type"] == "sample" and inside(site, plate)
        ]
        return sum(terms[1:], start=terms[0])

    return observe


@contextmanager
def _explained(how: str) -> Iterator[None]:
    """Turn the model's own exceptions into an InputError that says what to change."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"the model failed {how}: {type(error).__name__}: {error}. JAX traces it on one row at "
            "a time, so shapes must not depend on the values of rows."
        ) from error


def _first(rows: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[:1], rows)


def _alone(row: PyTree) -> PyTree:
    """One row as a batch."""
    return jax.tree.map(lambda leaf: leaf[None], row)


def _same(one: PyTree, other: PyTree) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(
        np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-9, atol=0.0, equal_nan=True)
        for a, b in pairs
    )
