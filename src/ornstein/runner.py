"""Chains spread over threads, in chunks of segments; progress and checkpoints between them."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._tree import cast, to_device
from ornstein._types import Array, Vector
from ornstein.checkpoint import Checkpoint, Saved
from ornstein.data import Order, Reader
from ornstein.interrupts import listening
from ornstein.kernels.contract import State
from ornstein.loop import Loop, Problem, Segments, advance, build_kernel
from ornstein.operators import Factor
from ornstein.plan import Plan
from ornstein.posterior import Posterior
from ornstein.runs import (
    Goal,
    OpenProgress,
    Report,
    Run,
    Settings,
    Status,
    diverged,
    from_record,
    interrupted,
    to_record,
)
from ornstein.whitened import in_basis, update_rule

_CHUNKS = 40  # dispatches a long run is cut into, so that progress can be shown
_CHUNK_STEPS = 100_000  # steps of a dispatch, at least: less is not worth its overhead
_MAPPED = 256  # draws mapped to parameters at once
_ORDER_BYTES = 2**26  # reading orders held at once by one chain


@dataclass
class _Chain:
    """One chain on its way."""

    number: int
    key: Array
    state: State
    at: int = 0
    """Segments made; ``state`` and ``kept`` are those after them."""
    kept: list[npt.NDArray[Any]] = field(default_factory=list)
    tail: npt.NDArray[Any] | None = None
    """Draws of the chunk in which it became non-finite, up to there."""
    ahead: Segments | None = None
    orders: tuple[Order, Order] | None = None

    @property
    def draws(self) -> list[npt.NDArray[Any]]:
        """All draws, in pieces."""
        return self.kept if self.tail is None else [*self.kept, self.tail]

    @property
    def leaves(self) -> list[npt.NDArray[Any]]:
        """The state as plain arrays."""
        return [np.asarray(leaf) for leaf in jax.tree.leaves(self.state)]


class _Moved(NamedTuple):
    """A chunk's draws, and the state after it; None where the chain became non-finite."""

    draws: npt.NDArray[Any]
    state: State | None


def run(
    post: Posterior,
    plan: Plan,
    key: Array,
    settings: Settings,
    progress: OpenProgress,
    goal: Goal | None = None,
    starts: Vector | None = None,
    checkpoint: Checkpoint | None = None,
) -> Run:
    """Run all chains of a plan; ``progress`` opens a reporter for a number of steps.

    Chains begin at ``starts`` (chains, D) or spread about the optimum, or go on from a checkpoint.
    """
    with jax.enable_x64(settings.dtype == "float64"):
        loop, problem, chains, factor = _prepare(post, plan, key, settings, starts)
    crew = _Crew(loop, problem, _entropy(key), settings, checkpoint)
    ended = crew.restore(chains)
    if ended is not None:
        return from_record(_gathered(chains, ended["draws"], plan.center, factor), ended)
    draws, status, made = settings.draws, Status(True, "ok"), 0
    with (
        ThreadPoolExecutor(min(settings.chains, os.cpu_count() or 1)) as pool,
        progress(crew.segments_for(draws) * loop.segment_steps) as report,
        listening() as crew.stopping,
    ):
        while True:
            status, made = crew.advance(pool, chains, made, crew.segments_for(draws), report)
            if not status.ok or goal is None or draws >= goal.most:
                break
            if goal.reached(_gathered(chains, draws, plan.center, factor)):
                break
            draws = min(2 * draws, goal.most)
    seconds = crew.seconds
    flat = _gathered(chains, draws, plan.center, factor)
    done = Run(flat, status, made * loop.segment_steps, seconds)
    crew.finish(chains, done)
    return done


def _gathered(chains: list[_Chain], draws: int, center: Vector, factor: Factor) -> Vector:
    """The first draws of every chain as parameters, (chains, draws, D)."""
    count = min(draws, *(sum(map(len, chain.draws)) for chain in chains))
    gathered = np.empty((len(chains), count, len(center)))
    for chain, target in zip(chains, gathered, strict=True):
        if count == 0:
            break
        kept = np.concatenate(chain.draws)[:count].astype(float)
        for start in range(0, count, _MAPPED):
            part = kept[start : start + _MAPPED]
            # Always as many at once: a product's rounding depends on the number of its rows.
            whole = np.concatenate([part, np.zeros((_MAPPED - len(part), kept.shape[1]))])
            target[start : start + len(part)] = factor.matvec(whole)[: len(part)]
    gathered += center
    return gathered


class _Crew:
    """What moves all chains, each by chunks of segments at a pace of its own."""

    def __init__(
        self,
        loop: Loop,
        problem: Problem,
        entropy: tuple[int, ...],
        settings: Settings,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.loop, self.problem, self.entropy, self.settings = loop, problem, entropy, settings
        self.checkpoint = checkpoint
        self.warm = _warm_draws(settings)
        total = self.segments_for(settings.draws)
        self.chunk = _chunk_segments(loop, settings, total, checkpoint is not None)
        self.stopping: Callable[[], bool] = lambda: False
        self.began = perf_counter()

    @property
    def seconds(self) -> float:
        """Time spent on this run, in earlier sittings too."""
        return perf_counter() - self.began

    def segments_for(self, draws: int) -> int:
        """Segments that hold the warm-up and so many draws."""
        return -(-(self.warm + draws) // self.loop.segment_draws)

    def restore(self, chains: list[_Chain]) -> Mapping[str, Any] | None:
        """Put chains where the checkpoint has them; returns how the run ended, if it did."""
        if self.checkpoint is None:
            return None
        example = np.empty((0, self.loop.dim), self.settings.dtype)
        fresh = [Saved(chain.at, chain.leaves, [example]) for chain in chains]
        found = self.checkpoint.restore(fresh)
        ended = self.checkpoint.ended()
        if found is None:
            return None
        with jax.enable_x64(self.settings.dtype == "float64"):
            for chain, kept in zip(chains, found.chains, strict=True):
                shape = jax.tree.structure(chain.state)
                chain.state = jax.tree.unflatten(shape, to_device(kept.state))
                chain.at, chain.kept = kept.at, kept.kept
        self.began = perf_counter() - found.seconds
        if ended is None or ended["saved"] != self.checkpoint.number:
            return None
        for chain, tail in zip(chains, ended["tails"], strict=True):
            chain.tail = tail
        return ended

    def save(self, chains: list[_Chain]) -> None:
        """Make a checkpoint."""
        if self.checkpoint is not None:
            saved = [Saved(chain.at, chain.leaves, chain.kept) for chain in chains]
            self.checkpoint.save(saved, self.seconds)

    def finish(self, chains: list[_Chain], done: Run) -> None:
        """Make the last checkpoint."""
        self.save(chains)
        if self.checkpoint is not None and done.status.kind != "interrupted":
            draws, tails = done.flat.shape[1], [chain.tail for chain in chains]
            self.checkpoint.end(
                {
                    **to_record(done),
                    "draws": draws,
                    "tails": tails,
                    "saved": self.checkpoint.number,
                }
            )

    def advance(
        self,
        pool: ThreadPoolExecutor,
        chains: list[_Chain],
        first: int,
        total: int,
        report: Report,
    ) -> tuple[Status, int]:
        """Move all chains to a number of segments; returns how it went and the segments made.

        Where a chain becomes non-finite, all end with that chunk.
        """
        end, steps = first + -(-(total - first) // self.chunk) * self.chunk, self.loop.segment_steps
        waiting: dict[Future[_Moved], _Chain] = {}

        def submit(chain: _Chain) -> None:
            if chain.at < end and chain.tail is None and not self.stopping():
                waiting[pool.submit(self._move, chain, chain.at + self.chunk >= end)] = chain

        for chain in chains:
            submit(chain)
        while waiting:
            ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ready:
                chain, moved = waiting.pop(future), future.result()
                if moved.state is None:
                    chain.tail, end = moved.draws, min(end, chain.at + self.chunk)
                    continue
                chain.state, chain.at = moved.state, chain.at + self.chunk
                chain.kept.append(moved.draws)
                submit(chain)
            so_far = sum(chain.at for chain in chains) // len(chains)
            report(min(so_far, total) * steps, total * steps)
            if self.checkpoint is not None and self.checkpoint.due:
                self.save(chains)
        return self._ending(chains, end)

    def _ending(self, chains: list[_Chain], end: int) -> tuple[Status, int]:
        fallen = [chain for chain in chains if chain.tail is not None]
        behind = [chain.at for chain in chains if chain.at < end and chain.tail is None]
        if behind:
            return interrupted(min(behind) * self.loop.segment_steps), min(behind)
        if not fallen:
            return Status(True, "ok"), end
        step, number = min((self._bad_step(chain), chain.number) for chain in fallen)
        return diverged(number, step), end

    def _move(self, chain: _Chain, last: bool) -> _Moved:
        """Advance a chain by a chunk, unless it falls; its draws in whitened coordinates."""
        first = chain.at
        segments = chain.ahead or self._segments(chain, first)
        with jax.enable_x64(self.settings.dtype == "float64"):
            state, positions = advance(
                self.loop, False, self.problem, chain.key, chain.state, segments
            )
        # While the device runs.
        chain.ahead = None if last else self._segments(chain, first + self.chunk)
        made = np.asarray(positions).reshape(-1, self.loop.dim)
        if last:
            chain.orders = None  # of many chains these would add up
        draws = made[max(0, self.warm - first * self.loop.segment_draws) :]
        if np.isfinite(made).all():
            return _Moved(draws, state)
        return _Moved(draws[: _finite_draws(draws)], None)

    def _segments(self, chain: _Chain, first: int) -> Segments:
        numbers, steps = range(first, first + self.chunk), self.loop.segment_steps
        batches = self.loop.reader.batches
        if chain.orders is None:  # one read by the device, one being written
            shape = self.chunk, batches.order_length(steps)
            chain.orders = np.empty(shape, np.int32), np.empty(shape, np.int32)
        orders = chain.orders[first // self.chunk % 2]
        for line, number in zip(orders, numbers, strict=True):
            line[:] = batches.order(self.entropy, chain.number, number, steps)
        return Segments(
            number=np.asarray(numbers, np.int32),  # type: ignore[arg-type]
            order=orders,  # type: ignore[arg-type]
            phase=np.asarray([batches.phase(n, steps) for n in numbers], np.int32),  # type: ignore[arg-type]
        )

    def _bad_step(self, chain: _Chain) -> int:
        """First non-finite step of a chain's last chunk, found by running it again, watched."""
        segments = self._segments(chain, chain.at)
        with jax.enable_x64(self.settings.dtype == "float64"):
            _, finite = advance(self.loop, True, self.problem, chain.key, chain.state, segments)
        return chain.at * self.loop.segment_steps + int(np.argmin(np.asarray(finite).ravel()))


def _prepare(
    post: Posterior, plan: Plan, key: Array, settings: Settings, starts: Vector | None
) -> tuple[Loop, Problem, list[_Chain], Factor]:
    """Whitened problem and over-dispersed starts, both in the sampling precision."""
    dtype = np.dtype(settings.dtype)
    local = post.model.localise(
        plan.center, plan.gain.sqrt(), post.data, post.hyper, dtype, plan.anchor_slope
    )
    multiplicity = None if plan.anchor is None else plan.anchor.multiplicity
    reader, rows = Reader.lay_out(
        plan.batches, local.model.rows_last, local.data, _entropy(key), multiplicity
    )
    rule, noise, constants = update_rule(plan, local.factor)
    loop = Loop(
        model=local.model,
        reader=reader,
        dim=plan.dim,
        thin=settings.thin,
        segment_draws=_segment_draws(plan, settings),
        dtype=settings.dtype,
        rule=rule,
        structure=plan.structure,
        window=plan.window,
    )
    problem = Problem(
        rows=to_device(rows),
        hyper=to_device(cast(local.hyper, dtype)),
        noise_factor=None if noise is None else to_device(noise.astype(dtype)),
        constants=to_device(cast(constants, dtype)),
    )
    spread = in_basis(local.factor, plan.predicted)
    chains = []
    for number in range(settings.chains):
        chain_key = jax.random.fold_in(key, number)
        start_key, init_key = jax.random.split(jax.random.fold_in(chain_key, 2))
        normal = np.asarray(jax.random.normal(start_key, (plan.dim,)), float)
        start = settings.dispersion * np.asarray(spread.matvec(normal))
        if starts is not None:
            start = np.asarray(local.factor.solve(starts[number] - plan.center))
        state = build_kernel(loop, problem).init(init_key, jnp.asarray(start, dtype))
        chains.append(_Chain(number, chain_key, state))
    return loop, problem, chains, local.factor


def _entropy(key: Array) -> tuple[int, ...]:
    """The key as plain numbers, for the host's generators."""
    return tuple(int(word) for word in np.asarray(jax.random.key_data(key)).ravel())


def _warm_draws(settings: Settings) -> int:
    """Draws to discard."""
    return -(-settings.warmup // settings.thin)


def _segment_draws(plan: Plan, settings: Settings) -> int:
    """Draws on one reading order: as the plan likes, but at least four orders a run."""
    quarter = max(1, (_warm_draws(settings) + settings.draws) // 4)
    return min(plan.segment_draws(settings.thin), 2 ** (quarter.bit_length() - 1))


def _chunk_segments(loop: Loop, settings: Settings, total: int, often: bool) -> int:
    """Segments in one dispatch; no more than are worth one, if ``often``."""
    if settings.chunk is not None:
        return min(settings.chunk, total)
    order_bytes = 4 * max(1, loop.reader.batches.order_length(loop.segment_steps))
    most = max(1, _ORDER_BYTES // order_bytes)
    if often:
        most = min(most, max(1, _CHUNK_STEPS // loop.segment_steps))
    dispatches = min(_CHUNKS, total * loop.segment_steps // _CHUNK_STEPS)
    if dispatches > 1:
        return -(-total // max(dispatches, -(-total // most)))  # alike, so that little is overshot
    # Short runs: a power of two, so that runs of any length share compiled code.
    return min(2 ** (max(1, total // 4).bit_length() - 1), most)


def _finite_draws(draws: npt.NDArray[Any]) -> int:
    """How many draws come before the first that is not finite."""
    finite = np.isfinite(draws).all(axis=1)
    return len(finite) if finite.all() else int(finite.argmin())
