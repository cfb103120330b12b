"""Black-box variational inference: a Gaussian q fitted by stochastic gradients of its ELBO.

In the coordinates z of ``theta = theta* + W z``, ``W W' = (N A)^-1`` (for a mean field, the inverse
of its diagonal), q is ``z = m + L xi`` with ``L`` lower triangular (diagonal). A step takes one
minibatch and one pair of opposite normals. With ``g+`` and ``g-`` the gradients of
``-log p(theta | data)`` by z at ``m + L xi`` and ``m - L xi``, those of ``-ELBO`` are::

    by m    (g+ + g-) / 2
    by L    (g+ - g-) / 2 xi',  less 1 / L_kk on the diagonal: the entropy's, in closed form

Rows that both sides share leave little noise in the gradient by L. Control variates (X9), unless
turned off, take most of it from the gradient by m. Adam moves ``m``, ``log L_kk`` and the rest of
``L``.

**When it stops.** Steps come in rounds. A round begins where the last one ended, is twice as long
and takes steps smaller by the root of two. It ends in the mean of the iterates of its second half,
and the ELBO of that mean is computed from all rows, at the same normals in every round. The fit
has converged when the ELBO has changed by less than ``tolerance`` nats in each of two rounds in a
row. It gives up after ``max_steps``, with a warning. The round with the largest ELBO is the fit.
"""

import math
import warnings
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base import random_numbers
from ornstein._base.errors import TargetWarning
from ornstein._base.precision import double_precision, precision_of
from ornstein._base.trees import cast, to_device
from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature.row_sums import joint_losses, mean_gradient
from ornstein.data.readers import Reader
from ornstein.linalg.operators import Dense, Diagonal, Factor, Operator
from ornstein.models.local import Anchored, LocalModel, Minibatch
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.sampling.engines.laplace import draw, local_root
from ornstein.sampling.settings import OpenProgress, Report, Run, Settings, Status

_START = 0.1  # scale of the first q, in z
_RATE = 0.01  # Adam's step in the first round
_CHUNK = 1024  # steps of a dispatch, at most
_FIRST = 2  # dispatches of the first round
_BULK = 2**15  # random numbers made at once
_PAIRS = 32  # of opposite normals from which an ELBO is computed


def run(post: Posterior, plan: Plan, key: Array, settings: Settings, progress: OpenProgress) -> Run:
    """Fit q and draw from it.

    The plan's options are ``tolerance``, ``max_steps`` and ``control_variates``. ``path`` holds
    ``elbo`` and ``steps`` of every round and q's ``mean`` and ``cov`` (variances for a mean field).
    """
    began = perf_counter()
    draw_key, fit_key = jax.random.fold_in(key, 0), jax.random.fold_in(key, 1)
    fit = _Fit(post, plan, fit_key, settings.dtype)
    with progress(fit.max_steps) as report:
        status = fit.run(report)
    path = {
        "elbo": np.array([end.elbo for end in fit.ends]),
        "steps": np.array([end.steps for end in fit.ends], float),
    }
    if not status.ok:
        none = np.empty((settings.chains, 0, plan.dim))
        return Run(none, status, fit.steps, perf_counter() - began, path)
    q = max(fit.ends, key=lambda end: end.elbo).fitted
    path |= {"mean": q.mean, "cov": q.cov}
    flat = draw(draw_key, q.mean, q.root, settings)
    return Run(flat, status, fit.steps, perf_counter() - began, path)


class _Params(NamedTuple):
    """``m``, the logarithms of L's diagonal, and what is below it (None for a mean field)."""

    mean: Array
    log_scale: Array
    below: Array | None

    def along(self, xi: Array) -> Array:
        """``L xi``."""
        scaled = jnp.exp(self.log_scale) * xi
        return scaled if self.below is None else scaled + self.below @ xi

    def slope(self, up: Array, down: Array, xi: Array) -> "_Params":
        """Gradient of ``-ELBO``, from those of ``-log p`` at a pair of opposite points."""
        half = 0.5 * (up - down)
        below = None if self.below is None else jnp.tril(half[:, None] * xi[None], -1)
        return _Params(0.5 * (up + down), half * xi * jnp.exp(self.log_scale) - 1, below)


class _State(NamedTuple):
    params: _Params
    adam: PyTree


@dataclass(frozen=True)
class _Loop:
    """What compiled code is keyed on; ``chunk`` and ``block`` are powers of two."""

    model: LocalModel
    reader: Reader
    dtype: str
    chunk: int

    @property
    def block(self) -> int:
        """Steps whose random numbers are made at once."""
        bulk = max(1, _BULK // self.reader.batches.batch_size)
        return min(self.chunk, _power_of_two(bulk))


@partial(jax.jit, static_argnums=(0,))
def _advance(
    loop: _Loop, problem: tuple[PyTree, PyTree], key: Array, state: _State, rate: Array
) -> tuple[_State, _Params]:
    """A chunk of steps: the state after it, and the mean of its iterates."""
    rows, hyper = problem
    batches = loop.reader.batches
    batch_key, normal_key = jax.random.fold_in(key, 0), jax.random.fold_in(key, 1)

    def step(
        carry: tuple[_State, _Params], random: tuple[Array, Array]
    ) -> tuple[tuple[_State, _Params], None]:
        (params, adam), total = carry
        position, xi = random
        batch = Minibatch(*loop.reader.take(rows, position), batches.batch_size, batches.num_data)
        offset = params.along(xi)
        up, down = (
            batches.num_data * loop.model.minibatch_gradient(params.mean + side, batch, hyper)
            for side in (offset, -offset)
        )
        with jax.numpy_dtype_promotion("standard"):  # optax mixes dtypes
            direction, adam = _adam().update(params.slope(up, down, xi), adam)
        params = jax.tree.map(lambda old, d: old - rate * d, params, direction)
        return (_State(params, adam), jax.tree.map(jnp.add, total, params)), None

    def block(carry: tuple[_State, _Params], first: Array) -> tuple[tuple[_State, _Params], None]:
        shape = loop.block, state.params.mean.size
        normals = random_numbers.normals(jax.random.fold_in(normal_key, first), shape, loop.dtype)
        positions = batches.positions(jax.random.fold_in(batch_key, first), first, loop.block, 0)
        return jax.lax.scan(step, carry, (positions, normals))

    firsts = jnp.arange(0, loop.chunk, loop.block, dtype=jnp.int32)
    nothing = jax.tree.map(jnp.zeros_like, state.params)
    (state, total), _ = jax.lax.scan(block, (state, nothing), firsts)
    return state, jax.tree.map(lambda leaf: leaf / loop.chunk, total)


class NormalFit(NamedTuple):
    """``N(m, R R')``."""

    mean: Vector
    root: Diagonal | Dense

    @property
    def cov(self) -> Vector:
        """``R R'``, or its diagonal."""
        if isinstance(self.root, Diagonal):
            return np.asarray(self.root.values) ** 2
        return np.asarray(self.root.matrix @ self.root.matrix.T)


class Elbo:
    """``E_q[log p(data, theta)]`` plus the entropy of q.

    The expectation of the quadratic part ``-1/2 (theta - m)' P (theta - m)`` is taken in closed
    form, that of the rest at pairs of opposite normals, the same for every q: the ELBO of a
    quadratic model is exact, and differences between like q's have little noise. ``P`` is the
    posterior's precision at its optimum, or the diagonal of that; the key chooses the normals.
    """

    def __init__(self, post: Posterior, precision: Operator, key: Array) -> None:
        self.post, self.precision = post, precision
        with double_precision():
            normals = np.asarray(jax.random.normal(key, (_PAIRS, post.dim), np.float64))
        self.normals = np.concatenate([normals, -normals])

    def __call__(self, q: NormalFit) -> float:
        """In nats; not finite where a loss or a scale is not."""
        dim = self.post.dim
        offsets = np.asarray(q.root.matvec(self.normals))
        losses = joint_losses(self.post, q.mean + offsets)
        rest = losses - 0.5 * (offsets * self.precision.matvec(offsets)).sum(axis=1)
        columns = q.root.dense(dim).T
        quadratic = 0.5 * (columns * self.precision.matvec(columns)).sum()
        entropy = 0.5 * dim * (1 + math.log(2 * math.pi)) + q.root.logdet(dim)
        return float(entropy - quadratic - rest.mean())


class _End(NamedTuple):
    """How a round ended: q in theta, its ELBO, the steps so far."""

    fitted: NormalFit
    elbo: float
    steps: int


class _Fit:
    """A fit in progress."""

    def __init__(self, post: Posterior, plan: Plan, key: Array, dtype: str) -> None:
        self.tolerance: float = plan.options["tolerance"]
        self.max_steps = int(plan.options["max_steps"])
        self.anchored = bool(plan.options.get("control_variates", True))
        self.key, self.dtype, self.center = key, np.dtype(dtype), plan.center
        at_center = None
        if self.anchored:
            at_center = Anchored(plan.num_data * mean_gradient(post, plan.center))
        root = local_root(plan)
        local = post.model.localise(plan.center, root, post.hyper, self.dtype, at_center)
        rows = local.fold(post.data)
        reader, rows = Reader.lay_out(plan.batches, local.model.rows_last, rows, ())
        self.factor = local.factor
        self.loop = _Loop(local.model, reader, dtype, min(_CHUNK, _power_of_two(self.max_steps)))
        self.elbo = Elbo(post, plan.geometry.precision, jax.random.fold_in(key, 0))
        self.made = 0  # dispatches
        self.ends: list[_End] = []
        with precision_of(dtype):
            self.problem = to_device((rows, cast(local.hyper, self.dtype)))
            below = jnp.zeros((plan.dim, plan.dim), dtype) if plan.structure == "dense" else None
            narrow = jnp.full(plan.dim, math.log(_START), dtype)
            start = _Params(jnp.zeros(plan.dim, dtype), narrow, below)
            self.state = _State(start, _adam().init(start))

    @property
    def steps(self) -> int:
        """Steps made."""
        return self.made * self.loop.chunk

    def run(self, report: Report) -> Status:
        """Rounds until the ELBO settles, the steps are spent or something is not finite."""
        changes = np.empty(0)
        while (chunks := self._next_round()) > 0:
            params = self._round(chunks, report)
            finite = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))
            if finite:
                q = _in_theta(params, self.center, self.factor)
                self.ends.append(_End(q, self.elbo(q), self.steps))
            if not finite or not math.isfinite(self.ends[-1].elbo):
                return Status(
                    False,
                    f"the variational fit became non-finite within {self.steps:,} steps: there are "
                    "no draws. Try a larger batch_size, a tighter prior, or dtype='float64'.",
                    step=self.steps,
                    kind="diverged",
                )
            changes = np.abs(np.diff([end.elbo for end in self.ends]))
            if len(changes) > 1 and changes[-2:].max() < self.tolerance:
                return Status(True, "ok")
        self._warn(changes)
        return Status(True, "ok")

    def _next_round(self) -> int:
        """Dispatches of the next round; the last that fits takes what is left of ``max_steps``."""
        left = self.max_steps // self.loop.chunk - self.made
        usual = _FIRST * 2 ** len(self.ends)
        return usual if left >= 3 * usual else left

    def _round(self, chunks: int, report: Report) -> _Params:
        """The mean of a round's second half, in double precision: the next begins there.

        A round that becomes non-finite ends with that dispatch.
        """
        first, last = self.made + chunks // 2, self.made + chunks
        share = 1 / (last - first)
        total: _Params = jax.tree.map(lambda leaf: np.zeros(leaf.shape), self.state.params)
        while self.made < last:
            key = jax.random.fold_in(self.key, self.made + 1)
            with precision_of(self.loop.dtype):
                rate = jnp.asarray(_RATE * 0.5 ** (len(self.ends) / 2), self.dtype)
                self.state, mean = _advance(self.loop, self.problem, key, self.state, rate)
            mean = jax.tree.map(lambda leaf: share * np.asarray(leaf, float), mean)
            self.made += 1
            report(self.steps, last * self.loop.chunk)
            if not np.isfinite(mean.mean).all():
                return mean
            if self.made > first:
                total = jax.tree.map(np.add, total, mean)
        with precision_of(self.loop.dtype):
            self.state = self.state._replace(params=to_device(cast(total, self.dtype)))
        return total

    def _warn(self, changes: Vector) -> None:
        last = (
            f"its last round changed the ELBO by {changes[-1]:.2g} nats, " if changes.size else ""
        )
        remedy = "raise max_steps, batch_size or tolerance"
        remedy = remedy if self.anchored else f"use control_variates=True, or {remedy}"
        warnings.warn(
            f"the variational fit did not settle in {self.steps:,} steps: {last}"
            f"tolerance={self.tolerance:g}. To settle it, {remedy}.",
            TargetWarning,
            stacklevel=6,
        )


def _adam() -> Any:
    import optax  # takes long to import

    return optax.scale_by_adam()


def _in_theta(params: _Params, center: Vector, factor: Factor) -> NormalFit:
    """``N(theta* + W m, W L L' W')``."""
    mean = center + np.asarray(factor.matvec(np.asarray(params.mean)))
    scale = np.exp(np.asarray(params.log_scale))
    if params.below is None:
        return NormalFit(mean, Diagonal(np.asarray(factor.matvec(scale))))
    lower = np.diag(scale) + np.asarray(params.below)
    return NormalFit(mean, Dense(np.asarray(factor.matvec(lower.T)).T))


def _power_of_two(number: int) -> int:
    """The largest that is not above."""
    return int(2 ** (number.bit_length() - 1))
