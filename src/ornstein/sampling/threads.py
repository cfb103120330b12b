"""The thread executor: chains spread over threads, in chunks of segments, checkpoints between."""

import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from ornstein._base.memory import fresh
from ornstein._base.precision import precision_of
from ornstein._base.trees import to_device
from ornstein._base.types import Array, PyTree
from ornstein.data.batches import Order
from ornstein.data.prefetch import Prefetch
from ornstein.planning.rules.contract import State
from ornstein.sampling.loop import Loop, Problem, Segments, advance
from ornstein.sampling.settings import (
    Report,
    Run,
    Settings,
    Status,
    diverged,
    interrupted,
    to_record,
)
from ornstein.storage.checkpoint import Checkpoint, Saved

_CHUNKS = 40  # dispatches a long run is cut into, so that progress can be shown
_CHUNK_STEPS = 100_000  # steps of a dispatch, at least: less is not worth its overhead,
_CHUNK_WORK = 4e9  # unless they make so many multiplications
_DISPATCH_WORK = 3e7  # the same of a short run's dispatch, whose overhead is small beside them
_ORDER_BYTES = 2**26  # permutations held at once by one chain
_FED_BYTES = 2**27  # rows read ahead, of all chains


@dataclass
class Chain:
    """One chain during a run."""

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


class Moved(NamedTuple):
    """A chunk's draws, and the state after it; None where the chain became non-finite."""

    draws: npt.NDArray[Any]
    state: State | None


class ThreadExecutor:
    """Moves all chains, each by chunks of segments at its own pace."""

    def __init__(
        self,
        loop: Loop,
        problem: Problem,
        feed: Prefetch | None,
        entropy: tuple[int, ...],
        settings: Settings,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.loop, self.problem, self.entropy, self.settings = loop, problem, entropy, settings
        self.feed, self.checkpoint = feed, checkpoint
        self.warm = warm_draws(settings)
        total = self.segments_for(settings.draws)
        self.chunk = self._chunk_segments(total)
        self.stopping: Callable[[], bool] = lambda: False
        self.began = perf_counter()

    @property
    def seconds(self) -> float:
        """Time spent on this run, in earlier sessions too."""
        return perf_counter() - self.began

    def segments_for(self, draws: int) -> int:
        """Segments that hold the warm-up and so many draws."""
        return -(-(self.warm + draws) // self.loop.segment_draws)

    def restore(self, chains: list[Chain]) -> Mapping[str, Any] | None:
        """Put chains where the checkpoint has them; returns how the run ended, if it did."""
        if self.checkpoint is None:
            return None
        example = np.empty((0, self.loop.dim), self.settings.dtype)
        begun = [Saved(chain.at, chain.leaves, [example]) for chain in chains]
        found = self.checkpoint.restore(begun)
        ended = self.checkpoint.ended()
        if found is None:
            return None
        kept_chains, seconds = found
        with precision_of(self.settings.dtype):
            for chain, kept in zip(chains, kept_chains, strict=True):
                shape = jax.tree.structure(chain.state)
                chain.state = jax.tree.unflatten(shape, to_device(kept.state))
                chain.at, chain.kept = kept.at, kept.kept
        self.began = perf_counter() - seconds
        if ended is None or ended["saved"] != self.checkpoint.number:
            return None
        for chain, tail in zip(chains, ended["tails"], strict=True):
            chain.tail = tail
        return ended

    def save(self, chains: list[Chain]) -> None:
        """Write a checkpoint."""
        if self.checkpoint is not None:
            saved = [Saved(chain.at, chain.leaves, chain.kept) for chain in chains]
            self.checkpoint.save(saved, self.seconds)

    def finish(self, chains: list[Chain], done: Run) -> None:
        """Write the last checkpoint."""
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
        self, chains: list[Chain], first: int, total: int, report: Report
    ) -> tuple[Status, int]:
        """Move all chains to a number of segments; returns how it went and the segments made.

        Where a chain becomes non-finite, all end with that chunk.
        """
        end = first + -(-(total - first) // self.chunk) * self.chunk
        with ThreadPoolExecutor(min(len(chains), os.cpu_count() or 1)) as pool:
            return self._advance(pool, chains, end, total, report)

    def _advance(
        self,
        pool: ThreadPoolExecutor,
        chains: list[Chain],
        end: int,
        total: int,
        report: Report,
    ) -> tuple[Status, int]:
        steps = self.loop.segment_steps
        waiting: dict[Future[Moved], Chain] = {}

        def submit(chain: Chain) -> None:
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

    def _ending(self, chains: list[Chain], end: int) -> tuple[Status, int]:
        broken = [chain for chain in chains if chain.tail is not None]
        behind = [chain.at for chain in chains if chain.at < end and chain.tail is None]
        if behind:
            return interrupted(min(behind) * self.loop.segment_steps), min(behind)
        if not broken:
            return Status(True, "ok"), end
        step, number = min((self._bad_step(chain), chain.number) for chain in broken)
        return diverged(number, step), end

    def _move(self, chain: Chain, last: bool) -> Moved:
        """Advance a chain by a chunk, unless it diverges; its draws in whitened coordinates."""
        first = chain.at
        segments = chain.ahead or self._segments(chain, first)
        with precision_of(self.settings.dtype):
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
            return Moved(draws, state)
        return Moved(draws[: finite_draws(draws)], None)

    def _segments(self, chain: Chain, first: int) -> Segments:
        numbers, steps = range(first, first + self.chunk), self.loop.segment_steps
        batches = self.loop.reader.batches
        if chain.orders is None:  # one read by the device, one being written
            shape = self.chunk, batches.permutation_length(steps)
            chain.orders = fresh(shape, np.int32), fresh(shape, np.int32)
        orders = chain.orders[first // self.chunk % 2]
        batches.write_permutations(self.entropy, chain.number, numbers, steps, orders)
        return Segments(
            number=np.asarray(numbers, np.int32),  # type: ignore[arg-type]
            order=orders,  # type: ignore[arg-type]
            phase=np.asarray([batches.phase(n, steps) for n in numbers], np.int32),  # type: ignore[arg-type]
            rows=self._fed(chain, numbers),
        )

    def _fed(self, chain: Chain, numbers: range) -> PyTree:
        """Rows of segments, read now; None where they are in memory."""
        if self.feed is None:
            return None
        steps = self.loop.segment_steps
        parts = [self.feed.rows(chain.number, number, steps) for number in numbers]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *parts)

    def _chunk_segments(self, total: int) -> int:
        """Segments in one dispatch; with checkpoints, no more than are worth one."""
        loop, settings = self.loop, self.settings
        if settings.chunk is not None:
            return min(settings.chunk, total)
        order_bytes = 4 * max(1, loop.reader.batches.permutation_length(loop.segment_steps))
        most = max(1, _ORDER_BYTES // order_bytes)
        if self.feed is not None:
            held = 2 * settings.chains * loop.segment_steps * self.feed.step_bytes
            most = max(1, _FED_BYTES // held)
        if self.checkpoint is not None:
            most = min(most, max(1, _CHUNK_STEPS // loop.segment_steps))
        steps = total * loop.segment_steps
        work = steps * loop.reader.batches.batch_size * loop.dim
        dispatches = min(_CHUNKS, max(steps // _CHUNK_STEPS, int(work // _CHUNK_WORK)))
        if dispatches > 1:
            # Alike, so that little is overshot.
            return -(-total // max(dispatches, -(-total // most)))
        # Short runs: a power of two, so that runs of any length share compiled code.
        enough = math.ceil(_DISPATCH_WORK * total / work)
        return min(2 ** (max(1, total // 4).bit_length() - 1), 1 << (enough - 1).bit_length(), most)

    def _bad_step(self, chain: Chain) -> int:
        """First non-finite step of a chain's last chunk, found by running it again, watched."""
        segments = self._segments(chain, chain.at)
        with precision_of(self.settings.dtype):
            _, finite = advance(self.loop, True, self.problem, chain.key, chain.state, segments)
        return chain.at * self.loop.segment_steps + int(np.argmin(np.asarray(finite).ravel()))


def warm_draws(settings: Settings) -> int:
    """Draws to discard."""
    return -(-settings.warmup // settings.thin)


def finite_draws(draws: npt.NDArray[Any]) -> int:
    """How many draws come before the first that is not finite."""
    finite = np.isfinite(draws).all(axis=1)
    return len(finite) if finite.all() else int(finite.argmin())
