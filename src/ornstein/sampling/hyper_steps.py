"""Steps that draw hyperparameters too (X13): a step of the parameters, then the others given them.

The rows are read by the step of the parameters alone. What other hyperparameters than the anchor's
change of the gradient is added to it exactly, without noise. Steps are made in coordinates that
follow the hyperparameters (``conditional``).

Given the effects, their standard deviation moves little where the data say little of each. Where a
step's loss is exact, a hyperparameter also moves while those coordinates stay, subject to a
Metropolis test: nearly a draw of its own posterior, the parameters integrated out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.operators import IDENTITY, Factor
from ornstein.models.hyper_targets import DrawnHyper, HyperTarget, known_at
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.planning.rules import Rotation
from ornstein.planning.rules.contract import Info, Inputs, Rule, State
from ornstein.sampling.conditional import Conditional, Shape

_OUT = 5  # widths by which an interval is widened, at most
_SHRINK = 40  # times it is narrowed, at most
_STEP = 1.2  # widths: standard deviation of the moves that are tested


class Drawn(NamedTuple):
    """Which hyperparameters a run draws: their target, anchor and widths on the real line.

    Chains begin at the anchor, or at ``starts`` (chains, m).
    """

    target: HyperTarget
    eta: Vector
    widths: Vector
    starts: Vector | None = None

    def rule(self, post: Posterior, plan: Plan) -> "WithHyper":
        """The plan's rule with these drawn beside."""
        return WithHyper(
            inner=plan.rule,
            known=_known(post, plan, self.target),
            eta=self.eta,
            widths=self.widths,
            center=plan.center,
            factor=IDENTITY,
            num_data=np.asarray(float(plan.num_data)),
            target=self.target,
            exact_loss=_loss_is_exact(post, plan),
        )


def drawn_with(post: Posterior, plan: Plan, target: HyperTarget, eta: Vector) -> DrawnHyper:
    """Hyperparameters that a run of the plan drew, (chains, draws, m), and what they aim at."""
    known = _known(post, plan, target)
    return DrawnHyper(target, known, eta, tuple(post.learnable.labels))


def _known(post: Posterior, plan: Plan, target: HyperTarget) -> PyTree:
    assert plan.anchor is not None
    precision = plan.geometry.precision.dense(plan.dim)
    return known_at(post, target, plan.center, plan.anchor.slope, precision)


def _loss_is_exact(post: Posterior, plan: Plan) -> bool:
    """Whether a step's rows give differences of the loss without noise."""
    if post.quadratic and plan.anchor is not None and plan.anchor.order == 2:
        return True
    return isinstance(plan.rule, Rotation) and plan.rule.is_tested


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
    exact_loss: bool = field(default=False, metadata={"static": True})
    shape: Shape | None = None

    def whitened(self, factor: Factor, dim: int) -> Self:
        inner = self.inner.whitened(factor, dim)
        shape = Shape.of(self.target, self.known, factor, float(self.num_data))
        return replace(self, inner=inner, factor=factor, shape=shape)

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
        key, moving = jax.random.split(jax.random.wrap_key_data(bits))
        moved, info = self._stepped(inputs, state, batch, own)
        theta = self._theta(moved.position)
        eta = draw_given(self.target, state.eta, theta, self.known, self.widths, key)
        after = Drawing(moved.position, moved, eta)
        if self.shape is not None and self.exact_loss:
            after = self._moved(inputs, self.shape, after, batch, moving)
        return after, info

    def _stepped(
        self, inputs: Inputs, state: Drawing, batch: PyTree, noise: PyTree
    ) -> tuple[State, Info]:
        """A step of the parameters given the hyperparameters."""

        def gradient(z: Array, rows: PyTree) -> Array:
            return inputs.gradient(z, rows) + self._slope_change(state.eta, self._theta(z))

        def loss(z: Array, rows: PyTree) -> Array:
            change = self.target.loss_change(state.eta, self._theta(z), self.known)
            return inputs.loss(z, rows) + change / self.num_data

        if self.shape is None:
            given = inputs._replace(gradient=gradient, loss=loss)
            return self.inner.advance(given, state.inner, batch, noise)
        own = self._conditional(self.shape, state.eta)
        given = inputs._replace(
            gradient=lambda w, rows: own.slope(gradient(own.position(w), rows)),
            loss=lambda w, rows: loss(own.position(w), rows),
        )
        inner = state.inner._replace(position=own.coordinates(state.position))
        moved, info = self.inner.advance(given, inner, batch, noise)
        return moved._replace(position=own.position(moved.position)), info

    def _conditional(self, shape: Shape, eta: Array) -> Conditional:
        power, diagonal = self.target.curvature(eta, self.known)
        return shape.given(power, diagonal, self._slope_change(eta, self.center))

    def _slope_change(self, eta: Array, theta: Array) -> Array:
        """What these hyperparameters add to a row's gradient by z."""
        change = self.target.slope_change(eta, theta, self.known)
        return jnp.asarray(self.factor.rmatvec(change)) / self.num_data

    def _moved(
        self, inputs: Inputs, shape: Shape, state: Drawing, batch: PyTree, key: Array
    ) -> Drawing:
        """One hyperparameter moved, the parameters along with it, if that passes its test."""
        which, by, test = jax.random.split(key, 3)
        index = jax.random.randint(which, (), 0, len(state.eta))
        step = _STEP * self.widths[index] * jax.random.normal(by, (), state.eta.dtype)
        eta = state.eta.at[index].add(step)
        before, after = (self._conditional(shape, e) for e in (state.eta, eta))
        z = after.position(before.coordinates(state.position))

        def log_density(z: Array, eta: Array) -> Array:
            data = inputs.loss(z, batch) * self.num_data
            return -data - self.target.loss_change(eta, self._theta(z), self.known)

        ratio = log_density(z, eta) - log_density(state.position, state.eta)
        ratio = ratio + after.log_volume - before.log_volume
        accepted = -jax.random.exponential(test, (), ratio.dtype) < ratio
        z = jnp.where(accepted, z, state.position)
        inner = state.inner._replace(position=z)
        return Drawing(z, inner, jnp.where(accepted, eta, state.eta))

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
