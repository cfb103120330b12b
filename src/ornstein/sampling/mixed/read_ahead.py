"""Rows of the steps of a mixed model that are on disk: the host reads them ahead.

Which rows a step takes depends on its key alone, and not on where the rows are: the same key gives
the same draws of rows in memory and on disk.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base.types import Array
from ornstein.curvature.arrow_anchor import MixedAnchor
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.sampling.mixed import minibatch
from ornstein.sampling.mixed.moves import keys_of_draw

AnyArray = npt.NDArray[Any]
_TOGETHER = 2**16  # rows of which numbers are made at once


@dataclass(frozen=True, eq=False)
class ReadAhead:
    """Reads the rows of all steps of some draws."""

    post: MixedPosterior
    anchor: MixedAnchor
    size: int  # S
    steps: int  # a draw

    def rows(self, keys: Array, draws: int) -> tuple[AnyArray, AnyArray]:
        """Of several chains, (chains, draws, steps, S, ...): numbers and indices."""
        spec, total = self.post.specification, jnp.asarray(self.post.num_data, jnp.int32)
        chosen = np.asarray(_chosen(self.size, self.steps, draws, total, keys))
        order = np.argsort(chosen, axis=None)
        flat = chosen.ravel()
        found: list[AnyArray] | None = None
        for start in range(0, len(order), _TOGETHER):
            place = order[start : start + _TOGETHER]
            parts = minibatch.packed(spec, self.post.rows.taken(flat[place]), self.anchor)
            if found is None:
                found = [np.empty((len(flat), p.shape[1]), p.dtype) for p in parts]
            for whole, part in zip(found, parts, strict=True):
                whole[place] = part
        assert found is not None
        numbers, index = (whole.reshape(*chosen.shape, -1) for whole in found)
        return numbers, index


@partial(jax.jit, static_argnums=(0, 1, 2))
def _chosen(size: int, steps: int, draws: int, total: Array, keys: Array) -> Array:
    """Numbers of the rows, as the steps themselves draw them."""

    def chain(bits: Array) -> Array:
        key = jax.random.wrap_key_data(bits)

        def draw(number: Array) -> Array:
            move, _ = keys_of_draw(key, number)

            def step(number: Array) -> Array:
                return minibatch.row_numbers(minibatch.keys_of_step(move, number)[2], size, total)

            return jax.vmap(step)(jnp.arange(steps))

        return jax.vmap(draw)(jnp.arange(draws))

    return jax.vmap(chain)(keys)
