"""A run of a mixed model: chains in threads, a warm-up that tunes lengths and proposals, draws."""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Lock
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.precision import precision_of
from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature.arrow_anchor import MixedAnchor
from ornstein.curvature.turns_anchor import TurnsAnchor
from ornstein.data.on_disk import ahead
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.specification import Specification
from ornstein.planning.mixed import MixedPlan
from ornstein.sampling.mixed import gaussian, minibatch, tested, turns
from ornstein.sampling.mixed.moves import Reference, Tuning, keys_of_draw
from ornstein.sampling.mixed.read_ahead import ReadAhead

KINDS: dict[str, ModuleType] = {
    "gaussian": gaussian,
    "tested": tested,
    "minibatch": minibatch,
    "turns": turns,
}
"""Steps by name; each has ``prepared``, ``begin``, ``advance`` and ``read``."""

_LEAST_RATES = 0.75, 0.75, 0.3  # of acceptance of leaves, head and hyperparameters
_STARTS = 2**31  # of the numbers that make keys of a chain's, that of its start
CHUNK = 25  # draws of a dispatch: one number, so that code is compiled once
_ROUNDS = 6, 6  # dispatches of the phases of a warm-up,
_FEWER_ROUNDS = 2, 2  # where passes over the rows take long
_WIDEST = math.pi / 2, math.pi / 2, 1.0  # angles of leaves and head, share of a proposal
_FACTORS = 0.4, 3.0  # by which a round changes one, at most
_WIDER = 1.3  # of the variances that proposals have
_LARGE_HEAD = 400  # parameters held densely, above which factorisations take most of the time
_DOUBLE = 200_000  # rows up to which passes are made in double precision


_COMPILING = Lock()  # that two threads do not compile the same code


class Moving(NamedTuple):
    """What all chains have in common."""

    around: PyTree
    rows: PyTree
    reference: Reference
    tuning: Tuning


@partial(jax.jit, static_argnums=(0, 1, 2))
def _advanced(
    kind: str,
    spec: Specification,
    draws: int,
    moving: Moving,
    states: PyTree,
    keys: Array,
    read: PyTree = None,
) -> tuple[PyTree, tuple[Array, Array, Array], Array]:
    """Chains side by side, so many draws each, of rows that were read ahead where they were."""
    steps = KINDS[kind]

    def chain(state: PyTree, bits: Array, read: PyTree) -> tuple[PyTree, Any]:
        key = jax.random.wrap_key_data(bits)

        def draw(state: PyTree, given: tuple[Array, PyTree]) -> tuple[PyTree, Any]:
            move, reading = keys_of_draw(key, given[0])
            rows = moving.rows if given[1] is None else moving.rows.read(given[1])
            state, rates = steps.advance(
                spec, moving.around, rows, moving.reference, moving.tuning, state, move
            )
            return state, (steps.read(spec, moving.around, state, reading), rates)

        state, (found, rates) = jax.lax.scan(draw, state, (jnp.arange(draws), read))
        return state, (found, rates.mean(axis=0))

    states, (found, rates) = jax.vmap(chain)(states, keys, read)
    return states, found, rates


@partial(jax.jit, static_argnums=(0, 1))
def _begun(kind: str, spec: Specification, moving: Moving, lams: Array, keys: Array) -> PyTree:
    def one(lam: Array, bits: Array) -> PyTree:
        key = jax.random.wrap_key_data(bits)
        return KINDS[kind].begin(spec, moving.around, moving.rows, lam, key)

    return jax.vmap(one)(lams, keys)


def _keys(key: Array, chains: list[int], number: int) -> Array:
    """One for every chain, as plain numbers."""

    def own(chain: Array) -> Array:
        made = jax.random.fold_in(jax.random.fold_in(key, chain), number)
        return jax.random.key_data(made)

    return jax.vmap(own)(jnp.asarray(chains, jnp.uint32))


@dataclass
class Team:
    """Chains that one thread moves."""

    states: PyTree
    chains: list[int]
    made: int = 0


class Drawn(NamedTuple):
    """Draws of head (chains, draws, m), leaves (..., q, G) and hyperparameters (..., n)."""

    phi: Vector
    b: Vector
    lam: Vector
    rates: Vector  # of acceptance, (3,), of every turn (3, turns)


@dataclass
class Chains:
    """All chains of a run."""

    kind: str
    spec: Specification
    moving: Moving
    dtype: str
    key: Array
    teams: list[Team]
    reader: ReadAhead | None = None
    ready: bool = False

    @classmethod
    def begun(
        cls,
        kind: str,
        spec: Specification,
        moving: Moving,
        dtype: str,
        lams: Vector,
        key: Array,
        reader: ReadAhead | None = None,
    ) -> "Chains":
        """One chain for every line of hyperparameters."""
        count = min(len(lams), os.cpu_count() or 1)
        parts = np.array_split(np.arange(len(lams)), count)
        with precision_of(dtype):
            moving = jax.tree.map(jnp.asarray, moving)
            teams = []
            for part in parts:
                own = [int(chain) for chain in part]
                keys = _keys(key, own, _STARTS)
                states = _begun(kind, spec, moving, jnp.asarray(lams[part], dtype), keys)
                teams.append(Team(states, own))
        return cls(kind, spec, moving, dtype, key, teams, reader)

    def retuned(self, tuning: Tuning, reference: Reference) -> None:
        """Go on with other lengths and proposals."""
        with precision_of(self.dtype):
            cast = jax.tree.map(lambda leaf: jnp.asarray(leaf, self.dtype), (tuning, reference))
        self.moving = self.moving._replace(tuning=cast[0], reference=cast[1])

    def advance(self, draws: int, report: Callable[[int], None] | None = None) -> Drawn:
        """So many draws of every chain; their number is made up to whole dispatches."""
        spec, chains = self.spec, sum(len(team.chains) for team in self.teams)
        shapes = (spec.head,), (spec.leaf.width, spec.leaf.levels), (spec.count,)
        phi, b, lam = (np.empty((chains, draws, *shape), self.dtype) for shape in shapes)

        def given(team: Team, made: int) -> tuple[Array, PyTree]:
            with precision_of(self.dtype):
                keys = _keys(self.key, team.chains, made)
                return keys, None if self.reader is None else self.reader.rows(keys, CHUNK)

        def move(team: Team) -> Vector:
            rates, own = [], slice(team.chains[0], team.chains[-1] + 1)
            starts, made = range(0, draws, CHUNK), team.made
            each = (given(team, made + start) for start in starts)
            dispatches = each if self.reader is None else ahead(each)
            with precision_of(self.dtype):
                for start, (keys, rows) in zip(starts, dispatches, strict=True):
                    with _COMPILING if not self.ready else nullcontext():
                        team.states, found, rate = _advanced(
                            self.kind, self.spec, CHUNK, self.moving, team.states, keys, rows
                        )
                        self.ready = True
                    count = min(CHUNK, draws - start)
                    for whole, part in zip((phi, b, lam), found, strict=True):
                        whole[own, start : start + count] = np.asarray(part)[:, :count]
                    rates.append(np.asarray(rate).mean(axis=0))
                    team.made += CHUNK
                    if report is not None and team is self.teams[0]:
                        report(CHUNK)
            return np.mean(rates, axis=0)

        with ThreadPoolExecutor(len(self.teams)) as pool:
            rates = list(pool.map(move, self.teams))
        return Drawn(phi, b, lam, np.mean(rates, axis=0))


def narrowed(tuning: Tuning, rates: Vector) -> Tuning:
    """Shorter steps where too few are accepted; longer ones where nearly all are."""
    found = []
    for length, rate, least, widest in zip(tuning, rates, _LEAST_RATES, _WIDEST, strict=True):
        factor = np.clip(rate / least, *_FACTORS)
        found.append(np.minimum(np.asarray(length) * factor, widest))
    return Tuning(*found)


def steps_for(plan: MixedPlan, draws: int) -> int:
    """Draws of a chain, those of the warm-up included."""
    return sum(_rounds(plan)) * CHUNK + draws


def run_mixed(
    post: MixedPosterior,
    plan: MixedPlan,
    key: Array,
    chains: int,
    draws: int,
    report: Callable[[int, int], None],
) -> tuple[Drawn, MixedAnchor | TurnsAnchor]:
    """Warm up, move the anchor to the hyperparameters drawn, and draw."""
    dtype, steps = _dtype(post, plan), KINDS[plan.steps]
    total, done = steps_for(plan, draws), 0

    def reported(made: int) -> None:
        nonlocal done
        done += made
        report(min(done, total), total)

    anchor, count = plan.anchor, post.specification.count
    around, rows = steps.prepared(post, plan, anchor, dtype)
    reader = _reader(post, plan, anchor)
    widths = np.maximum(first_widths(post, anchor), 1e-3)
    reference = Reference.of(anchor.lam, np.diag(widths**2), dtype)
    lengths = (plan.angle, plan.angle, 1.0) if plan.steps == "minibatch" else _WIDEST
    tuning = Tuning(*(np.full(plan.lengths, length, dtype) for length in lengths))
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())
    lams: Vector = anchor.lam + widths * rng.normal(size=(chains, count))
    if _is_large(plan):
        with precision_of(dtype):
            device = jax.tree.map(jnp.asarray, around)
            mode, cov = gaussian.laplace(post.specification, device, widths)
        reference = Reference.of(mode, _WIDER * cov, dtype)
        lams = mode + rng.normal(size=(chains, count)) @ np.linalg.cholesky(cov).T
    for phase, rounds in enumerate(_rounds(plan)):
        if plan.steps != "minibatch":  # what was refused while chains moved in says little
            tuning = tuning._replace(hyper=np.full(plan.lengths, _WIDEST[2], dtype))
        moving = Moving(around, rows, reference, tuning)
        spread = Chains.begun(
            plan.steps,
            post.specification,
            moving,
            dtype,
            lams,
            jax.random.fold_in(key, phase),
            reader,
        )
        kept: list[Vector] = []
        for _ in range(rounds):
            found = spread.advance(CHUNK, reported)
            kept = [*kept[len(kept) // 2 :], np.concatenate(found.lam)]
            if count and not _is_large(plan):
                reference = _fitted(np.concatenate(kept), widths, dtype)
            if plan.steps != "minibatch":
                tuning = narrowed(tuning, found.rates)
            spread.retuned(tuning, reference)
        if phase == 0 and plan.steps != "gaussian":
            anchor = anchor.moved(post, np.concatenate(kept).mean(axis=0))
            around, rows = steps.prepared(post, plan, anchor, dtype, rows)
            reader = _reader(post, plan, anchor)
            lams = found.lam[:, -1]
        elif phase == 0:
            lams = found.lam[:, -1]
    return spread.advance(draws, reported), anchor


def _rounds(plan: MixedPlan) -> tuple[int, ...]:
    """Of every phase of the warm-up."""
    if _is_large(plan):
        return (1,)
    return _ROUNDS if plan.num_data <= _DOUBLE else _FEWER_ROUNDS


def _is_large(plan: MixedPlan) -> bool:
    """Whether factorisations take so long that a warm-up should make few."""
    return plan.steps == "gaussian" and plan.head > _LARGE_HEAD


def first_widths(post: MixedPosterior, anchor: MixedAnchor | TurnsAnchor) -> Vector:
    """About the hyperparameters' posterior standard deviations, on the real line."""
    spec = post.specification
    found = [np.full(g.count, 1 / np.sqrt(2 * g.levels)) for g in spec.groupings]
    noise = [] if spec.noise_prior is None else [np.full(1, 1 / np.sqrt(2 * post.num_data))]
    return np.concatenate([*found, *noise, anchor.auxiliary_widths(post)])


def _fitted(lam: Vector, widths: Vector, dtype: str) -> Reference:
    """A Gaussian somewhat wider than the draws."""
    cov = _WIDER * np.cov(lam.T).reshape(lam.shape[1], -1) + np.diag((0.1 * widths) ** 2)
    return Reference.of(lam.mean(axis=0), cov, dtype)


def _reader(
    post: MixedPosterior, plan: MixedPlan, anchor: MixedAnchor | TurnsAnchor
) -> ReadAhead | None:
    if not post.on_disk or not isinstance(anchor, MixedAnchor) or plan.steps != "minibatch":
        return None
    return ReadAhead(post, anchor, plan.batch_size, plan.thin)


def _dtype(post: MixedPosterior, plan: MixedPlan) -> str:
    """Double precision where it is cheap, and for squares that decide on a Gaussian's noise."""
    if _is_large(plan) or plan.steps == "minibatch":
        return "float32"
    exact = post.specification.noise_prior is not None
    return "float64" if exact or post.num_data <= _DOUBLE else "float32"
