"""Which sites of a model are scales of effects: hyperparameters, drawn beside the rest (X13).

A positive site that enters the priors of other sites alone is one, as written in a centred
hierarchy. One that is not centred has effects ``s z`` in the likelihood, which stays as it is where
s grows and z shrinks as much: the effects themselves are then taken for parameters.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.precision import double_precision
from ornstein._base.types import Array, PyTree

Params: TypeAlias = dict[str, Any]

_AWAY = 0.3  # standard deviation of the random point at which derivatives are compared
_SAME = 1e-9  # relative size of a derivative that counts as zero
_POWERS = (1.0, -1.0, 0.5, -0.5)  # of a scale by which effects are multiplied
_MOST = 20  # hyperparameters: more are drawn with the parameters


class Hierarchy(NamedTuple):
    """Sites that are scales, and of effects that are not centred, which multiply them how."""

    scales: tuple[str, ...]
    multiplied: Mapping[str, tuple[tuple[str, float], ...]]
    """By effects: scales and powers."""

    def divided(self, params: PyTree, hyper: PyTree) -> Params:
        """All sites on the real line, from parameters whose effects are multiplied."""
        found = jax.tree.map(jnp.asarray, {**params, **hyper})
        for name in self.multiplied:
            found[name] = params[name] * jnp.exp(-self._log_scale(name, hyper, params[name]))
        return found

    def effects(self, sites: Params) -> tuple[Params, Params]:
        """What :meth:`divided` undoes: parameters and scales of all sites on the real line."""
        hyper = {name: sites[name] for name in self.scales}
        params = {name: free for name, free in sites.items() if name not in hyper}
        for name in self.multiplied:
            params[name] = params[name] * jnp.exp(self._log_scale(name, hyper, params[name]))
        return params, hyper

    def log_volume(self, params: PyTree, hyper: PyTree) -> Array:
        """Of the sites by the parameters."""
        parts = [jnp.sum(self._log_scale(name, hyper, params[name])) for name in self.multiplied]
        return -sum(parts[1:], start=parts[0]) if parts else jnp.zeros(())

    def _log_scale(self, name: str, hyper: PyTree, like: Array) -> Array:
        total = jnp.zeros_like(like)
        for scale, power in self.multiplied[name]:
            total = total + power * jnp.broadcast_to(hyper[scale], total.shape)
        return total


def recognise(
    log_likelihoods: Callable[[PyTree], Array],
    values: Callable[[PyTree], PyTree],
    start: Params,
) -> Hierarchy | None:
    """The scales of a model, by derivatives at a random point; None where there are none, or many.

    ``log_likelihoods`` are of some rows and ``values`` of the sites, from parameters on the real
    line.
    """
    rng = np.random.default_rng(0)
    with double_precision():
        point = {
            name: jnp.asarray(free + _AWAY * rng.normal(size=np.shape(free)))
            for name, free in start.items()
        }
        there = values(point)
        positive = [name for name, free in point.items() if _equal(there[name], jnp.exp(free))]
        real = [name for name, free in point.items() if _equal(there[name], free)]
        moved = _Moved(log_likelihoods, point)
        scales: list[str] = []
        multiplied: dict[str, list[tuple[str, float]]] = {}
        for scale in positive:
            along = {scale: jnp.asarray(rng.normal(size=point[scale].shape))}
            size = moved(along)
            if size <= _SAME * moved.whole:
                scales.append(scale)
                continue
            pairs = ((name, power) for name in real for power in _POWERS)
            for name, power in pairs:
                if point[scale].shape not in ((), point[name].shape):
                    continue
                shrunk = -power * point[name] * jnp.broadcast_to(along[scale], point[name].shape)
                if moved({**along, name: shrunk}) <= _SAME * size:
                    scales.append(scale)
                    multiplied.setdefault(name, []).append((scale, power))
                    break
    count = sum(int(np.size(start[name])) for name in scales)
    if not 0 < count <= _MOST or len(scales) == len(start):
        return None
    return Hierarchy(tuple(scales), {name: tuple(pairs) for name, pairs in multiplied.items()})


class _Moved:
    """How much the rows' log-likelihoods change where parameters move in some direction."""

    def __init__(self, log_likelihoods: Callable[[PyTree], Array], point: Params) -> None:
        still = {name: jnp.zeros_like(free) for name, free in point.items()}

        @jax.jit
        def change(tangent: Params) -> Array:
            _, found = jax.jvp(log_likelihoods, (point,), (tangent,))
            return jnp.abs(found).sum()

        self.still, self.change = still, change
        self.whole = float(change({name: jnp.ones_like(free) for name, free in point.items()}))

    def __call__(self, tangent: Params) -> float:
        return float(self.change({**self.still, **tangent}))


def _equal(one: Any, other: Any) -> bool:
    return np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=1e-12, atol=0.0)
