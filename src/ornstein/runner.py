"""Chains spread over threads, in chunks of segments, with progress between them."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._check import InputError
from ornstein._tree import cast, to_device
from ornstein._types import Array, Vector
from ornstein.data import Order, Reader
from ornstein.kernels.contract import State
from ornstein.loop import Loop, Problem, Segments, advance, build_kernel
from ornstein.operators import (
    Factor,
)
from ornstein.plan import Plan
from ornstein.posterior import Posterior
from ornstein.whitened import in_basis, update_rule

_CHUNKS = 40  # dispatches a long run is cut into, so that progress can be shown
_CHUNK_STEPS = 100_000  # steps of a dispatch, at least: less is not worth its overhead
_MAPPED = 256  # draws mapped to parameters at once
_ORDER_BYTES = 2**26  # reading orders held at once by one chain


@dataclass(frozen=True)
class Status:
    """How a run ended."""

    ok: bool
    message: str
    chain: int | None = None
    step: int | None = None


@dataclass(frozen=True)
class Settings:
    """How to run a plan; all checked."""

    chains: int
    draws: int
    thin: int
    warmup: int
    dispersion: float
    dtype: str
    chunk: int | None


class Run(NamedTuple):
    """Draws as vectors (chains, draws, D), how the run went and what was seen on the way."""

    flat: Vector
    status: Status
    steps: int
    seconds: float
    path: Mapping[str, Vector] = MappingProxyType({})


class Goal(NamedTuple):
    """When to stop a run whose length is not given: ``reached`` looks at draws as vectors.

    It is asked after ``settings.draws`` draws and whenever they have doubled, up to ``most``.
    """

    reached: Callable[[Vector], bool]
    most: int


Report: TypeAlias = Callable[[int, int], None]
"""Called with the number of steps done and to do, of one chain."""


OpenProgress: TypeAlias = Callable[[int], AbstractContextManager[Report]]
"""Opens a reporter for a number of steps."""


@dataclass
class _Chain:
    """One chain on its way."""

    number: int
    key: Array
    state: State
    kept: list[npt.NDArray[Any]]
    ahead: Segments | None = None
    orders: tuple[Order, Order] | None = None
    fell: int | None = None
    """Segment at the beginning of the chunk in which it became non-finite."""


def run(
    post: Posterior,
    plan: Plan,
    key: Array,
    settings: Settings,
    progress: OpenProgress,
    goal: Goal | None = None,
    starts: Vector | None = None,
) -> Run:
    """Run all chains of a plan; ``progress`` opens a reporter for a number of steps.

    Chains begin at ``starts`` (chains, D), or spread about the optimum.
    """
    with jax.enable_x64(settings.dtype == "float64"):
        loop, problem, chains, factor = _prepare(post, plan, key, settings, starts)
    crew = _Crew(loop, problem, _entropy(key), settings)
    draws, status, made = settings.draws, Status(True, "ok"), 0
    began = perf_counter()
    with (
        ThreadPoolExecutor(min(settings.chains, os.cpu_count() or 1)) as pool,
        progress(crew.segments_for(draws) * loop.segment_steps) as report,
    ):
        while True:
            status, made = crew.advance(pool, chains, made, crew.segments_for(draws), report)
            if not status.ok or goal is None or draws >= goal.most:
                break
            if goal.reached(_gathered(chains, draws, plan.center, factor)):
                break
            draws = min(2 * draws, goal.most)
    seconds = perf_counter() - began
    flat = _gathered(chains, draws, plan.center, factor)
    return Run(flat, status, made * loop.segment_steps, seconds)


def _gathered(chains: list[_Chain], draws: int, center: Vector, factor: Factor) -> Vector:
    """The first draws of every chain as parameters, (chains, draws, D)."""
    count = min(draws, *(sum(map(len, chain.kept)) for chain in chains))
    gathered = np.empty((len(chains), count, len(center)))
    for chain, target in zip(chains, gathered, strict=True):
        kept = np.concatenate(chain.kept)[:count].astype(float)
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
        self, loop: Loop, problem: Problem, entropy: tuple[int, ...], settings: Settings
    ) -> None:
        self.loop, self.problem, self.entropy, self.settings = loop, problem, entropy, settings
        self.warm = _warm_draws(settings)
        self.chunk = _chunk_segments(loop, settings, self.segments_for(settings.draws))

    def segments_for(self, draws: int) -> int:
        """Segments that hold the warm-up and so many draws."""
        return -(-(self.warm + draws) // self.loop.segment_draws)

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
        end, done = first + -(-(total - first) // self.chunk) * self.chunk, 0
        waiting: dict[Future[npt.NDArray[Any]], tuple[_Chain, int]] = {}

        def submit(chain: _Chain, at: int) -> None:
            waiting[pool.submit(self._move, chain, at, at + self.chunk >= end)] = chain, at

        for chain in chains:
            submit(chain, first)
        while waiting:
            ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ready:
                chain, at = waiting.pop(future)
                chain.kept.append(future.result())
                done += 1
                steps = self.loop.segment_steps
                so_far = first + done * self.chunk // len(chains)
                report(min(so_far, total) * steps, total * steps)
                if chain.fell is not None:
                    end = min(end, at + self.chunk)
                elif at + self.chunk < end:
                    submit(chain, at + self.chunk)
        return self._ending(chains, end), end

    def _ending(self, chains: list[_Chain], end: int) -> Status:
        """Cut every chain at the first draw that is not finite in one of them."""
        last = end - self.chunk
        fallen = [chain for chain in chains if chain.fell == last]
        if not fallen:
            return Status(True, "ok")
        for chain in chains:
            del chain.kept[end // self.chunk :]
        good = min(_finite_draws(chain.kept[-1]) for chain in fallen)
        for chain in chains:
            chain.kept[-1] = chain.kept[-1][:good]
        step, number = min((self._bad_step(chain), chain.number) for chain in fallen)
        return _diverged(number, last * self.loop.segment_steps + step)

    def _move(self, chain: _Chain, first: int, last: bool) -> npt.NDArray[Any]:
        """Advance a chain by a chunk, unless it falls; its draws in whitened coordinates."""
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
        if np.isfinite(made).all():
            chain.state = state
        else:
            chain.fell = first
        return made[max(0, self.warm - first * self.loop.segment_draws) :]

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
        segments = self._segments(chain, chain.fell or 0)
        with jax.enable_x64(self.settings.dtype == "float64"):
            _, finite = advance(self.loop, True, self.problem, chain.key, chain.state, segments)
        return int(np.argmin(np.asarray(finite).ravel()))


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
        chains.append(_Chain(number, chain_key, state, []))
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


def _chunk_segments(loop: Loop, settings: Settings, total: int) -> int:
    """Segments in one dispatch."""
    if settings.chunk is not None:
        return min(settings.chunk, total)
    order_bytes = 4 * max(1, loop.reader.batches.order_length(loop.segment_steps))
    most = max(1, _ORDER_BYTES // order_bytes)
    dispatches = min(_CHUNKS, total * loop.segment_steps // _CHUNK_STEPS)
    if dispatches > 1:
        return min(-(-total // dispatches), most)
    # Short runs: a power of two, so that runs of any length share compiled code.
    return min(2 ** (max(1, total // 4).bit_length() - 1), most)


def _finite_draws(draws: npt.NDArray[Any]) -> int:
    """How many draws come before the first that is not finite."""
    finite = np.isfinite(draws).all(axis=1)
    return len(finite) if finite.all() else int(finite.argmin())


def _diverged(chain: int, step: int) -> Status:
    return Status(
        False,
        f"chain {chain} became non-finite at step {step}. The draws up to there are kept. Try "
        "starts nearer the optimum (dispersion=1), a larger batch_size, a tighter prior, or "
        "dtype='float64'; result.diagnose() shows which assumption fails.",
        chain,
        step,
    )


def check_dtype(dtype: str | None) -> str:
    """``float32`` or ``float64``; JAX's own default if not given."""
    if dtype is None:
        return str(jnp.result_type(float))
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = ""
    if name not in ("float32", "float64"):
        raise InputError(f"dtype must be float32 or float64, found {dtype!r}.")
    return name
