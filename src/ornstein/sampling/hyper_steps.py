"""Steps that draw hyperparameters too (X13): a step of the parameters, then the others given them.

The rows are read by the step of the parameters alone. What other hyperparameters than the anchor's
change of the gradient is added to it exactly, without noise.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.operators import IDENTITY, Factor
from ornstein.models.hyper_targets import HyperTarget, known_at
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.planning.rules.contract import Info, Inputs, Rule, State

_OUT = 5  # widths by which an interval is widened, at most
_SHRINK = 40  # times it is narrowed, at most


class Drawn(NamedTuple):
    """Which hyperparameters a run draws: their target, start and widths on the real line."""

    target: HyperTarget
    eta: Vector
    widths: Vector

    def rule(self, post: Posterior, plan: Plan) -> "WithHyper":
        """The plan's rule with these drawn beside."""
        assert plan.anchor is not None
        precision = plan.geometry.precision.dense(plan.dim)
        known = known_at(post, self.target, plan.center, plan.anchor.slope, precision)
        return WithHyper(
            inner=plan.rule,
            known=known,
            eta=self.eta,
            widths=self.widths,
            center=plan.center,
            factor=IDENTITY,
            num_data=np.asarray(float(plan.num_data)),
            target=self.target,
        )


class Drawing(NamedTuple):
    """Where the chain is, what its rule remembers, and the hyperparameters on the real line."""

    position: Array
    inner: State
    eta: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class WithHyper(Rule):
    """``inner`` for the parameters, and slice sampling of the hyperparameters given them."""

    name: ClassVar[str] = "with_hyper"
    title: ClassVar[str] = "Drawing hyperparameters"
    beyond_optax: ClassVar[str | None] = "the hyperparameters' own draws"
    plain_operations: ClassVar[bool] = False

    inner: Rule
    known: PyTree  # of the target
    eta: Any  # where chains begin
    widths: Any  # of eta, about those of its posterior
    center: Any
    factor: Factor  # theta = center + factor z
    num_data: Vector
    target: HyperTarget = field(metadata={"static": True})

    def whitened(self, factor: Factor, dim: int) -> Self:
        return replace(self, inner=self.inner.whitened(factor, dim), factor=factor)

    def noise_factor(self, root: Factor | None) -> Factor | None:
        return self.inner.noise_factor(root)

    def noise(self, inputs: Inputs, key: Array, shape: tuple[int, ...]) -> PyTree:
        """The inner rule's, and keys of the steps."""
        own, keys = jax.random.split(key)
        bits = jax.random.bits(keys, (*shape, 2), "uint32")
        return self.inner.noise(inputs, own, shape), bits

    def begin(self, position: Array) -> Drawing:
        return Drawing(position, self.inner.begin(position), jnp.asarray(self.eta, position.dtype))

    def advance(
        self, inputs: Inputs, state: Drawing, batch: PyTree, noise: PyTree
    ) -> tuple[Drawing, Info]:
        own, bits = noise

        def gradient(z: Array, rows: PyTree) -> Array:
            change = self.target.slope_change(state.eta, self._theta(z), self.known)
            return inputs.gradient(z, rows) + self.factor.rmatvec(change) / self.num_data

        moved, info = self.inner.advance(
            inputs._replace(gradient=gradient), state.inner, batch, own
        )
        theta = self._theta(moved.position)
        key = jax.random.wrap_key_data(bits)
        eta = draw_given(self.target, state.eta, theta, self.known, self.widths, key)
        return Drawing(moved.position, moved, eta), info

    def _theta(self, z: Array) -> Array:
        theta: Array = self.center + self.factor.matvec(z)
        return theta

    def read(self, state: Drawing) -> Array:
        return jnp.concatenate([self.inner.read(state.inner), state.eta])


def draw_given(
    target: HyperTarget, eta: Array, theta: Array, known: PyTree, widths: Array, key: Array
) -> Array:
    """Hyperparameters given parameters, from their present values: all at once, or in turn."""
    if target.separate:
        return slice_sample(lambda e: target.log_density(e, theta, known), eta, widths, key)

    def one(index: Array, eta: Array) -> Array:
        def density(entry: Array) -> Array:
            return target.log_density(eta.at[index].set(entry[0]), theta, known)[None]

        here = jax.lax.dynamic_slice(eta, (index,), (1,))
        width = jax.lax.dynamic_slice(widths, (index,), (1,))
        moved = slice_sample(density, here, width, jax.random.fold_in(key, index))
        return eta.at[index].set(moved[0])

    return jax.lax.fori_loop(0, len(eta), one, eta)


def slice_sample(
    log_density: Callable[[Array], Array], x: Array, widths: Array, key: Array
) -> Array:
    """One draw of every entry of x by slice sampling (Neal 2003), entries independent.

    Intervals are stepped out, by a few widths that fall to either side at random, and then shrunk.
    """
    level_key, place_key, side_key, shrink_key = jax.random.split(key, 4)
    level = log_density(x) + jnp.log(jax.random.uniform(level_key, x.shape, x.dtype, 1e-12))
    low = x - widths * jax.random.uniform(place_key, x.shape, x.dtype)
    high = low + widths

    left = jax.random.randint(side_key, x.shape, 0, _OUT + 1)

    def widen(made: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        lower = (made < left) & (log_density(low) > level)
        higher = (made < _OUT - left) & (log_density(high) > level)
        return jnp.where(lower, low - widths, low), jnp.where(higher, high + widths, high)

    low, high = jax.lax.fori_loop(0, _OUT, widen, (low, high))

    def unfinished(carry: Any) -> Array:
        *_, done, count = carry
        return ~done.all() & (count < _SHRINK)

    def shrink(carry: Any) -> Any:
        low, high, found, done, count = carry
        u = jax.random.uniform(jax.random.fold_in(shrink_key, count), x.shape, x.dtype)
        tried = low + u * (high - low)
        inside = log_density(tried) >= level
        found = jnp.where(~done & inside, tried, found)
        done = done | inside
        low = jnp.where(~done & (tried < x), tried, low)
        high = jnp.where(~done & (tried >= x), tried, high)
        return low, high, found, done, count + 1

    begun = low, high, x, jnp.zeros(x.shape, bool), jnp.zeros((), jnp.int32)
    _, _, found, _, _ = jax.lax.while_loop(unfinished, shrink, begun)
    return found
