"""Run a plan: lay the rows out, begin the chains, let an executor move them, gather the draws."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from ornstein._base.checks import shown
from ornstein._base.errors import CheckpointError, InputError
from ornstein._base.interrupts import listening
from ornstein._base.memory import fresh
from ornstein._base.precision import precision_of
from ornstein._base.types import Array, PyTree, Vector
from ornstein.data.prefetch import Prefetch, shards_of
from ornstein.data.readers import Reader
from ornstein.linalg.operators import Factor
from ornstein.models.local import LocalProblem
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.planning.rules import Rule
from ornstein.sampling.hyper_steps import Drawing, Drawn
from ornstein.sampling.loop import ROWS, Loop, Problem
from ornstein.sampling.mesh import MeshExecutor, checked_mesh
from ornstein.sampling.settings import Goal, OpenProgress, Run, Settings, Status
from ornstein.sampling.threads import Chain, ThreadExecutor
from ornstein.storage.checkpoint import Checkpoint

_MAPPED = 16, 256  # fewest and most draws in a product that maps them to parameters
_MAPPED_NUMBERS = 2**17  # of such products made together: 1 MiB
_SEGMENT_BYTES = 2**24  # of rows read for one segment
_LONGEST_BYTES = 2**28  # the same, where a draw takes more
_EXPENSIVE = 3e7  # multiplications of a draw, of which no segment should make one too many
_STARTS = 2**32 - 1  # of the numbers that seed a chain, the last: permutations have the first
_ORDER_READS = 5  # times a row is read in the time that putting it into a permutation takes


def run_chains(
    post: Posterior,
    plan: Plan,
    key: Array,
    settings: Settings,
    progress: OpenProgress,
    goal: Goal | None = None,
    starts: Vector | None = None,
    checkpoint: Checkpoint | None = None,
    mesh: Mesh | None = None,
    drawn: Drawn | None = None,
) -> Run:
    """Run all chains of a plan; ``progress`` opens a reporter for a number of steps.

    With ``drawn``, hyperparameters are drawn beside the parameters.
    Chains begin at ``starts`` (chains, D) or spread about the optimum, or go on from a checkpoint.
    They are spread over this process's threads, or with their batches over the devices of a mesh.
    """
    with precision_of(settings.dtype):
        executor, chains, factor = _prepare(
            post, plan, key, settings, starts, checkpoint, mesh, drawn
        )
    loop, gathered = executor.loop, partial(_gathered, chains, plan.center, factor)
    ended = executor.restore(chains)
    if ended is not None:
        if not isinstance(ended["done"], Run):
            raise CheckpointError(f"the checkpoint's end is not a run: {shown(ended['done'])}.")
        flat, hyper = gathered(ended["draws"])
        return ended["done"]._replace(flat=flat, hyper=hyper)
    draws, status, made = settings.draws, Status(True, "ok"), 0
    with (
        progress(executor.segments_for(draws) * loop.segment_steps) as report,
        listening() as executor.stopping,
    ):
        while True:
            status, made = executor.advance(chains, made, executor.segments_for(draws), report)
            if not status.ok or goal is None or draws >= goal.most:
                break
            if goal.reached(gathered(draws)[0]):
                break
            draws = min(2 * draws, goal.most)
    seconds = executor.seconds
    redrawn = [step for _, step in executor.redrawn(chains, executor.segments_for(draws))]
    path: dict[str, Vector] = {"redrawn": np.array(redrawn, float)} if redrawn else {}
    flat, hyper = gathered(draws)
    done = Run(flat, status, made * loop.segment_steps, seconds, path, hyper)
    executor.finish(chains, done)
    return done


def _gathered(
    chains: list[Chain], center: Vector, factor: Factor, draws: int
) -> tuple[Vector, Vector | None]:
    """The first draws of every chain as parameters, (chains, draws, D), and what is beside."""
    dim, coordinates = len(center), factor.coordinates(len(center))
    count = min(draws, *(sum(map(len, chain.draws)) for chain in chains))
    each = int(np.clip(_MAPPED_NUMBERS // dim, *_MAPPED))
    together = each * max(1, _MAPPED_NUMBERS // (each * dim))
    gathered = fresh((len(chains), count, dim))

    def gather(chain: Chain, target: Vector) -> None:
        for number, some in enumerate(_regrouped(chain.draws, together)):
            place = target[number * together : (number + 1) * together]
            # Always as many at once: a product's rounding depends on the number of its rows.
            part = np.pad(some[:, :coordinates].astype(float), ((0, -len(some) % each), (0, 0)))
            mapped = np.asarray(factor.matvec(part.reshape(-1, each, coordinates)))
            np.add(mapped.reshape(-1, dim)[: len(place)], center, out=place)

    if count:
        with ThreadPoolExecutor(min(len(chains), os.cpu_count() or 1)) as pool:
            list(pool.map(gather, chains, gathered))
    return gathered, _beside(chains, coordinates, count)


def _beside(chains: list[Chain], coordinates: int, count: int) -> Vector | None:
    """What draws hold beyond so many numbers; None where nothing."""
    found = [
        np.concatenate([piece[:, coordinates:] for piece in chain.draws])[:count]
        for chain in chains
        if chain.draws
    ]
    if not found or found[0].shape[1] == 0:
        return None
    return np.stack(found).astype(float)


def _regrouped(pieces: list[Vector], size: int) -> Iterator[Vector]:
    """Rows of the pieces, so many at a time: all at once would be copied once more."""
    held: list[Vector] = []
    for piece in pieces:
        start = 0
        while start < len(piece):
            part = piece[start : start + size - sum(map(len, held))]
            start += len(part)
            held.append(part)
            if sum(map(len, held)) == size:
                yield np.concatenate(held)
                held = []
    if held:
        yield np.concatenate(held)


def _prepare(
    post: Posterior,
    plan: Plan,
    key: Array,
    settings: Settings,
    starts: Vector | None,
    checkpoint: Checkpoint | None,
    mesh: Mesh | None,
    drawn: Drawn | None,
) -> tuple[ThreadExecutor, list[Chain], Factor]:
    """Executor, chains and the factor W of ``theta = center + W z``, in the sampling precision."""
    dtype, entropy = np.dtype(settings.dtype), _entropy(key)
    local = post.model.localise(plan.center, plan.gain.sqrt(), post.hyper, dtype, plan.anchored)
    feed = None
    if post.on_disk or mesh is not None:
        shards = 1 if mesh is None else shards_of(plan.batches)
        feed = Prefetch(plan.batches, post.data, local.fold, entropy, shards)
    if mesh is not None and feed is not None:
        mesh = checked_mesh(mesh, settings.chains, feed)
    reader, rows = _rows(post, plan, local, entropy, feed)
    segment_draws = _segment_draws(plan, settings)
    if feed is not None:
        segment_draws = min(segment_draws, _fed_draws(feed, plan, settings))
    loop = Loop(
        model=local.model,
        reader=reader,
        dim=local.factor.coordinates(plan.dim),
        thin=settings.thin,
        segment_draws=segment_draws,
        dtype=settings.dtype,
        parts=0 if mesh is None else mesh.shape[ROWS],
        beside=0 if drawn is None else len(drawn.eta),
    )
    rule = None if drawn is None else drawn.rule(post, plan)
    problem = Problem.of(plan, local.factor, rows, local.hyper, dtype, rule)
    beside = None if drawn is None else drawn.starts
    chains = _begun(plan, problem.rule, local.factor, key, settings, starts, beside)
    given = entropy, settings, checkpoint
    if mesh is None or feed is None:
        return ThreadExecutor(loop, problem, feed, *given), chains, local.factor
    return MeshExecutor(loop, problem, feed, *given, mesh), chains, local.factor


def _rows(
    post: Posterior,
    plan: Plan,
    local: LocalProblem,
    entropy: tuple[int, ...],
    feed: Prefetch | None,
) -> tuple[Reader, PyTree]:
    """How the loop takes its rows: laid out on the device, or read by the host for a segment."""
    if feed is not None:
        return Reader(plan.batches, local.model.rows_last, prefetched=True), None
    multiplicity = None if plan.anchor is None else plan.anchor.multiplicity
    folded = local.fold(post.data)
    return Reader.lay_out(plan.batches, local.model.rows_last, folded, entropy, multiplicity)


def _begun(
    plan: Plan,
    rule: Rule,
    factor: Factor,
    key: Array,
    settings: Settings,
    starts: Vector | None,
    beside: Vector | None,
) -> list[Chain]:
    """Chains at their starts: those given, or as over-dispersed as the settings say.

    What is drawn beside the parameters starts at its anchor if not given.
    """
    dtype = np.dtype(settings.dtype)
    spread = factor.whiten(plan.predicted.sqrt(), plan.dim)
    chains = []
    for number in range(settings.chains):
        if starts is None:
            seed = np.random.SeedSequence(_entropy(key), spawn_key=(number + 1, _STARTS))
            rng = np.random.default_rng(seed)  # which is not compiled
            normal = rng.normal(size=factor.coordinates(plan.dim))
            start = settings.dispersion * np.asarray(spread.matvec(normal))
        else:
            start = np.asarray(factor.solve(starts[number] - plan.center))
        state = rule.begin(jnp.asarray(start, dtype))
        if beside is not None and isinstance(state, Drawing):
            state = state._replace(eta=jnp.asarray(beside[number], dtype))
        chains.append(Chain(number, jax.random.fold_in(key, number), state))
    return chains


def _entropy(key: Array) -> tuple[int, ...]:
    """The key as plain numbers, for the host's generators."""
    return tuple(int(word) for word in np.asarray(jax.random.key_data(key)).ravel())


def _segment_draws(plan: Plan, settings: Settings) -> int:
    """Draws on one permutation: as the plan likes, but at least four permutations a run.

    One where draws are expensive and there is no permutation to make. Fewer permutations of a long
    table, where one takes longer than many draws: as many as leave the least work, the draws beyond
    the run's end included.
    """
    total, batches = settings.warm_draws + settings.draws, plan.batches
    most = plan.segment_draws(settings.thin)
    quarter = min(most, 2 ** (max(1, total // 4).bit_length() - 1))
    order, draw = _ORDER_READS * batches.num_data, settings.thin * batches.batch_size
    if batches.replacement and draw * plan.dim > _EXPENSIVE:
        return 1
    if batches.block == 1:
        return quarter
    sizes = (min(most, quarter * more) for more in (1, 2, 4))
    return min(sizes, key=lambda size: -(-total // size) * (order + size * draw))


def _fed_draws(feed: Prefetch, plan: Plan, settings: Settings) -> int:
    """Draws of a segment whose rows, read by the host, stay within the memory bound."""
    draw_bytes = feed.step_bytes * settings.thin
    if draw_bytes > _LONGEST_BYTES:
        raise InputError(
            f"one draw would read {draw_bytes / 2**20:,.0f} MiB of rows ({settings.thin} steps of "
            f"{plan.batch_size} rows), and they are held in memory: use control_variates=True, "
            "which need few rows for a draw, a smaller batch_size or a smaller thin."
        )
    return int(2 ** (max(1, _SEGMENT_BYTES // draw_bytes).bit_length() - 1))
