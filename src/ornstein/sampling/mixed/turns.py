"""Steps of mixed models with large crossed groupings: each in turn, the others held.

What moves together, fixed coefficients and one grouping's effects, is a mixed model of its own with
a small head, whose steps are those of ``gaussian`` or ``tested``: each leaves the posterior given
the held effects as it is, and so the whole posterior. That fixed coefficients are drawn with every
grouping makes turns as quick for many levels as for few (Papaspiliopoulos, Roberts and Zanella
2020, "Scalable inference for crossed random effects models"). A turn's time is of the order of the
rows and its effects.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.precision import precision_of
from ornstein._base.types import Array, PyTree
from ornstein.curvature.turns_anchor import TurnsAnchor
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.specification import Specification
from ornstein.models.random_effects.turn_rows import TurnModel
from ornstein.models.random_effects.turns import Place, Turn
from ornstein.planning.mixed import MixedPlan
from ornstein.sampling.mixed import gaussian, tested
from ornstein.sampling.mixed.coordinates import Around, Coordinates
from ornstein.sampling.mixed.moves import Reference, Tuning
from ornstein.sampling.mixed.passes import Chunks


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class TurnRows:
    """All rows in a turn's order, and what says how others' effects change its slopes."""

    chunks: Chunks  # of its own model; the offset is that at the anchor
    index: tuple[Any, ...]  # of the held groupings, (w, C)
    design: tuple[Any, ...]  # (q, w, C); None for intercepts
    held: tuple[Any, ...]  # their effects at the anchor, (q, levels)
    residual: Any  # of every row at the anchor, weighted
    curvature: Any

    @classmethod
    def of(cls, model: TurnModel, around: Around, place: Place, dtype: str) -> "TurnRows":
        """In a precision."""
        turn, count = model.turn, 1 + len(model.turn.kept)
        every = Chunks.of(model.sorted, dtype)
        own = replace(every, index=every.index[: count - 1], design=every.design[:count])
        held = tuple(np.asarray(place.effects[number], dtype) for number in turn.held)
        made = cls(own, every.index[count - 1 :], every.design[count:], held, None, None)
        with precision_of(dtype):
            parts = _at_anchor(turn.spec, jax.tree.map(jnp.asarray, made), around)
            offset, residual, curvature = (np.asarray(part) for part in parts)
        own = replace(own, offset=offset)
        return replace(made, chunks=own, residual=residual, curvature=curvature)

    def known(self, effects: tuple[Array, ...]) -> Array:
        """What effects of the held groupings add to the predictor."""
        found = jnp.zeros(self.chunks.y.shape, self.chunks.weight.dtype)
        for own, index, design in zip(effects, self.index, self.design, strict=True):
            values = own[:, index]
            found = found + (values[0] if design is None else (values * design).sum(axis=0))
        return found

    def given(
        self, spec: Specification, around: Around, effects: tuple[Array, ...]
    ) -> tuple[Around, Chunks]:
        """The turn's own model with held effects: its slopes around the anchor, and its rows.

        To second order, which is all that a Gaussian family has.
        """
        change = self.known(
            tuple(here - there for here, there in zip(effects, self.held, strict=True))
        )
        chunks = replace(self.chunks, offset=self.chunks.offset + change)
        weighted = self.curvature * change
        squares = around.squares
        if spec.noise_prior is not None:
            squares = squares + ((2 * self.residual + weighted) * change).sum()
        shifted = around._replace(
            slope_phi=around.slope_phi + chunks.head_sums(spec, weighted),
            slope_b=around.slope_b + chunks.leaf_sums(spec, weighted),
            squares=squares,
        )
        return shifted, chunks


@partial(jax.jit, static_argnums=(0,))
def _at_anchor(spec: Specification, rows: TurnRows, around: Around) -> tuple[Array, Array, Array]:
    """Offset, residual and curvature of every row."""
    chunks = rows.chunks
    offset = chunks.offset + rows.known(rows.held)
    eta = replace(chunks, offset=offset).predictor(spec, around.phi, around.b)
    curvature = spec.family.curvature(eta, chunks.y, spec.numbers(around.lam))
    weighted = chunks.weight * jnp.maximum(curvature, 0.0)
    return offset, chunks.residual(spec, eta, around.lam), weighted


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Turns:
    """What every turn needs; so many ``rounds`` make a draw."""

    rows: tuple[TurnRows, ...]
    turns: tuple[Turn, ...] = field(metadata={"static": True})
    rounds: int = field(metadata={"static": True})


class TurnsState(NamedTuple):
    """Fixed coefficients and effects, and hyperparameters."""

    place: Place
    lam: Array


def prepared(
    post: MixedPosterior,
    plan: MixedPlan,
    anchor: TurnsAnchor,
    dtype: str,
    before: Turns | None = None,
) -> tuple[tuple[Around, ...], Turns]:
    """What chains have in common, turn by turn."""
    del before  # what rows add to slopes is counted from the anchor
    place = Place.of(post.specification, anchor.phi, anchor.b)
    arounds = tuple(
        Around.of(own, part, dtype) for own, part in zip(anchor.posts, anchor.parts, strict=True)
    )
    rows = tuple(
        TurnRows.of(model, around, place, dtype)
        for model, around in zip(anchor.models, arounds, strict=True)
    )
    return arounds, Turns(rows, tuple(model.turn for model in anchor.models), plan.thin)


def begin(
    spec: Specification, around: tuple[Around, ...], rows: Turns, lam: Array, key: Array
) -> TurnsState:
    """Every turn's own at a draw of the Gaussian under hyperparameters, at the anchor's others."""
    del spec
    effects = [jnp.zeros(())] * len(rows.turns[0].whole.groupings)
    place = Place(around[0].phi, tuple(effects))
    for number, (turn, own) in enumerate(zip(rows.turns, around, strict=True)):
        here = Coordinates.given(turn.spec, own, lam[turn.hyper])
        one, two = jax.random.split(jax.random.fold_in(key, number))
        z_phi = jax.random.normal(one, here.phi.shape, lam.dtype)
        z_b = jax.random.normal(two, here.b.shape, lam.dtype)
        place = turn.put(place, *here.position(z_phi, z_b))
    return TurnsState(place, lam)


def advance(
    spec: Specification,
    around: tuple[Around, ...],
    rows: Turns,
    reference: Reference,
    tuning: Tuning,
    state: TurnsState,
    key: Array,
) -> tuple[TurnsState, Array]:
    """The rounds of a draw, and the acceptance rates of every turn, (3, turns)."""
    del spec
    references = [reference.marginal(turn.hyper) for turn in rows.turns]

    def round_of(state: TurnsState, number: Array) -> tuple[TurnsState, Array]:
        rates = []
        for at, (turn, own, known) in enumerate(zip(rows.turns, around, rows.rows, strict=True)):
            bits = jax.random.fold_in(jax.random.fold_in(key, number), at)
            lengths = Tuning(*(length[at] for length in tuning))
            state, rate = _visited(turn, own, known, references[at], lengths, state, bits)
            rates.append(rate)
        return state, jnp.stack(rates, axis=1)

    state, rates = jax.lax.scan(round_of, state, jnp.arange(rows.rounds))
    return state, rates.mean(axis=0)


def read(
    spec: Specification, around: PyTree, state: TurnsState, key: Array
) -> tuple[Array, Array, Array]:
    """A draw: head, leaves and hyperparameters."""
    del spec, around, key
    return *state.place.joined(), state.lam


def _visited(
    turn: Turn,
    around: Around,
    rows: TurnRows,
    reference: Reference,
    tuning: Tuning,
    state: TurnsState,
    key: Array,
) -> tuple[TurnsState, Array]:
    """One step of the turn's own model, given the held effects."""
    spec, lam = turn.spec, state.lam[turn.hyper]
    held = tuple(state.place.effects[number] for number in turn.held)
    here, chunks = rows.given(spec, around, held)
    move, reading = jax.random.split(key)
    if spec.noise_prior is not None:
        begun = gaussian.begin(spec, here, None, lam, move)
        exact, rates = gaussian.advance(spec, here, None, reference, tuning, begun, move)
        drawing, given = jax.random.split(reading)
        phi, b, lam = gaussian.read(spec, here, exact, drawing)
        lam = gaussian.draw_given(spec, here, lam, phi, b, reference, given)
    else:
        now = tested.at(spec, chunks, *turn.taken(state.place), lam)
        moved, rates = tested.advance(spec, here, chunks, reference, tuning, now, move)
        phi, b, lam = moved.phi, moved.b, moved.lam
    return TurnsState(turn.put(state.place, phi, b), state.lam.at[turn.hyper].set(lam)), rates
